//! The schema that Gemini's function declarations take: a part of OpenAPI 3.0, without
//! references.
//!
//! Every node has one type or is a union, and beside a union nothing else may stand. What a
//! definition refers to is written out, a recursive one two levels deep.

use serde_json::{Map, Value, json};

use super::join::{self, Distinct, JoinWork, Joined, is_parted, is_portable, type_of, types};
use toolhost_core::text;

/// Most schemas in one declaration; further ones are cut.
const NODES_MAX: usize = 1_000;
/// Most of these together with those that are cut; further properties are left out.
const LISTED_MAX: usize = 2_000;
/// Most levels of schemas; deeper ones are cut.
const DEPTH_MAX: usize = 36;
/// How often one definition stands inside itself.
const NESTED_MAX: usize = 2;
/// Most characters of values listed in a description.
const LISTED_CHARS_MAX: usize = 200;
/// Most characters in the name of an argument.
const NAME_CHARS_MAX: usize = 64;

/// The schema of arguments in this form; none if there are no arguments, since the vendor takes
/// no empty object there.
pub(super) fn parameters(registered: &Value) -> Option<Value> {
    let mut members = join::root_or_own(registered);
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        properties.retain(|name, schema| is_name(name) && *schema != false);
        if properties.is_empty() {
            return None;
        }
    }
    let rendered = |members: &Map<String, Value>, nodes| {
        let mut gemini = Gemini { registered, open: Vec::new(), nodes, work: JoinWork::default() };
        gemini.plain(members, "object", 0)
    };
    let whole = rendered(&members, 0);
    if join::is_short(&whole, registered) {
        return Some(whole);
    }
    // The arguments by name and type.
    for schema in members.get_mut("properties").and_then(Value::as_object_mut)?.values_mut() {
        let Value::Object(schema) = schema else { continue };
        schema.retain(|key, _| key == "type");
    }
    Some(rendered(&members, NODES_MAX))
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.len() <= NAME_CHARS_MAX
        && name.bytes().all(allowed)
        && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

struct Gemini<'a> {
    registered: &'a Value,
    /// The references being written out, outermost first.
    open: Vec<String>,
    nodes: usize,
    work: JoinWork,
}

impl Gemini<'_> {
    fn node(&mut self, schema: &Value, depth: usize) -> Value {
        self.nodes += 1;
        let Value::Object(members) = schema else { return anything() };
        if self.nodes > NODES_MAX || depth > DEPTH_MAX {
            return cut(members);
        }
        if !is_parted(members) {
            return self.whole(members, depth);
        }
        match join::joined(schema, self.registered, &mut self.work) {
            Some(Joined { members, references }) => {
                let is_nested = |reference: &String| {
                    self.open.iter().filter(|open| *open == reference).count() >= NESTED_MAX
                };
                if references.iter().any(is_nested) {
                    return cut(&members);
                }
                let outside = self.open.len();
                self.open.extend(references);
                let node = self.whole(&members, depth);
                self.open.truncate(outside);
                node
            }
            None => self.whole(&join::unparted(members), depth),
        }
    }

    /// A schema without references and `allOf`.
    fn whole(&mut self, members: &Map<String, Value>, depth: usize) -> Value {
        for union in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = members.get(union) {
                return self.union(members, branches, depth);
            }
        }
        let listed = listed(members);
        let named = match members.get("type").map(types) {
            Some(named) if !named.is_empty() => named,
            _ => inferred(members, &listed),
        };
        let others: Vec<&str> = named.iter().copied().filter(|name| *name != "null").collect();
        let is_nullable =
            others.len() < named.len() || listed.contains(&&Value::Null) || is_nullable(members);
        let mut node = match others.as_slice() {
            [] if named.is_empty() => described(anything(), members),
            [] => json!({ "type": "STRING", "description": "Always null." }),
            [one] => self.plain(members, one, depth),
            many => {
                let mut bare = members.clone();
                bare.retain(|key, _| !matches!(key.as_str(), "title" | "description" | "default"));
                let branches: Vec<_> =
                    many.iter().map(|name| self.plain(&bare, name, depth)).collect();
                let union = json!({ "anyOf": branches });
                described(union, members)
            }
        };
        if is_nullable {
            nullable(&mut node);
        }
        node
    }

    /// One of several schemas, each together with what stands beside the union.
    fn union(&mut self, members: &Map<String, Value>, branches: &[Value], depth: usize) -> Value {
        let annotations = [
            "title",
            "description",
            "default",
            "examples",
            "example",
            "nullable",
            "anyOf",
            "oneOf",
        ];
        let beside = members.iter().filter(|(key, _)| !annotations.contains(&key.as_str()));
        let beside: Map<_, _> = beside.map(|(key, value)| (key.clone(), value.clone())).collect();
        let beside = Value::Object(beside);
        let (mut union, mut is_nullable) = (Distinct::default(), is_nullable(members));
        for branch in branches {
            if self.nodes > NODES_MAX || self.work.is_spent() {
                union.push(anything());
                break;
            }
            if branch.get("type").is_some_and(|name| name == "null") {
                is_nullable = true;
            } else if *branch != false {
                let node = if beside == json!({}) {
                    self.node(branch, depth + 1)
                } else if self.work.spend(&beside) {
                    self.node(&json!({ "allOf": [branch, beside] }), depth + 1)
                } else {
                    anything()
                };
                union.push(node);
            }
        }
        let mut union = union.into_values();
        let mut node = match union.len() {
            0 => anything(),
            1 => union.swap_remove(0),
            _ => json!({ "anyOf": union }),
        };
        node = described(node, members);
        if let (Some(default), None) = (members.get("default"), node.get("anyOf"))
            && !default.is_null()
        {
            node["default"] = default.clone();
        }
        if is_nullable {
            nullable(&mut node);
        }
        node
    }

    /// A schema of one type.
    fn plain(&mut self, members: &Map<String, Value>, name: &str, depth: usize) -> Value {
        let Some(kind) = kind(name) else { return described(anything(), members) };
        let mut out = Map::from_iter([("type".to_owned(), kind.into())]);
        let format = members.get("format").and_then(Value::as_str);
        if let Some(format) = format.filter(|format| formats(name).contains(format)) {
            out.insert("format".to_owned(), format.into());
        }
        for key in ["title", "description"] {
            if let Some(text @ Value::String(_)) = members.get(key) {
                out.insert(key.to_owned(), text.clone());
            }
        }
        for key in ["default", "example"] {
            if let Some(value) = members.get(key).filter(|value| !value.is_null()) {
                out.insert(key.to_owned(), value.clone());
            }
        }
        enumerate(&mut out, members, name);
        match name {
            "object" => self.object(&mut out, members, depth),
            "array" => self.array(&mut out, members, depth),
            "string" => {
                let pattern = members.get("pattern").and_then(Value::as_str);
                if let Some(pattern) = pattern.filter(|pattern| is_portable(pattern)) {
                    out.insert("pattern".to_owned(), pattern.into());
                }
                counts(&mut out, members, ["minLength", "maxLength"]);
            }
            "integer" | "number" => bounds(&mut out, members, name),
            _ => {}
        }
        Value::Object(out)
    }

    fn object(&mut self, out: &mut Map<String, Value>, members: &Map<String, Value>, depth: usize) {
        let mut properties = Map::new();
        for (name, schema) in
            members.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            if self.nodes >= LISTED_MAX {
                break;
            }
            if *schema != false && !name.is_empty() {
                properties.insert(name.clone(), self.node(schema, depth + 1));
            }
        }
        if !properties.is_empty() {
            let required = members.get("required").and_then(Value::as_array);
            let exists = |name: &&str| properties.contains_key(*name);
            let mut required: Vec<&str> =
                required.into_iter().flatten().filter_map(Value::as_str).filter(exists).collect();
            required.dedup();
            let ordering: Vec<&String> = properties.keys().collect();
            let (required, ordering) = (json!(required), json!(ordering));
            out.insert("properties".to_owned(), Value::Object(properties));
            out.insert("propertyOrdering".to_owned(), ordering);
            if required != json!([]) {
                out.insert("required".to_owned(), required);
            }
        }
        counts(out, members, ["minProperties", "maxProperties"]);
    }

    fn array(&mut self, out: &mut Map<String, Value>, members: &Map<String, Value>, depth: usize) {
        let places = match (members.get("prefixItems"), members.get("items")) {
            (Some(Value::Array(places)), _) | (_, Some(Value::Array(places))) => Some(places),
            _ => None,
        };
        let items = match (places, members.get("items")) {
            (Some(places), _) => self.node(&json!({ "anyOf": places }), depth + 1),
            (None, Some(items)) => self.node(items, depth + 1),
            (None, None) => anything(),
        };
        out.insert("items".to_owned(), items);
        counts(out, members, ["minItems", "maxItems"]);
    }
}

/// The vendor's name of a type.
fn kind(name: &str) -> Option<&'static str> {
    Some(match name {
        "object" => "OBJECT",
        "array" => "ARRAY",
        "string" => "STRING",
        "integer" => "INTEGER",
        "number" => "NUMBER",
        "boolean" => "BOOLEAN",
        _ => return None,
    })
}

fn formats(name: &str) -> &'static [&'static str] {
    match name {
        "string" => &["date-time"],
        "integer" => &["int32", "int64"],
        "number" => &["float", "double"],
        _ => &[],
    }
}

/// Any value: there is no type for it.
fn anything() -> Value {
    json!({ "anyOf": [
        { "type": "STRING" },
        { "type": "NUMBER" },
        { "type": "BOOLEAN" },
        { "type": "OBJECT" },
        { "type": "ARRAY", "items": { "type": "STRING" } },
    ] })
}

/// What is left of a schema that is not written out.
fn cut(members: &Map<String, Value>) -> Value {
    let named = members.get("type").map(types).unwrap_or_default();
    let node = match named.as_slice() {
        ["array"] => json!({ "type": "ARRAY", "items": { "type": "OBJECT" } }),
        [one] if kind(one).is_some() => json!({ "type": kind(one) }),
        _ => anything(),
    };
    described(node, members)
}

/// Gives a node a description, a union to its first branch without one.
fn described(mut node: Value, members: &Map<String, Value>) -> Value {
    let Some(description @ Value::String(_)) = members.get("description") else { return node };
    let mut place = &mut node;
    while place.get("anyOf").is_some() {
        place = &mut place["anyOf"][0];
    }
    place["description"] = description.clone();
    node
}

/// Tells whether a schema was registered as OpenAPI writes one that takes null.
fn is_nullable(members: &Map<String, Value>) -> bool {
    members.get("nullable") == Some(&Value::Bool(true))
}

fn nullable(node: &mut Value) {
    match node.get_mut("anyOf") {
        Some(Value::Array(branches)) => branches.iter_mut().for_each(nullable),
        _ => node["nullable"] = true.into(),
    }
}

/// The values to which a schema is restricted.
fn listed(members: &Map<String, Value>) -> Vec<&Value> {
    match (members.get("const"), members.get("enum")) {
        (Some(value), _) => vec![value],
        (None, Some(Value::Array(values))) => values.iter().collect(),
        _ => Vec::new(),
    }
}

/// The types of a schema that names none.
fn inferred(members: &Map<String, Value>, listed: &[&Value]) -> Vec<&'static str> {
    let has = |key: &str| members.contains_key(key);
    if has("properties") || has("required") {
        return vec!["object"];
    }
    if has("items") || has("prefixItems") {
        return vec!["array"];
    }
    let mut found: Vec<&'static str> = Vec::new();
    for value in listed {
        let name = type_of(value);
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// Strings can be enumerated; other values are told in words.
fn enumerate(out: &mut Map<String, Value>, members: &Map<String, Value>, name: &str) {
    let fits =
        |value: &&Value| type_of(value) == name || type_of(value) == "integer" && name == "number";
    let listed: Vec<&Value> = listed(members).into_iter().filter(fits).collect();
    if name == "string" {
        let texts = listed.iter().filter_map(|value| value.as_str());
        let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
        if !texts.is_empty() {
            out.insert("enum".to_owned(), json!(texts));
        }
        return;
    }
    let shown: Vec<String> = listed.iter().map(|value| value.to_string()).collect();
    if shown.is_empty() {
        return;
    }
    let words = format!("One of: {}.", text::cut(&shown.join(", "), LISTED_CHARS_MAX));
    let told = match out.get("description").and_then(Value::as_str) {
        Some(description) => format!("{description} {words}"),
        None => words,
    };
    out.insert("description".to_owned(), told.into());
}

/// Takes over bounds that count.
fn counts(out: &mut Map<String, Value>, members: &Map<String, Value>, keys: [&str; 2]) {
    for key in keys {
        if let Some(count) = members.get(key).and_then(Value::as_i64).filter(|count| *count >= 0) {
            out.insert(key.to_owned(), count.into());
        }
    }
}

/// Takes over bounds of numbers; the vendor's include the bound itself.
fn bounds(out: &mut Map<String, Value>, members: &Map<String, Value>, name: &str) {
    for (key, exclusive, step) in
        [("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)]
    {
        let value = match (members.get(key), members.get(exclusive)) {
            (Some(value), _) => value.clone(),
            (None, Some(value)) => match value.as_i64() {
                Some(value) if name == "integer" => value.saturating_add(step).into(),
                _ => value.clone(),
            },
            (None, None) => continue,
        };
        if value.is_number() {
            out.insert(key.to_owned(), value);
        }
    }
}
