//! The subset of JSON Schema that OpenAI's structured outputs accept.
//!
//! Every object is closed and requires all its properties; optional ones are nullable. What a
//! schema says beyond the subset is dropped where that leaves a correct, wider schema. Where it
//! would leave arguments that can never be given, there is no strict form.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::join::{self, Distinct, JoinWork, TYPES, is_parted, is_portable, type_of, types};

/// Most levels of objects in objects that the vendor takes.
const OBJECTS_DEPTH_MAX: usize = 10;
/// Most levels of schemas, which are walked by recursion.
const DEPTH_MAX: usize = 64;
/// Most schemas; the vendor takes some thousand properties.
const NODES_MAX: usize = 2_000;
/// Most values in all enumerations that the vendor takes.
const ENUM_VALUES_MAX: usize = 1_000;
/// Most references that lead only to references.
const HOPS_MAX: usize = 16;
/// Values of `format` that the vendor takes.
const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];
/// Keywords that say nothing about which values match.
const ANNOTATIONS: [&str; 10] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
    "$defs",
    "definitions",
];

/// The strict form of a schema of arguments, if there is one.
pub(super) fn parameters(registered: &Value) -> Option<Value> {
    let mut strict = Strict {
        registered,
        names: BTreeMap::new(),
        taken: HashSet::new(),
        numbers: HashMap::new(),
        pending: Vec::new(),
        nodes: 0,
        enum_values: 0,
        work: JoinWork::default(),
    };
    let mut root = Map::from_iter([("type".to_owned(), "object".into())]);
    let members = join::root(registered)?;
    annotate(&mut root, &members);
    strict.object(&mut root, &members, SchemaPlace { depth: 0, objects: 0 })?;
    let mut definitions = Map::new();
    while let Some((name, schema)) = strict.pending.pop() {
        definitions.insert(name, strict.node(schema, SchemaPlace { depth: 1, objects: 1 })?);
    }
    if !definitions.is_empty() {
        definitions.sort_keys();
        root.insert("$defs".to_owned(), Value::Object(definitions));
    }
    let schema = Value::Object(root);
    join::is_short(&schema, registered).then_some(schema)
}

struct Strict<'a> {
    registered: &'a Value,
    /// What each reference is called in the strict form.
    names: BTreeMap<String, String>,
    taken: HashSet<String>,
    /// The last number that was given to names that begin in the same way.
    numbers: HashMap<String, usize>,
    /// Definitions still to be written.
    pending: Vec<(String, &'a Value)>,
    nodes: usize,
    enum_values: usize,
    work: JoinWork,
}

#[derive(Clone, Copy)]
struct SchemaPlace {
    depth: usize,
    objects: usize,
}

impl SchemaPlace {
    fn below(self) -> SchemaPlace {
        SchemaPlace { depth: self.depth + 1, ..self }
    }
}

impl<'a> Strict<'a> {
    fn node(&mut self, schema: &Value, place: SchemaPlace) -> Option<Value> {
        let node = self.as_registered(schema, place)?;
        let is_nullable = schema.get("nullable") == Some(&Value::Bool(true));
        Some(if is_nullable { nullable(node) } else { node })
    }

    fn as_registered(&mut self, schema: &Value, place: SchemaPlace) -> Option<Value> {
        self.nodes += 1;
        if self.nodes > NODES_MAX || place.depth > DEPTH_MAX {
            return None;
        }
        let members = schema.as_object()?;
        if let Some(reference) = lone_reference(members) {
            return self.reference(reference, members);
        }
        if is_parted(members) {
            let joined = join::joined(schema, self.registered, &mut self.work)?;
            return self.node(&Value::Object(joined.members), place.below());
        }
        if members.contains_key("anyOf") || members.contains_key("oneOf") {
            return self.union(members, place);
        }
        if members.contains_key("const") || members.contains_key("enum") {
            return self.enumeration(members);
        }
        self.typed(members, place)
    }

    fn typed(&mut self, members: &Map<String, Value>, place: SchemaPlace) -> Option<Value> {
        let named = members.get("type").map(types).unwrap_or_default();
        let named = match named.as_slice() {
            [] if members.contains_key("properties") => vec!["object"],
            [] if members.contains_key("items") => vec!["array"],
            [] => return None,
            _ => named,
        };
        if named.iter().any(|name| !TYPES.contains(name)) {
            return None;
        }
        if named.len() > 1 && named.iter().any(|name| matches!(*name, "object" | "array")) {
            let one = |name: &&str| {
                let mut one = members.clone();
                one.retain(|key, _| !ANNOTATIONS.contains(&key.as_str()));
                one.insert("type".to_owned(), (*name).into());
                Value::Object(one)
            };
            let branches: Vec<Value> = named.iter().map(one).collect();
            let mut union = annotations(members);
            union.insert("anyOf".to_owned(), Value::Array(branches));
            return self.union(&union, place);
        }
        let mut out = Map::new();
        let name = if let [one] = named.as_slice() { json!(one) } else { json!(named) };
        out.insert("type".to_owned(), name);
        annotate(&mut out, members);
        match named.as_slice() {
            ["object"] => self.object(&mut out, members, place)?,
            ["array"] => self.array(&mut out, members, place)?,
            _ => bound(&mut out, members, &named),
        }
        Some(Value::Object(out))
    }

    fn object(
        &mut self,
        out: &mut Map<String, Value>,
        members: &Map<String, Value>,
        place: SchemaPlace,
    ) -> Option<()> {
        let no_properties = Map::new();
        let properties = members.get("properties").and_then(Value::as_object);
        let properties = properties.unwrap_or(&no_properties);
        let is_open = match members.get("additionalProperties") {
            Some(additional) => additional != false,
            // Arguments are those that are declared, if there are none as well.
            None => properties.is_empty() && place.depth > 0,
        };
        let is_empty = |value: &Value| value.as_object().is_none_or(Map::is_empty);
        let has_patterns = members.get("patternProperties").is_some_and(|value| !is_empty(value));
        let is_unevaluated_open =
            members.get("unevaluatedProperties").is_some_and(|value| value != false);
        if is_open || has_patterns || is_unevaluated_open || place.objects >= OBJECTS_DEPTH_MAX {
            return None;
        }
        let required = members.get("required").and_then(Value::as_array);
        let required: HashSet<&str> =
            required.into_iter().flatten().filter_map(Value::as_str).collect();
        let mut strict = Map::new();
        let inner = SchemaPlace { depth: place.depth + 1, objects: place.objects + 1 };
        for (name, schema) in properties {
            if schema == false {
                continue;
            }
            let schema = self.node(schema, inner)?;
            let is_required = required.contains(name.as_str());
            strict.insert(name.clone(), if is_required { schema } else { nullable(schema) });
        }
        if required.iter().any(|name| !strict.contains_key(*name)) {
            return None;
        }
        let names: Vec<Value> = strict.keys().map(|name| name.as_str().into()).collect();
        out.insert("properties".to_owned(), Value::Object(strict));
        out.insert("required".to_owned(), Value::Array(names));
        out.insert("additionalProperties".to_owned(), false.into());
        Some(())
    }

    fn array(
        &mut self,
        out: &mut Map<String, Value>,
        members: &Map<String, Value>,
        place: SchemaPlace,
    ) -> Option<()> {
        // Places with schemas of their own cannot be told.
        if members.contains_key("prefixItems") {
            return None;
        }
        let items = self.node(members.get("items")?, place.below())?;
        out.insert("items".to_owned(), items);
        for key in ["minItems", "maxItems"] {
            out.extend(
                members
                    .get(key)
                    .filter(|value| value.is_u64())
                    .map(|value| (key.to_owned(), value.clone())),
            );
        }
        Some(())
    }

    /// One of several schemas, each together with what stands beside the union.
    fn union(&mut self, members: &Map<String, Value>, place: SchemaPlace) -> Option<Value> {
        if !self.work.spend_members(members) {
            return None;
        }
        let mut beside = members.clone();
        beside.retain(|key, _| !ANNOTATIONS.contains(&key.as_str()));
        let branches = match (beside.shift_remove("anyOf"), beside.shift_remove("oneOf")) {
            (Some(Value::Array(branches)), None) | (None, Some(Value::Array(branches))) => branches,
            _ => return None,
        };
        let beside = Value::Object(beside);
        let mut strict = Distinct::default();
        for branch in branches.into_iter().filter(|branch| *branch != false) {
            let branch = if beside.as_object().is_some_and(Map::is_empty) {
                branch
            } else if self.work.spend(&beside) {
                json!({ "allOf": [branch, beside] })
            } else {
                return None;
            };
            strict.push(self.node(&branch, place.below())?);
        }
        let strict = strict.into_values();
        if strict.is_empty() {
            return None;
        }
        let mut out = Map::from_iter([("anyOf".to_owned(), Value::Array(strict))]);
        annotate(&mut out, members);
        Some(Value::Object(out))
    }

    fn enumeration(&mut self, members: &Map<String, Value>) -> Option<Value> {
        let mut values = match (members.get("const"), members.get("enum")) {
            (Some(value), _) => vec![value.clone()],
            (None, Some(Value::Array(values))) => values.clone(),
            _ => return None,
        };
        let allowed = members.get("type").map(types).unwrap_or_default();
        let fits = |value: &Value| {
            let name = type_of(value);
            allowed.is_empty()
                || allowed.contains(&name)
                || name == "integer" && allowed.contains(&"number")
        };
        values.retain(fits);
        self.enum_values += values.len();
        let is_plain = !values.iter().any(|value| value.is_object() || value.is_array());
        if values.is_empty() || !is_plain || self.enum_values > ENUM_VALUES_MAX {
            return None;
        }
        let mut named: Vec<&str> = Vec::new();
        for value in &values {
            let name = type_of(value);
            if !named.contains(&name) {
                named.push(name);
            }
        }
        let name = if let [one] = named.as_slice() { json!(one) } else { json!(named) };
        let mut out = Map::from_iter([("type".to_owned(), name)]);
        annotate(&mut out, members);
        out.insert("enum".to_owned(), Value::Array(values));
        Some(Value::Object(out))
    }

    /// A reference to the same schema in its strict form; nothing may stand beside it.
    fn reference(&mut self, reference: &str, members: &Map<String, Value>) -> Option<Value> {
        let registered: &'a Value = self.registered;
        let mut reference = reference;
        let mut schema = join::target(registered, reference)?;
        for _ in 0..HOPS_MAX {
            let Some(next) = schema.as_object().and_then(lone_reference) else { break };
            reference = next;
            schema = join::target(registered, reference)?;
        }
        if schema.as_object().and_then(lone_reference).is_some() {
            return None;
        }
        let link = if reference == "#" {
            json!({ "$ref": "#" })
        } else {
            json!({ "$ref": format!("#/$defs/{}", self.name(reference, schema)) })
        };
        let mut out = annotations(members);
        if out.is_empty() {
            return Some(link);
        }
        out.insert("anyOf".to_owned(), json!([link]));
        Some(Value::Object(out))
    }

    /// The name of a definition, which is written later if this is the first time.
    fn name(&mut self, reference: &str, schema: &'a Value) -> String {
        if let Some(name) = self.names.get(reference) {
            return name.clone();
        }
        let last = reference.rsplit('/').next().unwrap_or_default();
        let allowed = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
        let stem: String = last.chars().filter(allowed).take(40).collect();
        let mut name = stem.clone();
        let number = self.numbers.entry(stem.clone()).or_insert(1);
        while name.is_empty() || self.taken.contains(&name) {
            *number += 1;
            name = format!("{stem}_{number}");
        }
        self.taken.insert(name.clone());
        self.names.insert(reference.to_owned(), name.clone());
        self.pending.push((name.clone(), schema));
        name
    }
}

/// A reference beside which nothing says more about which values match.
fn lone_reference(members: &Map<String, Value>) -> Option<&str> {
    let is_lone = members.keys().all(|key| key == "$ref" || ANNOTATIONS.contains(&key.as_str()));
    members.get("$ref").filter(|_| is_lone).and_then(Value::as_str)
}

fn annotations(members: &Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    annotate(&mut out, members);
    out
}

fn annotate(out: &mut Map<String, Value>, members: &Map<String, Value>) {
    for key in ["title", "description"] {
        if let Some(text @ Value::String(_)) = members.get(key) {
            out.insert(key.to_owned(), text.clone());
        }
    }
}

/// Takes over the bounds of a scalar.
fn bound(out: &mut Map<String, Value>, members: &Map<String, Value>, named: &[&str]) {
    let is_text = named.contains(&"string");
    let is_number = named.iter().any(|name| matches!(*name, "integer" | "number"));
    for (key, value) in members {
        let is_taken = match (key.as_str(), value) {
            ("pattern", Value::String(pattern)) => is_text && is_portable(pattern),
            ("format", Value::String(format)) => is_text && FORMATS.contains(&format.as_str()),
            (
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf",
                Value::Number(_),
            ) => is_number,
            _ => false,
        };
        if is_taken {
            out.insert(key.clone(), value.clone());
        }
    }
}

/// A strict schema that matches null as well.
fn nullable(mut schema: Value) -> Value {
    let nothing = json!({ "type": "null" });
    if let Some(Value::Array(branches)) = schema.get_mut("anyOf") {
        if !branches.contains(&nothing) {
            branches.push(nothing);
        }
        return schema;
    }
    let Some(named) = schema.get("type").cloned() else {
        return json!({ "anyOf": [schema, nothing] });
    };
    let mut named = types(&named);
    if matches!(named.as_slice(), ["object" | "array"]) {
        return json!({ "anyOf": [schema, nothing] });
    }
    if !named.contains(&"null") {
        named.push("null");
        schema["type"] = json!(named);
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    schema
}
