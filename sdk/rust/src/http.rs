//! HTTP requests: a small blocking client over what the host lets through.
//!
//! A plugin asks for hosts with [`Need::http`](crate::Need::http), the operator grants them, and
//! what is both asked for and granted gets through. Everything else is
//! [refused](Error::Refused) with the command that would grant it. The text goes on to whoever
//! called the tool, word for word, when a tool uses `?`:
//!
//! ```
//! use toolhost_sdk::http::{self, Method, Request};
//! use toolhost_sdk::{Error, arguments, tool};
//!
//! #[arguments]
//! struct Title {
//!     /// The title of the page.
//!     title: String,
//! }
//!
//! /// Returns the first lines of an article.
//! #[tool(toolset = "web", read_only)]
//! fn summary(arguments: Title) -> Result<String, Error> {
//!     let response = Request::new(Method::Get, "https://api.example.com/summary")
//!         .query("title", &arguments.title)
//!         .send()?;
//!     match response.status() {
//!         200 => Ok(response.text()?),
//!         404 => Err(Error::failed("there is no such article; try another title")),
//!         status => Err(Error::failed(format!("the encyclopedia answered {status}"))),
//!     }
//! }
//! # fn main() {
//! # let answer = |_: &http::test::Sent| Ok(http::test::response(200, "A river."));
//! # let call = || toolhost_sdk::testing::call::<summary>(r#"{"title": "Po"}"#);
//! # assert_eq!(http::test::respond_with(answer, call).unwrap().text(), "A river.");
//! # }
//! ```
//!
//! An answer with any status is an answer: 404 and 500 are no errors here.
//!
//! **Redirects are not followed.** The operator granted hosts, and a redirect may lead to any
//! other, with the request and all that was put into it. An answer 301 to 308 comes back as it is.
//! A tool that wants to follow sends another request, to the header `location`, and that one is
//! checked like the first.
//!
//! **Secrets** never stand in a request that a tool writes: the host puts them in on the way out
//! and takes them out of what comes back. See the interface `secrets` in `wit/`.
//!
//! In unit tests on the author's machine there is no host; `http::test::respond_with` answers in
//! its place.

mod error;
mod request;
mod response;
#[cfg(not(target_family = "wasm"))]
pub mod test;
mod url;
#[cfg(target_family = "wasm")]
mod wasi;

#[cfg(not(target_family = "wasm"))]
use test as transport;
#[cfg(target_family = "wasm")]
use wasi as transport;

pub use error::HttpError as Error;
pub use request::{Method, Request};
pub use response::Response;

/// Sends a GET request.
///
/// # Errors
/// As [`Request::send`].
pub fn get(url: &str) -> Result<Response, Error> {
    Request::new(Method::Get, url).send()
}
