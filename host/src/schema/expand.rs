//! Writes a schema without references: a tree of bounded size and depth.

use serde_json::{Map, Value};

use super::SchemaError;
use crate::limits::Limits;

/// Nodes of the expanded tree; a schema with more is cut.
const NODES_MAX: usize = 4_000;
/// How often one definition may stand inside itself before it is cut.
const NESTED_MAX: usize = 4;
/// Depth of the expanded tree, which whoever walks it walks by recursion.
const DEPTH_MAX: usize = 100;

/// A schema without references.
pub(super) struct Expanded {
    pub(super) schema: Value,
    pub(super) nodes: usize,
}

/// Expands every reference of `root`, checking it and every pattern on the way. Definitions
/// that nothing refers to have no effect, and are not looked at.
pub(super) fn expand(root: &Value, limits: &Limits) -> Result<Expanded, SchemaError> {
    let mut expansion = Expansion { root, limits, nodes: 0, targets: Vec::new() };
    let node = expansion.node(root, 0)?;
    let nodes = count(&node.schema);
    Ok(Expanded { schema: node.schema, nodes })
}

struct Expansion<'a> {
    root: &'a Value,
    limits: &'a Limits,
    nodes: usize,
    /// The references being expanded, outermost first.
    targets: Vec<&'a str>,
}

/// `exact` is false if something below was cut, so that the schema accepts too much.
struct Node {
    schema: Value,
    exact: bool,
}

impl<'a> Expansion<'a> {
    fn node(&mut self, schema: &'a Value, depth: usize) -> Result<Node, SchemaError> {
        let Value::Object(members) = schema else {
            return Ok(Node { schema: schema.clone(), exact: true });
        };
        self.nodes += 1;
        if self.nodes > NODES_MAX || depth > DEPTH_MAX {
            return Ok(Node { schema: Value::Bool(true), exact: false });
        }
        let mut expanded = Map::new();
        let mut conjuncts = Vec::new();
        let mut exact = true;
        for (key, value) in members {
            match key.as_str() {
                // Identity and definitions mean nothing once the references are gone.
                "$schema" | "$id" | "id" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor"
                | "$vocabulary" | "$defs" | "definitions" | "$comment" => {}
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    let target = self.reference(value, depth)?;
                    exact &= target.exact;
                    conjuncts.push(target.schema);
                }
                "pattern" => {
                    self.check_pattern(value.as_str().unwrap_or_default())?;
                    expanded.insert(key.clone(), value.clone());
                }
                _ => {
                    let (value, value_exact) = self.keyword(key, value, depth)?;
                    exact &= value_exact;
                    insert(&mut expanded, &mut conjuncts, key, value, value_exact);
                }
            }
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
        Ok(Node { schema: Value::Object(expanded), exact })
    }

    fn keyword(
        &mut self,
        key: &str,
        value: &'a Value,
        depth: usize,
    ) -> Result<(Value, bool), SchemaError> {
        let one = matches!(
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
        );
        let list = matches!(key, "allOf" | "anyOf" | "oneOf" | "prefixItems" | "items");
        let map =
            matches!(key, "properties" | "patternProperties" | "dependentSchemas" | "dependencies");
        match value {
            Value::Array(schemas) if list => {
                let mut exact = true;
                let mut expanded = Vec::with_capacity(schemas.len());
                for schema in schemas {
                    let node = self.node(schema, depth + 1)?;
                    exact &= node.exact;
                    expanded.push(node.schema);
                }
                Ok((Value::Array(expanded), exact))
            }
            Value::Object(members) if map => {
                let mut exact = true;
                let mut expanded = Map::new();
                for (name, schema) in members {
                    if key == "patternProperties" {
                        self.check_pattern(name)?;
                    }
                    let node = self.node(schema, depth + 1)?;
                    exact &= node.exact;
                    expanded.insert(name.clone(), node.schema);
                }
                Ok((Value::Object(expanded), exact))
            }
            Value::Object(_) if one => {
                let node = self.node(value, depth + 1)?;
                Ok((node.schema, node.exact))
            }
            _ => Ok((value.clone(), true)),
        }
    }

    fn reference(&mut self, value: &'a Value, depth: usize) -> Result<Node, SchemaError> {
        let target = value.as_str().unwrap_or_default();
        let Some(pointer) = target.strip_prefix('#') else {
            return Err(SchemaError::Remote(super::cut(target)));
        };
        let schema = self
            .root
            .pointer(pointer)
            .filter(|schema| schema.is_object() || schema.is_boolean())
            .ok_or_else(|| SchemaError::Dangling(super::cut(target)))?;
        if self.targets.iter().filter(|open| **open == target).count() >= NESTED_MAX {
            return Ok(Node { schema: Value::Bool(true), exact: false });
        }
        self.targets.push(target);
        let node = self.node(schema, depth + 1);
        self.targets.pop();
        node
    }

    fn check_pattern(&self, pattern: &str) -> Result<(), SchemaError> {
        let (given, allowed) = (pattern.len(), self.limits.schema_pattern_bytes_max.as_usize());
        if given > allowed {
            return Err(SchemaError::PatternTooLong { given, allowed });
        }
        Ok(())
    }
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

fn count(schema: &Value) -> usize {
    match schema {
        Value::Object(members) => 1 + members.values().map(count).sum::<usize>(),
        Value::Array(items) => items.iter().map(count).sum(),
        _ => 1,
    }
}
