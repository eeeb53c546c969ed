//! Texts of a plugin without the secrets that it was granted, wherever one may stand in them.

use std::borrow::Cow;

use serde_json::Value;

use toolhost_core::tool::{CallError, Content, ToolOutput};
use toolhost_state::secret::{Redactor, SecretValue, VALUE_BYTES_MIN};

/// What no text of a plugin may show: the values it was granted to use and not to see.
#[derive(Debug)]
pub(super) struct Redaction(Redactor);

impl Default for Redaction {
    fn default() -> Redaction {
        Redaction::new(&[])
    }
}

impl Redaction {
    /// Takes these values out of texts, each with its name.
    pub(super) fn new(values: &[(&str, &SecretValue)]) -> Redaction {
        Redaction(Redactor::new(values))
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.0
    }

    /// Takes every value out of a text.
    pub(super) fn redact(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.0.text(text) {
            *text = redacted;
        }
    }

    /// Takes every value out of a short text, in whatever case it stands there.
    pub(super) fn redact_any_case(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.0.text_of_any_case(text) {
            *text = redacted;
        }
    }

    /// Takes every value out of a JSON text, which stays one.
    fn redact_json(&self, text: &mut String) {
        // String by string, since a value may be written in escapes, begin within one, or span two
        // strings.
        match serde_json::from_str::<Value>(text) {
            Ok(value) => {
                let mut redacted = value.clone();
                self.redact_strings(&mut redacted);
                if redacted != value {
                    *text = redacted.to_string();
                }
            }
            Err(_) => self.redact(text),
        }
    }

    fn redact_strings(&self, value: &mut Value) {
        if let Some(redacted) = self.redacted_numbers(value) {
            *value = Value::String(redacted);
            return;
        }
        match &mut *value {
            Value::String(text) => self.redact(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_strings(item)),
            Value::Object(members) => {
                for (mut key, mut value) in std::mem::take(members) {
                    self.redact(&mut key);
                    self.redact_strings(&mut value);
                    members.insert(key, value);
                }
            }
            Value::Number(number) => {
                if let Some(redacted) = self.redacted_digits(number) {
                    *value = Value::String(redacted);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// What stands in place of a number whose digits are a secret.
    fn redacted_digits(&self, number: &serde_json::Number) -> Option<String> {
        let whole = number.as_f64().filter(|_| number.is_f64()).map(|number| format!("{number}"));
        let written = number.to_string();
        [Some(written), whole]
            .into_iter()
            .flatten()
            .filter(|digits| digits.len() >= VALUE_BYTES_MIN)
            .find_map(|digits| match self.0.text(&digits) {
                Cow::Owned(redacted) => Some(redacted),
                Cow::Borrowed(_) => None,
            })
    }

    /// Tells whether a number's digits are a secret.
    pub(super) fn hides(&self, number: f64) -> bool {
        let number = serde_json::Number::from_f64(number);
        number.is_some_and(|number| self.redacted_digits(&number).is_some())
    }

    /// What stands in place of numbers that are the bytes of a text with a secret in it: the items
    /// of an array, or the members of an object that are named by their places.
    fn redacted_numbers(&self, value: &Value) -> Option<String> {
        let bytes: Vec<u8> = match value {
            Value::Array(items) if items.len() >= VALUE_BYTES_MIN => {
                items.iter().map(byte).collect()
            }
            Value::Object(members) if members.len() >= VALUE_BYTES_MIN => {
                let place = |name: &String| name.parse::<u64>().ok();
                let placed = members.iter().filter_map(|(name, item)| Some((place(name)?, item)));
                let mut placed: Vec<(u64, &Value)> = placed.collect();
                placed.sort_by_key(|(place, _)| *place);
                placed.into_iter().map(|(_, item)| byte(item)).collect()
            }
            _ => return None,
        };
        match self.0.bytes(&bytes) {
            Cow::Owned(redacted) => Some(String::from_utf8_lossy(&redacted).into_owned()),
            Cow::Borrowed(_) => None,
        }
    }

    /// Takes every value out of an error.
    pub(super) fn redact_error(&self, error: &mut CallError) {
        self.redact(&mut error.message);
        error.log.iter_mut().chain(&mut error.stderr).for_each(|text| self.redact(text));
        error.details.values_mut().for_each(|value| self.redact_strings(value));
    }

    /// Takes every value out of an output.
    pub(super) fn redact_output(&self, output: &mut ToolOutput) {
        if self.0.is_empty() {
            return;
        }
        for block in &mut output.content {
            match block {
                Content::Text(text) => self.redact(text),
                Content::Json(text) => self.redact_json(text),
                Content::Image { data, media_type } | Content::Audio { data, media_type } => {
                    self.redact(media_type);
                    if let Cow::Owned(redacted) = self.0.bytes(data) {
                        *data = redacted;
                    }
                }
                Content::Resource { uri, text, media_type } => {
                    self.redact(uri);
                    text.iter_mut().chain(media_type).for_each(|text| self.redact(text));
                }
            }
        }
        output.structured.iter_mut().for_each(|text| self.redact_json(text));
    }
}

/// The byte that an item of JSON stands for; one that no text has if it stands for none.
fn byte(item: &Value) -> u8 {
    let number = item.as_f64().filter(|number| number.fract() == 0.0);
    match number {
        Some(number) if (0.0..=255.0).contains(&number) => number as u8,
        // Some programs write bytes with a sign.
        Some(number) if (-128.0..0.0).contains(&number) => number as i8 as u8,
        _ => 0xff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_whose_digits_are_a_secret_are_redacted() {
        let secret = SecretValue::new("8812345678901234".to_owned()).expect("a value");
        let redaction = Redaction::new(&[("DIG", &secret)]);
        for (given, expected) in [
            (r#"{"n":8812345678901234}"#, r#"{"n":"[REDACTED:DIG]"}"#),
            (r#"[8.812345678901234e15]"#, r#"["[REDACTED:DIG]"]"#),
            (r#"[-8812345678901234]"#, r#"["-[REDACTED:DIG]"]"#),
            (r#"[881234567890123, 8812.5, 1e300]"#, r#"[881234567890123, 8812.5, 1e300]"#),
        ] {
            let mut text = given.to_owned();
            redaction.redact_json(&mut text);
            assert_eq!(text.replace("[REDACTED:DIG].0", "[REDACTED:DIG]"), expected, "{given}");
        }
        assert!(redaction.hides(8_812_345_678_901_234.0) && !redaction.hides(0.5));
        let long = SecretValue::new("12345678901234567000".to_owned()).expect("a value");
        let redaction = Redaction::new(&[("LONG", &long)]);
        assert!(redaction.hides(12_345_678_901_234_567_000.0));
    }
}
