//! What people are told: which rule a schema breaks, and how a value does not fit one.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use super::expand::{is_list, is_map};
use super::{Expensive, PATH_CHARS_MAX, SchemaError, shown};
use toolhost_core::text;
use toolhost_core::tool::{Reason, Violation};

/// Digits of a number that are shown.
const DIGITS_SHOWN_MAX: usize = 40;

const A_SCHEMA: &str = "a schema: an object, true or false";

/// What a keyword takes, in words.
fn takes(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "type" => {
            "one of \"array\", \"boolean\", \"integer\", \"null\", \"number\", \"object\", \"string\", or an array of them"
        }
        "enum" => "an array of at least one value, all different",
        "required" => "an array of different strings",
        "multipleOf" => "a number greater than 0",
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => "a number",
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => "a whole number that is not negative",
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => "true or false",
        "properties" | "patternProperties" | "dependentSchemas" => {
            "an object whose members are schemas"
        }
        "dependentRequired" => "an object whose members are arrays of strings",
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => "an array of at least one schema",
        "additionalProperties"
        | "items"
        | "contains"
        | "not"
        | "if"
        | "then"
        | "else"
        | "propertyNames"
        | "unevaluatedItems"
        | "unevaluatedProperties" => A_SCHEMA,
        "title" | "description" | "format" | "contentEncoding" | "contentMediaType" => "a string",
        "examples" => "an array",
        _ => return None,
    })
}

/// The rule that a schema breaks: the keyword, its place, what it is, and what it takes.
pub(super) fn invalid(error: &ValidationError<'_>) -> SchemaError {
    let path = error.instance_path().to_string();
    let steps: Vec<&str> = path.split('/').skip(1).collect();
    let (keyword, is_member) = keyword_at(&steps);
    let takes = if is_member { Some(A_SCHEMA) } else { takes(keyword) };
    let problem = match takes {
        Some(takes) => format!("is {}, and must be {takes}", shown(error.instance())),
        None => shown(error),
    };
    let reason = Reason::without_repair(problem);
    SchemaError::Invalid { at: Expensive::new(keyword, steps), reason }
}

/// The keyword at a place in a schema; and whether the place is that of a schema below it, by a name
/// or a number.
fn keyword_at<'a>(steps: &[&'a str]) -> (&'a str, bool) {
    let (mut keyword, mut is_member) = ("", false);
    let mut steps = steps.iter().peekable();
    while let Some(step) = steps.next() {
        (keyword, is_member) = (step, false);
        let is_numbered = steps.peek().is_some_and(|step| step.parse::<usize>().is_ok());
        if is_map(step) || is_list(step) && is_numbered {
            is_member = steps.next().is_some();
        } else if is_numbered {
            steps.next();
        }
    }
    (keyword, is_member)
}

/// Why a pattern cannot be used.
pub(super) fn pattern(keyword: &str, path: &[&str], pattern: &str) -> SchemaError {
    let has = |parts: &[&str]| parts.iter().any(|part| pattern.contains(part));
    let (problem, repair) = if has(&["(?=", "(?!", "(?<=", "(?<!"]) {
        (
            "looks ahead or behind with `(?`, which takes more than linear time",
            "write it without, or check that in the tool",
        )
    } else if pattern
        .split('\\')
        .skip(1)
        .any(|rest| rest.starts_with(|c| matches!(c, '1'..='9' | 'k')))
    {
        (
            "refers back to a group, which takes more than linear time",
            "write it without, or check that in the tool",
        )
    } else {
        ("is no regular expression", "check its brackets, escapes and repetitions")
    };
    let problem = format!("`{}` {problem}", shown(&pattern));
    let at = Expensive::new(keyword, path.iter().copied());
    SchemaError::Invalid { at, reason: Reason::new(problem, repair) }
}

/// How a value does not fit.
pub(super) fn described(error: ValidationError<'_>) -> Violation {
    let path = text::cut(&error.instance_path().to_string(), PATH_CHARS_MAX);
    let unexpected = match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            unexpected.first().map(|name| text::cut(name, PATH_CHARS_MAX))
        }
        _ => None,
    };
    let message = match error.kind() {
        ValidationErrorKind::Enum { options } if is_empty(options) => {
            "no value is allowed here: `enum` is empty".to_owned()
        }
        _ => short_numbers(&shown(&error)),
    };
    Violation { path, message, unexpected }
}

fn is_empty(options: &Value) -> bool {
    options.as_array().is_some_and(Vec::is_empty)
}

/// A text whose long numbers are cut: `1e308` has 309 digits.
fn short_numbers(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(start);
        let length = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let (number, after) = number.split_at(length);
        short.push_str(before);
        match number.get(..DIGITS_SHOWN_MAX) {
            Some(first) if length > DIGITS_SHOWN_MAX => {
                short.push_str(first);
                short.push('…');
            }
            _ => short.push_str(number),
        }
        rest = after;
    }
    short + rest
}

#[cfg(test)]
mod tests {
    use super::super::{Schema, parse};
    use super::*;
    use toolhost_core::limits::Limits;

    fn refused(schema: &str, expected: &str) {
        let limits = Limits::default();
        let schema = parse(schema, &limits).expect("JSON");
        let error = Schema::compile(&schema, &limits).expect_err("invalid");
        assert_eq!(error.to_string(), format!("schema is invalid: {expected}"));
    }

    fn told(schema: &str, value: &str) -> String {
        let limits = Limits::default();
        let schema = parse(schema, &limits).expect("JSON");
        let schema = Schema::compile(&schema, &limits).expect("a schema");
        let value = toolhost_core::json::read(value).expect("JSON");
        let told = schema.check(&value).expect_err("wrong");
        told.into_iter().map(|one| format!("{}: {}", one.path, one.message)).collect()
    }

    #[test]
    fn a_broken_rule_is_told_with_its_keyword_and_place() {
        let of = |member: &str| format!(r#"{{"properties":{{"a":{{{member}}}}}}}"#);
        for (member, expected) in [
            (
                r#""enum":1"#,
                "keyword `enum` at /properties/a/enum: is 1, and must be an array of at least one value, all different",
            ),
            (
                r#""multipleOf":0"#,
                "keyword `multipleOf` at /properties/a/multipleOf: is 0, and must be a number greater than 0",
            ),
            (
                r#""minLength":-1"#,
                "keyword `minLength` at /properties/a/minLength: is -1, and must be a whole number that is not negative",
            ),
            (
                r#""minimum":"1""#,
                "keyword `minimum` at /properties/a/minimum: is \"1\", and must be a number",
            ),
            (
                r#""required":["x",1]"#,
                "keyword `required` at /properties/a/required/1: is 1, and must be an array of different strings",
            ),
            (
                r#""anyOf":[]"#,
                "keyword `anyOf` at /properties/a/anyOf: is [], and must be an array of at least one schema",
            ),
            (
                r#""properties":{"b":7}"#,
                "keyword `properties` at /properties/a/properties/b: is 7, and must be a schema: an object, true or false",
            ),
            (
                r#""pattern":"(?=a)b""#,
                "keyword `pattern` at /properties/a/pattern: `(?=a)b` looks ahead or behind with `(?`, which takes more than linear time; write it without, or check that in the tool",
            ),
            (
                r#""pattern":"(a)\\1""#,
                "keyword `pattern` at /properties/a/pattern: `(a)\\1` refers back to a group, which takes more than linear time; write it without, or check that in the tool",
            ),
            (
                r#""patternProperties":{"a(":true}"#,
                "keyword `patternProperties` at /properties/a/patternProperties: `a(` is no regular expression; check its brackets, escapes and repetitions",
            ),
        ] {
            refused(&of(member), expected);
        }
        refused(
            &of(r#""type":"strin""#),
            r#"keyword `type` at /properties/a/type: is "strin", and must be one of "array", "boolean", "integer", "null", "number", "object", "string", or an array of them"#,
        );
    }

    #[test]
    fn a_value_is_told_in_short() {
        let multiple = r#"{"properties":{"a":{"multipleOf":1e300}}}"#;
        let shown = told(multiple, r#"{"a":1}"#);
        assert!(shown.starts_with("/a: 1") && shown.contains('…') && shown.len() < 100, "{shown}");
        let nothing = r#"{"properties":{"a":{"enum":[]}}}"#;
        assert_eq!(told(nothing, r#"{"a":1}"#), "/a: no value is allowed here: `enum` is empty");
    }

    #[test]
    fn anchors_and_escaped_pointers_are_followed() {
        for reference in [
            r##""$ref":"#n","$defs":{"x":{"$anchor":"n","required":["b"]}}"##,
            r##""$ref":"#/$defs/%C3%A9~1~0x","$defs":{"é/~x":{"required":["b"]}}"##,
            r##""$dynamicRef":"#n","properties":{"x":{"$dynamicAnchor":"n","required":["b"]}}"##,
        ] {
            assert_eq!(told(&format!("{{{reference}}}"), "{}"), r#": "b" is a required property"#);
        }
    }

    #[test]
    fn numbers_of_many_digits_are_cut() {
        let cases = [
            ("7 is not a multiple of 2.5", "7 is not a multiple of 2.5".to_owned()),
            (&format!("a {}.5b 12", "9".repeat(309)), format!("a {}….5b 12", "9".repeat(40))),
            (&"1".repeat(40), "1".repeat(40)),
        ];
        for (given, expected) in cases {
            assert_eq!(short_numbers(given), expected);
        }
    }
}
