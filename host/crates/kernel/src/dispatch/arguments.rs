//! The arguments of a call, as text and as value; both say the same once they were read.

use serde_json::{Map, Value};

use toolhost_core::json;
use toolhost_core::limits::Limits;
use toolhost_core::tool::CallError;
use toolhost_schema::arguments::{self, Read};

/// Arguments on their way from the caller's text to what the tool gets.
#[derive(Default)]
pub(super) struct GivenArguments {
    pub(super) text: String,
    /// Nothing, until the text was read, and where it takes too much memory to wait with.
    pub(super) value: Map<String, Value>,
    /// The value was dropped, and is in the text alone.
    is_dropped: bool,
    /// What was repaired in them, each in one sentence.
    pub(super) repairs: Vec<String>,
}

impl GivenArguments {
    /// As the caller wrote them, not read yet.
    pub(super) fn written(text: String) -> GivenArguments {
        GivenArguments { text, ..GivenArguments::default() }
    }

    /// Reads the text, repairing what can be repaired.
    pub(super) fn read(&mut self, limits: &Limits) -> Result<(), CallError> {
        let Read { value, repairs } = arguments::parse(&self.text, limits)?;
        (self.value, self.is_dropped) = (value, false);
        if !repairs.is_empty() || self.text.trim().is_empty() {
            self.write();
        }
        self.repairs.extend(repairs);
        Ok(())
    }

    /// Gives values the types that the schema declares.
    pub(super) fn coerce(&mut self, parameters: &Value) {
        let coerced = arguments::coerce(&mut self.value, parameters);
        if arguments::leave_out_nulls(&mut self.value, parameters) || coerced {
            self.write();
        }
    }

    /// Keeps the text alone.
    pub(super) fn drop_value(&mut self) {
        self.value = Map::new();
        self.is_dropped = true;
    }

    /// The value, which nobody needs any more.
    pub(super) fn take_value(&mut self) -> Map<String, Value> {
        if !std::mem::take(&mut self.is_dropped) {
            return std::mem::take(&mut self.value);
        }
        // It was written from a value, or read as one.
        match json::read(&self.text) {
            Ok(Value::Object(value)) => value,
            _ => Map::new(),
        }
    }

    fn write(&mut self) {
        // A map of JSON values is JSON.
        self.text = serde_json::to_string(&self.value).unwrap_or_default();
    }
}
