//! Changes of schemas, word by word.

use serde_json::json;

use super::*;

#[track_caller]
fn check(before: Value, after: Value, expected: &[&str]) {
    let mut found = FoundChange::default();
    compare("t", &before, &after, &mut found);
    let found: Vec<String> = found.first().iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn what_takes_less_breaks() {
    let object = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required });
    check(
        object(json!({ "a": { "type": "string" } }), json!([])),
        object(json!({ "a": { "type": "integer" }, "b": {}, "c": {} }), json!(["b"])),
        &[
            "breaking: t: b is required",
            "breaking: t, a: string became integer",
            "compatible: t: c is new",
        ],
    );
    check(
        json!({ "properties": { "a": { "enum": ["x", "y"] } } }),
        json!({ "properties": { "a": { "enum": ["x", "z"] } }, "additionalProperties": false }),
        &[
            "breaking: t: unknown parameters are refused",
            "breaking: t, a: the value \"y\" is gone",
            "compatible: t, a: the value \"z\" is new",
        ],
    );
    check(
        json!({ "properties": { "a": { "type": "integer", "minimum": 1, "maximum": 9 } } }),
        json!({ "properties": { "a": { "type": "number", "minimum": 2, "maximum": 10 } } }),
        &[
            "breaking: t, a: minimum",
            "compatible: t, a: integer became number",
            "compatible: t, a: maximum",
        ],
    );
    // A bound of an earlier draft is no number.
    check(
        json!({ "minimum": 1, "exclusiveMinimum": false }),
        json!({ "minimum": 1.0, "exclusiveMinimum": true }),
        &["breaking: t: exclusiveMinimum"],
    );
}

#[test]
fn what_only_describes_does_not_count() {
    check(
        json!({ "title": "x", "anyOf": [{ "description": "x" }], "properties": {
            "a": { "description": "x" }, "description": { "type": "string", "examples": [1] },
        }, "$defs": { "title": { "title": "x", "not": { "title": "x" } } } }),
        json!({ "x-more": 1, "anyOf": [{ "description": "y" }], "properties": {
            "a": { "description": "y" }, "description": { "type": "string", "default": "b" },
        }, "$defs": { "title": { "title": "y", "not": { "title": "y" } } } }),
        &[],
    );
    // A property may have the name of a word that describes.
    check(
        json!({ "properties": { "description": { "type": "string" } } }),
        json!({ "properties": { "description": { "type": "null" } } }),
        &["breaking: t, description: string became null"],
    );
}

#[test]
fn steps_are_compatible_where_the_new_one_divides_the_old() {
    let of = |step: f64| json!({ "multipleOf": step });
    for (was, is, word) in [
        (4.0, 3.0, "breaking"),
        (3.0, 4.0, "breaking"),
        (2.0, 4.0, "breaking"),
        (4.0, 2.0, "compatible"),
        (0.3, 0.1, "compatible"),
        (0.25, 0.1, "breaking"),
        (1e300, 1e-300, "breaking"),
        (3_000_000_000_000_001.0, 3.0, "breaking"),
    ] {
        check(of(was), of(is), &[&format!("{word}: t: multipleOf")]);
    }
    check(json!({}), of(2.0), &["breaking: t: only some values are taken"]);
    check(of(2.0), json!({}), &["compatible: t: anything is taken"]);
    check(json!({ "multipleOf": 4 }), json!({ "multipleOf": 4.0 }), &[]);
}

#[test]
fn names_that_are_not_listed_may_have_a_schema() {
    let of = |others: Value| json!({ "type": "object", "additionalProperties": others });
    let text = json!({ "type": "string" });
    check(
        of(json!(true)),
        of(text.clone()),
        &["breaking: t, unknown parameters: only some values are taken"],
    );
    check(
        of(text.clone()),
        of(json!({ "type": "null" })),
        &["breaking: t, unknown parameters: string became null"],
    );
    check(
        of(text.clone()),
        of(json!({})),
        &["compatible: t, unknown parameters: anything is taken"],
    );
    check(of(json!(false)), of(text.clone()), &["compatible: t: unknown parameters are taken"]);
    check(of(text.clone()), of(json!(false)), &["breaking: t: unknown parameters are refused"]);
    check(of(json!({})), json!({ "type": "object" }), &[]);
    // From one of the others to a name of its own, and back.
    let mut named = of(text);
    named["properties"] = json!({ "a": { "type": "integer" } });
    let others = of(json!({ "type": "string" }));
    check(
        others.clone(),
        named.clone(),
        &["breaking: t, a: string became integer", "compatible: t: a is new"],
    );
    check(named, others, &["breaking: t, a: integer became string", "compatible: t: a is gone"]);
}

#[test]
fn items_that_are_new_break() {
    check(
        json!({ "type": "array" }),
        json!({ "type": "array", "items": { "type": "string" } }),
        &["breaking: t[]: only some values are taken"],
    );
    check(
        json!({ "type": "array", "items": { "type": "string" } }),
        json!({ "type": "array" }),
        &["compatible: t[]: anything is taken"],
    );
    check(json!({ "items": true }), json!({ "items": {} }), &[]);
    check(
        json!({ "items": { "type": "string" } }),
        json!({ "items": { "type": "string", "pattern": "x" } }),
        &["breaking: t[]: `pattern` changed, and is not judged"],
    );
    check(
        json!({ "items": [{}] }),
        json!({ "items": [{ "type": "null" }] }),
        &["breaking: t[]: another schema"],
    );
}

#[test]
fn every_word_that_is_not_understood_breaks() {
    let words = [
        ("allOf", json!([{ "type": "string" }])),
        ("anyOf", json!([{ "type": "string" }])),
        ("oneOf", json!([{ "type": "string" }])),
        ("not", json!({ "type": "string" })),
        ("if", json!({ "type": "string" })),
        ("then", json!({ "type": "string" })),
        ("else", json!({ "type": "string" })),
        ("propertyNames", json!({ "maxLength": 3 })),
        ("patternProperties", json!({ "^a": { "type": "string" } })),
        ("dependentSchemas", json!({ "a": { "required": ["b"] } })),
        ("dependentRequired", json!({ "a": ["b"] })),
        ("dependencies", json!({ "a": ["b"] })),
        ("unevaluatedProperties", json!(false)),
        ("unevaluatedItems", json!(false)),
        ("prefixItems", json!([{ "type": "string" }])),
        ("contains", json!({ "type": "string" })),
        ("minContains", json!(2)),
        ("maxContains", json!(2)),
        ("uniqueItems", json!(true)),
        ("const", json!("a")),
        ("format", json!("date")),
        ("pattern", json!("a")),
        ("$ref", json!("#/$defs/a")),
        ("$dynamicRef", json!("#a")),
        ("$id", json!("b")),
        ("contentEncoding", json!("base64")),
        ("of a later draft", json!(1)),
    ];
    for (word, value) in words {
        let [without, with] = [json!({ "type": "array" }), json!({ "type": "array", word: value })];
        let breaks = format!("breaking: t: `{word}` changed, and is not judged");
        check(without.clone(), with.clone(), &[&breaks]);
        let lifted = match TAKE_AWAY.contains(&word) {
            true => format!("compatible: t: {word}"),
            false => breaks.clone(),
        };
        check(with.clone(), without, &[&lifted]);
        let mut other = with.clone();
        other[word] = json!({ "type": "number" });
        check(with, other, &[&breaks]);
    }
    check(
        json!({ "uniqueItems": true, "allOf": [], "unevaluatedItems": false }),
        json!({ "uniqueItems": false, "unevaluatedItems": false }),
        &[
            "breaking: t: `allOf` changed, and is not judged",
            "breaking: t: `uniqueItems` changed, and is not judged",
        ],
    );
    check(json!({ "minItems": 1 }), json!({ "minItems": 1, "uniqueItems": false }), &[]);
}

#[test]
fn definitions_may_come_and_go_and_not_change() {
    let of = |definitions: Value| json!({ "type": "object", "$defs": definitions });
    let one = json!({ "a": { "type": "string" } });
    let two = json!({ "a": { "type": "string" }, "b": {} });
    check(of(one.clone()), of(two.clone()), &["compatible: t: $defs"]);
    check(of(two), json!({ "type": "object" }), &["compatible: t: $defs"]);
    check(
        of(one),
        of(json!({ "a": { "type": "null" } })),
        &["breaking: t: `$defs` changed, and is not judged"],
    );
}

#[test]
fn what_many_changes_cost_is_bounded() {
    let of = |letter: char| {
        let inner: Map<String, Value> =
            (0..3_000).map(|n| (format!("{letter}{n}"), json!({}))).collect();
        json!({ "properties": { "n".repeat(32_000): { "properties": inner } } })
    };
    let mut found = FoundChange::default();
    compare("t", &of('a'), &of('b'), &mut found);
    assert_eq!(found.count, 6_000);
    let bytes: usize = found.kept.iter().map(|change| change.what.len()).sum();
    assert!(found.kept.len() <= 200 && bytes < 40_000, "{} of {bytes} bytes", found.kept.len());
    let told = found.first();
    assert!(told.iter().all(|change| change.to_string().contains(" is gone")), "{told:?}");

    // Each that is gone is compared with what the others are.
    let many: Map<String, Value> =
        (0..2_000).map(|n| (format!("p{n}"), json!({ "type": "string" }))).collect();
    let numbers: Vec<usize> = (0..5_000).collect();
    let mut found = FoundChange::default();
    let after = json!({ "additionalProperties": { "enum": numbers } });
    compare("t", &json!({ "properties": many }), &after, &mut found);
    assert!(found.work < 3_000_000, "{}", found.work);
    assert!(found.count >= 2_000, "{}", found.count);
}
