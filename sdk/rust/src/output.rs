//! What a tool returns: an output made of blocks, or an error the model can act on.

use std::fmt::Display;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::bindings::toolhost::plugin::types::{
    BadArguments, Blob, Content, ResourceLink, ToolError, ToolOutput,
};
use crate::{http, schema};

/// The answer of a tool: content blocks in order, and optionally the same as structured JSON.
#[derive(Clone, Debug)]
pub struct Output(ToolOutput);

impl Output {
    /// An answer without content.
    pub fn empty() -> Output {
        Output(ToolOutput { content: Vec::new(), structured: None, extensions: Vec::new() })
    }

    /// Adds a block of plain text.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Output {
        self.with(Content::Text(text.into()))
    }

    /// Adds a block of JSON.
    ///
    /// # Errors
    /// If `value` cannot be written as JSON, such as a map whose keys are not strings.
    pub fn with_json(self, value: &impl Serialize) -> Result<Output, Error> {
        Ok(self.with(Content::Json(serde_json::to_string(value)?)))
    }

    /// Adds a block of text that is JSON already.
    ///
    /// The host refuses the output if it is not.
    #[must_use]
    pub fn with_json_text(self, json: impl Into<String>) -> Output {
        self.with(Content::Json(json.into()))
    }

    /// Adds a picture, such as one of media type `image/png`.
    #[must_use]
    pub fn with_image(self, media_type: &str, data: Vec<u8>) -> Output {
        self.with(Content::Image(Blob { media_type: media_type.to_owned(), data }))
    }

    /// Adds a sound, such as one of media type `audio/wav`.
    #[must_use]
    pub fn with_audio(self, media_type: &str, data: Vec<u8>) -> Output {
        self.with(Content::Audio(Blob { media_type: media_type.to_owned(), data }))
    }

    /// Adds a pointer to a resource.
    #[must_use]
    pub fn with_resource(
        self,
        uri: &str,
        media_type: Option<&str>,
        text: Option<String>,
    ) -> Output {
        self.with(Content::Resource(ResourceLink {
            uri: uri.to_owned(),
            media_type: media_type.map(str::to_owned),
            text,
        }))
    }

    /// All text and JSON blocks joined by line breaks: what a test compares.
    pub fn text(&self) -> String {
        let text = |block: &Content| match block {
            Content::Text(text) | Content::Json(text) => Some(text.clone()),
            _ => None,
        };
        self.0.content.iter().filter_map(text).collect::<Vec<_>>().join("\n")
    }

    /// The structured output as JSON text, if there is one: what a test compares.
    pub fn structured(&self) -> Option<&str> {
        self.0.structured.as_deref()
    }

    pub(crate) fn into_contract(self) -> ToolOutput {
        self.0
    }

    fn with(mut self, block: Content) -> Output {
        self.0.content.push(block);
        self
    }
}

/// What a tool function may return inside `Ok`.
pub trait IntoOutput {
    /// Turns the value into content blocks.
    ///
    /// # Errors
    /// If the value cannot be written as JSON.
    fn into_output(self) -> Result<Output, Error>;

    /// The JSON Schema of the structured output, if the type has one.
    fn output_schema() -> Option<String> {
        None
    }
}

/// A value returned as one block of JSON.
#[derive(Clone, Debug)]
pub struct Json<T>(pub T);

/// A value returned as JSON *and* as structured output, with its schema in the registration.
///
/// The value must be written as a JSON object, so `T` is a struct or a map.
#[derive(Clone, Debug)]
pub struct Structured<T>(pub T);

/// A value shown as text, by its own [`Display`], and returned as structured output as well, with
/// its schema in the registration.
///
/// The value must be written as a JSON object, so `T` is a struct or a map.
#[derive(Clone, Debug)]
pub struct Shown<T>(pub T);

impl IntoOutput for Output {
    fn into_output(self) -> Result<Output, Error> {
        Ok(self)
    }
}

impl IntoOutput for String {
    fn into_output(self) -> Result<Output, Error> {
        Ok(Output::empty().with_text(self))
    }
}

impl IntoOutput for &str {
    fn into_output(self) -> Result<Output, Error> {
        Ok(Output::empty().with_text(self))
    }
}

impl IntoOutput for () {
    fn into_output(self) -> Result<Output, Error> {
        Ok(Output::empty())
    }
}

impl IntoOutput for Value {
    fn into_output(self) -> Result<Output, Error> {
        Output::empty().with_json(&self)
    }
}

impl<T: Serialize> IntoOutput for Json<T> {
    fn into_output(self) -> Result<Output, Error> {
        Output::empty().with_json(&self.0)
    }
}

impl<T: Serialize + JsonSchema> IntoOutput for Structured<T> {
    fn into_output(self) -> Result<Output, Error> {
        let mut output = Output::empty().with_json(&self.0)?;
        output.0.structured = Some(serde_json::to_string(&self.0)?);
        Ok(output)
    }

    fn output_schema() -> Option<String> {
        Some(schema::of::<T>())
    }
}

impl<T: Display + Serialize + JsonSchema> IntoOutput for Shown<T> {
    fn into_output(self) -> Result<Output, Error> {
        let mut output = Output::empty().with_text(self.0.to_string());
        output.0.structured = Some(serde_json::to_string(&self.0)?);
        Ok(output)
    }

    fn output_schema() -> Option<String> {
        Some(schema::of::<T>())
    }
}

/// Why a tool gives no output. Any [`std::error::Error`] becomes one through `?`, as
/// `Tool execution failed: TYPE: MESSAGE`; only what the host says about a request that it
/// [refused](crate::http::Error::Refused) stays as the host wrote it.
#[derive(Clone, Debug)]
pub struct Error(ToolError);

impl Error {
    /// The tool says no; the text is for the model: what went wrong, and what to do.
    pub fn failed(message: impl Into<String>) -> Error {
        Error(ToolError::Failed(message.into()))
    }

    /// The argument at `path`, a JSON Pointer such as `/filter`, cannot be used.
    pub fn bad_argument(path: &str, message: impl Into<String>) -> Error {
        let path = (!path.is_empty()).then(|| path.to_owned());
        Error(ToolError::BadArguments(BadArguments { message: message.into(), path }))
    }

    /// The tool cannot work at present; the text says what is missing.
    pub fn not_available(message: impl Into<String>) -> Error {
        Error(ToolError::NotAvailable(message.into()))
    }

    /// The text of the error.
    pub fn message(&self) -> &str {
        match &self.0 {
            ToolError::Failed(message) | ToolError::NotAvailable(message) => message,
            ToolError::BadArguments(bad) => &bad.message,
        }
    }

    pub(crate) fn into_contract(self) -> ToolError {
        self.0
    }
}

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Error {
        if let Some(http::Error::Refused(text)) = (&error as &dyn std::error::Error).downcast_ref()
        {
            return Error::failed(text);
        }
        let name = std::any::type_name::<E>();
        let name = name.split('<').next().unwrap_or(name);
        let name = name.rsplit("::").next().unwrap_or(name);
        let mut message = format!("Tool execution failed: {name}: {error}");
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Error::failed(message)
    }
}
