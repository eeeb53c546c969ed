//! Definitions in every format, judged by the types that the vendors publish.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use toolhost_core::limits::Limits;
use toolhost_core::tool::Annotations;
use toolhost_schema::schema::{Definition, Format, Schema};

use crate::support::PACKAGES;

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/call/formats");

/// Why each definition is refused, if it is.
fn refusals(definitions: &[(Format, Value)]) -> Vec<Option<String>> {
    let entries = definitions.iter().map(|(format, value)| json!([format.as_str(), value]));
    let entries = Value::Array(entries.collect());
    let mut python = Command::new(PACKAGES.join("python/bin/python"));
    python.arg(Path::new(SCRIPTS).join("check.py"));
    let mut node = Command::new("node");
    node.arg(Path::new(SCRIPTS).join("check.mjs")).arg(PACKAGES.join("javascript"));
    let (python, node) = (run(python, &entries), run(node, &entries));
    assert_eq!((python.len(), node.len()), (definitions.len(), definitions.len()));
    python.into_iter().zip(node).map(|(python, node)| python.or(node)).collect()
}

fn run(mut command: Command, input: &Value) -> Vec<Option<String>> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("a checker");
    let mut stdin = child.stdin.take().expect("its input");
    stdin.write_all(input.to_string().as_bytes()).expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("a checker that ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&output.stdout).expect("a list of refusals")
}

fn definition(parameters: &Value) -> Definition {
    Definition {
        name: "tool".to_owned(),
        description: "Does something. 🔎".to_owned(),
        parameters: parameters.clone(),
        output: Some(json!({ "properties": { "found": true }, "required": ["found"] })),
        annotations: Annotations { read_only: Some(true), ..Annotations::default() },
    }
}

/// A schema in which `a` is what is given, and optional.
fn property(schema: Value) -> Value {
    json!({ "type": "object", "properties": { "a": schema } })
}

/// Schemas as tools register them, each with whether it has a strict form.
fn schemas() -> Vec<(bool, Value)> {
    let nested = |levels: usize| {
        (0..levels).fold(json!({ "type": "string" }), |inner, level| {
            json!({ "type": "object", "properties": { format!("l{level}"): inner } })
        })
    };
    let chain = (0..28)
        .fold(json!({ "type": "string" }), |inner, _| json!({ "type": "array", "items": inner }));
    let tree = json!({
        "type": "object",
        "properties": {
            "root": { "$ref": "#/$defs/node", "description": "Where to start." },
            "other": { "anyOf": [{ "$ref": "#/$defs/node" }, { "type": "null" }], "default": null },
        },
        "required": ["root"],
        "$defs": { "node": {
            "type": "object",
            "properties": {
                "name": { "type": "string", "minLength": 1 },
                "children": { "type": "array", "items": { "$ref": "#/$defs/node" } },
            },
            "required": ["name", "children"],
            "additionalProperties": false,
        } },
    });
    vec![
        (true, json!({})),
        (true, json!({ "type": "object", "properties": {} })),
        (true, property(json!({ "type": ["string", "null"], "default": null, "examples": ["x"] }))),
        (true, property(json!({ "type": ["string", "integer", "null"], "description": "d" }))),
        (true, property(json!({ "enum": ["a", "", "b", null] }))),
        (true, property(json!({ "enum": [1, 2.5, true, "x"], "default": 1 }))),
        (true, property(json!({ "const": "only" }))),
        (true, property(json!({ "type": "string", "enum": ["new", "old"], "title": "T" }))),
        (
            true,
            property(
                json!({ "type": "integer", "format": "uint32", "minimum": 0, "maximum": u32::MAX }),
            ),
        ),
        (true, property(json!({ "type": "integer", "format": "int64", "minimum": i64::MIN }))),
        (
            true,
            property(
                json!({ "type": "number", "format": "double", "exclusiveMinimum": 0, "multipleOf": 0.5 }),
            ),
        ),
        (
            true,
            property(
                json!({ "type": "string", "pattern": "^(?:[a-z]{2}\\d+|\\w-\\.)$", "maxLength": 9 }),
            ),
        ),
        (
            true,
            property(
                json!({ "type": "string", "pattern": "(?i)^\\p{L}+\\z", "format": "date-time" }),
            ),
        ),
        (
            true,
            property(
                json!({ "type": "array", "items": { "type": "string", "format": "uri" }, "minItems": 1, "uniqueItems": true }),
            ),
        ),
        (
            true,
            property(json!({
                "oneOf": [
                    { "type": "object", "properties": { "kind": { "const": "b" }, "n": { "type": "integer" } }, "required": ["kind"] },
                    { "type": "string" },
                ],
                "description": "Either.",
            })),
        ),
        (
            true,
            json!({
                "type": "object",
                "properties": { "a": { "allOf": [{ "$ref": "#/$defs/x" }], "default": {}, "description": "d" } },
                "$defs": { "x": { "type": "object", "properties": { "ü": { "type": "boolean" } } } },
            }),
        ),
        (
            true,
            property(
                json!({ "type": "object", "properties": { "日本": { "type": "string" }, "b c": { "type": "null" } } }),
            ),
        ),
        (true, tree),
        (true, nested(9)),
        (
            true,
            json!({ "$ref": "#/definitions/r", "definitions": { "r": {
            "type": "object", "properties": { "again": { "$ref": "#" } },
        } } }),
        ),
        (
            true,
            json!({
                "oneOf": [
                    { "type": "object", "properties": { "op": { "const": "add" }, "x": { "type": "number" } }, "required": ["op"] },
                    { "type": "object", "properties": { "op": { "const": "list" } }, "required": ["op"] },
                ],
            }),
        ),
        (
            true,
            json!({
                "type": "object",
                "properties": { "a": { "type": "string" }, "b": { "type": "string" }, "filter[id]": { "type": "string" } },
                "anyOf": [{ "required": ["a"] }, { "required": ["b"] }],
                "not": { "required": ["a", "b"] },
                "if": { "required": ["a"] }, "then": { "minProperties": 1 },
            }),
        ),
        (true, property(chain)),
        (false, nested(15)),
        (false, property(json!(true))),
        (false, property(json!({}))),
        (true, property(json!(false))),
        (false, property(json!({ "type": "object" }))),
        (
            false,
            property(json!({ "type": "object", "additionalProperties": { "type": "integer" } })),
        ),
        (
            false,
            property(
                json!({ "type": "object", "patternProperties": { "^x-": { "type": "string" } } }),
            ),
        ),
        (false, property(json!({ "type": "array" }))),
        (
            false,
            property(
                json!({ "type": "array", "prefixItems": [{ "type": "string" }, { "type": "integer" }], "items": false }),
            ),
        ),
        (
            false,
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "additionalProperties": true }),
        ),
    ]
}

#[test]
fn vendors_take_every_definition() {
    let limits = Limits::default();
    let mut definitions = Vec::new();
    for (has_strict_form, parameters) in schemas() {
        Schema::compile(&parameters, &limits).expect("a schema that can be registered");
        for format in Format::ALL {
            let rendered = definition(&parameters).render(format);
            assert_eq!(rendered.to_string(), definition(&parameters).render(format).to_string());
            if format == Format::OpenAiStrict {
                assert_eq!(rendered["function"]["strict"], has_strict_form, "{parameters}");
            }
            definitions.push((format, rendered));
        }
    }
    for ((format, rendered), refusal) in definitions.iter().zip(refusals(&definitions)) {
        assert_eq!(refusal, None, "{format}: {rendered}");
    }
}

#[test]
fn checkers_refuse_what_is_broken() {
    let function = |function: Value| json!({ "type": "function", "function": function });
    let strict = |parameters: Value| {
        (
            Format::OpenAiStrict,
            function(json!({ "name": "t", "parameters": parameters, "strict": true })),
        )
    };
    let anthropic =
        |schema: Value| (Format::Anthropic, json!({ "name": "t", "input_schema": schema }));
    let gemini = |schema: Value| {
        let parameters = json!({ "type": "OBJECT", "properties": { "a": schema } });
        (Format::Gemini, json!({ "name": "t", "parameters": parameters }))
    };
    let mcp = |schema: Value| (Format::Mcp, json!({ "name": "t", "inputSchema": schema }));
    let empty = json!({ "type": "object", "properties": {} });
    let named = |name: &str| json!({ "type": "object", "properties": { name: {} } });
    let broken = [
        (
            (
                Format::OpenAi,
                json!({ "type": "tool", "function": { "name": "t", "parameters": empty } }),
            ),
            "type",
        ),
        (
            (
                Format::OpenAi,
                function(json!({ "name": "t", "schema": empty, "parameters": empty })),
            ),
            "drops",
        ),
        (
            (Format::OpenAi, function(json!({ "name": "t", "parameters": [] }))),
            "function.parameters",
        ),
        (
            (
                Format::OpenAi,
                function(json!({ "name": "t", "parameters": { "type": "object", "anyOf": [{}] } })),
            ),
            "union",
        ),
        (strict(property(json!({ "type": "string" }))), "_ensure_strict_json_schema"),
        (
            strict(
                json!({ "type": "object", "properties": {}, "required": [], "additionalProperties": true }),
            ),
            "open object",
        ),
        (
            strict(
                json!({ "type": "object", "properties": {}, "required": [], "additionalProperties": false, "minProperties": 1 }),
            ),
            "minProperties",
        ),
        (anthropic(json!([])), "input_schema"),
        (anthropic(json!({ "type": "string", "properties": {} })), "object"),
        (anthropic(named("filter[id]")), "filter[id]"),
        (
            anthropic(json!({ "type": "object", "properties": { "a": { "type": "strin" } } })),
            "strin",
        ),
        (anthropic(json!({ "type": "object", "properties": {}, "oneOf": [{}] })), "union"),
        (
            (Format::Anthropic, json!({ "name": "t", "input_schema": empty, "parameters": empty })),
            "drops",
        ),
        (gemini(json!({ "type": "STRING", "const": "x" })), "const"),
        (gemini(json!({ "type": "TEXT" })), "TEXT"),
        (gemini(json!({ "type": "STRING", "enum": [1] })), "enum"),
        (gemini(json!({ "type": "ARRAY" })), "without items"),
        (gemini(json!({ "type": "STRING", "anyOf": [{ "type": "STRING" }] })), "beside"),
        (mcp(json!({ "properties": {} })), "ToolSchema"),
        (mcp(json!({ "type": "object", "properties": { "a": true } })), "ToolSchema"),
        (mcp(json!({ "type": "object", "properties": { "a": { "type": 1 } } })), "SchemaError"),
        ((Format::Mcp, json!({ "name": "t", "inputSchema": empty, "parameters": empty })), "drops"),
    ];
    let (definitions, reasons): (Vec<_>, Vec<_>) = broken.into_iter().unzip();
    for ((definition, reason), refusal) in
        definitions.iter().zip(reasons).zip(refusals(&definitions))
    {
        let refusal = refusal.unwrap_or_else(|| panic!("taken: {definition:?}"));
        assert!(refusal.contains(reason), "{definition:?}: {refusal}");
    }
}
