//! Requests before they are sent: where they go, and what of them goes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version};
use http_body::Body as _;

use super::body::{Upload, UploadProgress};
use super::{Body, RequestBounds, SendError};

/// Fields that are between two neighbours only, or ask for what is not done here.
const TAKEN_OUT: [HeaderName; 11] = [
    CONNECTION,
    EXPECT,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestTarget {
    pub(super) is_https: bool,
    pub(super) host: TargetHost,
    pub(super) port: u16,
}

/// A name in lower case, or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TargetHost {
    Name(String),
    Address(IpAddr),
}

impl fmt::Display for TargetHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetHost::Name(name) => formatter.write_str(name),
            TargetHost::Address(IpAddr::V4(ip)) => write!(formatter, "{ip}"),
            TargetHost::Address(IpAddr::V6(ip)) => write!(formatter, "[{ip}]"),
        }
    }
}

/// Reads where a request goes, and makes it one that can be written on a connection to there.
pub(super) fn prepare(
    request: Request<Body>,
    bounds: &RequestBounds,
) -> Result<(RequestTarget, Request<Upload>, Arc<UploadProgress>), SendError> {
    let (parts, body) = request.into_parts();
    let method = parts.method;
    for refused in [Method::CONNECT, Method::TRACE] {
        // A server may take `connect` for the same.
        if method.as_str().eq_ignore_ascii_case(refused.as_str()) {
            return Err(bad(format!("the method {refused} is not allowed")));
        }
    }
    let target = RequestTarget::read(&parts.uri)?;
    let length = length(&parts.headers, &body)?;
    let bytes_max = bounds.request_bytes_max;
    if length.is_some_and(|length| length > bytes_max) {
        return Err(SendError::RequestTooLarge { bytes_max });
    }

    let mut headers = parts.headers;
    for name in &TAKEN_OUT {
        headers.remove(name);
    }
    headers.insert(HOST, target.field());
    headers.remove(CONTENT_LENGTH);
    if let Some(length) = length {
        // Zero is said only where servers wait for it.
        let says_zero = [Method::POST, Method::PUT, Method::PATCH].contains(&method);
        if length > 0 || says_zero {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
    }
    let uri = origin_form(&parts.uri);
    let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    let head = method.as_str().len() + uri.path_and_query().map_or(0, |path| path.as_str().len());
    if head + fields.sum::<usize>() > bounds.head_bytes_max {
        let most = bounds.head_bytes_max;
        return Err(bad(format!(
            "its URI and fields exceed `http_head_bytes_max` of {most} bytes"
        )));
    }

    let (upload, progress) = Upload::new(body, length, bytes_max);
    // A new one, so that no extension of the old one changes how it is sent.
    let mut prepared = Request::new(upload);
    *prepared.method_mut() = method;
    *prepared.uri_mut() = uri;
    *prepared.version_mut() = Version::HTTP_11;
    *prepared.headers_mut() = headers;
    Ok((target, prepared, progress))
}

fn bad(problem: String) -> SendError {
    SendError::BadRequest { problem }
}

/// How long a request's body is, if it says so.
fn length(headers: &HeaderMap, body: &Body) -> Result<Option<u64>, SendError> {
    let known = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
    let mut said = headers.get_all(CONTENT_LENGTH).iter();
    let Some(first) = said.next() else { return Ok(known) };
    // No sign, no list, no spaces: what readers understand in different ways is not sent.
    let digits = first.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let said = match (digits.and_then(|digits| digits.parse().ok()), said.next()) {
        (Some(length), None) => length,
        _ => return Err(bad("its `content-length` is not one whole number".to_owned())),
    };
    match known {
        Some(known) if known != said => {
            Err(bad(format!("its `content-length` is {said}, and its body has {known} bytes")))
        }
        _ => Ok(Some(said)),
    }
}

/// The path and the query alone, as an origin server expects them.
fn origin_form(uri: &Uri) -> Uri {
    let whole = uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    Uri::from(whole)
}

impl RequestTarget {
    fn read(uri: &Uri) -> Result<RequestTarget, SendError> {
        let (is_https, usual_port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err(bad("its URI does not begin with `http://` or `https://`".to_owned())),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(bad("its URI has a user name or password before the host".to_owned()));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (inner, port) = rest.split_once(']').unwrap_or((rest, ""));
                let ip: Option<Ipv6Addr> = inner.parse().ok();
                (ip.map(|ip| TargetHost::Address(ip.into())), port)
            }
            None => {
                let end = authority.find(':').unwrap_or(authority.len());
                (read_host(&authority[..end]), &authority[end..])
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => Some(usual_port),
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|port| *port != 0)
            }
            _ => None,
        };
        let (Some(host), Some(port)) = (host, port) else {
            let authority = super::error::words(authority);
            return Err(bad(format!(
                "`{authority}` is no host; write a name such as api.example.com, an address such \
                 as 192.0.2.1 or [2001:db8::1], and a port such as :8080 behind it"
            )));
        };
        Ok(RequestTarget { is_https, host, port })
    }

    /// The `host` field.
    fn field(&self) -> HeaderValue {
        let usual_port = if self.is_https { 443 } else { 80 };
        let field = if self.port == usual_port {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        };
        HeaderValue::from_str(&field).expect("a host has no control characters")
    }
}

/// Reads a name or an IPv4 address.
///
/// What other programs take for an address (`127.1`, `0x7f000001`, `2130706433`) is neither.
fn read_host(text: &str) -> Option<TargetHost> {
    if let Ok(ip) = text.parse::<Ipv4Addr>() {
        return Some(TargetHost::Address(ip.into()));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(allowed);
    let last = text.rsplit('.').next().unwrap_or_default();
    let hexadecimal = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_name = text.len() <= 253 && !is_number && text.split('.').all(is_label);
    is_name.then(|| TargetHost::Name(text.to_ascii_lowercase()))
}
