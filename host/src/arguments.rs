//! Arguments of a call: from the caller's text to a checked JSON object.
//!
//! What this room does not do yet: repair or coerce. What it refuses, it explains: where,
//! what was given, what is allowed.

use serde_json::{Map, Value, json};

use crate::limits::Limits;
use crate::text;
use crate::tool::{CallError, Code, Violation};

/// Characters of a line shown around a position in it.
const LINE_CHARS_MAX: usize = 60;

/// Reads arguments from JSON text. An empty text is read as `{}`.
///
/// # Errors
/// If the text is too long, not JSON (with position and a caret), or not an object.
pub fn parse(text: &str, limits: &Limits) -> Result<Map<String, Value>, CallError> {
    let (given, allowed) = (text.len(), limits.arguments_bytes_max.as_usize());
    if given > allowed {
        let message =
            format!("arguments of {given} bytes exceed `arguments_bytes_max` of {allowed}");
        return Err(invalid(message));
    }
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(other) => Err(invalid(format!(
            "arguments must be a JSON object such as {{\"key\": \"value\"}}; given is {}",
            kind(&other)
        ))),
        Err(error) => Err(not_json(text, &error)),
    }
}

/// Explains how arguments break the schema of a tool: for each violation its path, and for an
/// unknown name the nearest one that is declared.
pub fn explain(tool: &str, violations: &[Violation], parameters: &Value) -> CallError {
    let describe = |violation: &Violation| {
        let place = if violation.path.is_empty() { "/" } else { &violation.path };
        let hint = nearest_property(violation, parameters)
            .map(|name| format!("; did you mean `{name}`?"))
            .unwrap_or_default();
        format!("{place}: {}{hint}", violation.message)
    };
    let described: Vec<String> = violations.iter().map(describe).collect();
    let errors: Vec<Value> = violations
        .iter()
        .zip(&described)
        .map(|(violation, text)| json!({ "path": violation.path, "message": text }))
        .collect();
    invalid(format!("invalid arguments for `{tool}`: {}", described.join("; ")))
        .with("errors", errors)
}

/// Builds arguments from `key=value` pairs, as a command line has them.
///
/// A value is taken as text where the schema says `string`, otherwise as JSON if it is JSON,
/// and as text if it is not.
pub fn from_pairs<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    parameters: &Value,
) -> Map<String, Value> {
    let value = |key: &str, text: &str| {
        if parameters["properties"][key]["type"] == "string" {
            return json!(text);
        }
        serde_json::from_str(text).unwrap_or_else(|_| json!(text))
    };
    pairs.into_iter().map(|(key, text)| (key.to_owned(), value(key, text))).collect()
}

/// For an unexpected property at the top: the declared one whose name is most like it.
fn nearest_property(violation: &Violation, parameters: &Value) -> Option<String> {
    if !violation.path.is_empty() || !violation.message.starts_with("Additional properties") {
        return None;
    }
    let unexpected = violation.message.split('\'').nth(1)?;
    let declared = parameters["properties"].as_object()?;
    text::nearest(unexpected, declared.keys().map(String::as_str)).into_iter().next()
}

fn not_json(text: &str, error: &serde_json::Error) -> CallError {
    let (line, column) = (error.line(), error.column());
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default();
    let message = format!(
        "arguments are not JSON: {reason} at line {line} column {column}\n{}",
        pointed(text, line, column)
    );
    invalid(message).with("line", line).with("column", column)
}

/// The line with a caret under the column, cut to a window around it. Columns count bytes.
fn pointed(text: &str, line: usize, column: usize) -> String {
    let line = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let before = line.char_indices().take_while(|(start, _)| start + 1 < column).count();
    let start = before.saturating_sub(LINE_CHARS_MAX / 2);
    let shown: String = line.chars().skip(start).take(LINE_CHARS_MAX).collect();
    format!("  {}\n  {}^", text::one_line(&shown), " ".repeat(before - start))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn invalid(message: String) -> CallError {
    CallError::new(Code::InvalidArguments, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse(text, &Limits::default()).expect_err(text).message
    }

    #[test]
    fn text_that_is_no_object_is_explained() {
        assert!(parse("", &Limits::default()).expect("empty").is_empty());
        assert_eq!(
            refused(r#"{"a": 1 "b": 2}"#),
            "arguments are not JSON: expected `,` or `}` at line 1 column 9\n  {\"a\": 1 \"b\": 2}\n          ^"
        );
        assert_eq!(
            refused("{\n \"a\": nope\n}"),
            "arguments are not JSON: expected ident at line 2 column 8\n   \"a\": nope\n         ^"
        );
        assert!(refused("[1]").ends_with("given is an array"));
        let long = format!(r#"{{"a": "{}" "b"}}"#, "x".repeat(10_000));
        assert!(refused(&long).len() < 300);
        assert!(refused(&"[".repeat(2_000)).contains("recursion limit"));
        let huge = format!(r#"{{"a": "{}"}}"#, "x".repeat(2 << 20));
        assert!(refused(&huge).contains("`arguments_bytes_max` of 1048576"));
    }

    #[test]
    fn control_characters_are_not_echoed() {
        assert!(!refused("{\"a\": \u{1b}[31m}").contains('\u{1b}'));
    }

    #[test]
    fn unknown_names_get_the_nearest_declared_one() {
        let parameters = json!({ "properties": { "filter": { "type": "string" } } });
        let violation = Violation {
            path: String::new(),
            message: "Additional properties are not allowed ('fliter' was unexpected)".to_owned(),
        };
        assert_eq!(
            explain("t", &[violation], &parameters).message,
            "invalid arguments for `t`: /: Additional properties are not allowed ('fliter' was \
             unexpected); did you mean `filter`?"
        );
    }

    #[test]
    fn pairs_follow_the_schema() {
        let parameters = json!({ "properties": { "text": { "type": "string" } } });
        let pairs = [("text", "1"), ("n", "1"), ("list", "[1]"), ("word", "abc"), ("empty", "")];
        assert_eq!(
            Value::Object(from_pairs(pairs, &parameters)),
            json!({ "text": "1", "n": 1, "list": [1], "word": "abc", "empty": "" })
        );
    }
}
