//! The three parts of a URL that a request is made of.
//!
//! The host reads the URL again, strictly, and decides on what it reads; this is only as much as
//! is needed to hand it over. A whole URL library would weigh more than most plugins.

use super::Error;

/// What a request is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) is_https: bool,
    /// The host, and the port if it is not the scheme's own.
    pub(super) authority: String,
    /// It begins with `/`.
    pub(super) path_with_query: String,
}

impl Url {
    pub(super) fn parse(text: &str) -> Result<Url, Error> {
        let bad = |problem: &str| {
            Err(Error::BadRequest(format!(
                "`{text}` cannot be requested: {problem}; a URL is written https://HOST[:PORT][/PATH][?QUERY]"
            )))
        };
        let Some((scheme, rest)) = text.split_once("://") else {
            return bad("it has no scheme");
        };
        let is_https = scheme.eq_ignore_ascii_case("https");
        if !is_https && !scheme.eq_ignore_ascii_case("http") {
            return bad("its scheme is neither https nor http");
        }
        if rest.chars().any(char::is_control) {
            return bad("it contains a control character");
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return bad("it contains a user name; credentials go into a header");
        }
        if authority.is_empty() || !authority.bytes().all(|byte| byte.is_ascii_graphic()) {
            return bad("its host is not written in ASCII letters");
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let authority = authority.to_owned();
        Ok(Url { is_https, authority, path_with_query: format!("{slash}{}", sendable(path)) })
    }
}

/// Adds a parameter to the query of a URL.
pub(super) fn push_query(url: &mut String, name: &str, value: &str) {
    url.push(if url.contains('?') { '&' } else { '?' });
    encode(url, name, is_unreserved);
    url.push('=');
    encode(url, value, is_unreserved);
}

/// What may stand in a query's value without a meaning of its own, RFC 3986.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// A path and a query without what may not be sent. What is encoded already stays as it is.
fn sendable(text: &str) -> String {
    let mut sendable = String::with_capacity(text.len());
    encode(&mut sendable, text, |byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte));
    sendable
}

fn encode(to: &mut String, text: &str, stays: fn(u8) -> bool) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    for byte in text.bytes() {
        if stays(byte) {
            to.push(char::from(byte));
        } else {
            to.extend(['%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        match Url::parse(text) {
            Ok(Url { is_https, authority, path_with_query }) => {
                format!("{is_https} {authority} {path_with_query}")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn urls_fall_into_parts() {
        for (text, parts) in [
            ("https://a.example", "true a.example /"),
            ("HTTP://a.example:8080?x=1", "false a.example:8080 /?x=1"),
            ("https://[::1]:9/a/../b?c=d#e", "true [::1]:9 /a/../b?c=d"),
            ("https://a.example/é ü%20|?q=a\"b", "true a.example /%C3%A9%20%C3%BC%20%7C?q=a%22b"),
            ("https://a.example#f/g", "true a.example /"),
        ] {
            assert_eq!(parsed(text), parts, "{text}");
        }
    }

    #[test]
    fn odd_urls_are_refused() {
        for (text, problem) in [
            ("a.example", "it has no scheme"),
            ("ftp://a.example", "neither https nor http"),
            ("https://u:p@a.example", "user name"),
            ("https:///x", "its host"),
            ("https://bücher.example/", "its host"),
            ("https://a b/", "its host"),
            ("https://a.example/\r\nx", "control character"),
        ] {
            let message = parsed(text);
            assert!(message.contains(problem), "{text}: {message}");
        }
    }

    #[test]
    fn queries_are_encoded() {
        let mut url = "https://a.example/x".to_owned();
        push_query(&mut url, "q", "São Paulo&units=1");
        push_query(&mut url, "n[]", "-1.5~");
        assert_eq!(url, "https://a.example/x?q=S%C3%A3o%20Paulo%26units%3D1&n%5B%5D=-1.5~");
    }
}
