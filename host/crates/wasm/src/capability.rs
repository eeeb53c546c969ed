//! Kinds of authority: what a guest may ask of the host, and how its authority answers.

pub(crate) mod dirs;
pub(crate) mod env;
pub(crate) mod http;
pub(crate) mod kv;
pub(crate) mod secrets;
