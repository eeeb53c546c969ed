//! How much work it can be at most to check a value: found out when a schema is prepared, so that
//! nobody has to stop a check that cannot be stopped.
//!
//! Every node of a schema without references checks each part of a value at most once, and only
//! parts as deep in the value as the node is in the schema. So the cost of a schema is, for each
//! level of depth, the sum of what its nodes there cost: once for each value of that depth, and
//! once for each byte of its strings and keys. The largest of these sums is the [`Weight`], and no
//! check takes more than `weight.node * nodes + weight.byte * bytes` steps, a few nanoseconds each.
//!
//! The hard part is `unevaluatedProperties` and `unevaluatedItems`: the validator checks and
//! compiles all that stands beside them a second time, so nested ones double with each level.

use std::ops::AddAssign;

use serde_json::{Map, Value};

use super::expand::is_map;
use super::pattern::Patterns;
use super::{Expensive, SchemaError};
use toolhost_core::json::{Size, memory_bytes};

/// The most nodes that a validator may be compiled of. Without `unevaluatedProperties` and
/// `unevaluatedItems` there are as many as in the schema.
const COMPILED_NODES_MAX: u64 = 40_000;
/// A node counts as one more for so many bytes of what the validator keeps of its place and those
/// of its keywords.
const PLACES_BYTES: u64 = 1 << 10;
/// The greatest weight of a schema: with it, a thousand values take seconds.
const WEIGHT_MAX: u64 = 1_000_000;
/// Keys of this length count as one step more.
const KEY_BYTES: u64 = 16;
/// Steps of `uniqueItems` for each value: it is written once, and compared while up to 16 million
/// elements are sorted.
const UNIQUE_COMPARED: u64 = 64;

/// Steps of one `multipleOf`.
const MULTIPLE_OF: u64 = 400;

/// The most steps for each value, and for each byte of its strings and keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) node: u64,
    pub(super) byte: u64,
}

impl Weight {
    /// The most steps that a check of a value of this size takes.
    pub(super) fn work(self, size: Size) -> u64 {
        let nodes = self.node.saturating_mul(size.nodes);
        nodes.saturating_add(self.byte.saturating_mul(size.bytes))
    }

    fn max(self, other: Weight) -> Weight {
        Weight { node: self.node.max(other.node), byte: self.byte.max(other.byte) }
    }

    fn sum(self) -> u64 {
        self.node.saturating_add(self.byte)
    }
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Weight) {
        self.node = self.node.saturating_add(other.node);
        self.byte = self.byte.saturating_add(other.byte);
    }
}

/// What is known of a schema before it is compiled.
#[derive(Clone, Debug)]
pub(super) struct Analysis {
    pub(super) weight: Weight,
    /// The keyword that weighs most.
    pub(super) heaviest: Expensive,
    /// There are alternatives, of which the validator describes each that fails.
    pub(super) has_alternatives: bool,
    /// Memory of the largest part of the schema that one error copies.
    pub(super) quoted_bytes: u64,
}

/// Weighs a schema without references.
pub(super) fn analyse(schema: &Value, patterns: &Patterns) -> Result<Analysis, SchemaError> {
    let mut scale = Scale {
        patterns,
        path: Vec::new(),
        heaviest: (0, Expensive::new("type", [])),
        unevaluated: Expensive::new("unevaluatedProperties", []),
        has_alternatives: false,
        quoted_bytes: 0,
    };
    let found = scale.node(schema);
    if found.compiled > COMPILED_NODES_MAX {
        return Err(SchemaError::TooHeavy(scale.unevaluated));
    }
    let weight = found.checked.most();
    let heaviest = scale.heaviest.1;
    if weight.sum() > WEIGHT_MAX {
        return Err(SchemaError::TooHeavy(heaviest));
    }
    let Scale { has_alternatives, quoted_bytes, .. } = scale;
    Ok(Analysis { weight, heaviest, has_alternatives, quoted_bytes })
}

/// Weights by depth in the value.
#[derive(Clone, Debug, Default)]
struct Levels {
    of: Vec<Weight>,
    /// Of each value below, however deep.
    deep: Weight,
}

impl Levels {
    fn at(&mut self, level: usize) -> &mut Weight {
        if self.of.len() <= level {
            self.of.resize(level + 1, Weight::default());
        }
        &mut self.of[level]
    }

    /// Adds what checks the same value too, or values so many levels below.
    fn add(&mut self, other: &Levels, below: usize) {
        for (level, weight) in other.of.iter().enumerate() {
            *self.at(level + below) += *weight;
        }
        self.deep += other.deep;
    }

    /// Takes over what is greater in the other, which checks other values.
    fn or(&mut self, other: &Levels) {
        for (level, weight) in other.of.iter().enumerate() {
            let at = self.at(level);
            *at = at.max(*weight);
        }
        self.deep = self.deep.max(other.deep);
    }

    fn most(&self) -> Weight {
        let mut most = self.of.iter().fold(Weight::default(), |most, weight| most.max(*weight));
        most += self.deep;
        most
    }
}

/// What one node of a schema costs.
#[derive(Default)]
struct Cost {
    /// To check a value.
    checked: Levels,
    /// To find out what of a value it has looked at.
    marked: Levels,
    /// Nodes to compile, for each of the two.
    compiled: u64,
    compiled_to_mark: u64,
}

impl Cost {
    /// Adds a schema for the same value.
    fn beside(&mut self, other: &Cost) {
        self.checked.add(&other.checked, 0);
        self.marked.add(&other.checked, 0);
        self.marked.add(&other.marked, 0);
        self.compiled = self.compiled.saturating_add(other.compiled);
        let twice = other.compiled.saturating_add(other.compiled_to_mark);
        self.compiled_to_mark = self.compiled_to_mark.saturating_add(twice);
    }

    /// Adds what checks parts of the value.
    fn below(&mut self, other: &Levels, compiled: u64) {
        self.checked.add(other, 1);
        self.compiled = self.compiled.saturating_add(compiled);
    }
}

struct Scale<'a> {
    patterns: &'a Patterns,
    path: Vec<&'a str>,
    /// The weight of the heaviest keyword, and which one it is.
    heaviest: (u64, Expensive),
    /// The last `unevaluated...` seen.
    unevaluated: Expensive,
    has_alternatives: bool,
    quoted_bytes: u64,
}

impl<'a> Scale<'a> {
    fn node(&mut self, schema: &'a Value) -> Cost {
        let members = schema.as_object().map_or(0, Map::len) as u64;
        let names: u64 = self.path.iter().map(|name| name.len() as u64 + 1).sum();
        let compiled = 1 + (members + 1) * names / PLACES_BYTES;
        let mut cost = Cost { compiled, compiled_to_mark: compiled, ..Cost::default() };
        *cost.checked.at(0) += Weight { node: 2, byte: 0 };
        let Value::Object(members) = schema else { return cost };
        // Of these, one checks each part of the value.
        let (mut members_checked, mut items_checked) = (Levels::default(), Levels::default());
        let mut unevaluated = 0;
        for (key, value) in members {
            self.path.push(key);
            let before = cost.checked.most().sum();
            if matches!(key.as_str(), "not" | "pattern" | "required" | "dependentRequired") {
                self.quoted_bytes = self.quoted_bytes.max(memory_bytes(value));
            }
            match key.as_str() {
                "properties" => {
                    let names = value.as_object().into_iter().flatten();
                    let mut own = Weight { node: 1, byte: 1 };
                    for (name, schema) in names {
                        own.node += 1 + name.len() as u64 / KEY_BYTES;
                        let below = self.named(name, schema);
                        members_checked.or(&below.checked);
                        cost.compiled = cost.compiled.saturating_add(below.compiled);
                    }
                    *cost.checked.at(0) += own;
                    // A member is looked for among the names, or a name among the members.
                    *cost.checked.at(1) += Weight { node: own.node / 4, byte: 1 };
                }
                "additionalProperties" | "additionalItems" | "items" | "prefixItems" => {
                    let (below, compiled) = self.parts(value);
                    let checked = match key.as_str() {
                        "additionalProperties" => &mut members_checked,
                        _ => &mut items_checked,
                    };
                    checked.or(&below);
                    cost.compiled = cost.compiled.saturating_add(compiled);
                    *cost.checked.at(1) += Weight { node: 2, byte: 1 };
                }
                "contains" | "unevaluatedItems" | "unevaluatedProperties" => {
                    let below = self.node(value);
                    // Some ways to count look twice.
                    cost.below(&below.checked, below.compiled);
                    cost.below(&below.checked, 0);
                    cost.marked.add(&below.checked, 1);
                    cost.compiled_to_mark = cost.compiled_to_mark.saturating_add(below.compiled);
                    *cost.marked.at(1) += Weight { node: 4, byte: 1 };
                    if key != "contains" {
                        unevaluated += 1;
                        self.unevaluated = Expensive::new(key, self.path.iter().copied());
                    }
                }
                "patternProperties" => {
                    for (pattern, schema) in value.as_object().into_iter().flatten() {
                        let states = self.patterns.states(pattern);
                        *cost.checked.at(1) += Weight { node: states, byte: states };
                        *cost.marked.at(1) += Weight { node: states, byte: states };
                        let below = self.named(pattern, schema);
                        cost.below(&below.checked, below.compiled);
                    }
                }
                "propertyNames" => {
                    let below = self.node(value);
                    let of_key = below.checked.most();
                    *cost.checked.at(1) += of_key;
                    cost.compiled = cost.compiled.saturating_add(below.compiled);
                }
                "allOf" | "anyOf" | "oneOf" => {
                    self.has_alternatives |= key != "allOf";
                    for schema in value.as_array().into_iter().flatten() {
                        cost.beside(&self.node(schema));
                    }
                }
                "not" | "if" | "then" | "else" => cost.beside(&self.node(value)),
                _ if is_map(key) => {
                    for (name, schema) in value.as_object().into_iter().flatten() {
                        *cost.checked.at(0) += keys(schema.as_array());
                        *cost.checked.at(0) +=
                            Weight { node: 1 + name.len() as u64 / KEY_BYTES, byte: 0 };
                        cost.beside(&self.named(name, schema));
                    }
                }
                _ => self.leaf(key, value, &mut cost.checked),
            }
            let added = cost.checked.most().sum().saturating_sub(before);
            if added > self.heaviest.0 {
                let of_schemas = ["properties", "items", "allOf", "not", "if", "then", "else"];
                if !of_schemas.contains(&key.as_str()) {
                    self.heaviest = (added, Expensive::new(key, self.path.iter().copied()));
                }
            }
            self.path.pop();
        }
        cost.checked.add(&members_checked, 1);
        cost.checked.add(&items_checked, 1);
        cost.marked.add(&members_checked, 1);
        for _ in 0..unevaluated {
            let Cost { checked, marked, .. } = &mut cost;
            checked.add(marked, 0);
            checked.add(marked, 0);
            cost.compiled = cost.compiled.saturating_add(cost.compiled_to_mark);
        }
        cost
    }

    fn named(&mut self, name: &'a str, schema: &'a Value) -> Cost {
        self.path.push(name);
        let cost = self.node(schema);
        self.path.pop();
        cost
    }

    /// A schema of all parts, or schemas of the first ones.
    fn parts(&mut self, value: &'a Value) -> (Levels, u64) {
        let Value::Array(schemas) = value else {
            let cost = self.node(value);
            return (cost.checked, cost.compiled);
        };
        let (mut checked, mut compiled) = (Levels::default(), 0_u64);
        for schema in schemas {
            let cost = self.node(schema);
            checked.or(&cost.checked);
            compiled = compiled.saturating_add(cost.compiled);
        }
        (checked, compiled)
    }

    /// A keyword without schemas.
    fn leaf(&self, key: &str, value: &Value, checked: &mut Levels) {
        match key {
            "enum" => {
                let options = value.as_array().map_or(0, Vec::len) as u64;
                let own = Weight { node: options, byte: 1 + options / KEY_BYTES };
                *checked.at(0) += own;
                if value.as_array().into_iter().flatten().any(has_parts) {
                    checked.deep += own;
                }
            }
            "const" => {
                *checked.at(0) += Weight { node: 1, byte: 1 };
                if has_parts(value) {
                    checked.deep += Weight { node: 1, byte: 1 };
                }
            }
            "uniqueItems" if *value == true => {
                checked.deep += Weight { node: UNIQUE_COMPARED, byte: UNIQUE_COMPARED / 4 };
            }
            "required" => *checked.at(0) += keys(value.as_array()),
            "dependentRequired" => {
                for (name, names) in value.as_object().into_iter().flatten() {
                    *checked.at(0) += keys(names.as_array());
                    checked.at(0).node += 1 + name.len() as u64 / KEY_BYTES;
                }
            }
            "pattern" => {
                let states = self.patterns.states(value.as_str().unwrap_or_default());
                *checked.at(0) += Weight { node: states, byte: states };
            }
            "minLength" | "maxLength" => *checked.at(0) += Weight { node: 1, byte: 1 },
            // Fractions are divided as such.
            "multipleOf" => checked.at(0).node += MULTIPLE_OF,
            _ => checked.at(0).node += 1,
        }
    }
}

/// What it costs to look for these keys.
fn keys(names: Option<&Vec<Value>>) -> Weight {
    let cost = |name: &Value| 1 + name.as_str().map_or(0, str::len) as u64 / KEY_BYTES;
    Weight { node: names.into_iter().flatten().map(cost).sum(), byte: 0 }
}

fn has_parts(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => false,
    }
}
