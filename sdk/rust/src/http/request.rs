//! A request, built step by step and then sent.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::url::{self, Url};
use super::{Error, Response, transport};

/// How long a request waits, unless told otherwise: half of what the host gives a call.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How large the body of an answer may be, unless told otherwise.
const BODY_BYTES_MAX: u64 = 4 << 20;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say all there is")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
        })
    }
}

/// A request that can be sent once.
///
/// What is wrong with it (a URL that is none, say) is said by [`send`](Request::send).
///
/// ```no_run
/// # fn main() -> Result<(), toolhost_sdk::http::Error> {
/// use toolhost_sdk::http::{Method, Request};
///
/// let response = Request::new(Method::Post, "https://api.example.com/notes")
///     .query("draft", true)
///     .header("accept-language", "en")
///     .json(&["a", "b"])
///     .send()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it is sent with `send`"]
pub struct Request {
    method: Method,
    url: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    timeout: Duration,
    body_bytes_max: u64,
    problem: Option<Error>,
}

impl Request {
    /// Makes a request to a URL such as `https://api.example.com/v1/notes?limit=3`.
    ///
    /// A part after `#` is left out, as it is never sent.
    pub fn new(method: Method, url: &str) -> Request {
        Request {
            method,
            url: url.split('#').next().unwrap_or_default().to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: TIMEOUT,
            body_bytes_max: BODY_BYTES_MAX,
            problem: None,
        }
    }

    /// Adds a parameter to the query of the URL, encoded as it has to be.
    pub fn query(mut self, name: &str, value: impl fmt::Display) -> Request {
        url::push_query(&mut self.url, name, &value.to_string());
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    /// Sets the body to a value as JSON, and the header `content-type`.
    pub fn json(mut self, value: &impl Serialize) -> Request {
        match serde_json::to_vec(value) {
            Ok(body) => self.body = body,
            Err(error) => {
                let text = format!("the body cannot be written as JSON: {error}");
                self.problem = Some(Error::BadRequest(text));
            }
        }
        self.header("content-type", "application/json")
    }

    /// Sets the longest wait: for a connection, for the answer to begin, and for each next piece
    /// of its body. By default 30 seconds each; the host may allow less.
    pub fn timeout(mut self, timeout: Duration) -> Request {
        self.timeout = timeout;
        self
    }

    /// Sets the most bytes of the answer's body that are read, by default 4 MiB.
    pub fn body_bytes_max(mut self, bytes: u64) -> Request {
        self.body_bytes_max = bytes;
        self
    }

    /// Sends the request and waits until the answer begins; its body is read from the
    /// [`Response`].
    ///
    /// # Errors
    /// - [`Error::Refused`] if the request was not granted, or the host does not let it through
    ///   for another reason that its text says;
    /// - [`Error::Network`] if there is no answer, or none in time;
    /// - [`Error::BadRequest`] if the URL or a header cannot be sent, or the body is no JSON.
    pub fn send(self) -> Result<Response, Error> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let url = Url::parse(&self.url)?;
        let mut headers = self.headers;
        let has_length = headers.iter().any(|(name, _)| name == "content-length");
        let may_have_body = matches!(self.method, Method::Post | Method::Put | Method::Patch);
        if !has_length && (may_have_body || !self.body.is_empty()) {
            // Without it the body is sent in chunks, which not every server understands.
            headers.push(("content-length".to_owned(), self.body.len().to_string()));
        }
        transport::send(Outgoing {
            method: self.method,
            url,
            headers,
            body: self.body,
            timeout: self.timeout,
            body_bytes_max: self.body_bytes_max,
        })
    }
}

/// A request in the parts that are sent.
#[derive(Debug)]
#[cfg_attr(
    not(target_family = "wasm"),
    expect(dead_code, reason = "nothing is waited for where nothing is sent")
)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) timeout: Duration,
    pub(super) body_bytes_max: u64,
}
