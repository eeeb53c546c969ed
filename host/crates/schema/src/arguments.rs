//! Arguments of a call: from the caller's text to a checked JSON object.
//!
//! Models write JSON that is nearly right, and texts where a value is declared. [`parse`] repairs
//! the first, [`coerce`] the second; every repair is recorded. What cannot be repaired
//! is refused and explained: where, what was given, what is allowed. Unlike Hermes, the host
//! never goes on with `{}` in place of arguments it could not read: a call that loses its
//! arguments silently is worse than one that fails.

mod coerce;
mod explain;
mod repair;

use serde_json::{Map, Value, json};

use toolhost_core::json;
use toolhost_core::limits::Limits;
use toolhost_core::tool::CallError;

pub use coerce::{coerce, leave_out_nulls};
pub use explain::explain;

/// Arguments as they were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Read {
    /// The arguments.
    pub value: Map<String, Value>,
    /// What was repaired, each as a short fragment such as "removed 1 trailing comma". If there
    /// is anything, the text itself is no JSON of `value` and must not be passed on.
    pub repairs: Vec<String>,
}

/// Reads arguments from JSON text, repairing it if need be. The time is linear in the text.
///
/// An empty text, `null` and `None` are read as `{}`. Repaired are: control characters in
/// strings, commas before a closing bracket, `}` and `]` missing or surplus at the end.
///
/// # Errors
/// If the text is too long, cannot be repaired (with position and a caret), has a key twice in
/// one object, is nested more than 127 levels deep, or is not an object.
pub fn parse(text: &str, limits: &Limits) -> Result<Read, CallError> {
    let (given, allowed) = (text.len(), limits.arguments_bytes_max.as_usize());
    if given > allowed {
        return Err(explain::too_long(given, allowed));
    }
    match text.trim() {
        "" => return Ok(Read::default()),
        word @ ("null" | "None") => {
            return object(json!({}), vec![format!("read `{word}` as `{{}}`")]);
        }
        _ => {}
    }
    let error = match json::read(text) {
        Ok(value) => return object(value, Vec::new()),
        Err(error) => error,
    };
    // A key that stands twice is an error of the data: no repair could say which one is meant.
    if !error.is_data()
        && let Some(repaired) = repair::repair(text, allowed)
        && let Ok(value) = json::read(&repaired.text)
    {
        return object(value, repaired.repairs);
    }
    Err(explain::not_json(text, &error))
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
        json::read(text).unwrap_or_else(|_| json!(text))
    };
    pairs.into_iter().map(|(key, text)| (key.to_owned(), value(key, text))).collect()
}

fn object(value: Value, repairs: Vec<String>) -> Result<Read, CallError> {
    let Value::Object(value) = value else {
        return Err(explain::not_an_object(&value));
    };
    Ok(Read { value, repairs })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse(text, &Limits::default()).expect_err("a refusal").message
    }

    #[track_caller]
    fn repaired(text: &str, expected: Value, repairs: &[&str]) {
        let read = parse(text, &Limits::default()).expect("a repair");
        assert_eq!(
            (Value::Object(read.value), read.repairs.as_slice()),
            (expected, &owned(repairs)[..])
        );
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn text_that_is_nearly_right_is_repaired() {
        repaired("", json!({}), &[]);
        repaired(" \n", json!({}), &[]);
        repaired(r#" {"a": 1} "#, json!({ "a": 1 }), &[]);
        repaired("None", json!({}), &["read `None` as `{}`"]);
        repaired(" null ", json!({}), &["read `null` as `{}`"]);
        repaired("{\"a\":\"x\ny\"}", json!({ "a": "x\ny" }), &["escaped 1 control character"]);
        repaired(r#"{"a":[1,],}"#, json!({ "a": [1] }), &["removed 2 trailing commas"]);
        repaired(r#"{"a":{"b":1"#, json!({ "a": { "b": 1 } }), &["added 2 missing `}`"]);
        repaired(r#"{"a":1}}]"#, json!({ "a": 1 }), &["removed 2 surplus closing brackets"]);
    }

    #[test]
    fn what_cannot_be_repaired_is_refused_and_never_lost() {
        // Brackets are closed by count, braces first.
        assert!(refused(r#"{"a":[1,2"#).contains("line 1 column 9"));
        assert!(refused(r#"{"path":"/a","content":"cut o"#).starts_with("arguments are not JSON"));
        assert!(refused(r#"{"a":1,"#).starts_with("arguments are not JSON"));
        assert_eq!(
            refused(r#"{"a":1,"a":2}}"#),
            "arguments cannot be read: the key `a` stands twice in one object, as `/a`; keep one \
             at line 1 column 10\n  {\"a\":1,\"a\":2}}\n           ^"
        );
        assert!(refused("[1,]").ends_with("given is an array"));
        assert!(refused(r#""{}""#).ends_with("given is a string"));
    }

    #[test]
    fn foreign_values_are_explained() {
        assert!(refused(r#"{"a": NaN}"#).contains("JSON has no NaN"));
        assert!(refused(r#"{"a": -Infinity}"#).contains("JSON has no Infinity"));
        assert!(refused(r#"{"a": 1e999}"#).contains("number out of range"));
        assert!(refused(r#"{"a": True}"#).contains("write `true`"));
        assert!(refused("{'a': 1}").contains("double quotes"));
        assert!(refused(r#"{"a": "\ud800"}"#).contains("hex escape"));
        assert!(refused(r#"{"a": "\udc00x"}"#).contains("surrogate"));
    }

    #[test]
    fn hostile_text_is_refused_quickly_and_shortly() {
        let mut limits = Limits::default();
        limits.set("arguments_bytes_max", "64 MiB").expect("the maximum");
        let refused = |text: String| {
            let message = parse(&text, &limits).expect_err("a refusal").message;
            assert!(message.len() < 600, "{message}");
            message
        };
        let deep = format!("{}{}", "{\"a\":".repeat(10_000), "}".repeat(9_000));
        assert!(refused(deep).contains("recursion limit"));
        let started = std::time::Instant::now();
        let size = 10 << 20;
        for text in
            ["{", "[", "}", ",", "{\"", "\"a\n\",", "{\"a\":[],", "\\", ",}", "{,\n", "\u{1}"]
        {
            refused(text.repeat(size / text.len()));
        }
        refused(format!("{{\"a\":\"{}", "\n".repeat(size)));
        refused(format!("{{\"a\":1{}", "} ".repeat(size / 2)));
        refused(format!("{{\"a\":1{}", "}]".repeat(size / 2)));
        assert!(started.elapsed().as_secs() < 60, "linear, however slow the machine");
    }

    #[test]
    fn text_that_is_no_object_is_explained() {
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
    fn pairs_follow_the_schema() {
        let parameters = json!({ "properties": { "text": { "type": "string" } } });
        let pairs = [("text", "1"), ("n", "1"), ("list", "[1]"), ("word", "abc"), ("empty", "")];
        assert_eq!(
            Value::Object(from_pairs(pairs, &parameters)),
            json!({ "text": "1", "n": 1, "list": [1], "word": "abc", "empty": "" })
        );
    }
}
