//! `nullable`, the word of OpenAPI, in the words of JSON Schema.

use serde_json::{Map, Value, json};

use crate::schema::expand;

/// Deeper schemas are not looked into. Registered ones are less deep.
const DEPTH_MAX: usize = 100;

/// Makes every schema below this one that says `nullable` take null by its type.
pub(super) fn spell_out(members: &mut Map<String, Value>) {
    below(members, 0);
}

fn below(members: &mut Map<String, Value>, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    for (key, value) in members {
        match (key.as_str(), value) {
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas",
                Value::Object(schemas),
            ) => schemas.values_mut().for_each(|schema| one(schema, depth)),
            ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|schema| one(schema, depth));
            }
            (
                "items"
                | "additionalItems"
                | "contains"
                | "additionalProperties"
                | "propertyNames"
                | "not"
                | "if"
                | "then"
                | "else"
                | "unevaluatedItems"
                | "unevaluatedProperties",
                schema,
            ) => one(schema, depth),
            _ => {}
        }
    }
}

fn one(schema: &mut Value, depth: usize) {
    let Value::Object(members) = schema else { return };
    below(members, depth + 1);
    if members.get("nullable") != Some(&Value::Bool(true)) {
        return;
    }
    members.shift_remove("nullable");
    let members = std::mem::take(members);
    // What a reference leads to may refuse null.
    *schema = match members.contains_key("$ref") {
        true => json!({ "anyOf": [{ "type": "null" }, members] }),
        false => Value::Object(expand::nullable(members)),
    };
}
