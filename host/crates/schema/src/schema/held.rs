//! What compiled schemas really hold, against what they are counted as.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use serde_json::{Map, Value, json};

use toolhost_core::json::memory_bytes;

use super::*;

/// Counts what each thread holds; tests run on threads of their own.
struct Counting;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: usize, sign: i64) {
    // A thread that ends frees after its counter is gone.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + sign * i64::try_from(bytes).unwrap_or(i64::MAX));
    });
}

#[expect(unsafe_code, reason = "an allocator that counts, for tests only, and changes nothing")]
// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The schema of an object with many properties of one kind, as far as its text may be so long.
fn many(count: usize, property: impl Fn(usize) -> Value) -> Value {
    let mut bytes_left = 60_000_usize;
    let properties: Map<String, Value> = (0..count)
        .map(|n| (format!("p{n}"), property(n)))
        .take_while(|(name, property)| {
            let bytes = name.len() + property.to_string().len() + 4;
            bytes_left.checked_sub(bytes).inspect(|left| bytes_left = *left).is_some()
        })
        .collect();
    json!({ "type": "object", "properties": properties })
}

fn nested(levels: usize, keyword: &str) -> Value {
    (0..levels).fold(json!({ "type": "object" }), |inner, _| match keyword {
        "properties" => json!({ "properties": { "a": inner } }),
        "allOf" | "anyOf" | "oneOf" => json!({ keyword: [inner] }),
        keyword => json!({ keyword: inner }),
    })
}

fn shapes() -> Vec<(&'static str, Value)> {
    let named = |prefix: &str, count: usize| -> Vec<String> {
        (0..count).map(|n| format!("{prefix}{n}")).collect()
    };
    let mut wide = many(5, |_| json!({ "type": "string" }));
    wide["patternProperties"] =
        (0..20).map(|n| (format!("^x{n}_[a-z]+$"), json!({ "type": "integer" }))).collect();
    let mut closed = many(500, |_| json!({ "type": "string" }));
    closed["additionalProperties"] = json!(false);
    let mut open = many(500, |_| json!({ "type": "string" }));
    open["additionalProperties"] = json!({ "type": "integer" });
    let mut evaluated = many(300, |_| json!({ "type": "string" }));
    evaluated["unevaluatedProperties"] = json!(false);
    let mut required = many(500, |_| json!(true));
    required["required"] = json!(named("p", 500));
    let mut referring = many(300, |_| json!({ "$ref": "#/$defs/d" }));
    referring["$defs"] = json!({ "d": { "type": "object", "properties": {
        "x": { "type": "string", "minLength": 1 }, "y": { "enum": ["a", "b"] } } } });
    let mut dependent = many(3, |_| json!({}));
    dependent["dependentRequired"] =
        (0..300).map(|n| (format!("p{n}"), json!(["a", "b"]))).collect();
    dependent["dependentSchemas"] =
        (0..300).map(|n| (format!("p{n}"), json!({ "required": ["a"] }))).collect();
    vec![
        (
            "one tool",
            json!({ "type": "object", "description": "Reads a file.", "properties": {
            "path": { "type": "string", "description": "Where it is." },
            "lines": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 10 },
            "mode": { "enum": ["text", "base64"] } }, "required": ["path"],
            "additionalProperties": false }),
        ),
        ("nothing", json!({ "type": "object" })),
        ("enums", many(2_300, |_| json!({ "enum": [1, 2] }))),
        ("enums of strings", many(1_500, |_| json!({ "enum": ["a", "b"] }))),
        ("enums of objects", many(700, |_| json!({ "enum": [{ "a": 1 }, [1, 2], "x"] }))),
        (
            "one enum",
            json!({ "type": "object", "properties": { "a": { "enum": named("e", 5_000) } } }),
        ),
        (
            "one enum of numbers",
            json!({ "type": "object", "properties": { "a": { "enum": (0..9_000).collect::<Vec<_>>() } } }),
        ),
        ("types", many(2_300, |_| json!({ "type": "string" }))),
        ("type lists", many(1_500, |_| json!({ "type": ["string", "null"] }))),
        ("anything", many(3_900, |_| json!({}))),
        ("true", many(5_000, |_| json!(true))),
        ("false", many(5_000, |_| json!(false))),
        ("constants", many(2_300, |_| json!({ "const": 1 }))),
        ("constant strings", many(1_000, |_| json!({ "const": "some text of some length" }))),
        ("constant objects", many(1_000, |_| json!({ "const": { "a": [1, { "b": null }] } }))),
        ("ranges", many(1_000, |_| json!({ "minimum": 1, "maximum": 10, "multipleOf": 2 }))),
        ("fractions", many(1_000, |_| json!({ "exclusiveMinimum": 1.5, "multipleOf": 0.1 }))),
        ("lengths", many(1_000, |_| json!({ "minLength": 1, "maxLength": 10 }))),
        ("items", many(1_000, |_| json!({ "type": "array", "items": { "type": "string" } }))),
        (
            "tuples",
            many(
                400,
                |_| json!({ "prefixItems": [{ "type": "string" }, {}, true], "items": false }),
            ),
        ),
        ("contained", many(700, |_| json!({ "contains": { "const": 1 }, "maxContains": 2 }))),
        ("unique", many(1_000, |_| json!({ "uniqueItems": true, "minItems": 1, "maxItems": 3 }))),
        (
            "alternatives",
            many(500, |_| json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] })),
        ),
        ("one of", many(500, |_| json!({ "oneOf": [{ "type": "string" }, { "const": 1 }] }))),
        ("all of", many(500, |_| json!({ "allOf": [{ "minLength": 1 }, { "maxLength": 9 }] }))),
        ("not", many(800, |_| json!({ "not": { "type": "string" } }))),
        (
            "not an object",
            many(300, |_| json!({ "not": { "properties": { "a": { "enum": [1, "x"] } } } })),
        ),
        (
            "conditions",
            many(
                300,
                |_| json!({ "if": { "const": 1 }, "then": { "type": "integer" }, "else": false }),
            ),
        ),
        ("names", many(700, |_| json!({ "propertyNames": { "maxLength": 5 } }))),
        (
            "objects",
            many(
                400,
                |_| json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"], "additionalProperties": false }),
            ),
        ),
        ("maps", many(700, |_| json!({ "additionalProperties": { "type": "string" } }))),
        ("patterns", many(40, |n| json!({ "pattern": format!("^[a-z]+{n}$") }))),
        ("equal patterns", many(1_000, |_| json!({ "pattern": "^[a-z]+$" }))),
        ("prefixes", many(1_000, |n| json!({ "pattern": format!("^abc{n}") }))),
        ("unicode patterns", many(2, |n| json!({ "pattern": format!("^\\p{{L}}{{{n},3}}$") }))),
        ("deep", nested(14, "properties")),
        ("deep items", nested(30, "items")),
        ("deep not", nested(29, "not")),
        ("deep anyOf", nested(14, "anyOf")),
        (
            "long names",
            json!({ "type": "object", "properties": { "n".repeat(20_000): { "type": "string", "minLength": 1, "properties": { "a": { "enum": [1] } } } } }),
        ),
        (
            "long strings",
            json!({ "type": "object", "properties": { "a": { "enum": ["x".repeat(20_000), "y".repeat(20_000)] }, "b": { "const": "z".repeat(20_000) } } }),
        ),
        ("described", many(500, |_| json!({ "type": "string", "description": "d".repeat(80) }))),
        ("pattern properties", wide),
        ("closed", closed),
        ("open", open),
        ("evaluated", evaluated),
        ("required", required),
        ("references", referring),
        ("dependent", dependent),
        (
            "tree",
            json!({ "type": "object", "properties": { "children": { "type": "array", "items": { "$ref": "#" } } } }),
        ),
    ]
}

/// An object that has every property of a schema, each a string.
fn value_of(schema: &Value) -> Value {
    let names = schema["properties"].as_object().into_iter().flat_map(Map::keys);
    names.map(|name| (name.clone(), json!("abc1"))).collect()
}

/// Says where a count is less than what is held, or more than two and a half times of it.
fn compared(what: &str, counted: u64, held: i64) -> Option<String> {
    let held = u64::try_from(held).expect("it is there");
    let is_right = held <= counted && 2 * counted <= 5 * held;
    (!is_right).then(|| format!("{what} holds {held} bytes, and is counted as {counted}"))
}

#[test]
fn schemas_are_counted_as_what_they_hold() {
    let (limits, mut wrong) = (Limits::default(), Vec::new());
    // What all schemas share is made with the first.
    let first = json!({ "properties": { "a": { "pattern": "^[a-z]+$" } } });
    Schema::compile(&first, &limits).expect("a schema").fits(&json!({ "a": "a" }));
    for (name, schema) in shapes() {
        let (text, value) = (schema.to_string(), value_of(&schema));
        let before = HELD.get();
        let parsed = parse(&text, &limits).expect(name);
        let held = HELD.get() - before + size_of::<Value>() as i64;
        wrong.extend(compared(&format!("`{name}`, read,"), memory_bytes(&parsed), held));
        let before = HELD.get();
        let compiled = Schema::compile(&parsed, &limits).expect(name);
        // What is made only when it is needed is held from then on.
        let is_wrong = compiled.check(&value).is_err();
        let held = HELD.get() - before;
        wrong.extend(compared(
            &format!("`{name}`, compiled ({is_wrong}),"),
            compiled.bytes(),
            held,
        ));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
