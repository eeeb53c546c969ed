//! Writes a schema without references: a tree of bounded size and depth.
//!
//! What is copied is counted before it is copied, in bytes of memory, so that references to one
//! large definition cannot multiply it. Only keywords that a check looks at are copied.

use serde_json::{Map, Value, json};

use super::{Expensive, SchemaError};
use toolhost_core::json::memory_bytes;
use toolhost_core::limits::Limits;
use toolhost_core::runtime::Stop;

/// Nodes of the expanded tree; a schema with more is cut.
const NODES_MAX: usize = 4_000;
/// How often one definition may stand inside itself before it is cut.
const NESTED_MAX: usize = 4;
/// Depth of the expanded tree, which whoever walks it walks by recursion.
const DEPTH_MAX: usize = 100;
/// What the validator holds of one schema, without its keywords: a node, and where it stands.
const SCHEMA_BYTES: u64 = 320;
/// What the validator holds of one keyword, without its value, and where it stands.
const KEYWORD_BYTES: u64 = 320;
/// Texts that the validator keeps of where a schema or a keyword stands.
const PLACES: u64 = 2;
/// Copies of a value that arguments are compared with: itself, and what is made of it to compare.
const COMPARED_COPIES: u64 = 2;

/// A schema without references.
pub(super) struct Expanded {
    pub(super) schema: Value,
    /// False if it was cut somewhere, and accepts more than the schema with references.
    pub(super) is_exact: bool,
    /// The memory of a validator of it, about.
    pub(super) bytes: u64,
}

/// Expands every reference of `root`, checking it and every pattern on the way. Definitions
/// that nothing refers to have no effect, and are not looked at.
pub(super) fn expand(root: &Value, limits: &Limits, stop: &Stop) -> Result<Expanded, SchemaError> {
    let mut expansion = Expansion {
        root,
        limits,
        stop,
        nodes: 0,
        bytes: 0,
        targets: Vec::new(),
        is_spent_by_itself: false,
        path: Vec::new(),
        path_bytes: 0,
    };
    let node = expansion.node(root, 0)?;
    Ok(Expanded { schema: node.schema, is_exact: node.exact, bytes: expansion.bytes })
}

struct Expansion<'a> {
    root: &'a Value,
    limits: &'a Limits,
    stop: &'a Stop,
    nodes: usize,
    bytes: u64,
    /// The definitions being expanded, outermost first.
    targets: Vec<&'a Value>,
    /// A definition that stands inside itself took the last bytes.
    is_spent_by_itself: bool,
    /// Where it is, for errors.
    path: Vec<&'a str>,
    /// Bytes of the names on the way there, in all the texts that say where one thing stands.
    path_bytes: u64,
}

/// `exact` is false if something below was cut, so that the schema accepts too much.
struct Node {
    schema: Value,
    exact: bool,
}

impl Node {
    /// What accepts anything, in place of something that would be too much.
    fn cut() -> Node {
        Node { schema: Value::Bool(true), exact: false }
    }
}

impl<'a> Expansion<'a> {
    fn node(&mut self, schema: &'a Value, depth: usize) -> Result<Node, SchemaError> {
        self.charge("", SCHEMA_BYTES + self.path_bytes)?;
        let Value::Object(members) = schema else {
            let schema = if schema.is_boolean() { schema.clone() } else { self.copy("", schema)? };
            return Ok(Node { schema, exact: true });
        };
        super::check(self.stop)?;
        self.nodes += 1;
        if self.nodes > NODES_MAX || depth > DEPTH_MAX || self.is_spent_by_itself {
            return Ok(Node::cut());
        }
        let mut expanded = Map::new();
        let mut conjuncts = Vec::new();
        let mut exact = true;
        for (key, value) in members {
            self.enter(key);
            match key.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    let target = self.reference(value, depth)?;
                    exact &= target.exact;
                    conjuncts.push(target.schema);
                }
                "pattern" => {
                    self.check_pattern(value.as_str().unwrap_or_default())?;
                    self.charge(key, KEYWORD_BYTES + self.path_bytes)?;
                    expanded.insert(key.clone(), self.copy(key, value)?);
                }
                "$defs" | "definitions" => {}
                // Whoever renders the schema copies it.
                _ if is_without_effect(key, value) => self.charge_value(key, value)?,
                _ => {
                    let (value, value_exact) = self.keyword(key, value, depth)?;
                    exact &= value_exact;
                    insert(&mut expanded, &mut conjuncts, key, value, value_exact);
                }
            }
            self.leave();
        }
        if !exact {
            // What counts as evaluated is not known below a cut.
            expanded.remove("unevaluatedProperties");
            expanded.remove("unevaluatedItems");
            expanded.remove("maxContains");
        }
        if !expanded.contains_key("if") {
            expanded.remove("then");
            expanded.remove("else");
        }
        if !conjuncts.is_empty() {
            match expanded.get_mut("allOf") {
                Some(Value::Array(all)) => all.append(&mut conjuncts),
                _ => {
                    expanded.insert("allOf".to_owned(), Value::Array(conjuncts));
                }
            }
        }
        if depth > 0 && members.get("nullable") == Some(&Value::Bool(true)) {
            self.charge("nullable", 2 * (SCHEMA_BYTES + KEYWORD_BYTES))?;
            expanded = nullable(expanded);
        }
        Ok(Node { schema: Value::Object(expanded), exact })
    }

    fn keyword(
        &mut self,
        key: &'a str,
        value: &'a Value,
        depth: usize,
    ) -> Result<(Value, bool), SchemaError> {
        // The validator keeps the place of each keyword, and of each schema, as a text of its own.
        self.charge(key, KEYWORD_BYTES + self.path_bytes)?;
        match value {
            Value::Array(schemas) if is_list(key) => {
                let mut exact = true;
                let mut expanded = Vec::new();
                for schema in schemas {
                    let node = self.node(schema, depth + 1)?;
                    exact &= node.exact;
                    expanded.push(node.schema);
                }
                Ok((Value::Array(expanded), exact))
            }
            Value::Object(members) if is_map(key) => {
                let mut exact = true;
                let mut expanded = Map::new();
                for (name, schema) in members {
                    if key == "patternProperties" {
                        self.check_pattern(name)?;
                    }
                    self.enter(name);
                    self.charge(key, name.len() as u64)?;
                    let node = self.node(schema, depth + 1)?;
                    self.leave();
                    exact &= node.exact;
                    expanded.insert(name.clone(), node.schema);
                }
                Ok((Value::Object(expanded), exact))
            }
            Value::Object(_) if is_one(key) => {
                let node = self.node(value, depth + 1)?;
                if key == "not" {
                    // The validator keeps a copy of what it negates.
                    self.charge_value(key, &node.schema)?;
                }
                Ok((node.schema, node.exact))
            }
            _ => Ok((self.copy(key, value)?, true)),
        }
    }

    fn reference(&mut self, value: &'a Value, depth: usize) -> Result<Node, SchemaError> {
        let target = value.as_str().unwrap_or_default();
        let Some(pointer) = target.strip_prefix('#') else {
            return Err(SchemaError::Remote(super::cut(target)));
        };
        // Following it takes time as well.
        self.charge("$ref", KEYWORD_BYTES + target.len() as u64 + self.path_bytes)?;
        let schema = self
            .root
            .pointer(pointer)
            .filter(|schema| schema.is_object() || schema.is_boolean())
            .ok_or_else(|| SchemaError::Dangling(super::cut(target)))?;
        let is_same = |open: &&&Value| std::ptr::eq(**open, schema);
        if self.targets.iter().filter(is_same).count() >= NESTED_MAX {
            return Ok(Node::cut());
        }
        self.targets.push(schema);
        let node = self.node(schema, depth + 1);
        self.targets.pop();
        node
    }

    fn enter(&mut self, name: &'a str) {
        self.path.push(name);
        self.path_bytes += PLACES * (name.len() as u64 + 1);
    }

    fn leave(&mut self) {
        let left = self.path.pop();
        self.path_bytes -= left.map_or(0, |name| PLACES * (name.len() as u64 + 1));
    }

    /// Copies a value that is no schema.
    fn copy(&mut self, key: &str, value: &Value) -> Result<Value, SchemaError> {
        self.charge_value(key, value)?;
        Ok(value.clone())
    }

    fn charge_value(&mut self, key: &str, value: &Value) -> Result<(), SchemaError> {
        let copies = if matches!(key, "enum" | "const") { COMPARED_COPIES } else { 1 };
        self.charge(key, copies * memory_bytes(value))
    }

    fn charge(&mut self, keyword: &str, bytes: u64) -> Result<(), SchemaError> {
        self.bytes = self.bytes.saturating_add(bytes);
        let allowed = self.limits.schema_expanded_bytes_max.0;
        if self.bytes <= allowed {
            return Ok(());
        }
        // A definition inside itself is cut instead, at the next node.
        self.is_spent_by_itself |= self.is_nested();
        if self.is_spent_by_itself && self.bytes <= 2 * allowed {
            return Ok(());
        }
        Err(SchemaError::TooWide { at: self.place(keyword), allowed })
    }

    /// Tells whether a definition is open twice.
    fn is_nested(&self) -> bool {
        let mut targets = self.targets.iter().enumerate();
        targets.any(|(n, target)| {
            std::ptr::eq(*target, self.root)
                || self.targets[..n].iter().any(|outer| std::ptr::eq(*outer, *target))
        })
    }

    fn place(&self, keyword: &str) -> Expensive {
        let keyword = self.path.iter().rev().find(|_| keyword.is_empty()).unwrap_or(&keyword);
        Expensive::new(keyword, self.path.iter().copied())
    }

    fn check_pattern(&self, pattern: &str) -> Result<(), SchemaError> {
        let (given, allowed) = (pattern.len(), self.limits.schema_pattern_bytes_max.as_usize());
        if given > allowed {
            return Err(SchemaError::PatternTooLong { given, allowed });
        }
        Ok(())
    }
}

/// A schema that takes null as well, as OpenAPI says it with `nullable`.
pub(super) fn nullable(mut schema: Map<String, Value>) -> Map<String, Value> {
    let refuses_null = |key: &str| {
        matches!(key, "const" | "allOf" | "anyOf" | "oneOf" | "not" | "if" | "$dynamicRef")
    };
    if schema.keys().any(|key| refuses_null(key)) {
        let branches = json!([{ "type": "null" }, schema]);
        return Map::from_iter([("anyOf".to_owned(), branches)]);
    }
    // Of its own type, so that what is wrong with another value is said of that.
    if let Some(named) = schema.get_mut("type") {
        let null = Value::from("null");
        match named {
            Value::Array(names) if names.contains(&null) => {}
            Value::Array(names) => names.push(null),
            one => *one = json!([one, "null"]),
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    schema
}

/// What has no part in a check: identity and definitions once the references are gone, and what
/// is written for readers. Where that is of a wrong type, it stays, and is refused later.
fn is_without_effect(key: &str, value: &Value) -> bool {
    match key {
        "title" | "description" | "format" | "contentEncoding" | "contentMediaType" => {
            value.is_string()
        }
        "readOnly" | "writeOnly" | "deprecated" => value.is_boolean(),
        "examples" => value.is_array(),
        _ => !is_keyword(key),
    }
}

fn is_keyword(key: &str) -> bool {
    is_one(key)
        || is_list(key)
        || is_map(key)
        || matches!(
            key,
            "type"
                | "enum"
                | "const"
                | "required"
                | "dependentRequired"
                | "pattern"
                | "multipleOf"
                | "minimum"
                | "maximum"
                | "exclusiveMinimum"
                | "exclusiveMaximum"
                | "minLength"
                | "maxLength"
                | "minItems"
                | "maxItems"
                | "uniqueItems"
                | "minContains"
                | "maxContains"
                | "minProperties"
                | "maxProperties"
        )
}

/// Keywords below which one schema stands.
pub(super) fn is_one(key: &str) -> bool {
    matches!(
        key,
        "not"
            | "if"
            | "then"
            | "else"
            | "items"
            | "additionalItems"
            | "contains"
            | "additionalProperties"
            | "propertyNames"
            | "unevaluatedItems"
            | "unevaluatedProperties"
    )
}

/// Keywords below which a list of schemas stands.
pub(super) fn is_list(key: &str) -> bool {
    matches!(key, "allOf" | "anyOf" | "oneOf" | "prefixItems" | "items")
}

/// Keywords below which schemas stand by name.
pub(super) fn is_map(key: &str) -> bool {
    matches!(key, "properties" | "patternProperties" | "dependentSchemas" | "dependencies")
}

/// Puts a keyword into its schema, unless it would refuse more because something below it
/// accepts more.
fn insert(
    expanded: &mut Map<String, Value>,
    conjuncts: &mut Vec<Value>,
    key: &str,
    value: Value,
    exact: bool,
) {
    match key {
        "not" | "if" if !exact => {}
        "oneOf" if !exact => {
            conjuncts.push(Value::Object(Map::from_iter([("anyOf".to_owned(), value)])));
        }
        _ => {
            expanded.insert(key.to_owned(), value);
        }
    }
}
