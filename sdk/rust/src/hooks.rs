//! Hooks: seeing, changing, stopping and rewriting the calls of other plugins' tools.

use crate::bindings::exports::toolhost::plugin::hooks as contract;

pub use contract::{Decision, HookedCall, HookedOutcome, Question};

/// What a plugin does around calls of other plugins' tools.
///
/// Each function has a default that changes nothing. The host calls one only for events and
/// tools that the plugin asked for ([`Need::hooks`](crate::Need::hooks)) *and* the operator
/// granted. The type is named in [`plugin!`](crate::plugin):
///
/// ```
/// use toolhost_sdk::hooks::{Decision, HookedCall, Hooks};
/// use toolhost_sdk::{Need, plugin};
///
/// struct Guard;
///
/// impl Hooks for Guard {
///     fn pre_call(call: &HookedCall) -> Result<Decision, String> {
///         Ok(if call.arguments.contains("/etc/") {
///             Decision::Block("system files are none of our business".to_owned())
///         } else {
///             Decision::Allow
///         })
///     }
/// }
///
/// plugin! {
///     tools: [],
///     hooks: Guard,
///     needs: [Need::hooks(["pre-call"], ["*"]).reason("to keep calls out of system files")],
/// }
/// # fn main() {}
/// ```
pub trait Hooks {
    /// Returns other arguments, the JSON text of an object, or none to leave them.
    ///
    /// # Errors
    /// The call is refused.
    fn request(_call: &HookedCall) -> Result<Option<String>, String> {
        Ok(None)
    }

    /// Decides whether a call runs.
    ///
    /// # Errors
    /// The call is refused.
    fn pre_call(_call: &HookedCall) -> Result<Decision, String> {
        Ok(Decision::Allow)
    }

    /// Hears of the end of a call.
    ///
    /// # Errors
    /// They are logged.
    fn post_call(_call: &HookedCall, _outcome: &HookedOutcome) -> Result<(), String> {
        Ok(())
    }

    /// Returns a text in place of an answer, or none to leave it.
    ///
    /// # Errors
    /// They are logged, and the answer stays as it is.
    fn transform(_call: &HookedCall, _outcome: &HookedOutcome) -> Result<Option<String>, String> {
        Ok(None)
    }
}

/// The hooks of a plugin without any.
#[derive(Debug)]
pub struct NoHooks;

impl Hooks for NoHooks {}
