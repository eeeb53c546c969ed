//! What a guest may ask of the host; its authority answers.

pub(super) mod environment;
pub(super) mod errors;
pub(super) mod files;
pub(super) mod http;
pub(super) mod kv;
pub(super) mod log;
pub(super) mod progress;
pub(super) mod roots;
pub(super) mod script;
pub(super) mod secrets;
pub(super) mod wasi;
