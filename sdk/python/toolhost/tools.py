"""Tools: the decorator, and what it keeps of a function."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import re
import types
import typing

from . import declarations, docstring
from .declarations import names_of
from .errors import BadArguments, DefinitionError
from .hints import ALLOWED, NoSchema, hints_of, name_of, shape_of
from .loop import finished
from .output import Output, Structured, output_of
from .shapes import Defs, Described, Later, Record, Shape
from .writing import to_json


@dataclasses.dataclass(frozen=True)
class Context:
    """What the host says about one call. A tool that has a parameter of this type is given it."""

    session_id: str | None = None
    task_id: str | None = None
    tool_call_id: str | None = None
    #: Milliseconds that were left when the call began; then the host stops it.
    remaining_ms: int = 60_000
    #: Named JSON texts of later versions of the contract.
    extensions: dict = dataclasses.field(default_factory=dict)


def tool(
    function: typing.Callable | None = None,
    *,
    name: str | None = None,
    toolset: str | None = None,
    description: str | None = None,
    emoji: str | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    requires_env: typing.Sequence[str] = (),
    max_result_size_chars: int | None = None,
    overrides: bool = False,
    check: typing.Callable | None = None,
    describe: typing.Callable | None = None,
    examples: typing.Sequence = (),
    output: object = None,
    extensions: dict | None = None,
):
    """Makes a function a tool: its type hints are the schema, its docstring is what a model reads.

    The function stays as it is, and can be called and tested. Everything that can be said:

    - `name`: by default the function's; `toolset`: the group it belongs to, by default the plugin's
      name; `description`: by default the docstring;
    - `read_only`, `destructive`, `idempotent`, `open_world`: hints for people; unsaid by default;
    - `emoji`; `requires_env`: variables without which the tool is unavailable;
      `max_result_size_chars`: from which size on a result is kept and previewed; `overrides`: asks
      to replace a tool of the same name;
    - `check`: a function without arguments; a text it returns, or `NotAvailable` it raises, says
      why the tool cannot work at present. Tools with the same function share its answer;
    - `describe`: a function of the list of visible tools, which returns None, or a dictionary with
      `description`, `parameters` or both;
    - `examples`: arguments, or pairs of arguments and a text that must occur in the output;
    - `output`: the type, or the JSON Schema, of the structured output.
    """

    def declare(function):
        if not inspect.isroutine(function) or isinstance(function, (staticmethod, classmethod)):
            raise DefinitionError(f"@tool is for functions, and {function!r} is none")
        said = {"name": name, "toolset": toolset, "description": description, "emoji": emoji,
                "read_only": read_only, "destructive": destructive, "idempotent": idempotent,
                "open_world": open_world, "max_result_size_chars": max_result_size_chars, "overrides": overrides,
                "check": check, "describe": describe}
        _check_said(function, said)
        made = Tool(
            function=function, name=name or function.__name__, toolset=toolset, description=description,
            emoji=emoji, requires_env=names_of("@tool: `requires_env`", [requires_env]) if requires_env else [], max_result_size_chars=max_result_size_chars,
            overrides=overrides, check=check, describe=describe, examples=list(examples), output=output,
            extensions=dict(extensions or {}),
            annotations={"read_only": read_only, "destructive": destructive, "idempotent": idempotent,
                         "open_world": open_world},
        )
        declarations.current.tools.append(made)
        function.__toolhost__ = made
        return function

    return declare if function is None else declare(function)


class Tool:
    """One function and what was said about it."""

    def __init__(self, **said):
        self.function: typing.Callable = said["function"]
        self.name: str = said["name"]
        self.said = said
        self._signature: Signature | None = None

    @property
    def signature(self) -> Signature:
        """What the function takes and gives: looked at when it is asked for first."""
        if self._signature is None:
            self._signature = Signature(self.function)
        return self._signature

    def call(self, arguments: dict, context: Context) -> Output:
        """Reads the arguments, calls the function, and returns what it answers."""
        signature = self.signature
        given = signature.record.read(arguments, "")
        if signature.context:
            given[signature.context] = context
        answer = finished(self.function(*signature.taken(given), **given))
        return output_of(answer, self.said["output"] is not None)

    def definition(self, default_toolset: str) -> dict:
        """Returns what is registered: the fields of the record `tool` of the contract."""
        said = self.said
        check = said["check"]
        extensions = [(key, to_json(value)) for key, value in said["extensions"].items()]
        if check is not None:
            name = f"{getattr(check, '__module__', '')}.{getattr(check, '__qualname__', repr(check))}"
            extensions.append(("check", to_json(name)))
        return {
            "name": self.name,
            "toolset": said["toolset"] or default_toolset,
            "description": said["description"] if said["description"] is not None else self.signature.docs.description,
            "parameters": to_json(self.parameters()),
            "output": self._output(),
            "emoji": said["emoji"],
            "requires_env": said["requires_env"],
            "max_result_size_chars": said["max_result_size_chars"],
            "overrides": said["overrides"],
            "has_check": check is not None,
            "has_dynamic_schema": said["describe"] is not None,
            "annotations": said["annotations"],
            "examples": [self._example(number, example) for number, example in enumerate(said["examples"], 1)],
            "extensions": extensions,
        }

    def parameters(self) -> dict:
        """Returns the JSON Schema of the arguments."""
        defs = Defs()
        return defs.close(self.signature.record.body(defs))

    def _output(self) -> str | None:
        output = self.said["output"]
        if isinstance(output, dict):
            return to_json(output)
        hint = self.signature.structured if output is None else output
        if hint is None:
            return None
        try:
            defs = Defs()
            schema = defs.close(shape_of(hint).schema(defs))
        except NoSchema as error:
            raise self.mistake(f"output `{name_of(error.args[0])}` has no JSON Schema; allowed are {ALLOWED}") from None
        except DefinitionError as error:
            raise self.mistake(f"output `{name_of(hint)}`: {error}") from None
        if schema.get("type") != "object" and "$ref" not in schema:
            raise self.mistake("structured output is an object: a dataclass, a TypedDict or a dictionary")
        return to_json(schema)

    def _example(self, number: int, example) -> dict:
        arguments, expected = example if isinstance(example, tuple) and len(example) == 2 else (example, None)
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except ValueError as error:
                raise self.mistake(f"example {number} is no JSON: {error}") from None
        if not isinstance(arguments, dict):
            raise self.mistake(f"example {number} is {arguments!r}; write a dictionary of arguments, or a pair of "
                               "it and a text that the output contains")
        try:
            written = to_json(arguments)
            self.signature.record.read(json.loads(written), "")
        except BadArguments as error:
            at = f"{error.path}: " if error.path else ""
            raise self.mistake(f"example {number} does not fit the parameters: {at}{error.message}") from None
        except (TypeError, ValueError) as error:
            raise self.mistake(f"example {number}: {error}") from None
        if expected is not None and not isinstance(expected, str):
            expected = to_json(expected)
        return {"arguments": written, "expected": expected}

    def mistake(self, message: str) -> DefinitionError:
        """Returns the error that says what is wrong with this tool, and where it is."""
        return DefinitionError(f"{self.name}: {message}", self.function)


class Signature:
    """The parameters of a function as a shape, and how they are handed to it."""

    def __init__(self, function: typing.Callable):
        self.record = Record(function, dict)
        self.context: str | None = None
        #: The parameters that cannot be given by name, and their defaults.
        self.positional: dict[str, object] = {}
        name = function.__name__
        try:
            hints = hints_of(function)
        except DefinitionError as error:
            raise DefinitionError(f"{name}: {error}", function) from None
        self.docs = docstring.Docs(function)
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise DefinitionError(f"{name}: parameter `{parameter}` has no name of its own; write each parameter "
                                      "by its name, or take a `dict`", function)
            if parameter.name not in hints and self._is_of_method(function, parameter):
                raise DefinitionError(f"{name}: @tool is for functions, and `{function.__qualname__}` is a method: write "
                                      f"a function outside of the class, without `{parameter.name}`, that calls it",
                                      function)
            if parameter.name not in hints:
                raise DefinitionError(f"{name}: parameter `{parameter.name}` has no type; write `{parameter.name}: str`, "
                                      "or what it is", function)
            if parameter.kind is parameter.POSITIONAL_ONLY:
                self.positional[parameter.name] = parameter.default
            hint = hints[parameter.name]
            if _is_context(hint):
                self.context = parameter.name
                continue
            required = parameter.default is parameter.empty
            default = () if required else (parameter.default,)
            shape = Later(functools.partial(_shape, function, parameter.name, hint))
            self.record.add(parameter.name, Described(shape, self.docs, parameter.name), required, *default)
        answer = hints.get("return")
        of = typing.get_args(answer)
        self.structured = of[0] if typing.get_origin(answer) is Structured else None

    @staticmethod
    def _is_of_method(function, parameter) -> bool:
        is_first = next(iter(inspect.signature(function).parameters)) == parameter.name
        return is_first and parameter.name in ("self", "cls") and "." in function.__qualname__.split("<locals>.")[-1]

    def taken(self, given: dict) -> list:
        """Takes out of `given` what cannot be given by name; a later one needs all before it."""
        count = max((place for place, name in enumerate(self.positional, 1) if name in given), default=0)
        names = list(self.positional.items())[:count]
        return [given.pop(name, default) for name, default in names]


def _is_context(hint) -> bool:
    """Whether a hint is `Context`, also with a note, or `| None`."""
    if typing.get_origin(hint) is typing.Annotated:
        return _is_context(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        return all(map(_is_context, members))
    return hint is Context


def _shape(function, name: str, hint) -> Shape:
    try:
        return shape_of(hint)
    except NoSchema as error:
        inner = name_of(error.args[0])
        within = "" if error.args[0] is hint else f" (in it, `{inner}`)"
        raise DefinitionError(f"{function.__name__}: parameter `{name}: {name_of(hint)}` has no JSON Schema{within}; "
                              f"allowed are {ALLOWED}", function) from None
    except DefinitionError as error:
        raise DefinitionError(f"{function.__name__}: parameter `{name}: {name_of(hint)}`: {error}", function) from None
    except Exception as error:
        raise DefinitionError(f"{function.__name__}: parameter `{name}: {name_of(hint)}` cannot be read: "
                              f"{type(error).__name__}: {error}; allowed are {ALLOWED}", function) from None


_SAID = {"name": str, "toolset": str, "description": str, "emoji": str, "read_only": bool, "destructive": bool,
         "idempotent": bool, "open_world": bool, "overrides": bool}


def _check_said(function, said: dict) -> None:
    """Refuses what could not be registered, where it is written."""
    for key, value in said.items():
        if value is None:
            continue
        if key in _SAID:
            is_right, allowed = isinstance(value, _SAID[key]), {str: "a text", bool: "True or False"}[_SAID[key]]
        elif key in ("check", "describe"):
            is_right, allowed = callable(value), "a function"
        else:
            is_right = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32
            allowed = "a whole number below 4294967296"
        if not is_right:
            raise DefinitionError(f"{function.__name__}: `{key}` is {value!r}; it takes {allowed}", function)


def toolset_of(name: str) -> str:
    """Returns the toolset of a plugin whose tools name none."""
    text = re.sub("[^a-z0-9_-]+", "-", name.lower()).strip("-")[:64]
    return "plugin" if not text or text.startswith("mcp-") else text
