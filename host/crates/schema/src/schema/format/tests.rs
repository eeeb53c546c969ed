//! What each vendor's form makes of schemas, simple and hostile.

use super::*;

fn rendered(parameters: &Value, format: Format) -> Value {
    let definition = Definition {
        name: "t".to_owned(),
        description: "d".to_owned(),
        parameters: parameters.clone(),
        output: None,
        annotations: Annotations::default(),
    };
    definition.render(format)
}

/// The schema of arguments in a form.
fn schema(parameters: &Value, format: Format) -> Value {
    let mut rendered = rendered(parameters, format);
    match format {
        Format::OpenAi | Format::OpenAiStrict => rendered["function"]["parameters"].take(),
        Format::Anthropic => rendered["input_schema"].take(),
        Format::Gemini => rendered["parameters"].take(),
        Format::Mcp => rendered["inputSchema"].take(),
    }
}

/// One property named `a`, not required.
fn property(registered: Value, format: Format, expected: Value) {
    let root = json!({ "type": "object", "properties": { "a": registered } });
    let found = schema(&root, format)["properties"]["a"].take();
    assert_eq!(found, expected, "{registered} as {format}");
}

fn is_strict(parameters: &Value) -> bool {
    rendered(parameters, Format::OpenAiStrict)["function"]["strict"] == true
}

#[test]
fn names_are_read_and_shown() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    let message = |name: &str| name.parse::<Format>().expect_err("unknown").to_string();
    assert_eq!(
        message("antropic"),
        "`antropic` is no format: allowed are openai, openai-strict, anthropic, gemini, mcp; did \
         you mean `anthropic`?"
    );
    assert_eq!(
        message("\u{1b}x"),
        "`\\u{1b}x` is no format: allowed are openai, openai-strict, anthropic, gemini, mcp"
    );
    assert!(message(&"x".repeat(1_000_000)).len() < 200);
}

#[test]
fn openai_has_the_common_form() {
    let registered = json!({
        "type": "object",
        "properties": { "a": { "type": ["string", "null"] } },
        "required": ["a", "b"],
        "anyOf": [{ "required": ["a"] }],
    });
    assert_eq!(schema(&registered, Format::OpenAi), clean(&registered));
    let referring = json!({
        "$ref": "#/$defs/x",
        "$defs": { "x": { "properties": { "a": { "$ref": "#/$defs/y" } } }, "y": { "type": "string" } },
    });
    let written = schema(&referring, Format::OpenAi);
    assert_eq!(written["type"], "object");
    assert_eq!(written["properties"], json!({ "a": { "$ref": "#/$defs/y" } }));
    assert_eq!(written["$defs"]["y"], json!({ "type": "string" }));
}

#[test]
fn strict_objects_are_closed_and_optional_properties_nullable() {
    let format = Format::OpenAiStrict;
    property(
        json!({ "type": "string", "default": "x", "minLength": 2 }),
        format,
        json!({ "type": ["string", "null"] }),
    );
    property(
        json!({ "const": 1 }),
        format,
        json!({ "type": ["integer", "null"], "enum": [1, null] }),
    );
    property(
        json!({ "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "number" } }] }),
        format,
        json!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "number" } },
            { "type": "null" },
        ] }),
    );
    property(
        json!({ "allOf": [{ "type": "number", "minimum": 1 }, { "type": "integer", "minimum": 3 }] }),
        format,
        json!({ "type": ["integer", "null"], "minimum": 3 }),
    );
    property(
        json!({ "type": "array", "items": { "type": "integer", "nullable": true } }),
        format,
        json!({ "anyOf": [
            { "type": "array", "items": { "type": ["integer", "null"] } },
            { "type": "null" },
        ] }),
    );
    let tree = json!({
        "type": "object",
        "properties": { "node": { "$ref": "#/definitions/node" } },
        "required": ["node"],
        "definitions": { "node": { "type": "object", "properties": {
            "next": { "$ref": "#/definitions/node", "default": null },
        } } },
    });
    assert_eq!(
        schema(&tree, format),
        json!({
            "type": "object",
            "properties": { "node": { "$ref": "#/$defs/node" } },
            "required": ["node"],
            "additionalProperties": false,
            "$defs": { "node": {
                "type": "object",
                "properties": { "next": { "anyOf": [{ "$ref": "#/$defs/node" }, { "type": "null" }] } },
                "required": ["next"],
                "additionalProperties": false,
            } },
        })
    );
}

#[test]
fn what_cannot_be_said_strictly_is_said_plainly() {
    assert!(is_strict(&json!({ "type": "object", "properties": {} })));
    for open in [
        json!(true),
        json!({}),
        json!({ "type": "object" }),
        json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        json!({ "type": "object", "patternProperties": { "x": {} }, "additionalProperties": false }),
        json!({ "type": "array" }),
        json!({ "type": "array", "prefixItems": [{ "type": "string" }] }),
        json!({ "enum": [{}] }),
        json!({ "$ref": "#/properties/a" }),
    ] {
        let registered = json!({ "type": "object", "properties": { "a": open } });
        assert!(!is_strict(&registered), "{registered}");
        assert_eq!(schema(&registered, Format::OpenAiStrict), clean(&registered));
    }
    let nested = |levels: usize| {
        (0..levels).fold(
            json!({ "type": "string" }),
            |inner, _| json!({ "type": "object", "properties": { "a": inner } }),
        )
    };
    assert!(is_strict(&nested(10)));
    assert!(!is_strict(&nested(11)));
}

#[test]
fn anthropic_gets_todays_json_schema() {
    let registered = json!({
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {
            "filter[id]": { "type": "string" },
            "ok": { "type": "object", "properties": { "any name": { "type": "string" } } },
            "pair": { "type": "array", "items": [{ "type": "string" }], "additionalItems": false },
            "above": { "type": "number", "minimum": 0, "exclusiveMinimum": true },
            "lost": { "$ref": "#/properties/filter[id]" },
            "text": { "type": "string", "pattern": "(?i)\\p{L}" },
        },
        "required": ["filter[id]", "ok"],
        "oneOf": [{ "properties": { "other": { "const": 1 } } }, { "properties": { "other": { "const": 2 } } }],
    });
    assert_eq!(
        schema(&registered, Format::Anthropic),
        json!({
            "type": "object",
            "properties": {
                "ok": { "type": "object", "properties": { "any name": { "type": "string" } } },
                "pair": { "type": "array", "prefixItems": [{ "type": "string" }], "items": false },
                "above": { "type": "number", "exclusiveMinimum": 0 },
                "lost": {},
                "text": { "type": "string" },
                "other": { "anyOf": [{ "const": 1 }, { "const": 2 }] },
            },
            "required": ["ok"],
        })
    );
}

#[test]
fn gemini_gets_its_own_words_only() {
    let format = Format::Gemini;
    property(json!({ "const": "x" }), format, json!({ "type": "STRING", "enum": ["x"] }));
    property(
        json!({ "enum": [1, 2, null], "description": "d." }),
        format,
        json!({ "type": "INTEGER", "description": "d. One of: 1, 2.", "nullable": true }),
    );
    property(
        json!({ "type": ["string", "null"], "format": "uri", "examples": ["x"] }),
        format,
        json!({ "type": "STRING", "nullable": true }),
    );
    property(
        json!({ "type": "string", "nullable": true }),
        format,
        json!({ "type": "STRING", "nullable": true }),
    );
    property(
        json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }], "nullable": true }),
        format,
        json!({ "anyOf": [
            { "type": "STRING", "nullable": true },
            { "type": "INTEGER", "nullable": true },
        ] }),
    );
    property(
        json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }, { "type": "null" }], "description": "d" }),
        format,
        json!({ "anyOf": [
            { "type": "STRING", "description": "d", "nullable": true },
            { "type": "INTEGER", "nullable": true },
        ] }),
    );
    property(
        json!({ "type": "array", "minItems": 1, "uniqueItems": true, "items": { "type": "integer", "exclusiveMinimum": 0 } }),
        format,
        json!({ "type": "ARRAY", "items": { "type": "INTEGER", "minimum": 1 }, "minItems": 1 }),
    );
    property(
        json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        format,
        json!({ "type": "OBJECT" }),
    );
    assert_eq!(rendered(&json!({}), format), json!({ "name": "t", "description": "d" }));
    let list = json!({ "type": "object", "properties": { "next": { "$ref": "#" } } });
    let written = schema(&list, format);
    let place = "/properties/next/properties/next/properties/next";
    assert_eq!(written.pointer(place), Some(&json!({ "type": "OBJECT" })));
}

#[test]
fn mcp_gets_the_registered_schema() {
    let registered =
        json!({ "properties": { "a": true, "b": { "items": true } }, "anyOf": [true] });
    let mut expected = registered.clone();
    expected["type"] = "object".into();
    expected["properties"]["a"] = json!({});
    assert_eq!(schema(&registered, Format::Mcp), expected);
    // Whoever checks by JSON Schema knows no `nullable`.
    let registered = json!({
        "type": "object",
        "properties": {
            "text": { "type": "string", "nullable": true },
            "one": { "enum": ["a"], "nullable": true },
            "two": { "type": ["integer", "null"], "enum": [1, null], "nullable": true },
            "no": { "type": "string", "nullable": false },
            "list": { "type": "array", "items": { "const": 1, "nullable": true } },
            "other": { "$ref": "#/$defs/other", "nullable": true },
            "nullable": { "type": "boolean" },
        },
        "$defs": { "other": { "type": "object", "properties": {
            "deep": { "type": "number", "nullable": true },
        } } },
    });
    let expected = json!({
        "type": "object",
        "properties": {
            "text": { "type": ["string", "null"] },
            "one": { "enum": ["a", null] },
            "two": { "type": ["integer", "null"], "enum": [1, null] },
            "no": { "type": "string", "nullable": false },
            "list": {
                "type": "array",
                "items": { "anyOf": [{ "type": "null" }, { "const": 1 }] },
            },
            "other": { "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/other" }] },
            "nullable": { "type": "boolean" },
        },
        "$defs": { "other": { "type": "object", "properties": {
            "deep": { "type": ["number", "null"] },
        } } },
    });
    let definition = Definition {
        name: "t".to_owned(),
        description: String::new(),
        parameters: registered.clone(),
        output: Some(registered),
        annotations: Annotations::default(),
    };
    let listed = definition.render(Format::Mcp);
    assert_eq!(listed["inputSchema"], expected);
    assert_eq!(listed["outputSchema"], expected);
    let hints =
        Annotations { read_only: Some(true), open_world: Some(false), ..Default::default() };
    let definition = Definition {
        name: "t".to_owned(),
        description: String::new(),
        parameters: json!({}),
        output: Some(json!({ "type": "object" })),
        annotations: hints,
    };
    assert_eq!(
        definition.render(Format::Mcp).to_string(),
        r#"{"name":"t","description":"","inputSchema":{"type":"object"},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"openWorldHint":false}}"#
    );
}

/// Every keyword with a value of a wrong or surprising kind, at the root and below.
#[test]
fn hostile_schemas_are_rendered_all_the_same() {
    let keywords = [
        "type",
        "properties",
        "required",
        "items",
        "prefixItems",
        "additionalProperties",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "enum",
        "const",
        "$ref",
        "$defs",
        "pattern",
        "format",
        "minimum",
        "exclusiveMinimum",
        "minLength",
        "default",
        "description",
        "title",
        "dependencies",
    ];
    let values = [
        json!(null),
        json!(true),
        json!(false),
        json!(-1.5),
        json!(u64::MAX),
        json!("#"),
        json!(""),
        json!("null"),
        json!([]),
        json!({}),
        json!([null, "null", 1]),
        json!([{}, false]),
        json!({ "a": false }),
        json!({ "a": [] }),
        json!({ "": { "$ref": "#" } }),
        json!(["object", "array"]),
    ];
    for first in keywords {
        for second in ["type", "properties", "allOf", "$ref", "enum"] {
            for value in &values {
                let inner = json!({ first: value, second: value });
                let nested = json!({ first: { "a": inner, "b": [inner] }, second: [inner] });
                let below = json!({ "properties": { "a": nested }, second: value });
                for schema in [inner, nested, below] {
                    for format in Format::ALL {
                        let text = rendered(&schema, format).to_string();
                        assert_eq!(text, rendered(&schema, format).to_string());
                    }
                }
            }
        }
    }
}

#[test]
fn bombs_stay_small() {
    let definitions: Map<String, Value> = (0..60)
        .map(|number| {
            let next = json!({ "$ref": format!("#/$defs/d{}", number + 1) });
            let all = json!({ "allOf": [next, next], "properties": { "l": next, "r": next } });
            (format!("d{number}"), all)
        })
        .collect();
    let bomb = json!({ "$ref": "#/$defs/d0", "$defs": definitions });
    let itself = json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }], "properties": {
        "a": { "anyOf": [{ "$ref": "#" }, { "$ref": "#" }], "properties": { "b": { "$ref": "#" } } },
    } });
    assert!(!is_strict(&bomb), "its root cannot be put together");
    for schema in [bomb, itself] {
        for format in Format::ALL {
            let text = rendered(&schema, format).to_string();
            assert!(text.len() < 50_000, "{} bytes as {format}", text.len());
        }
    }
}

/// How long the longest form of a schema is.
fn longest(schema: &Value) -> usize {
    let lengths = Format::ALL.map(|format| rendered(schema, format).to_string().len());
    lengths.into_iter().max().unwrap_or_default()
}

/// Each of these took seconds, or megabytes.
#[test]
fn what_is_repeated_is_rendered_once() {
    let many = |value: Value, count: usize| Value::Array(vec![value; count]);
    let beside = json!({ "properties": { "a": {
        "enum": many(json!(0), 14_000),
        "anyOf": many(json!({}), 9_000),
    } } });
    let written = schema(&beside, Format::Gemini);
    let branches = written["properties"]["a"]["anyOf"].as_array().expect("a union").len();
    assert!(branches < 10, "{branches} branches");
    assert!(longest(&beside) < 100_000);

    let numbers: Vec<usize> = (0..15_500).collect();
    let backwards: Vec<usize> = numbers.iter().copied().rev().collect();
    let both = json!({ "allOf": [{ "enum": numbers }, { "enum": backwards }] });
    let root = json!({ "$ref": "#/$defs/x", "$defs": { "x": {} }, "allOf": both["allOf"] });
    assert!(join::root_or_own(&root)["enum"] == both["allOf"][0]["enum"]);
    let below = json!({ "properties": { "a": both } });
    assert!(longest(&below) < 200_000);

    let named = |count: usize| {
        let branch = |number| json!({ "properties": { format!("a{number}"): {} } });
        json!({ "type": "object", "anyOf": (0..count).map(branch).collect::<Vec<_>>() })
    };
    let of = |count: usize| schema(&named(count), Format::Gemini)["properties"].take();
    assert_eq!(of(500).as_object().expect("properties").len(), 500);
    let (most, given) = (longest(&named(3_600)), named(3_600).to_string().len());
    assert!(most <= 4 * given, "{most} bytes of {given}");
}

#[test]
fn what_becomes_too_long_is_told_briefly() {
    let text = "y".repeat(20_000);
    let property = json!({ "description": text, "type": "integer" });
    let properties: Map<String, Value> =
        (0..40).map(|n| (format!("p{n}"), json!({ "$ref": "#/$defs/a" }))).collect();
    let registered =
        json!({ "properties": properties, "required": ["p1"], "$defs": { "a": property } });
    let written = schema(&registered, Format::Gemini);
    assert!(written.to_string().len() < 100_000);
    assert_eq!(written["properties"].as_object().expect("properties").len(), 40);
    assert_eq!(written["required"], json!(["p1"]));

    let alternatives: Vec<Value> = (0..40)
        .map(|n| json!({ "allOf": [{ "$ref": "#/$defs/b" }, { "properties": { format!("q{n}"): {} } }] }))
        .collect();
    let definition = json!({ "properties": { "a": { "pattern": text } } });
    let registered = json!({ "anyOf": alternatives, "$defs": { "b": definition } });
    assert!(longest(&registered) <= 256 << 10);
}

#[test]
fn definitions_that_are_called_alike_are_numbered() {
    let name = |number: usize| "é".repeat(number + 1);
    let definitions: Map<String, Value> =
        (0..50).map(|n| (name(n), json!({ "type": "string" }))).collect();
    let properties: Map<String, Value> = (0..50)
        .map(|n| (format!("p{n}"), json!({ "$ref": format!("#/$defs/{}", name(n)) })))
        .collect();
    let registered = json!({ "properties": properties, "$defs": definitions });
    let written = schema(&registered, Format::OpenAiStrict);
    assert_eq!(written["$defs"].as_object().expect("definitions").len(), 50);
    assert!(written["$defs"].get("_2").is_some() && written["$defs"].get("_51").is_some());
}
