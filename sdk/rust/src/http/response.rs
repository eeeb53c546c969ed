//! An answer: its head at once, its body as it is read.

use serde::de::DeserializeOwned;

use super::Error;
use super::transport::Incoming;

/// The answer to a request.
///
/// Its body has not been read yet: [`text`](Response::text), [`bytes`](Response::bytes) and
/// [`json`](Response::json) read it whole, [`chunk`](Response::chunk) piece by piece.
#[derive(Debug)]
pub struct Response {
    status: u16,
    pub(super) headers: Vec<(String, String)>,
    body: Incoming,
    /// Whose answer it is, for errors.
    pub(super) authority: String,
    bytes_read: u64,
    pub(super) body_bytes_max: u64,
}

impl Response {
    pub(super) fn new(
        status: u16,
        headers: Vec<(String, String)>,
        body: Incoming,
        authority: String,
        body_bytes_max: u64,
    ) -> Response {
        Response { status, headers, body, authority, bytes_read: 0, body_bytes_max }
    }

    /// The status, such as 200. A redirect (301 to 308) is an answer like any other.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Tells whether the status is 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The value of a header, the first if there are several; case does not matter.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// All headers, name and value, in the order in which the host gives them.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Reads the next piece of the body, of any size above 0; none at its end.
    ///
    /// # Errors
    /// - [`Error::TooLarge`] if there is more than
    ///   [`body_bytes_max`](super::Request::body_bytes_max), counted over all pieces;
    /// - [`Error::Network`] or [`Error::Refused`] if the rest does not arrive.
    pub fn chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let Some(chunk) = self.body.next(&self.authority)? else { return Ok(None) };
        self.bytes_read += chunk.len() as u64;
        if self.bytes_read > self.body_bytes_max {
            return Err(Error::TooLarge(format!(
                "the answer of {} is larger than the {} bytes that this tool reads",
                self.authority, self.body_bytes_max
            )));
        }
        Ok(Some(chunk))
    }

    /// Reads the rest of the body.
    ///
    /// # Errors
    /// As [`chunk`](Response::chunk).
    pub fn bytes(mut self) -> Result<Vec<u8>, Error> {
        self.rest()
    }

    /// Reads the rest of the body as UTF-8; what is none becomes `\u{FFFD}`.
    ///
    /// # Errors
    /// As [`chunk`](Response::chunk).
    pub fn text(mut self) -> Result<String, Error> {
        let bytes = self.rest()?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// Reads the rest of the body as JSON.
    ///
    /// # Errors
    /// - [`Error::BadBody`] if it is not JSON, or not of the shape of `T`;
    /// - and as [`chunk`](Response::chunk).
    pub fn json<T: DeserializeOwned>(mut self) -> Result<T, Error> {
        let bytes = self.rest()?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let authority = &self.authority;
            Error::BadBody(format!("the answer of {authority} is not the expected JSON: {error}"))
        })
    }

    fn rest(&mut self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk()? {
            if bytes.is_empty() {
                bytes = chunk;
            } else {
                bytes.extend(chunk);
            }
        }
        Ok(bytes)
    }
}
