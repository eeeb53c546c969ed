//! Gives arguments the types that a tool declares, where a model wrote a text for a value.
//!
//! Only what the schema declares is touched, and what does not fit stays as it was: the check
//! against the schema comes later and explains. Numbers and booleans are read at the top level
//! only; below it, only JSON in a string where an object or array is declared. A `$ref` into the
//! schema's own definitions is followed one level.

use serde_json::{Map, Value};

use toolhost_core::json::read;

/// Levels of nesting that are looked at, as many as a schema may have.
const DEPTH_MAX: usize = 32;
/// The longest text that is read as a number.
const NUMBER_BYTES_MAX: usize = 400;
/// The longest `$ref` that is followed, since it is followed for each value.
const REFERENCE_BYTES_MAX: usize = 256;
/// Types that a schema can list, each once.
const TYPES_MAX: usize = 7;

/// Coerces arguments to the types in `parameters`, a tool's schema, and answers whether anything
/// changed.
///
/// - `integer`, `number`: a text that is a finite number; integral ones become integers. An
///   integer beyond 64 bits stays a text, because it would lose digits.
/// - `boolean`: the text `true` or `false`, in any case.
/// - `array`: a JSON array in a text; else whatever is given becomes the only element.
/// - `object`: a JSON object in a text.
/// - a list of types: the first that changes a text; no element is made of it.
/// - where null is allowed: the text `null`.
/// - `string`: never changes.
pub fn coerce(arguments: &mut Map<String, Value>, parameters: &Value) -> bool {
    let Some(properties) = parameters.get("properties").and_then(Value::as_object) else {
        return false;
    };
    let mut changed = false;
    for (name, value) in arguments {
        if let Some(schema) = properties.get(name) {
            // `nullable` stands beside a `$ref` as well as in what it leads to.
            if is_text_of_null(value) && allows_null(schema) {
                *value = Value::Null;
                changed = true;
                continue;
            }
            changed |= property(value, resolve(schema, parameters), parameters);
        }
    }
    changed
}

/// Leaves out optional arguments that are null where the schema allows no null, and answers
/// whether there were any: under strict schemas, models write null for what they leave out.
pub fn leave_out_nulls(arguments: &mut Map<String, Value>, parameters: &Value) -> bool {
    let Some(properties) = parameters.get("properties").and_then(Value::as_object) else {
        return false;
    };
    let required = parameters.get("required").and_then(Value::as_array);
    let is_left_out = |name: &str, value: &Value| {
        let excludes_null = properties.get(name).is_some_and(|given| {
            let schema = resolve(given, parameters);
            schema.get("type").is_some() && !allows_null(schema) && !allows_null(given)
        });
        let is_required =
            || required.is_some_and(|names| names.iter().any(|required| required == name));
        value.is_null() && excludes_null && !is_required()
    };
    let before = arguments.len();
    arguments.retain(|name, value| !is_left_out(name, value));
    arguments.len() < before
}

fn property(value: &mut Value, schema: &Value, root: &Value) -> bool {
    let is_array = || schema.get("type").is_some_and(|name| name == "array");
    let coerced = match value {
        Value::String(text) => from_text(text, schema)
            .or_else(|| is_array().then(|| Value::Array(vec![Value::String(text.clone())]))),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) if is_array() => {
            Some(Value::Array(vec![value.take()]))
        }
        _ => None,
    };
    let changed = coerced.is_some();
    if let Some(coerced) = coerced {
        *value = coerced;
    }
    below(value, schema, root, DEPTH_MAX) || changed
}

fn is_text_of_null(value: &Value) -> bool {
    matches!(value, Value::String(text) if text.trim() == "null")
}

fn from_text(text: &str, schema: &Value) -> Option<Value> {
    if text.trim() == "null" && allows_null(schema) {
        return Some(Value::Null);
    }
    match schema.get("type")? {
        Value::String(name) => as_type(text, name),
        Value::Array(names) => {
            let names = names.iter().take(TYPES_MAX);
            names.filter_map(Value::as_str).find_map(|name| as_type(text, name))
        }
        _ => None,
    }
}

fn as_type(text: &str, name: &str) -> Option<Value> {
    match name {
        "integer" => number(text).filter(|value| !value.is_f64()),
        "number" => number(text),
        "boolean" => match text.trim() {
            word if word.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
            word if word.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
            _ => None,
        },
        "array" | "object" => json(text, name),
        _ => None,
    }
}

/// Reads a number as Python does, and integral ones as integers if 64 bits can hold them.
fn number(text: &str) -> Option<Value> {
    let text = text.trim();
    if text.len() > NUMBER_BYTES_MAX {
        return None;
    }
    if let Ok(integer) = text.parse::<i64>() {
        return Some(Value::from(integer));
    }
    if let Ok(integer) = text.parse::<u64>() {
        return Some(Value::from(integer));
    }
    let float = text.parse::<f64>().ok().filter(|float| float.is_finite())?;
    Some(match float.fract() == 0.0 {
        true if (-(2_f64.powi(63))..2_f64.powi(63)).contains(&float) => Value::from(float as i64),
        true if (0.0..2_f64.powi(64)).contains(&float) => Value::from(float as u64),
        _ => Value::from(float),
    })
}

/// Reads JSON out of a text, if it holds what `name` says: an array or an object.
fn json(text: &str, name: &str) -> Option<Value> {
    let opening = if name == "array" { '[' } else { '{' };
    text.trim_start().starts_with(opening).then(|| read(text).ok()).flatten()
}

/// Reads the JSON texts below a value, where the schema declares objects or arrays.
fn below(value: &mut Value, schema: &Value, root: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    let mut changed = false;
    match value {
        Value::Array(elements) if !elements.is_empty() => {
            let Some(items) = schema.get("items").filter(|items| items.is_object()) else {
                return false;
            };
            let items = resolve(items, root);
            for element in elements {
                changed |= nested(element, items, root, depth);
            }
        }
        Value::Object(members) if !members.is_empty() => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return false;
            };
            for (name, member) in members {
                if let Some(schema) = properties.get(name) {
                    changed |= nested(member, resolve(schema, root), root, depth);
                }
            }
        }
        _ => {}
    }
    changed
}

fn nested(value: &mut Value, schema: &Value, root: &Value, depth: usize) -> bool {
    let parsed = match value {
        Value::String(text) => ["array", "object"]
            .into_iter()
            .filter(|name| wants(schema, name))
            .find_map(|name| json(text, name)),
        _ => None,
    };
    let changed = parsed.is_some();
    if let Some(parsed) = parsed {
        *value = parsed;
    }
    below(value, schema, root, depth) || changed
}

/// Whether the schema declares the type and would not take a text as it is.
fn wants(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(declared)) => declared == name,
        Some(Value::Array(declared)) => {
            let declared = &declared[..declared.len().min(TYPES_MAX)];
            declared.iter().any(|declared| declared == name)
                && !declared.iter().any(|declared| declared == "string")
        }
        _ => false,
    }
}

fn allows_null(schema: &Value) -> bool {
    let is_null = |schema: &Value| match schema.get("type") {
        Some(Value::String(name)) => name == "null",
        Some(Value::Array(names)) => names.iter().take(TYPES_MAX).any(|name| name == "null"),
        _ => false,
    };
    let variants = |key: &str| schema.get(key).and_then(Value::as_array);
    is_null(schema)
        || schema.get("nullable") == Some(&Value::Bool(true))
        || ["anyOf", "oneOf"].into_iter().filter_map(variants).flatten().any(is_null)
}

/// The schema itself, or the definition it refers to; a reference from there is not followed.
fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    if schema.get("type").is_some() {
        return schema;
    }
    let pointer = schema
        .get("$ref")
        .and_then(Value::as_str)
        .filter(|reference| reference.len() <= REFERENCE_BYTES_MAX)
        .and_then(|reference| reference.strip_prefix('#'))
        .filter(|path| path.starts_with("/$defs/") || path.starts_with("/definitions/"));
    pointer.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Coerces `given` as the property `x` of a tool with the definitions below.
    fn coerced(schema: &Value, given: &Value) -> (Value, bool) {
        let parameters = json!({ "type": "object", "properties": { "x": schema }, "$defs": {
            "count": { "type": "integer" },
            "twice": { "$ref": "#/$defs/count" },
            "tree": { "type": "object", "properties": {
                "children": { "type": "array", "items": { "$ref": "#/$defs/tree" } },
            } },
        } });
        let mut arguments = Map::from_iter([("x".to_owned(), given.clone())]);
        let changed = coerce(&mut arguments, &parameters);
        (arguments.remove("x").expect("x stays"), changed)
    }

    #[track_caller]
    fn becomes(schema: Value, given: Value, expected: Value) {
        assert_eq!(coerced(&schema, &given), (expected, true), "{given} as {schema}");
    }

    #[track_caller]
    fn stays(schema: Value, given: Value) {
        assert_eq!(coerced(&schema, &given), (given.clone(), false), "{given} as {schema}");
    }

    #[test]
    fn e49_integers() {
        let integer = || json!({ "type": "integer" });
        for (text, value) in [("5", 5), ("3.0", 3), (" 7 ", 7), ("1e3", 1000), ("-4", -4)] {
            becomes(integer(), json!(text), json!(value));
        }
        for text in ["3.14", "abc", "", "inf", "0x10", "nan", "1e999"] {
            stays(integer(), json!(text));
        }
        // Digits are never lost.
        becomes(integer(), json!("9007199254740993"), json!(9_007_199_254_740_993_u64));
        becomes(integer(), json!("18446744073709551615"), json!(u64::MAX));
        becomes(integer(), json!("-0.0"), json!(0));
        stays(integer(), json!("18446744073709551616"));
    }

    #[test]
    fn e50_numbers() {
        let number = || json!({ "type": "number" });
        becomes(number(), json!("3.14"), serde_json::from_str("3.14").expect("a number"));
        becomes(number(), json!("3.0"), json!(3));
        becomes(number(), json!("1e30"), json!(1e30));
        stays(number(), json!("nan"));
        stays(number(), json!("9".repeat(1_000)));
    }

    #[test]
    fn e51_booleans() {
        let boolean = || json!({ "type": "boolean" });
        becomes(boolean(), json!("true"), json!(true));
        becomes(boolean(), json!(" TRUE "), json!(true));
        becomes(boolean(), json!("False"), json!(false));
        for given in [json!("1"), json!("yes"), json!(1)] {
            stays(boolean(), given);
        }
    }

    #[test]
    fn e52_arrays() {
        let array = || json!({ "type": "array" });
        becomes(array(), json!(r#"["x","y"]"#), json!(["x", "y"]));
        becomes(array(), json!("x"), json!(["x"]));
        becomes(array(), json!(5), json!([5]));
        stays(array(), json!(null));
        stays(array(), json!(["x"]));
        becomes(array(), json!({ "k": 1 }), json!([{ "k": 1 }]));
        becomes(array(), json!("[bad"), json!(["[bad"]));
        becomes(array(), json!(r#"{"a":1}"#), json!([r#"{"a":1}"#]));
    }

    #[test]
    fn e53_elements_are_no_numbers() {
        let integers = || json!({ "type": "array", "items": { "type": "integer" } });
        becomes(integers(), json!(r#"["1","2"]"#), json!(["1", "2"]));
        stays(integers(), json!(["1", "2"]));
    }

    #[test]
    fn e55_lists_of_types() {
        becomes(json!({ "type": ["integer", "string"] }), json!("5"), json!(5));
        stays(json!({ "type": ["integer", "string"] }), json!("x"));
        becomes(json!({ "type": ["string", "integer"] }), json!("5"), json!(5));
        becomes(json!({ "type": ["integer", "boolean"] }), json!("true"), json!(true));
        stays(json!({ "type": ["array", "string"] }), json!("x"));
    }

    #[test]
    fn e57_what_is_not_declared_or_a_string_stays() {
        stays(json!({ "type": "string" }), json!(r#"["a"]"#));
        stays(json!({ "type": "string" }), json!(5));
        stays(json!({}), json!("5"));
        stays(json!(true), json!("5"));
        let mut undeclared = Map::from_iter([("y".to_owned(), json!("5"))]);
        let parameters = json!({ "properties": { "x": { "type": "integer" } } });
        assert!(!coerce(&mut undeclared, &parameters));
        assert!(!coerce(&mut undeclared, &Value::Null));
        assert_eq!(undeclared["y"], "5");
    }

    #[test]
    fn the_text_null_becomes_null_where_it_is_allowed() {
        for schema in [
            json!({ "type": "string", "nullable": true }),
            json!({ "type": ["string", "null"] }),
            json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }),
            json!({ "oneOf": [{ "type": "integer" }, { "type": "null" }] }),
            json!({ "type": "array", "nullable": true }),
        ] {
            becomes(schema, json!("null"), json!(null));
        }
        stays(json!({ "type": "string" }), json!("null"));
        stays(json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }] }), json!("5"));
    }

    #[test]
    fn json_in_strings_is_read_where_it_is_declared() {
        let object = || json!({ "type": "object", "properties": { "s": { "type": "string" } } });
        becomes(object(), json!(r#"{"s":"{}"}"#), json!({ "s": "{}" }));
        stays(object(), json!(r#"{"s":1,"s":2}"#));
        stays(object(), json!("[1]"));
        let list = || json!({ "type": "array", "items": object() });
        becomes(list(), json!([r#"{"s":"[]"}"#, "x"]), json!([{ "s": "[]" }, "x"]));
        stays(json!({ "type": "array", "items": { "type": ["object", "string"] } }), json!(["{}"]));
    }

    #[test]
    fn nulls_of_strict_schemas_are_left_out() {
        let parameters = json!({
            "properties": {
                "a": { "type": "string" }, "b": { "type": ["string", "null"] }, "c": {},
                "d": { "type": "string" }
            },
            "required": ["d"]
        });
        let given = json!({ "a": null, "b": null, "c": null, "d": null, "e": null });
        let mut arguments = given.as_object().cloned().expect("an object");
        assert!(leave_out_nulls(&mut arguments, &parameters));
        assert_eq!(Value::Object(arguments), json!({ "b": null, "c": null, "d": null, "e": null }));
    }

    #[test]
    fn definitions_are_followed_one_level_and_nesting_ends() {
        becomes(json!({ "$ref": "#/$defs/count" }), json!("5"), json!(5));
        stays(json!({ "$ref": "#/$defs/twice" }), json!("5"));
        stays(json!({ "$ref": "#/$defs/none" }), json!("5"));
        stays(json!({ "$ref": "#" }), json!("5"));
        let tree = || json!({ "$ref": "#/$defs/tree" });
        becomes(
            tree(),
            json!({ "children": [r#"{"children":"[]"}"#] }),
            json!({ "children": [{ "children": [] }] }),
        );
        let deep = (0..60).fold(json!("{}"), |below, _| json!({ "children": [below] }));
        stays(tree(), deep);
    }
}
