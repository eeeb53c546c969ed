//! Why there is no answer, by who can do something about it.

use std::error::Error;
use std::fmt;

/// Why a request got no answer, or why an answer cannot be used.
///
/// In a tool, `?` makes it the tool's error. A refusal stays as the host wrote it; the others
/// become `Tool execution failed: HttpError: ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpError {
    /// The host does not let the request through, and says so in its own words: what is not
    /// granted, and the command that grants it. The move is the operator's.
    Refused(String),
    /// The server cannot be reached, or the exchange broke off, or took too long.
    Network(String),
    /// The body of the answer is larger than [`body_bytes_max`](super::Request::body_bytes_max),
    /// or than the host allows.
    TooLarge(String),
    /// The URL, a header or the body cannot be sent: the move is the plugin author's.
    BadRequest(String),
    /// The body of the answer is not what was asked for, such as JSON of a certain shape.
    BadBody(String),
}

impl fmt::Display for HttpError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpError::Refused(text)
            | HttpError::Network(text)
            | HttpError::TooLarge(text)
            | HttpError::BadRequest(text)
            | HttpError::BadBody(text) => formatter.write_str(text),
        }
    }
}

impl Error for HttpError {}
