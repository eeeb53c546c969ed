//! How a call ended that came to no answer: which limit it was, or how the guest crashed.

use wasmtime::{PoolConcurrencyLimitError, Trap};

use super::{Guest, HostCallsExceeded, Instance};
use toolhost_core::text;
use toolhost_core::tool::{CallError, Code};

/// What wasmtime says of a guest that hands over more than `Store::set_hostcall_fuel` allows. Its type is
/// private to wasmtime 48, so its text is all there is to tell it by; a test holds the text.
const TOO_MUCH_COPIED: &str = "too much data is being copied";

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
    } else if chain.contains(TOO_MUCH_COPIED) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use wasmtime::component::{Component, Linker};
    use wasmtime::{Engine, Store};

    /// What a guest gives that answers with so many bytes, where 1,000 are allowed.
    fn answer(bytes: usize) -> wasmtime::Result<usize> {
        let engine = Engine::default();
        let text = format!(
            r#"(component
                (core module $m
                    (memory (export "memory") 1)
                    (func (export "f") (result i32)
                        (i32.store (i32.const 4) (i32.const 16))
                        (i32.store (i32.const 8) (i32.const {bytes}))
                        (i32.const 4)))
                (core instance $i (instantiate $m))
                (func (export "f") (result (list u8))
                    (canon lift (core func $i "f") (memory (core memory $i "memory")))))"#
        );
        let component = Component::new(&engine, wat::parse_str(text).expect("valid WAT"))?;
        let mut store = Store::new(&engine, ());
        store.set_hostcall_fuel(1_000);
        let instance = Linker::new(&engine).instantiate(&mut store, &component)?;
        let function = instance.get_typed_func::<(), (Vec<u8>,)>(&mut store, "f")?;
        Ok(function.call(&mut store, ())?.0.len())
    }

    #[test]
    fn wasmtime_says_by_this_text_that_too_much_is_copied() {
        assert_eq!(answer(900).expect("few enough"), 900);
        let error = answer(1_100).expect_err("too many");
        assert!(format!("{error:#}").contains(TOO_MUCH_COPIED), "{error:#}");
    }
}
