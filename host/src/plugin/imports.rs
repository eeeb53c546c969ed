//! What a guest may ask of the host; its authority answers. Today every guest has none.

pub(super) mod log;
pub(super) mod progress;
pub(super) mod wasi;
