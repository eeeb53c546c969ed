//! Writes a schema in the form that most readers of function schemas understand.
//!
//! Unions with null become `nullable`, lists of types become `anyOf`, and what breaks some
//! reader is removed. The result is for showing to models; it is not exact enough to check with.

use serde_json::{Map, Value, json};

/// Deeper schemas are not looked into. Registered ones are less deep.
const DEPTH_MAX: usize = 100;
/// Keywords that a schema of arguments may not have at its root.
const ROOT_REMOVED: [&str; 5] = ["allOf", "anyOf", "oneOf", "enum", "not"];
/// What stays beside `$ref`.
const BESIDE_REFERENCE: [&str; 6] =
    ["$ref", "$defs", "definitions", "title", "description", "nullable"];
/// What a union hands on to the one branch that remains of it.
const ANNOTATIONS: [&str; 4] = ["title", "description", "default", "examples"];

/// Returns a schema of arguments in the common form: an object with `properties`, without
/// `allOf`, `anyOf`, `oneOf`, `enum` and `not` at its root.
///
/// Anything but a JSON object is read as "an object without declared properties". The order of
/// keys is kept.
pub fn clean(schema: &Value) -> Value {
    let Value::Object(members) = schema else {
        return json!({ "type": "object", "properties": {} });
    };
    let mut members = members.clone();
    members.retain(|key, _| !ROOT_REMOVED.contains(&key.as_str()));
    let mut members = node(members, 0);
    if members.contains_key("$ref") {
        return Value::Object(members);
    }
    if members.get("type").is_none_or(|name| name != "object") {
        let rest = std::mem::take(&mut members);
        members.insert("type".to_owned(), "object".into());
        members.extend(rest.into_iter().filter(|(key, _)| key != "type"));
        prune_object(&mut members);
    }
    Value::Object(members)
}

fn node(mut members: Map<String, Value>, depth: usize) -> Map<String, Value> {
    for union in ["anyOf", "oneOf"] {
        collapse(&mut members, union);
    }
    split_types(&mut members);
    if members.contains_key("$ref") {
        members.retain(|key, _| BESIDE_REFERENCE.contains(&key.as_str()));
    }
    let keyword = |(key, value): (String, Value)| {
        let value = below(&key, value, depth + 1);
        (key, value)
    };
    let mut members: Map<String, Value> = members.into_iter().map(keyword).collect();
    prune_object(&mut members);
    members
}

/// A union of a schema with null becomes that schema, nullable.
fn collapse(members: &mut Map<String, Value>, union: &str) {
    let Some(Value::Array(branches)) = members.get(union) else { return };
    let [left, right] = branches.as_slice() else { return };
    let branch = match (is_null(left), is_null(right)) {
        (true, false) => right,
        (false, true) => left,
        _ => return,
    };
    let mut collapsed = match branch {
        Value::Object(branch) => branch.clone(),
        Value::String(name) => named(name),
        _ => return,
    };
    members.shift_remove(union);
    for (key, value) in std::mem::take(members) {
        if ANNOTATIONS.contains(&key.as_str()) || !collapsed.contains_key(&key) {
            collapsed.insert(key, value);
        }
    }
    collapsed.insert("nullable".to_owned(), true.into());
    *members = collapsed;
}

fn is_null(schema: &Value) -> bool {
    schema == "null" || schema.get("type").is_some_and(|name| name == "null")
}

/// A list of types becomes one type, or a union.
fn split_types(members: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = members.get("type") else { return };
    let types = types.clone();
    let others: Vec<&Value> = types.iter().filter(|name| *name != "null").collect();
    match others.as_slice() {
        [] if types.is_empty() => {
            members.shift_remove("type");
        }
        [] => {
            members.insert("type".to_owned(), "null".into());
        }
        [one] => {
            members.insert("type".to_owned(), (*one).clone());
            if types.len() > 1 {
                members.insert("nullable".to_owned(), true.into());
            }
        }
        _ => {
            let rest = std::mem::take(members);
            let union: Vec<Value> = types.iter().map(|name| json!({ "type": name })).collect();
            for (key, value) in rest {
                if key != "type" {
                    members.insert(key, value);
                } else if !members.contains_key("anyOf") {
                    members.insert("anyOf".to_owned(), Value::Array(union.clone()));
                }
            }
        }
    }
}

/// What stands below one keyword.
fn below(key: &str, value: Value, depth: usize) -> Value {
    if depth > DEPTH_MAX {
        return value;
    }
    match (key, value) {
        (
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
            Value::Object(schemas),
        ) => {
            let one = |(name, schema)| (name, subschema(schema, depth + 1));
            Value::Object(schemas.into_iter().map(one).collect())
        }
        ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(schemas)) => {
            Value::Array(schemas.into_iter().map(|schema| subschema(schema, depth + 1)).collect())
        }
        (
            "items"
            | "additionalItems"
            | "contains"
            | "additionalProperties"
            | "propertyNames"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "not"
            | "if"
            | "then"
            | "else",
            schema,
        ) => subschema(schema, depth),
        (_, value) => value,
    }
}

fn subschema(schema: Value, depth: usize) -> Value {
    match schema {
        Value::Object(members) => Value::Object(node(members, depth)),
        Value::String(name) => Value::Object(node(named(&name), depth)),
        Value::Bool(_) => schema,
        _ => json!({}),
    }
}

/// A schema written as the bare name of a type.
fn named(name: &str) -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), name.into())])
}

/// An object has `properties`, and `required` names no others.
fn prune_object(members: &mut Map<String, Value>) {
    let is_object = members.get("type").is_some_and(|name| name == "object");
    if is_object && !members.get("properties").is_some_and(Value::is_object) {
        members.insert("properties".to_owned(), json!({}));
    }
    let Some(required) = members.get("required") else { return };
    let properties = members.get("properties").and_then(Value::as_object);
    let exists = |name: &&Value| {
        let name = name.as_str().unwrap_or_default();
        properties.is_some_and(|properties| properties.contains_key(name))
    };
    let required: Vec<Value> =
        required.as_array().into_iter().flatten().filter(exists).cloned().collect();
    if required.is_empty() {
        members.shift_remove("required");
    } else {
        members.insert("required".to_owned(), Value::Array(required));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: Value, expected: Value) {
        let cleaned = clean(&schema);
        assert_eq!(cleaned.to_string(), expected.to_string(), "of {schema}");
        assert_eq!(clean(&cleaned), cleaned, "a second time");
    }

    /// Of one property.
    fn property(schema: Value, expected: Value) {
        let root = |schema| json!({ "type": "object", "properties": { "a": schema } });
        check(root(schema), root(expected));
    }

    #[test]
    fn the_root_is_an_object_with_properties() {
        let empty = json!({ "type": "object", "properties": {} });
        for schema in [json!(null), json!({}), json!({ "type": "object" }), json!(true), json!([])]
        {
            check(schema, empty.clone());
        }
        let properties = json!({ "a": { "type": "string" } });
        check(
            json!({ "properties": properties }),
            json!({ "type": "object", "properties": properties }),
        );
        for removed in ROOT_REMOVED {
            let schema = json!({ "type": "object", removed: [{ "required": ["a"] }] });
            check(schema, empty.clone());
        }
    }

    #[test]
    fn a_bare_string_names_a_type() {
        property(json!("string"), json!({ "type": "string" }));
        property(json!("object"), json!({ "type": "object", "properties": {} }));
        property(
            json!({ "type": "array", "items": "integer" }),
            json!({ "type": "array", "items": { "type": "integer" } }),
        );
    }

    #[test]
    fn lists_of_types_become_nullable_or_a_union() {
        property(
            json!({ "type": ["string", "null"] }),
            json!({ "type": "string", "nullable": true }),
        );
        property(
            json!({ "description": "d", "type": ["string", "integer"], "default": 1 }),
            json!({
                "description": "d",
                "anyOf": [{ "type": "string" }, { "type": "integer" }],
                "default": 1,
            }),
        );
        property(json!({ "type": ["string"] }), json!({ "type": "string" }));
        property(json!({ "type": ["null"] }), json!({ "type": "null" }));
    }

    #[test]
    fn unions_with_null_become_nullable() {
        for union in ["anyOf", "oneOf"] {
            property(
                json!({
                    union: [{ "type": "null" }, { "type": "string", "description": "inner" }],
                    "title": "t", "description": "outer", "default": null, "examples": ["x"],
                }),
                json!({
                    "type": "string", "description": "outer", "title": "t", "default": null,
                    "examples": ["x"], "nullable": true,
                }),
            );
            let three =
                json!({ union: [{ "type": "string" }, { "type": "integer" }, { "type": "null" }] });
            property(three.clone(), three);
        }
    }

    #[test]
    fn required_names_only_properties() {
        let properties = json!({ "a": { "type": "string" } });
        check(
            json!({ "type": "object", "properties": properties, "required": ["b", "a", 1] }),
            json!({ "type": "object", "properties": properties, "required": ["a"] }),
        );
        check(
            json!({ "type": "object", "required": ["b"] }),
            json!({ "type": "object", "properties": {} }),
        );
    }

    #[test]
    fn references_stand_alone() {
        property(
            json!({ "$ref": "#/$defs/x", "default": 1, "description": "d" }),
            json!({ "$ref": "#/$defs/x", "description": "d" }),
        );
        property(
            json!({ "anyOf": [{ "$ref": "#/$defs/x" }, { "type": "null" }], "default": null }),
            json!({ "$ref": "#/$defs/x", "nullable": true }),
        );
        check(
            json!({ "$ref": "#/$defs/x", "$defs": { "x": { "type": "object" } } }),
            json!({ "$ref": "#/$defs/x", "$defs": { "x": { "type": "object", "properties": {} } } }),
        );
    }

    #[test]
    fn names_of_properties_are_no_keywords() {
        let schema = json!({
            "type": "object",
            "properties": { "anyOf": { "type": "string" }, "$ref": { "type": "string" } },
            "required": ["$ref"],
        });
        check(schema.clone(), schema);
        property(
            json!({ "const": { "type": ["a", "null"] } }),
            json!({ "const": { "type": ["a", "null"] } }),
        );
    }

    #[test]
    fn nonsense_does_no_harm() {
        for nonsense in [json!(1), json!([1]), json!({ "type": 5 }), json!({ "properties": 3 })] {
            clean(&nonsense);
            clean(&json!({ "properties": { "a": nonsense }, "required": nonsense }));
            clean(&json!({ "properties": { "a": { "anyOf": [nonsense, "null"] } } }));
            clean(&json!({ "properties": { "a": { "type": [nonsense, "null"] } } }));
        }
        let deep = (0..60).fold(json!("string"), |inner, _| json!({ "not": { "items": inner } }));
        clean(&json!({ "properties": { "a": deep } }));
    }
}
