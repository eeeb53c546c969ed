//! Explains arguments that are refused: where, what was given, what is allowed.

use serde_json::{Value, json};

use toolhost_core::text;
use toolhost_core::tool::{CallError, Code, Violation};

/// Characters of a line shown around a position in it.
const LINE_CHARS_MAX: usize = 60;
/// JSON that other languages would have taken, with what to write instead.
const FOREIGN: [(&str, &str); 6] = [
    ("NaN", "JSON has no NaN; use a number or null"),
    ("Infinity", "JSON has no Infinity; use a number or null"),
    ("True", "write `true`"),
    ("False", "write `false`"),
    ("None", "write `null`"),
    ("'", "strings and keys stand in double quotes"),
];

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

/// The text has more bytes than allowed.
pub(super) fn too_long(given: usize, allowed: usize) -> CallError {
    invalid(format!("arguments of {given} bytes exceed `arguments_bytes_max` of {allowed}"))
}

/// The text is JSON, and no object.
pub(super) fn not_an_object(given: &Value) -> CallError {
    invalid(format!(
        "arguments must be a JSON object such as {{\"key\": \"value\"}}; given is {}",
        kind(given)
    ))
}

/// The text cannot be read: the reason, its place, and the line with a caret under it.
pub(super) fn not_json(text: &str, error: &serde_json::Error) -> CallError {
    let (line, column) = (error.line(), error.column());
    let place = format!(" at line {line} column {column}");
    let reason = error.to_string();
    let reason = reason.strip_suffix(&place).unwrap_or(&reason);
    let what = if error.is_data() { "cannot be read" } else { "are not JSON" };
    let at_fault = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let rest = at_fault.get(column.saturating_sub(1)..).unwrap_or_default();
    let hint = FOREIGN.iter().find(|(foreign, _)| rest.starts_with(foreign));
    let hint = hint.map(|(_, hint)| format!("; {hint}")).unwrap_or_default();
    let shown = pointed(at_fault, column);
    invalid(format!("arguments {what}: {reason}{place}{hint}\n{shown}"))
        .with("line", line)
        .with("column", column)
}

/// For an unexpected property at the top: the declared one whose name is most like it.
fn nearest_property(violation: &Violation, parameters: &Value) -> Option<String> {
    let unexpected = violation.unexpected.as_deref().filter(|_| violation.path.is_empty())?;
    let declared = parameters["properties"].as_object()?;
    text::nearest(unexpected, declared.keys().map(String::as_str)).into_iter().next()
}

/// The line with a caret under the column, cut to a window around it. Columns count bytes.
fn pointed(line: &str, column: usize) -> String {
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

    #[test]
    fn unknown_names_get_the_nearest_declared_one() {
        let parameters = json!({ "properties": { "filter": { "type": "string" } } });
        let violation = Violation {
            path: String::new(),
            message: "Additional properties are not allowed ('fliter' was unexpected)".to_owned(),
            unexpected: Some("fliter".to_owned()),
        };
        assert_eq!(
            explain("t", &[violation], &parameters).message,
            "invalid arguments for `t`: /: Additional properties are not allowed ('fliter' was \
             unexpected); did you mean `filter`?"
        );
    }
}
