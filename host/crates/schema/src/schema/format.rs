//! A tool's definition as a model is to see it, in the form that its vendor accepts.
//!
//! Schemas come from strangers, and a vendor refuses the whole request for one it does not like.
//! So each form is written from what its vendor is known to accept, and the rest is left out: a
//! model that is told too little gets a clear error from the check of its arguments, which is
//! always made with the schema as registered. Rendering never fails, and the same definition
//! always gives the same bytes.

mod anthropic;
mod gemini;
mod join;
mod null;
mod strict;

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value, json};
use thiserror::Error;

use super::clean;
use toolhost_core::text;
use toolhost_core::tool::{Annotations, ToolSpec};

/// Most characters of an unknown name that are looked at.
const NAME_CHARS_MAX: usize = 60;

/// Whose form a definition has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A function of OpenAI's chat completions, which most other vendors read too.
    OpenAi,
    /// The same for structured outputs: arguments always match, optional ones are null.
    OpenAiStrict,
    /// A tool of Anthropic's messages.
    Anthropic,
    /// A function declaration of Gemini.
    Gemini,
    /// A tool as an MCP server lists it.
    Mcp,
}

/// Why a text names no format.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{given}` is no format: allowed are {}{}", allowed(), offered(.nearest.as_deref()))]
pub struct FormatError {
    /// What was given, made safe to show.
    pub given: String,
    /// The name that is most like it.
    pub nearest: Option<String>,
}

/// One tool's definition as a model is to see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The name a model calls.
    pub name: String,
    /// What the tool does.
    pub description: String,
    /// JSON Schema of the arguments, as registered.
    pub parameters: Value,
    /// JSON Schema of the structured output, as registered.
    pub output: Option<Value>,
    /// Hints, for people.
    pub annotations: Annotations,
}

impl Format {
    /// Every format, in the order in which they are named to people.
    pub const ALL: [Format; 5] =
        [Format::OpenAi, Format::OpenAiStrict, Format::Anthropic, Format::Gemini, Format::Mcp];

    /// The name by which a person chooses it.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::OpenAi => "openai",
            Format::OpenAiStrict => "openai-strict",
            Format::Anthropic => "anthropic",
            Format::Gemini => "gemini",
            Format::Mcp => "mcp",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl FromStr for Format {
    type Err = FormatError;

    /// Reads a format's name, exactly as [`Format::as_str`] writes it.
    ///
    /// # Errors
    /// If no format has this name.
    fn from_str(name: &str) -> Result<Format, FormatError> {
        if let Some(format) = Format::ALL.into_iter().find(|format| format.as_str() == name) {
            return Ok(format);
        }
        let given = text::cut(&text::one_line(name), NAME_CHARS_MAX);
        let nearest = text::nearest(&given, Format::ALL.map(Format::as_str)).into_iter().next();
        Err(FormatError { given, nearest })
    }
}

fn allowed() -> String {
    Format::ALL.map(Format::as_str).join(", ")
}

fn offered(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"))
}

/// About what a rendered definition costs in a prompt: its JSON in characters, divided by four.
pub fn tokens(definition: &Value) -> usize {
    definition.to_string().chars().count().div_ceil(4)
}

impl Definition {
    /// The definition of a tool as it was registered.
    pub fn of(spec: &ToolSpec) -> Definition {
        Definition {
            name: spec.name.to_string(),
            description: spec.description.clone(),
            parameters: spec.parameters.clone(),
            output: spec.output.clone(),
            annotations: spec.annotations,
        }
    }

    /// The definition in a vendor's form: a JSON object, one entry of the vendor's list of tools.
    ///
    /// Properties whose names Anthropic or Gemini refuse are left out for them. With
    /// `OpenAiStrict`, a schema that structured outputs cannot express (an object with arbitrary
    /// keys, a value of any type) gets the form `OpenAi` with `"strict": false`, and a model
    /// says null for each optional argument that it leaves out.
    pub fn render(&self, format: Format) -> Value {
        let Definition { name, description, parameters, .. } = self;
        match format {
            Format::OpenAi => json!({
                "type": "function",
                "function": {
                    "name": name,
                    "description": description,
                    "parameters": common(parameters),
                },
            }),
            Format::OpenAiStrict => {
                let strict = strict::parameters(parameters);
                let is_strict = strict.is_some();
                json!({
                    "type": "function",
                    "function": {
                        "name": name,
                        "description": description,
                        "parameters": strict.unwrap_or_else(|| common(parameters)),
                        "strict": is_strict,
                    },
                })
            }
            Format::Anthropic => json!({
                "name": name,
                "description": description,
                "input_schema": anthropic::input_schema(parameters),
            }),
            Format::Gemini => {
                let mut declaration = json!({ "name": name, "description": description });
                if let Some(parameters) = gemini::parameters(parameters) {
                    declaration["parameters"] = parameters;
                }
                declaration
            }
            Format::Mcp => self.mcp(),
        }
    }

    fn mcp(&self) -> Value {
        let mut tool = json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": rooted(&self.parameters),
        });
        if let Some(output) = &self.output {
            tool["outputSchema"] = rooted(output);
        }
        let hints = [
            ("readOnlyHint", self.annotations.read_only),
            ("destructiveHint", self.annotations.destructive),
            ("idempotentHint", self.annotations.idempotent),
            ("openWorldHint", self.annotations.open_world),
        ];
        let known = hints.into_iter().filter_map(|(name, hint)| Some((name.to_owned(), hint?)));
        let known: Map<String, Value> = known.map(|(name, hint)| (name, hint.into())).collect();
        if !known.is_empty() {
            tool["annotations"] = Value::Object(known);
        }
        tool
    }
}

/// The common form. A reference at the root is written out, since readers look there for a type.
fn common(parameters: &Value) -> Value {
    match parameters {
        Value::Object(members) if members.contains_key("$ref") => {
            clean(&Value::Object(join::root_or_own(parameters)))
        }
        _ => clean(parameters),
    }
}

/// A schema as registered, with what MCP demands of its root: that it says it is an object, and
/// that the schemas of its properties are objects. Its readers check by JSON Schema, which knows
/// no `nullable`.
fn rooted(schema: &Value) -> Value {
    let Value::Object(members) = schema else {
        return json!({ "type": "object", "properties": {} });
    };
    let mut members = members.clone();
    null::spell_out(&mut members);
    if members.get("type").is_none_or(|name| name != "object") {
        members.insert("type".to_owned(), "object".into());
    }
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        for schema in properties.values_mut() {
            match schema {
                Value::Bool(true) => *schema = json!({}),
                Value::Bool(false) => *schema = json!({ "not": {} }),
                _ => {}
            }
        }
    }
    Value::Object(members)
}

#[cfg(test)]
mod tests;
