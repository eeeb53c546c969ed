//! JSON Schemas of strangers: read within bounds, and compiled into a check that always ends.
//!
//! The hard part is `$ref`. A schema may refer to itself, and a check that follows it can take
//! time exponential in its depth, or never end. So references are expanded before compiling,
//! into a tree of bounded size; where the tree is cut, the check accepts anything. Expansion
//! only ever makes the check more lenient, never stricter: the tool sees the arguments too.
//!
//! What models are shown is another matter: a schema is written anew for each vendor, with what
//! the vendor refuses left out, and the registered one goes on checking the arguments.
//!
//! What this room does not do: fetch anything. A `$ref` to a file or an address is an error.

mod clean;
mod expand;
mod format;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::limits::Limits;
use crate::text;
use crate::tool::Violation;

pub use clean::clean;
pub use format::{Definition, Format, FormatError, tokens};

/// Most errors reported for one set of arguments.
const ERRORS_MAX: usize = 5;
/// Most characters of one such error; it may quote the arguments.
const ERROR_CHARS_MAX: usize = 300;
/// Memory of one compiled `pattern`, and of its cache.
const PATTERN_MEMORY_BYTES_MAX: usize = 1 << 20;

/// A JSON Schema that has been bounded and compiled.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    nodes: usize,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SchemaError {
    /// The text is too long.
    #[error("schema of {given} bytes exceeds `schema_bytes_max` of {allowed}")]
    TooLarge {
        /// Bytes given.
        given: usize,
        /// Bytes allowed.
        allowed: usize,
    },
    /// The text is nested too deeply.
    #[error("schema is nested more than {allowed} levels deep, the value of `schema_depth_max`")]
    TooDeep {
        /// Levels allowed.
        allowed: usize,
    },
    /// The text is not JSON.
    #[error("schema is not JSON: {0}")]
    NotJson(String),
    /// The root does not describe an object.
    #[error("schema must describe an object, and describes {0}; use `\"type\": \"object\"`")]
    NotAnObject(String),
    /// A reference leaves the schema.
    #[error(
        "`$ref` to `{0}` is refused: a schema never reads files or the network; move the definition into `$defs` and refer to `#/$defs/...`"
    )]
    Remote(String),
    /// A reference leads nowhere.
    #[error("`$ref` to `{0}` leads to no schema; refer to one in `$defs`, such as `#/$defs/name`")]
    Dangling(String),
    /// A pattern is too long.
    #[error("`pattern` of {given} bytes exceeds `schema_pattern_bytes_max` of {allowed}")]
    PatternTooLong {
        /// Bytes given.
        given: usize,
        /// Bytes allowed.
        allowed: usize,
    },
    /// The schema breaks a rule of JSON Schema, or has a pattern that cannot run in linear time.
    #[error("schema is invalid: {0}")]
    Invalid(String),
}

/// Reads a schema from JSON text, within the bounds of `limits`.
///
/// Null and `{}` are read as "an object without declared properties".
///
/// # Errors
/// If the text is too long, nested too deeply, or not JSON.
pub fn parse(text: &str, limits: &Limits) -> Result<Value, SchemaError> {
    let (given, allowed) = (text.len(), limits.schema_bytes_max.as_usize());
    if given > allowed {
        return Err(SchemaError::TooLarge { given, allowed });
    }
    if depth(text) > limits.schema_depth_max.0 {
        return Err(SchemaError::TooDeep { allowed: limits.schema_depth_max.0 });
    }
    let value =
        serde_json::from_str(text).map_err(|error| SchemaError::NotJson(error.to_string()))?;
    Ok(match value {
        Value::Null => json!({ "type": "object", "properties": {} }),
        Value::Object(members) if members.is_empty() => {
            json!({ "type": "object", "properties": {} })
        }
        value => value,
    })
}

impl Schema {
    /// Compiles the schema of a tool's arguments or structured output: an object.
    ///
    /// # Errors
    /// If the root describes no object, a `$ref` leaves the schema or leads nowhere, a pattern
    /// is too long or not linear, or a rule of JSON Schema is broken.
    pub fn compile(schema: &Value, limits: &Limits) -> Result<Schema, SchemaError> {
        let Value::Object(members) = schema else {
            return Err(SchemaError::NotAnObject(shown(schema)));
        };
        match members.get("type") {
            None => {}
            Some(Value::String(name)) if name == "object" => {}
            Some(other) => return Err(SchemaError::NotAnObject(shown(other))),
        }
        let expanded = expand::expand(schema, limits)?;
        let validator = jsonschema::options()
            .with_draft(draft(members))
            .with_pattern_options(
                PatternOptions::regex()
                    .size_limit(PATTERN_MEMORY_BYTES_MAX)
                    .dfa_size_limit(PATTERN_MEMORY_BYTES_MAX),
            )
            .should_validate_formats(false)
            .offline()
            .build(&expanded.schema)
            .map_err(|error| SchemaError::Invalid(cut(&error.to_string())))?;
        Ok(Schema { validator, nodes: expanded.nodes })
    }

    /// Checks a value.
    ///
    /// # Errors
    /// With the first few ways in which the value breaks the schema.
    pub fn check(&self, value: &Value) -> Result<(), Vec<Violation>> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let violation = |error: jsonschema::ValidationError<'_>| Violation {
            path: error.instance_path().to_string(),
            message: cut(&error.to_string()),
        };
        Err(self.validator.iter_errors(value).take(ERRORS_MAX).map(violation).collect())
    }

    /// How much work it can be to check JSON text of this length, in visits to a node of the
    /// schema. A million visits take some milliseconds.
    pub fn visits_max(&self, text_bytes: usize) -> usize {
        self.nodes.saturating_mul(text_bytes)
    }
}

/// Levels of nesting in JSON text, counted without recursion.
fn depth(text: &str) -> usize {
    let (mut deepest, mut level, mut in_string, mut escaped) = (0_usize, 0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                level += 1;
                deepest = deepest.max(level);
            }
            b'}' | b']' if !in_string => level = level.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Older drafts differ in tuples and `dependencies`; an unknown `$schema` is read as the newest.
fn draft(members: &Map<String, Value>) -> Draft {
    let named = members.get("$schema").and_then(Value::as_str).unwrap_or_default();
    match named {
        name if name.contains("draft-04") => Draft::Draft4,
        name if name.contains("draft-06") => Draft::Draft6,
        name if name.contains("draft-07") => Draft::Draft7,
        name if name.contains("2019-09") => Draft::Draft201909,
        _ => Draft::Draft202012,
    }
}

fn shown(value: &Value) -> String {
    cut(&value.to_string())
}

fn cut(shown: &str) -> String {
    text::cut(shown, ERROR_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn compile(text: &str) -> Result<Schema, SchemaError> {
        let limits = Limits::default();
        Schema::compile(&parse(text, &limits)?, &limits)
    }

    fn refused(text: &str, expected: &str) {
        let message = compile(text).expect_err(text).to_string();
        assert!(message.contains(expected), "{message}");
        assert!(message.len() < 1_000);
    }

    fn check(schema: &str, value: &str, expected: &[(&str, &str)]) {
        let schema = compile(schema).expect("a schema");
        let value = serde_json::from_str(value).expect("a value");
        let violations = schema.check(&value).err().unwrap_or_default();
        let found: Vec<_> = violations
            .iter()
            .map(|violation| (violation.path.as_str(), violation.message.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn values_are_checked_with_paths() {
        let schema = r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},"required":["a"],"additionalProperties":false}"#;
        check(schema, r#"{"a":[1]}"#, &[]);
        check(schema, r#"{"a":[1,"x"]}"#, &[("/a/1", r#""x" is not of type "integer""#)]);
        check(schema, "{}", &[("", r#""a" is a required property"#)]);
        check("null", r#"{"anything":1}"#, &[]);
        check("{}", r#"{"anything":1}"#, &[]);
    }

    #[test]
    fn hostile_schemas_are_refused() {
        refused("[1]", "must describe an object");
        refused(r#"{"type":"string"}"#, "must describe an object");
        refused("{", "not JSON");
        refused(r#"{"properties":{"a":{"$ref":"file:///etc/passwd"}}}"#, "never reads files");
        refused(r#"{"properties":{"a":{"$ref":"http://127.0.0.1:1/x"}}}"#, "never reads files");
        refused(r#"{"$dynamicRef":"other.json"}"#, "never reads files");
        refused(r##"{"properties":{"a":{"$ref":"#/$defs/none"}}}"##, "leads to no schema");
        refused(r#"{"properties":{"a":{"type":"strin"}}}"#, "invalid");
        refused(r#"{"properties":{"a":{"pattern":"(?=a)b"}}}"#, "invalid");
        refused(r#"{"properties":{"a":{"pattern":"(a{1000}){1000}"}}}"#, "invalid");
        let long = format!(r#"{{"properties":{{"a":{{"pattern":"{}"}}}}}}"#, "a".repeat(5_000));
        refused(&long, "schema_pattern_bytes_max");
        let deep = format!("{}1{}", r#"{"not":"#.repeat(1_000), "}".repeat(1_000));
        refused(&deep, "schema_depth_max");
        refused(&format!(r#"{{"title":"{}"}}"#, "a".repeat(70_000)), "schema_bytes_max");
    }

    #[test]
    fn a_catastrophic_pattern_runs_in_linear_time() {
        let schema = compile(r#"{"properties":{"a":{"pattern":"^(a+)+$"}}}"#).expect("a schema");
        let start = Instant::now();
        assert!(schema.check(&json!({ "a": "a".repeat(100_000) + "b" })).is_err());
        assert!(start.elapsed() < Duration::from_secs(30), "linear, however slow the machine");
    }

    #[test]
    fn recursive_schemas_check_the_upper_levels() {
        let tree = r##"{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}"##;
        check(tree, r#"{"children":[{"children":[]}]}"#, &[]);
        check(
            tree,
            r#"{"children":[{"children":1}]}"#,
            &[("/children/0/children", r#"1 is not of type "array""#)],
        );
        // An exponential number of paths, and a reference to itself at the same place.
        let bomb = r##"{"allOf":[{"$ref":"#"},{"$ref":"#"}],"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}"##;
        let deep = format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100));
        check(bomb, &deep, &[]);
        let laughs: Vec<String> = (0..60)
            .map(|n| {
                format!(
                    r##""d{n}":{{"allOf":[{{"$ref":"#/$defs/d{m}"}},{{"$ref":"#/$defs/d{m}"}}]}}"##,
                    m = n + 1
                )
            })
            .collect();
        let laughs = format!(
            r##"{{"$ref":"#/$defs/d0","$defs":{{{},"d60":{{"type":"object"}}}}}}"##,
            laughs.join(",")
        );
        check(&laughs, "{}", &[]);
    }

    #[test]
    fn cutting_never_makes_a_check_stricter() {
        let not = r##"{"not":{"required":["x"],"properties":{"x":{"$ref":"#"}}}}"##;
        check(not, r#"{"y":1}"#, &[]);
        let one_of = r##"{"oneOf":[{"properties":{"x":{"$ref":"#"}},"required":["x"]},{"properties":{"y":{"$ref":"#"}},"required":["y"]}]}"##;
        check(one_of, r#"{"x":{"x":{"x":{"x":{"x":{"y":{"x":{"y":{}}}}}}}}}"#, &[]);
    }

    #[test]
    fn errors_do_not_quote_all_of_a_large_value() {
        let schema = compile(r#"{"properties":{"a":{"type":"integer"}}}"#).expect("a schema");
        let violations = schema.check(&json!({ "a": "x".repeat(100_000) })).expect_err("wrong");
        assert!(violations[0].message.len() < 400);
    }
}
