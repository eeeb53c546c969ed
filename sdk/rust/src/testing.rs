//! Calls tools natively, in the author's own unit tests: same arguments, no host, no sandbox.

use crate::{Context, Error, Output, Tool};

/// Calls the tool `T` with arguments as JSON text, as the host would.
///
/// What it does not do: check the arguments against the tool's schema (the argument type does
/// most of that), or apply any limit.
///
/// # Errors
/// If the arguments do not fit the tool's argument type, or the tool itself fails.
pub fn call<T: Tool>(arguments: &str) -> Result<Output, Error> {
    let context = Context {
        session_id: None,
        task_id: None,
        tool_call_id: None,
        remaining_ms: 60_000,
        extensions: Vec::new(),
    };
    T::call(arguments, &context)
}

/// Empties the store that [`kv`](crate::kv) is outside of a host. Each thread has its own, and
/// so has each unit test, unless they run one after the other on one thread.
pub fn clear_kv() {
    crate::kv::clear();
}

/// Returns the JSON Schema of the arguments of `T`, as it is registered.
pub fn parameters<T: Tool>() -> String {
    T::definition().parameters
}
