//! How a call ended that came to no answer: which limit it was, or how the guest crashed.

use wasmtime::{PoolConcurrencyLimitError, Trap};

use super::{Guest, HostCallsExceeded, Instance};
use toolhost_core::text;
use toolhost_core::tool::{CallError, Code};

impl Instance {
    /// The answer of its guest, or why wasmtime gave up.
    ///
    /// # Errors
    /// If there is none, or the guest did not have what it was granted.
    pub(crate) fn ended<T>(&mut self, answer: wasmtime::Result<T>) -> Result<T, CallError> {
        let guest = self.store.data_mut();
        if let Some(error) = &guest.call().no_longer_there {
            return Err(CallError::new(Code::Internal, error.to_string()).with_log(&error.reason));
        }
        answer.map_err(|error| stopped(&error, guest))
    }
}

/// Says why wasmtime gave up: which limit it was, or how the guest crashed.
fn stopped(error: &wasmtime::Error, guest: &mut Guest) -> CallError {
    let chain = format!("{error:#}");
    let mut stopped = if error.is::<HostCallsExceeded>() {
        let allowed = guest.engine.limits.host_calls_max.0;
        let message = format!("stopped: more host calls than `host_calls_max` of {allowed}");
        CallError::new(Code::Trap, message)
    } else if let Some(denied) = guest.memory.denied() {
        CallError::new(Code::Memory, format!("stopped: {}", denied.message()))
            .with("limit", denied.limit())
    } else if chain.contains("too much data is being copied") {
        // wasmtime has no type for this error.
        let given = format!("more than {}", guest.call().transfer_bytes_max);
        too_large(&given, guest.engine.limits.output_bytes_max.0)
    } else if error.is::<PoolConcurrencyLimitError>() {
        CallError::new(Code::Internal, "the host has no room for another guest")
    } else {
        CallError::new(Code::Trap, format!("the tool crashed: {}", crash(error)))
    };
    stopped.log = Some(text::printable(&chain));
    stopped.stderr =
        Some(text::printable(&guest.call().stderr.text())).filter(|text| !text.is_empty());
    stopped
}

/// The output is larger than allowed; `given` is a number, or words if it is not known.
pub(crate) fn too_large(given: &str, allowed: u64) -> CallError {
    let message = format!(
        "stopped: output of {given} bytes exceeds `output_bytes_max` of {allowed}; ask for less"
    );
    CallError::new(Code::OutputTooLarge, message)
}

fn crash(error: &wasmtime::Error) -> String {
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return match trap {
            Trap::UnreachableCodeReached => "it aborted (a panic, most likely)".to_owned(),
            Trap::StackOverflow => {
                "its stack overflowed `stack_bytes_max` (endless recursion, most likely)".to_owned()
            }
            other => other.to_string(),
        };
    }
    if error.is::<wasmtime_wasi::I32Exit>() {
        return "it ended its own process".to_owned();
    }
    text::cut(&text::one_line(&error.root_cause().to_string()), 200)
}
