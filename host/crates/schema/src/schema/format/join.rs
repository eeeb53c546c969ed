//! Puts the parts of a schema together: references, `allOf`, and the alternatives of a root.
//!
//! A schema can refer to itself and hold the same definition in many places, so the work is
//! counted and ends.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use toolhost_core::json::{Size, in_order};

/// Most schemas put together into one.
const PARTS_MAX: usize = 16;
/// Most that is copied while one definition is rendered, in steps.
const WORK_MAX: u64 = 100_000;
/// Most bytes of a rendered schema; a longer one may be so many times as long as registered.
const TEXT_BYTES_MAX: usize = 256 << 10;
const TEXT_TIMES_MAX: usize = 4;

/// A schema and what it refers to, as one.
pub(super) struct Joined {
    /// Without references and `allOf`.
    pub(super) members: Map<String, Value>,
    /// The references that were followed.
    pub(super) references: Vec<String>,
}

/// Keywords that refer to other schemas for the same value.
const PARTED: [&str; 4] = ["$ref", "$dynamicRef", "$recursiveRef", "allOf"];
/// Keywords with alternatives.
const UNIONS: [&str; 2] = ["anyOf", "oneOf"];
/// The names of types.
pub(super) const TYPES: [&str; 7] =
    ["object", "array", "string", "integer", "number", "boolean", "null"];

/// What has been copied.
#[derive(Default)]
pub(super) struct JoinWork(u64);

impl JoinWork {
    /// Counts what is about to be copied; false once it is too much.
    pub(super) fn spend(&mut self, value: &Value) -> bool {
        if self.0 <= WORK_MAX {
            self.0 += Size::of(value).steps();
        }
        self.0 <= WORK_MAX
    }

    /// The same for an object.
    pub(super) fn spend_members(&mut self, members: &Map<String, Value>) -> bool {
        if self.0 <= WORK_MAX {
            self.0 += 1 + Size::of_members(members).steps();
        }
        self.0 <= WORK_MAX
    }

    /// Tells whether nothing more may be copied.
    pub(super) fn is_spent(&self) -> bool {
        self.0 > WORK_MAX
    }
}

/// Values, each once, in the order in which they came.
#[derive(Default)]
pub(super) struct Distinct {
    seen: HashSet<String>,
    values: Vec<Value>,
}

impl Distinct {
    pub(super) fn push(&mut self, value: Value) {
        if self.seen.insert(in_order(&value)) {
            self.values.push(value);
        }
    }

    pub(super) fn into_values(self) -> Vec<Value> {
        self.values
    }
}

/// Tells whether a rendered schema is as short as it has to be.
pub(super) fn is_short(rendered: &Value, registered: &Value) -> bool {
    let text_bytes = rendered.to_string().len();
    text_bytes <= TEXT_BYTES_MAX
        || text_bytes <= TEXT_TIMES_MAX.saturating_mul(registered.to_string().len())
}

/// Whether a schema says something elsewhere: by reference, or in `allOf`.
pub(super) fn is_parted(members: &Map<String, Value>) -> bool {
    PARTED.iter().any(|key| members.contains_key(*key))
}

/// The schema that a reference leads to.
pub(super) fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let schema = root.pointer(reference.strip_prefix('#')?)?;
    (schema.is_object() || schema.is_boolean()).then_some(schema)
}

/// Joins a schema with what it refers to and its `allOf`; of two annotations the first stays.
/// None if there is too much of it, or if nothing could match or the parts do not fit simply.
pub(super) fn joined(schema: &Value, root: &Value, work: &mut JoinWork) -> Option<Joined> {
    let (mut members, mut references) = (Map::new(), Vec::new());
    let mut parts = vec![schema];
    let mut next = 0;
    while let Some(part) = parts.get(next).copied() {
        next += 1;
        if next > PARTS_MAX || !work.spend(part) {
            return None;
        }
        let part = match part {
            Value::Object(part) => part,
            Value::Bool(false) => return None,
            _ => continue,
        };
        for (key, value) in part {
            match key.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    let reference = value.as_str().unwrap_or_default();
                    if !references.iter().any(|followed| followed == reference) {
                        parts.extend(target(root, reference));
                        references.push(reference.to_owned());
                    }
                }
                "allOf" => parts.extend(value.as_array().into_iter().flatten()),
                _ => add(&mut members, key, value)?,
            }
        }
    }
    Some(Joined { members, references })
}

/// The root of a schema of arguments: an object with `properties` and without `$ref`, `allOf`,
/// `anyOf` and `oneOf`. Properties of alternatives become optional ones. None if its parts
/// cannot be put together, or are too much so.
pub(super) fn root(schema: &Value) -> Option<Map<String, Value>> {
    let mut work = JoinWork::default();
    let members = joined(schema, schema, &mut work)?.members;
    short(object(members, schema, &mut work), schema)
}

/// Like [`root`], from the root's own keywords alone where its parts cannot be put together.
pub(super) fn root_or_own(schema: &Value) -> Map<String, Value> {
    let own = || schema.as_object().map(unparted).unwrap_or_default();
    root(schema)
        .or_else(|| short(object(own(), schema, &mut JoinWork::default()), schema))
        .unwrap_or_else(|| {
            let mut own = own();
            own.retain(|key, _| !UNIONS.contains(&key.as_str()));
            object(own, schema, &mut JoinWork::default())
        })
}

fn short(members: Map<String, Value>, schema: &Value) -> Option<Map<String, Value>> {
    let whole = Value::Object(members);
    match (is_short(&whole, schema), whole) {
        (true, Value::Object(members)) => Some(members),
        _ => None,
    }
}

/// A schema without what it says elsewhere.
pub(super) fn unparted(members: &Map<String, Value>) -> Map<String, Value> {
    let own = members.iter().filter(|(key, _)| !PARTED.contains(&key.as_str()));
    own.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn object(
    mut members: Map<String, Value>,
    schema: &Value,
    work: &mut JoinWork,
) -> Map<String, Value> {
    let alternatives = alternatives(&mut members, schema, work);
    let mut whole = Map::from_iter([("type".to_owned(), "object".into())]);
    whole.extend(members.into_iter().filter(|(key, _)| key != "type"));
    let properties = whole.entry("properties").or_insert_with(|| json!({}));
    if !properties.is_object() {
        *properties = json!({});
    }
    for (name, schemas) in alternatives {
        let mut schemas = schemas.into_values();
        if properties.get(&name).is_none() {
            properties[name] = match schemas.len() {
                1 => schemas.swap_remove(0),
                _ => json!({ "anyOf": schemas }),
            };
        }
    }
    whole
}

/// Takes the unions out of a root, and returns the properties they name.
fn alternatives(
    members: &mut Map<String, Value>,
    schema: &Value,
    work: &mut JoinWork,
) -> Vec<(String, Distinct)> {
    let mut found: Vec<(String, Distinct)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for union in UNIONS {
        let Some(Value::Array(branches)) = members.shift_remove(union) else { continue };
        for branch in &branches {
            let Some(branch) = joined(branch, schema, work) else { continue };
            let branch = branch.members;
            if branch.get("additionalProperties").is_some_and(|value| value != false) {
                members.entry("additionalProperties").or_insert(true.into());
            }
            let properties = branch.get("properties").and_then(Value::as_object);
            for (name, property) in properties.into_iter().flatten() {
                let place = *places.entry(name.clone()).or_insert_with(|| {
                    found.push((name.clone(), Distinct::default()));
                    found.len() - 1
                });
                found[place].1.push(property.clone());
            }
        }
    }
    found
}

/// Adds a keyword to a schema that may have it already.
fn add(members: &mut Map<String, Value>, key: &str, value: &Value) -> Option<()> {
    let Some(present) = members.get_mut(key) else {
        members.insert(key.to_owned(), value.clone());
        return Some(());
    };
    if present == value {
        return Some(());
    }
    match (key, present, value) {
        ("properties", Value::Object(present), Value::Object(more)) => {
            for (name, schema) in more {
                let both = present.get(name).map(|first| both(first, schema));
                present.insert(name.clone(), both.unwrap_or_else(|| schema.clone()));
            }
        }
        ("items" | "additionalProperties" | "contains" | "propertyNames", present, _) => {
            *present = both(present, value);
        }
        ("required", Value::Array(present), Value::Array(more)) => {
            let listed: HashSet<String> = present.iter().map(in_order).collect();
            let is_new = |name: &&Value| !listed.contains(&in_order(name));
            present.extend(more.iter().filter(is_new).cloned());
        }
        ("type", present, _) => *present = common_types(present, value)?,
        ("enum", Value::Array(present), Value::Array(more)) => {
            let listed: HashSet<String> = more.iter().map(in_order).collect();
            present.retain(|value| listed.contains(&in_order(value)));
            if present.is_empty() {
                return None;
            }
        }
        (
            "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties",
            present,
            _,
        ) if present.as_f64() < value.as_f64() => *present = value.clone(),
        (
            "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties",
            present,
            _,
        ) if present.as_f64() > value.as_f64() => *present = value.clone(),
        ("anyOf" | "oneOf" | "const", ..) => return None,
        _ => {}
    }
    Some(())
}

/// A schema for what matches two; whoever reads it joins it in turn.
fn both(left: &Value, right: &Value) -> Value {
    match (left, right) {
        (Value::Bool(false), _) | (_, Value::Bool(false)) => Value::Bool(false),
        (Value::Bool(true), other) | (other, Value::Bool(true)) => other.clone(),
        _ if left == right => left.clone(),
        _ => json!({ "allOf": [left, right] }),
    }
}

/// The types that are in both, each one name or a list of them.
fn common_types(left: &Value, right: &Value) -> Option<Value> {
    let (left, right) = (types(left), types(right));
    let has = |names: &[&str], name: &str| {
        names.contains(&name) || name == "integer" && names.contains(&"number")
    };
    let mut common: Vec<&str> = left.iter().copied().filter(|name| has(&right, name)).collect();
    common.extend(right.iter().filter(|name| has(&left, name) && !left.contains(name)));
    match common.as_slice() {
        [] => None,
        [one] => Some((*one).into()),
        many => Some(many.into()),
    }
}

/// The names in a value of `type`.
pub(super) fn types(value: &Value) -> Vec<&str> {
    match value {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The type of a value, the narrowest one.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether every engine of regular expressions reads a pattern, and in the same way.
pub(super) fn is_portable(pattern: &str) -> bool {
    let mut rest = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(character) = rest.next() {
        match character {
            '\\' => match rest.next() {
                Some('d' | 'D' | 'w' | 'W' | 's' | 'S' | 'b' | 'B' | 'n' | 'r' | 't' | 'f') => {}
                Some(escaped) if escaped.is_ascii_punctuation() => {}
                _ => return false,
            },
            '[' if in_class => return false,
            '[' => in_class = true,
            ']' => in_class = false,
            '&' | '-' | '~' if in_class && rest.peek() == Some(&character) => return false,
            '(' if !in_class && rest.peek() == Some(&'?') => {
                rest.next();
                if rest.next() != Some(':') {
                    return false;
                }
            }
            _ => {}
        }
    }
    true
}
