//! JSON Schema 2020-12 as Anthropic takes it.
//!
//! The vendor reads every keyword, but refuses `anyOf`, `oneOf` and `allOf` at the root, names of
//! arguments with unusual characters, and anything that is no valid 2020-12 schema. Forms of
//! older drafts are rewritten; what is still not valid is left out.

use serde_json::{Map, Value, json};

use super::join::{self, TYPES, is_portable, types};

/// Deeper schemas are replaced by one that matches anything. Registered ones are less deep.
const DEPTH_MAX: usize = 100;
/// Most characters in the name of an argument.
const NAME_CHARS_MAX: usize = 64;

/// The schema of arguments in this form.
pub(super) fn input_schema(registered: &Value) -> Value {
    let mut members = join::root_or_own(registered);
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        properties.retain(|name, _| is_name(name));
    }
    let properties = members.get("properties").and_then(Value::as_object).cloned();
    if let Some(Value::Array(required)) = members.get_mut("required") {
        let exists = |name: &Value| {
            let name = name.as_str().unwrap_or_default();
            properties.as_ref().is_some_and(|properties| properties.contains_key(name))
        };
        required.retain(exists);
    }
    let mut schema = valid(Value::Object(members), 0);
    let whole = schema.clone();
    drop_dangling(&mut schema, &whole);
    schema
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

/// A schema with only valid keywords.
fn valid(schema: Value, depth: usize) -> Value {
    let mut members = match schema {
        Value::Object(members) if depth <= DEPTH_MAX => members,
        Value::Bool(_) => return schema,
        _ => return json!({}),
    };
    modernise(&mut members);
    let keyword = |(key, value): (String, Value)| {
        let value = keyword(&key, value, depth + 1)?;
        Some((key, value))
    };
    Value::Object(members.into_iter().filter_map(keyword).collect())
}

/// Writes tuples and bounds of older drafts as today's.
fn modernise(members: &mut Map<String, Value>) {
    if let Some(Value::Array(places)) = members.get("items").cloned() {
        members.shift_remove("items");
        members.insert("prefixItems".to_owned(), Value::Array(places));
        if let Some(others) = members.shift_remove("additionalItems") {
            members.insert("items".to_owned(), others);
        }
    }
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if members.get(exclusive).is_some_and(|value| *value == true)
            && let Some(value) = members.shift_remove(bound)
        {
            members.insert(exclusive.to_owned(), value);
        }
    }
}

/// The value of a keyword, if it is a valid one; unknown keywords take any.
fn keyword(key: &str, value: Value, depth: usize) -> Option<Value> {
    let is_taken = match key {
        // Whose schema this is and which draft it is written in means nothing in here.
        "$schema" | "$id" | "id" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor"
        | "$vocabulary" => false,
        "properties" | "$defs" | "definitions" | "dependentSchemas" | "patternProperties" => {
            return schemas(key, value, depth);
        }
        "dependencies" => return dependencies(value, depth),
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
            let Value::Array(branches) = value else { return None };
            let branches: Vec<_> =
                branches.into_iter().map(|branch| valid(branch, depth + 1)).collect();
            return (!branches.is_empty()).then_some(Value::Array(branches));
        }
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
        | "else"
        | "contentSchema" => {
            let is_schema = value.is_object() || value.is_boolean();
            return is_schema.then(|| valid(value, depth));
        }
        "type" => {
            let named = types(&value);
            let is_list = value.is_array();
            let known = named.iter().filter(|name| TYPES.contains(name)).count();
            let entries = value.as_array().map_or(1, Vec::len);
            known == entries && known > 0 && (!is_list || is_set(&value))
        }
        "enum" | "examples" => value.is_array(),
        "required" => is_names(&value),
        "dependentRequired" => {
            value.as_object().is_some_and(|members| members.values().all(is_names))
        }
        "pattern" => value.as_str().is_some_and(is_portable),
        "title" | "description" | "format" | "$comment" | "contentEncoding"
        | "contentMediaType" | "$ref" | "$dynamicRef" | "$recursiveRef" => value.is_string(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => {
            value.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0)
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "multipleOf" => value.as_f64().is_some_and(|number| number > 0.0),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
        _ => true,
    };
    is_taken.then_some(value)
}

fn schemas(key: &str, value: Value, depth: usize) -> Option<Value> {
    let Value::Object(members) = value else { return None };
    let is_taken = |name: &str| key != "patternProperties" || is_portable(name);
    let members = members.into_iter().filter(|(name, _)| is_taken(name));
    let members = members.map(|(name, schema)| (name, valid(schema, depth + 1)));
    Some(Value::Object(members.collect()))
}

/// The older form of `dependentRequired` and `dependentSchemas`, which is still valid.
fn dependencies(value: Value, depth: usize) -> Option<Value> {
    let Value::Object(members) = value else { return None };
    let one = |(name, value): (String, Value)| {
        if value.is_array() {
            return is_names(&value).then_some((name, value));
        }
        Some((name, valid(value, depth + 1)))
    };
    Some(Value::Object(members.into_iter().filter_map(one).collect()))
}

fn is_names(value: &Value) -> bool {
    let is_text = |values: &Vec<Value>| values.iter().all(Value::is_string);
    value.as_array().is_some_and(is_text) && is_set(value)
}

fn is_set(value: &Value) -> bool {
    let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut seen: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
    seen.sort_unstable();
    seen.windows(2).all(|pair| pair[0] != pair[1])
}

/// Removes references to what is no longer there.
fn drop_dangling(value: &mut Value, whole: &Value) {
    match value {
        Value::Object(members) => {
            for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
                let dangles = |value: &Value| {
                    value.as_str().is_some_and(|target| join::target(whole, target).is_none())
                };
                if members.get(key).is_some_and(dangles) {
                    members.shift_remove(key);
                }
            }
            members.values_mut().for_each(|value| drop_dangling(value, whole));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| drop_dangling(value, whole)),
        _ => {}
    }
}
