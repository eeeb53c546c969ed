//! JSON Schemas of strangers: read within bounds, and compiled into a check that always ends.
//!
//! The hard part is `$ref`. A schema may refer to itself, and a check that follows it can take
//! time exponential in its depth, or never end. So references are expanded before compiling,
//! into a tree of bounded size; where the tree is cut, the check accepts anything. Expansion
//! only ever makes the check more lenient, never stricter: the tool sees the arguments too.
//!
//! The other hard part is what a schema costs, since neither preparing one nor a check can be
//! stopped. So a schema is weighed before it is compiled: its memory with all references expanded,
//! the memory of its patterns, and the most steps a check takes for each value and byte of what is
//! checked. Who checks knows the work beforehand, and does it here or where it can be stopped.
//!
//! What models are shown is another matter: a schema is written anew for each vendor, with what
//! the vendor refuses left out, and the registered one goes on checking the arguments.
//!
//! What this module does not do: fetch anything. A `$ref` to a file or an address is an error.

mod clean;
mod error;
mod expand;
mod format;
#[cfg(test)]
mod held;
mod invalid;
mod pattern;
mod reference;
mod unique;
mod weight;

use std::fmt::{self, Write as _};

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value, json};

use pattern::{PATTERN_MEMORY_BYTES_MAX, Patterns};
use toolhost_core::json::{self, Size};
use toolhost_core::limits::Limits;
use toolhost_core::runtime::Stop;
use toolhost_core::text;
use toolhost_core::tool::Violation;
use weight::Analysis;

use error::check;
use invalid::described;

pub use clean::clean;
pub use error::{Expensive, SchemaError};
pub use format::{Definition, Format, FormatError, tokens};

/// Most errors reported for one set of arguments.
const ERRORS_MAX: usize = 5;
/// Most characters of one such error; it may quote the arguments.
const ERROR_CHARS_MAX: usize = 300;
/// Most characters of the path of such an error.
const PATH_CHARS_MAX: usize = 200;
/// Steps of a check that take so little time, a few milliseconds, that it need not be stopped.
pub const QUICK_WORK_MAX: u64 = 500_000;
/// Steps of a check that is over within a second on a slow machine.
pub const BRIEF_WORK_MAX: u64 = 50_000_000;
/// The greatest weight of schemas with which what a model writes, some kilobytes, is checked in
/// brief.
const BRIEF_WEIGHT_MAX: u64 = BRIEF_WORK_MAX / 8_192;
/// Memory for describing all that is wrong with a value. As it is counted, it is many times what
/// is needed: as if everything were wrong everywhere, at the longest path.
const EXPLAINED_BYTES_MAX: u64 = 256 << 20;
/// Memory of one error, without its path.
const ERROR_BYTES: u64 = 512;

/// A JSON Schema that has been bounded, weighed and compiled.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    analysis: Analysis,
    bytes: u64,
    is_exact: bool,
}

/// Reads a schema from JSON text, within the bounds of `limits`.
///
/// Null and `{}` are read as "an object without declared properties". References are written as plain
/// pointers, where they name an `$anchor` or have the escapes of URLs.
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
    let value = json::read(text).map_err(|error| SchemaError::NotJson(error.to_string()))?;
    Ok(match value {
        Value::Null => json!({ "type": "object", "properties": {} }),
        Value::Object(members) if members.is_empty() => {
            json!({ "type": "object", "properties": {} })
        }
        mut value => {
            reference::make_plain(&mut value);
            value
        }
    })
}

impl Schema {
    /// Compiles the schema of a tool's arguments or structured output: an object.
    ///
    /// # Errors
    /// If the root describes no object, a `$ref` leaves the schema or leads nowhere, a pattern
    /// is too long or not linear, or a rule of JSON Schema is broken.
    pub fn compile(schema: &Value, limits: &Limits) -> Result<Schema, SchemaError> {
        Schema::compile_until(schema, limits, &Stop::default())
    }

    /// The same, unless it is stopped.
    ///
    /// # Errors
    /// As [`Schema::compile`]; or if it is stopped.
    pub fn compile_until(
        schema: &Value,
        limits: &Limits,
        stop: &Stop,
    ) -> Result<Schema, SchemaError> {
        let Value::Object(members) = schema else {
            return Err(SchemaError::NotAnObject(shown(schema)));
        };
        match members.get("type") {
            None => {}
            Some(Value::String(name)) if name == "object" => {}
            Some(other) => return Err(SchemaError::NotAnObject(shown(other))),
        }
        let expanded = expand::expand(schema, limits, stop)?;
        let patterns = Patterns::of(&expanded.schema, limits, stop)?;
        let analysis = weight::analyse(&expanded.schema, &patterns)?;
        // What follows is as bounded as what was weighed, and cannot be stopped.
        check(stop)?;
        let validator = jsonschema::options()
            .with_draft(draft(members))
            .with_pattern_options(
                PatternOptions::regex()
                    .size_limit(PATTERN_MEMORY_BYTES_MAX)
                    .dfa_size_limit(PATTERN_MEMORY_BYTES_MAX),
            )
            .should_validate_formats(false)
            .with_keyword("uniqueItems", |_, value, _| {
                Ok(Box::new(unique::UniqueItems(*value == true)))
            })
            .offline()
            .build(&expanded.schema)
            .map_err(|error| invalid::invalid(&error))?;
        let (bytes, is_exact) = (expanded.bytes + patterns.bytes, expanded.is_exact);
        Ok(Schema { validator, analysis, bytes, is_exact })
    }

    /// False if a check accepts more than the schema does: it refers to itself, or is very large.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Memory of the schema, about: all that its references copy, and its patterns.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The most steps that a check of a value of this size takes, each some nanoseconds long.
    pub fn work(&self, size: Size) -> u64 {
        self.analysis.weight.work(size)
    }

    /// Refuses a schema of which usual values can take longer than [`BRIEF_WORK_MAX`].
    ///
    /// # Errors
    /// With the keyword that weighs most.
    pub fn check_is_brief(&self) -> Result<(), SchemaError> {
        if self.is_brief() {
            return Ok(());
        }
        Err(SchemaError::NeedsProcess(self.analysis.heaviest.clone()))
    }

    /// Tells whether usual values are checked in brief; where not, a check that takes long is the
    /// schema's fault.
    pub fn is_brief(&self) -> bool {
        self.work(Size { nodes: 1, bytes: 1 }) <= BRIEF_WEIGHT_MAX
    }

    /// Tells whether a value fits, without more memory than the value has. It takes as long as
    /// [`work`](Schema::work) says, and cannot be stopped.
    pub fn fits(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// Describes the first few ways in which a value of this size breaks the schema, or the very
    /// first if there may be too many; `None` where even that can take too much memory.
    pub fn explain(&self, value: &Value, size: Size) -> Option<Vec<Violation>> {
        let errors = self.work(size);
        let of_each = size.bytes + ERROR_BYTES + self.analysis.quoted_bytes;
        if errors.saturating_mul(of_each) <= EXPLAINED_BYTES_MAX {
            return Some(
                self.validator.iter_errors(value).take(ERRORS_MAX).map(described).collect(),
            );
        }
        (!self.analysis.has_alternatives).then(|| self.explain_first(value))
    }

    /// Describes the first way in which a value breaks the schema, whatever memory it takes.
    pub fn explain_first(&self, value: &Value) -> Vec<Violation> {
        self.validator.validate(value).err().map(described).into_iter().collect()
    }

    /// Checks a value here and now, however long it takes.
    ///
    /// # Errors
    /// With the first few ways in which the value breaks the schema.
    pub fn check(&self, value: &Value) -> Result<(), Vec<Violation>> {
        if self.fits(value) {
            return Ok(());
        }
        Err(self.explain(value, Size::of(value)).unwrap_or_else(unexplained))
    }
}

/// What is said of a value that is wrong where saying more can take too much memory or time.
pub fn unexplained() -> Vec<Violation> {
    let message = "the value does not fit the schema; to say where takes more memory or time than \
                   there is for it";
    vec![Violation { path: String::new(), message: message.to_owned(), unexpected: None }]
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

/// The start of a text, however long the whole would be.
fn shown(whole: &impl fmt::Display) -> String {
    struct Start(String);
    impl fmt::Write for Start {
        fn write_str(&mut self, more: &str) -> fmt::Result {
            self.0.push_str(more);
            if self.0.len() > 4 * ERROR_CHARS_MAX + 4 { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut start = Start(String::new());
    // It fails when there is enough.
    let _ = write!(start, "{whole}");
    cut(&start.0)
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
    fn what_is_nullable_takes_null() {
        let check = |property: &str, value: &str, expected: &[(&str, &str)]| {
            let schema = format!(
                r##"{{"type":"object","properties":{{"i":{property}}},"$defs":{{"n":{{"type":"integer"}},"m":{{"type":"integer","nullable":true}}}}}}"##
            );
            check(&schema, &format!(r#"{{"i":{value}}}"#), expected);
        };
        for property in [
            r#"{"type":"integer","nullable":true}"#,
            r#"{"type":["integer","string"],"nullable":true}"#,
            r#"{"type":"integer","enum":[1,2],"nullable":true}"#,
            r#"{"const":1,"nullable":true}"#,
            r#"{"anyOf":[{"type":"integer"},{"type":"boolean"}],"nullable":true}"#,
            r#"{"oneOf":[{"type":"integer"},{"type":["null","boolean"]}],"nullable":true}"#,
            r##"{"$ref":"#/$defs/n","nullable":true}"##,
            r##"{"$ref":"#/$defs/m"}"##,
            r#"{"type":"integer","not":{"type":"null"},"nullable":true}"#,
        ] {
            check(property, "null", &[]);
            check(property, "1", &[]);
            let refused = compile(&format!(
                r##"{{"properties":{{"i":{property}}},"$defs":{{"n":{{"type":"integer"}},"m":{{"type":"integer","nullable":true}}}}}}"##
            ));
            assert!(refused.expect("a schema").check(&json!({ "i": [] })).is_err(), "{property}");
        }
        let refused = |property: &str, why: &str| check(property, "null", &[("/i", why)]);
        refused(r#"{"type":"integer"}"#, r#"null is not of type "integer""#);
        refused(r#"{"type":"integer","nullable":false}"#, r#"null is not of type "integer""#);
        check(
            r#"{"type":"integer","nullable":true}"#,
            r#""x""#,
            &[("/i", r#""x" is not of types "null", "integer""#)],
        );
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
        refused(
            r#"{"properties":{"a":{"pattern":"(a{1000}){1000}"}}}"#,
            "keyword `pattern` at /properties/a/pattern",
        );
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
