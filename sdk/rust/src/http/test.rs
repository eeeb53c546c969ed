//! Answers in place of a host, for the author's own unit tests.
//!
//! It is there on the author's machine only, not in a component.
//!
//! ```
//! use toolhost_sdk::http;
//!
//! let answer = |sent: &http::test::Sent| match sent.url.as_str() {
//!     "https://api.example.com/status" => Ok(http::test::response(200, "fine")),
//!     _ => Ok(http::test::response(404, "")),
//! };
//! http::test::respond_with(answer, || {
//!     let response = http::get("https://api.example.com/status").unwrap();
//!     assert_eq!(response.text().unwrap(), "fine");
//! });
//! ```

use std::cell::RefCell;
use std::rc::Rc;

use super::request::Outgoing;
use super::{Error, Method, Response};

/// A request as it would have left.
///
/// What the host would do to it on the way (check it, put secrets in) has not been done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The method.
    pub method: Method,
    /// The whole URL, with its query.
    pub url: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

type Responder = Rc<dyn Fn(&Sent) -> Result<Response, Error>>;

thread_local! {
    static RESPONDER: RefCell<Option<Responder>> = const { RefCell::new(None) };
}

/// Runs `test`, in which every request of this thread is answered by `responder`, and returns
/// what it returns.
pub fn respond_with<T>(
    responder: impl Fn(&Sent) -> Result<Response, Error> + 'static,
    test: impl FnOnce() -> T,
) -> T {
    /// Puts back what was there, also when the test panics.
    struct Before(Option<Responder>);

    impl Drop for Before {
        fn drop(&mut self) {
            RESPONDER.set(self.0.take());
        }
    }

    let _before = Before(RESPONDER.replace(Some(Rc::new(responder))));
    test()
}

/// Makes up an answer.
pub fn response(status: u16, body: impl Into<Vec<u8>>) -> Response {
    Response::new(status, Vec::new(), Incoming(body.into()), String::new(), u64::MAX)
}

impl Response {
    /// Adds a header to an answer that is made up.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Response {
        self.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }
}

/// The body of an answer that was made up: one piece.
#[derive(Debug)]
pub(super) struct Incoming(Vec<u8>);

impl Incoming {
    pub(super) fn next(&mut self, _authority: &str) -> Result<Option<Vec<u8>>, Error> {
        let rest = std::mem::take(&mut self.0);
        Ok((!rest.is_empty()).then_some(rest))
    }
}

/// Answers a request in place of a host.
pub(super) fn send(outgoing: Outgoing) -> Result<Response, Error> {
    let Outgoing { method, url, headers, body, timeout: _, body_bytes_max } = outgoing;
    let responder = RESPONDER.with_borrow(Clone::clone).ok_or_else(|| {
        Error::Refused(
            "there is no host outside of toolhost: answer with `http::test::respond_with`"
                .to_owned(),
        )
    })?;
    let scheme = if url.is_https { "https" } else { "http" };
    let whole = format!("{scheme}://{}{}", url.authority, url.path_with_query);
    let mut response = responder(&Sent { method, url: whole, headers, body })?;
    response.authority = url.authority;
    response.body_bytes_max = body_bytes_max;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::http::{self, Request};

    fn asked(request: Request, responder: impl Fn(&Sent) -> Response + 'static) -> String {
        let answer = respond_with(move |sent| Ok(responder(sent)), || request.send());
        answer.expect("an answer").text().expect("a text")
    }

    #[test]
    fn a_request_leaves_as_it_was_built() {
        let request = Request::new(Method::Post, "https://a.example/x?y=1#z")
            .query("q", "a b")
            .query("n", 2)
            .header("X-Kind", "test")
            .json(&["é"]);
        let echo = |sent: &Sent| {
            let body = String::from_utf8_lossy(&sent.body);
            response(200, format!("{} {} {:?} {body}", sent.method, sent.url, sent.headers))
        };
        assert_eq!(
            asked(request, echo),
            r#"POST https://a.example/x?y=1&q=a%20b&n=2 [("x-kind", "test"), ("content-type", "application/json"), ("content-length", "6")] ["é"]"#
        );
        let headers = |sent: &Sent| response(200, format!("{:?}", sent.headers));
        assert_eq!(asked(Request::new(Method::Get, "http://a.example"), headers), "[]");
        assert_eq!(
            asked(Request::new(Method::Put, "http://a.example"), headers),
            r#"[("content-length", "0")]"#
        );
    }

    #[test]
    fn an_answer_is_read_whole_or_in_pieces() {
        #[derive(Debug, Deserialize, PartialEq)]
        struct Point {
            x: i32,
        }
        let answer = |_: &Sent| Ok(response(301, r#"{"x": 1}"#).with_header("Location", "/y"));
        respond_with(answer, || {
            let get = || http::get("https://a.example").expect("an answer");
            assert_eq!((get().status(), get().is_success()), (301, false));
            assert_eq!(get().header("LOCATION"), Some("/y"));
            assert_eq!(get().headers().collect::<Vec<_>>(), [("location", "/y")]);
            assert_eq!(get().json::<Point>(), Ok(Point { x: 1 }));
            assert_eq!(get().bytes(), Ok(br#"{"x": 1}"#.to_vec()));
            let mut pieces = get();
            assert_eq!(pieces.chunk(), Ok(Some(br#"{"x": 1}"#.to_vec())));
            assert_eq!(pieces.chunk(), Ok(None));
            assert_eq!(
                get().json::<Vec<u8>>().expect_err("another shape").to_string(),
                "the answer of a.example is not the expected JSON: invalid type: map, expected a sequence at line 1 column 0"
            );
        });
        assert_eq!(
            asked(Request::new(Method::Get, "http://a"), |_| response(200, *b"a\xff")),
            "a\u{fffd}"
        );
    }

    #[test]
    fn a_body_is_bounded() {
        let read = |bytes: u64| {
            let request = Request::new(Method::Get, "https://a.example").body_bytes_max(bytes);
            respond_with(|_| Ok(response(200, "12345")), || request.send()).and_then(Response::text)
        };
        assert_eq!(read(5).expect("it fits"), "12345");
        assert_eq!(
            read(4),
            Err(Error::TooLarge(
                "the answer of a.example is larger than the 4 bytes that this tool reads".into()
            ))
        );
    }

    #[test]
    fn what_cannot_be_sent_says_why() {
        let never = |_: &Sent| -> Result<Response, Error> { panic!("nothing was to be sent") };
        respond_with(never, || {
            assert!(matches!(http::get("a.example"), Err(Error::BadRequest(_))));
            let keys = std::collections::BTreeMap::from([((1, 2), 3)]);
            let request = Request::new(Method::Post, "https://a.example").json(&keys);
            let error = request.send().expect_err("keys that are no strings");
            assert_eq!(
                error.to_string(),
                "the body cannot be written as JSON: key must be a string"
            );
        });
        let error = http::get("https://a.example").expect_err("no host");
        assert!(error.to_string().contains("http::test::respond_with"), "{error}");
    }

    #[test]
    fn a_refusal_stays_as_the_host_wrote_it() {
        let refusal = "not granted: run `toolhost grant x --http https://a.example`";
        let tool = |error: Error| {
            let ask =
                || -> Result<String, crate::Error> { Ok(http::get("https://a.example")?.text()?) };
            respond_with(move |_| Err(error.clone()), ask).expect_err("no answer")
        };
        assert_eq!(tool(Error::Refused(refusal.to_owned())).message(), refusal);
        assert_eq!(
            tool(Error::Network("no route".to_owned())).message(),
            "Tool execution failed: HttpError: no route"
        );
    }
}
