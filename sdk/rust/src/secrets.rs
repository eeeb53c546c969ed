//! Secrets that a tool uses without ever seeing them: the host puts them into requests.
//!
//! A plugin asks for one with [`Need::secret`](crate::Need::secret). Outside of a host none is
//! present.

use crate::bindings::toolhost::plugin::secrets as host;

/// Says whether the secret `name` is there for this tool: asked for, granted and set.
pub fn present(name: &str) -> bool {
    cfg!(target_family = "wasm") && host::present(name)
}

/// Returns a text that stands for the secret `name`, or none if it is not present.
///
/// It is for slots that hold more than the bare value, as in `Bearer {{secret:TOKEN}}`.
pub fn placeholder(name: &str) -> Option<String> {
    if cfg!(target_family = "wasm") { host::placeholder(name) } else { None }
}
