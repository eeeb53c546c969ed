"""Checks definitions with the vendors' own types.

Reads a JSON list of [format, definition] from stdin, and writes a JSON list of null or the reason
of a refusal. Where the types of a vendor take anything, what its API is known to refuse is
checked as well.
"""

import copy
import json
import re
import sys
import warnings

from anthropic.types import ToolParam
from anthropic.types.tool_param import InputSchemaTyped
from google.genai.types import FunctionDeclaration
from jsonschema import Draft202012Validator
from openai.lib._pydantic import _ensure_strict_json_schema
from openai.types.chat import ChatCompletionFunctionToolParam
from pydantic import TypeAdapter

UNIONS = {"anyOf", "oneOf", "allOf"}
STRICT_KEYWORDS = {
    "type", "title", "description", "enum", "pattern", "format", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "items", "minItems", "maxItems",
    "properties", "required", "additionalProperties", "anyOf", "$ref", "$defs",
}


def need(condition, reason):
    if not condition:
        raise ValueError(reason)


def same(found, given, who):
    need(found == given, f"{who} drops or changes something")


def typed(kind, value, who):
    same(TypeAdapter(kind).validate_python(value), value, who)


def openai(definition):
    typed(ChatCompletionFunctionToolParam, definition, "ChatCompletionFunctionToolParam")
    parameters = definition["function"]["parameters"]
    need(parameters.get("type") == "object", "the root is no object")
    need(not (UNIONS | {"enum", "not"}) & parameters.keys(), "a union at the root")
    # Here and for MCP patterns stand as registered, in a dialect that Python may not read.
    Draft202012Validator.check_schema(parameters, format_checker=None)


def openai_strict(definition):
    openai(definition)
    function = definition["function"]
    need("strict" in function, "`strict` is missing")
    if function["strict"]:
        parameters = function["parameters"]
        changed = copy.deepcopy(parameters)
        _ensure_strict_json_schema(changed, path=(), root=changed)
        same(changed, parameters, "_ensure_strict_json_schema")
        strict(parameters, parameters, 1)


def strict(schema, root, depth):
    need(isinstance(schema, dict), "a schema that is no object")
    need(not schema.keys() - STRICT_KEYWORDS, f"{schema.keys() - STRICT_KEYWORDS} in strict")
    need({"type", "anyOf", "$ref"} & schema.keys(), "a strict schema without a type")
    if "$ref" in schema:
        need(schema.keys() == {"$ref"}, "something beside `$ref`")
        target = root
        for name in schema["$ref"].removeprefix("#").split("/")[1:]:
            target = target[name]
    if "object" in schema.get("type", ""):
        need(depth <= 10, "more than ten levels of objects")
        need(schema.get("additionalProperties") is False, "an open object in strict")
        need(schema["required"] == list(schema["properties"]), "an optional property in strict")
    if "array" in schema.get("type", ""):
        need("items" in schema, "an array without items in strict")
    for inner in schema.get("properties", {}).values():
        strict(inner, root, depth + 1)
    for inner in [*schema.get("anyOf", []), *([schema["items"]] if "items" in schema else [])]:
        strict(inner, root, depth)
    for inner in schema.get("$defs", {}).values():
        strict(inner, root, 1)


def anthropic(definition):
    typed(ToolParam, definition, "ToolParam")
    schema = definition["input_schema"]
    # The type of the field takes any object; this is what the API wants.
    typed(InputSchemaTyped, schema, "InputSchemaTyped")
    need(not UNIONS & schema.keys(), "a union at the root")
    for name in schema["properties"]:
        need(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name), f"a property named {name!r}")
    Draft202012Validator.check_schema(schema)


def gemini(definition):
    declaration = FunctionDeclaration.model_validate(definition)
    dumped = declaration.model_dump(mode="json", by_alias=True, exclude_none=True)
    same(dumped, definition, "FunctionDeclaration")
    if "parameters" in definition:
        need(definition["parameters"].get("properties"), "an empty object at the root")
        gemini_node(definition["parameters"])


def gemini_node(schema):
    if "anyOf" in schema:
        need(schema.keys() == {"anyOf"}, "something beside `anyOf`")
        need(len(schema["anyOf"]) > 1, "a union of one")
    else:
        need("type" in schema, "a schema without a type")
    kind = schema.get("type")
    need(kind != "ARRAY" or "items" in schema, "an array without items")
    need("enum" not in schema or kind == "STRING" and all(schema["enum"]), "a wrong enumeration")
    properties = schema.get("properties", {})
    need(kind == "OBJECT" or "properties" not in schema, "properties of no object")
    need(set(schema.get("required", [])) <= properties.keys(), "`required` without property")
    for inner in [*properties.values(), *schema.get("anyOf", [])]:
        gemini_node(inner)
    if "items" in schema:
        gemini_node(schema["items"])


def mcp(definition):
    for key in {"inputSchema", "outputSchema"} & definition.keys():
        Draft202012Validator.check_schema(definition[key], format_checker=None)


CHECKS = {
    "openai": openai,
    "openai-strict": openai_strict,
    "anthropic": anthropic,
    "gemini": gemini,
    "mcp": mcp,
}


def refusal(format, definition):
    try:
        CHECKS[format](definition)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


# The vendors warn of some mistakes only.
warnings.simplefilter("error")
print(json.dumps([refusal(*entry) for entry in json.load(sys.stdin)]))
