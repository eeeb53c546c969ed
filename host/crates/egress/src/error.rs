//! Why a request has no response, in words that a model may read.

use std::error::Error as _;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;
use tokio_rustls::rustls::{self, CertificateError};

use super::request::TargetHost;
use toolhost_core::text;
use toolhost_policy::capability::address::{self, AddressKind, Reach};

/// Characters of a text that was written elsewhere.
const WORDS_CHARS_MAX: usize = 200;

/// Why a request has no response, or no whole one.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SendError {
    /// The request cannot be sent as it is.
    #[error("the request cannot be sent: {problem}")]
    BadRequest {
        /// What is wrong with it.
        problem: String,
    },
    /// An address of the host may not be reached.
    #[error(
        "{whose} is refused as {kind}; {repair}",
        whose = whose(host, *address),
        repair = repair(*address)
    )]
    AddressRefused {
        /// The host as the request names it.
        host: String,
        /// The first address that is refused.
        address: IpAddr,
        /// What it is.
        kind: AddressKind,
    },
    /// `localhost`, or a name below it, stands for another machine.
    #[error("`{host}` stands for {address}, which is not loopback; nothing allows that")]
    LocalhostElsewhere {
        /// The host as the request names it.
        host: String,
        /// The first address that is not loopback.
        address: IpAddr,
    },
    /// The name has no address.
    #[error("`{host}` is not found: {reason}")]
    NameNotFound {
        /// The host as the request names it.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// No address of the host took the connection.
    #[error("`{host}` port {port} cannot be reached: {reason}")]
    ConnectFailed {
        /// The host as the request names it.
        host: String,
        /// Its port.
        port: u16,
        /// What the last address said.
        reason: String,
    },
    /// Finding, reaching and agreeing with the host took too long.
    #[error("`{host}` was not connected to within {time:?}")]
    ConnectTimeout {
        /// The host as the request names it.
        host: String,
        /// How long it might have taken.
        time: Duration,
    },
    /// No secure connection came about.
    #[error("no secure connection to `{host}`: {reason}")]
    Tls {
        /// The host as the request names it.
        host: String,
        /// What is wrong, in words.
        reason: String,
    },
    /// The body of the response is too large.
    #[error("the response is larger than `http_response_bytes_max` of {bytes_max} bytes")]
    ResponseTooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// The head of the response is too large.
    #[error(
        "the head of the response is larger than `http_head_bytes_max` of {bytes_max} bytes, or \
         has more than 100 fields"
    )]
    HeadTooLarge {
        /// The limit.
        bytes_max: usize,
    },
    /// The body of the request is too large.
    #[error("the request is larger than `http_request_bytes_max` of {bytes_max} bytes")]
    RequestTooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// The head of the response did not come in time.
    #[error("no response came within {time:?}")]
    FirstByteTimeout {
        /// How long it might have taken.
        time: Duration,
    },
    /// The response stopped in the middle.
    #[error("the response paused for longer than {time:?}")]
    BetweenBytesTimeout {
        /// How long it might have paused.
        time: Duration,
    },
    /// The server does not speak HTTP/1.1, or broke off.
    #[error("the server gave no proper response: {reason}")]
    Protocol {
        /// What is wrong, in words.
        reason: String,
    },
    /// The request's body ended with an error of its own.
    #[error("the request's body ended early: {reason}")]
    RequestBody {
        /// What is wrong, in words; at most some hundred characters.
        reason: String,
    },
}

/// An address, and whose it is, unless it was written itself.
fn whose(host: &str, address: IpAddr) -> String {
    let is_literal = host.trim_matches(['[', ']']).parse() == Ok(address);
    if is_literal { address.to_string() } else { format!("{address}, an address of `{host}`,") }
}

/// What would let a request go to an address.
fn repair(address: IpAddr) -> &'static str {
    match address::least(address) {
        Some(Reach::Public | Reach::Private) => "a grant that allows private addresses reaches it",
        Some(Reach::Named) => "only a grant of this very address, not of a name, reaches it",
        None => "no grant reaches it",
    }
}

/// A certificate authority that cannot be trusted besides Mozilla's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "root certificate {number} cannot be used: {reason}; give the DER bytes of one X.509 certificate"
)]
pub struct RootError {
    number: usize,
    reason: String,
}

impl RootError {
    pub(super) fn new(number: usize, error: &rustls::Error) -> RootError {
        RootError { number, reason: words(&error.to_string()) }
    }
}

/// A text that was written elsewhere: on one line, and short.
pub(super) fn words(text: &str) -> String {
    text::cut(&text::one_line(text), WORDS_CHARS_MAX)
}

/// What went wrong while TLS was agreed on.
pub(super) fn of_tls(host: &TargetHost, error: &io::Error) -> SendError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let reason = match inner {
        Some(rustls::Error::InvalidCertificate(problem)) => match problem {
            CertificateError::UnknownIssuer => {
                "its certificate was issued by nobody who is trusted".to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another host".to_owned()
            }
            _ => words(&format!("its certificate is not valid: {problem}")),
        },
        Some(other) => words(&other.to_string()),
        None => broken(error),
    };
    SendError::Tls { host: host.to_string(), reason }
}

/// What went wrong between request and response.
pub(super) fn of_exchange(error: &hyper::Error, head_bytes_max: usize) -> SendError {
    if error.is_parse_too_large() {
        return SendError::HeadTooLarge { bytes_max: head_bytes_max };
    }
    SendError::Protocol { reason: reason(error) }
}

/// What went wrong in the body of a response.
pub(super) fn of_body(error: &hyper::Error) -> SendError {
    SendError::Protocol { reason: reason(error) }
}

fn reason(error: &hyper::Error) -> String {
    let source = error.source();
    let inner = source.and_then(|source| source.downcast_ref::<io::Error>());
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        "it closed the connection too early".to_owned()
    } else if error.is_parse() {
        "what it sends is not HTTP/1.1".to_owned()
    } else if let Some(inner) = inner {
        broken(inner)
    } else {
        words(&error.to_string())
    }
}

fn broken(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => "it closed the connection too early".to_owned(),
        _ => words(&error.to_string()),
    }
}
