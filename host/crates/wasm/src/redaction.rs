//! The secrets that one plugin was granted: by name for requests, all together for redaction.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use toolhost_core::tool::{CallError, Content, ToolOutput};
use toolhost_policy::capability::SecretGrant;
use toolhost_state::secret::{Redactor, SecretValue, VALUE_BYTES_MIN};

/// Values of secrets, by name. Shown without the values.
pub type Secrets = BTreeMap<String, SecretValue>;

/// The text that stands for a secret in its slot.
pub(super) fn placeholder(name: &str) -> String {
    format!("{{{{secret:{name}}}}}")
}

/// The secrets of one plugin, as far as they are set.
#[derive(Debug)]
pub(super) struct PluginSecrets {
    values: Secrets,
    redactor: Redactor,
}

impl Default for PluginSecrets {
    fn default() -> PluginSecrets {
        PluginSecrets { values: Secrets::new(), redactor: Redactor::new(&[]) }
    }
}

impl PluginSecrets {
    /// Of all secrets, those that were granted.
    pub(super) fn new<'a>(
        all: &Secrets,
        granted: impl Iterator<Item = &'a SecretGrant>,
    ) -> PluginSecrets {
        let granted = granted.filter_map(|grant| all.get_key_value(&grant.name));
        let values: Secrets = granted.map(|(name, value)| (name.clone(), value.clone())).collect();
        let named: Vec<(&str, &SecretValue)> =
            values.iter().map(|(name, value)| (name.as_str(), value)).collect();
        let redactor = Redactor::new(&named);
        PluginSecrets { values, redactor }
    }

    pub(super) fn value(&self, name: &str) -> Option<&SecretValue> {
        self.values.get(name)
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Takes every value out of a text.
    pub(super) fn redact(&self, text: &mut String) {
        if let Cow::Owned(redacted) = self.redactor.text(text) {
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
        match value {
            Value::String(text) => self.redact(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_strings(item)),
            Value::Object(members) => {
                for (mut key, mut value) in std::mem::take(members) {
                    self.redact(&mut key);
                    self.redact_strings(&mut value);
                    members.insert(key, value);
                }
            }
            _ => {}
        }
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
        match self.redactor.bytes(&bytes) {
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
        if self.redactor.is_empty() {
            return;
        }
        for block in &mut output.content {
            match block {
                Content::Text(text) => self.redact(text),
                Content::Json(text) => self.redact_json(text),
                Content::Image { data, media_type } | Content::Audio { data, media_type } => {
                    self.redact(media_type);
                    if let Cow::Owned(redacted) = self.redactor.bytes(data) {
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
