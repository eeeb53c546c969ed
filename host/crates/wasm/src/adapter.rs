//! How a component becomes tools. An adapter recognises a component by its types, turns it into a
//! registration, and turns a call into the guest's call and back.
//!
//! Each adapter is one module, which stands once in [`ADAPTERS`]; nothing else knows which one a
//! component has. What an adapter does not do: bound the time of what it asks, or say why a guest was
//! stopped.

pub(super) mod contract;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use semver::Version;
use wasmtime::component::{InstancePre, Linker};

use super::instance::{Guest, Instance};
use super::load_error::LoadError;
use super::surface::ContractError;
use toolhost_core::json;
use toolhost_core::limits::Limits;
use toolhost_core::tool::{
    CallError, Caller, Decision, HookedCall, HookedOutcome, Need, Rejection, ToolOutput, ToolSpec,
};

/// Every adapter, in the order in which they are asked.
const ADAPTERS: &[&dyn Adapter] = &[&contract::ContractAdapter];

/// Recognises components of one sort.
pub(super) trait Adapter: Sync {
    /// The contract that a component with these imports and exports was built for, and what it has
    /// besides tools.
    ///
    /// # Errors
    /// If it is none of this sort.
    fn recognise(
        &self,
        imports: &[String],
        exports: &[String],
    ) -> Result<(Version, Offers), ContractError>;

    /// Links what components of this sort import besides all others.
    fn link(&self, linker: &mut Linker<Guest>) -> wasmtime::Result<()>;

    /// Finds what the component exports.
    ///
    /// # Errors
    /// If something of that has another shape.
    fn adapt(&self, offers: Offers, pre: &InstancePre<Guest>)
    -> wasmtime::Result<Box<dyn Adapted>>;
}

/// What can be asked of a component. Each question is for one instance of it.
pub(super) trait Adapted: Send + Sync {
    /// Asks what it registers; it may refuse.
    fn register(&self) -> GuestQuestion<Result<Box<dyn Registering>, String>>;

    /// Calls a tool.
    fn call(&self, call: ToolCall) -> GuestQuestion<Result<ToolOutput, CallError>>;

    /// Asks whether a tool can work, if the component tells.
    fn check(&self, _tool: &str) -> Option<GuestQuestion<Result<(), String>>> {
        None
    }

    /// Asks for the description of a tool among those that are visible, if the component tells.
    fn describe(&self, _tool: &str, _visible: &[String]) -> Option<GuestQuestion<Option<String>>> {
        None
    }

    /// Asks for other arguments for a call, if the component has hooks.
    fn request(&self, _: HookedCall<'_>) -> Option<GuestQuestion<Result<Option<String>, String>>> {
        None
    }

    /// Asks whether a call may go on, if the component has hooks.
    fn pre_call(&self, _: HookedCall<'_>) -> Option<GuestQuestion<Result<Decision, String>>> {
        None
    }

    /// Tells of the end of a call, if the component has hooks.
    fn post_call(
        &self,
        _: HookedCall<'_>,
        _: HookedOutcome<'_>,
    ) -> Option<GuestQuestion<Result<(), String>>> {
        None
    }

    /// Asks for another result of a call, if the component has hooks.
    fn transform(
        &self,
        _: HookedCall<'_>,
        _: HookedOutcome<'_>,
    ) -> Option<GuestQuestion<Result<Option<String>, String>>> {
        None
    }
}

/// Something to ask of an instance that has been made.
pub(super) type GuestQuestion<T> =
    Box<dyn for<'a> FnOnce(&'a mut Instance) -> BoxFuture<'a, wasmtime::Result<T>> + Send>;

/// A call of a tool.
pub(super) struct ToolCall {
    pub(super) tool: String,
    /// JSON text.
    pub(super) arguments: Arc<str>,
    pub(super) caller: Caller,
}

/// What a component has besides tools.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offers {
    pub(super) availability: bool,
    pub(super) schema_override: bool,
    pub(super) hooks: bool,
}

/// What a component wants to register, as it came.
pub(super) trait Registering: Send {
    /// Bytes of all its texts.
    fn bytes(&self) -> u64;

    /// Checks it. A tool that breaks a rule is left out with the reason.
    ///
    /// # Errors
    /// If it breaks a rule as a whole.
    fn check(self: Box<Self>, offers: Offers, limits: &Limits) -> Result<Registered, LoadError>;
}

/// What a component registered, checked.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) specs: Vec<ToolSpec>,
    pub(super) rejected: Vec<Rejection>,
    pub(super) needs: Vec<Need>,
    pub(super) extensions: Vec<(String, String)>,
}

impl Registered {
    /// Memory of all schemas as they were read: up to forty times that of their text.
    pub(super) fn schemas_bytes(&self) -> u64 {
        let schemas =
            self.specs.iter().flat_map(|spec| [Some(&spec.parameters), spec.output.as_ref()]);
        schemas.flatten().map(json::memory_bytes).sum()
    }
}

/// A component that was recognised.
#[derive(Clone)]
pub(super) struct Recognised {
    pub(super) adapter: &'static dyn Adapter,
    /// The contract that it was built for.
    pub(super) contract: Version,
    pub(super) offers: Offers,
}

/// Recognises a component by its imports and exports.
///
/// # Errors
/// If no adapter does, with the reason of the first.
pub(super) fn recognise(
    imports: &[String],
    exports: &[String],
) -> Result<Recognised, ContractError> {
    let mut refused = None;
    for &adapter in ADAPTERS {
        match adapter.recognise(imports, exports) {
            Ok((contract, offers)) => return Ok(Recognised { adapter, contract, offers }),
            Err(error) => _ = refused.get_or_insert(error),
        }
    }
    Err(refused.expect("there is an adapter"))
}

/// Links what components of every sort import.
pub(super) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    ADAPTERS.iter().try_for_each(|adapter| adapter.link(linker))
}

/// Cuts a text to `bytes_max` bytes, at the start of a character.
pub(super) fn bounded(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let mut end = bytes_max.saturating_sub(3);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("...");
    }
    text
}
