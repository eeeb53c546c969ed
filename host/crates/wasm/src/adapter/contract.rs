//! Our own contract, in `wit/`: which components are built for it, and what they are asked.
//!
//! The version is in the import `toolhost:plugin/types@X`, which every toolchain keeps: the
//! exported functions themselves carry none.

mod bindings;
mod convert;
mod optional;

use std::time::Duration;

use semver::Version;
use wasmtime::component::{HasSelf, InstancePre, Linker};

use super::{Adapted, Adapter, GuestQuestion, Offers, Registering, ToolCall};
use crate::instance::Guest;
use crate::surface::{self, ContractError};
use bindings::{PluginIndices, types};
use optional::Optional;
use toolhost_core::runtime::at_length;
use toolhost_core::text;
use toolhost_core::tool::{CallError, Decision, HookedCall, HookedOutcome, ToolOutput};

/// The contract this host speaks, as `major.minor`: plugins built for any patch of it load.
pub const KNOWN_CONTRACT: &str = "0.1";

const TYPES_INTERFACE: &str = "toolhost:plugin/types";
const FUNCTIONS: [&str; 2] = ["register", "call"];
/// Most exports named in a message.
const EXPORTS_SHOWN_MAX: usize = 5;

/// Makes tools of components that were built for the contract.
pub(super) struct ContractAdapter;

impl Adapter for ContractAdapter {
    fn recognise(
        &self,
        imports: &[String],
        exports: &[String],
    ) -> Result<(Version, Offers), ContractError> {
        Ok((version(imports, exports)?, optional::offers(exports)))
    }

    fn link(&self, linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
        types::add_to_linker::<Guest, HasSelf<Guest>>(linker, |guest| guest)
    }

    fn adapt(
        &self,
        offers: Offers,
        pre: &InstancePre<Guest>,
    ) -> wasmtime::Result<Box<dyn Adapted>> {
        let (plugin, optional) = (PluginIndices::new(pre)?, Optional::find(offers, pre)?);
        Ok(Box::new(ContractComponent { plugin, optional }))
    }
}

// The interface has records only, so there is nothing to implement.
impl types::Host for Guest {}

/// Where the functions of the contract are in a component.
struct ContractComponent {
    plugin: PluginIndices,
    optional: Optional,
}

impl Adapted for ContractComponent {
    fn register(&self) -> GuestQuestion<Result<Box<dyn Registering>, String>> {
        let plugin = self.plugin.clone();
        Box::new(move |instance| {
            Box::pin(async move {
                let exports = instance.exports()?;
                let plugin = plugin.load(&mut *instance, &exports)?;
                let answer = plugin.call_register(&mut *instance).await?;
                Ok(answer.map(|registration| Box::new(registration) as Box<dyn Registering>))
            })
        })
    }

    fn call(&self, call: ToolCall) -> GuestQuestion<Result<ToolOutput, CallError>> {
        let plugin = self.plugin.clone();
        Box::new(move |instance| {
            Box::pin(async move {
                let ToolCall { tool, arguments, caller } = call;
                let context = types::CallContext {
                    session_id: caller.session,
                    task_id: caller.task,
                    tool_call_id: caller.tool_call,
                    remaining_ms: milliseconds(instance.time_left()),
                    extensions: Vec::new(),
                };
                let exports = instance.exports()?;
                let plugin = plugin.load(&mut *instance, &exports)?;
                let answer = plugin.call_call(&mut *instance, &tool, &arguments, &context).await?;
                let redaction = instance.redaction();
                let limits = instance.limits();
                Ok(match answer {
                    Ok(output) => convert::output(output, limits),
                    Err(error) => Err(at_length(|| convert::tool_error(error, &redaction, limits))),
                })
            })
        })
    }

    fn check(&self, tool: &str) -> Option<GuestQuestion<Result<(), String>>> {
        self.optional.check(tool.to_owned())
    }

    fn describe(&self, tool: &str, visible: &[String]) -> Option<GuestQuestion<Option<String>>> {
        self.optional.describe(tool.to_owned(), visible.to_owned())
    }

    fn request(
        &self,
        call: HookedCall<'_>,
    ) -> Option<GuestQuestion<Result<Option<String>, String>>> {
        self.optional.request(call)
    }

    fn pre_call(&self, call: HookedCall<'_>) -> Option<GuestQuestion<Result<Decision, String>>> {
        self.optional.pre_call(call)
    }

    fn post_call(
        &self,
        call: HookedCall<'_>,
        outcome: HookedOutcome<'_>,
    ) -> Option<GuestQuestion<Result<(), String>>> {
        self.optional.post_call(call, outcome)
    }

    fn transform(
        &self,
        call: HookedCall<'_>,
        outcome: HookedOutcome<'_>,
    ) -> Option<GuestQuestion<Result<Option<String>, String>>> {
        self.optional.transform(call, outcome)
    }
}

fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

/// Checks that bytes are a component built for a contract this host knows.
///
/// It reads the outside of the component only; that its functions fit shows when it is loaded.
///
/// # Errors
/// With the reason and the repair.
pub fn check(bytes: &[u8]) -> Result<(), ContractError> {
    let surface = surface::read(bytes)?;
    version(&surface.imports, &surface.exports).map(|_| ())
}

/// The version of the contract that a component was built for.
fn version(imports: &[String], exports: &[String]) -> Result<Version, ContractError> {
    let types =
        imports.iter().find_map(|name| name.strip_prefix(TYPES_INTERFACE)?.strip_prefix('@'));
    let Some(built) = types else {
        return Err(no_contract(format!("import `{TYPES_INTERFACE}`"), exports));
    };
    let contract = Version::parse(built).map_err(|_| ContractError::Version {
        built: text::cut(&text::one_line(built), 40),
        known: KNOWN_CONTRACT,
        repair: "that is no version; build it with a toolhost SDK",
    })?;
    let known = Version::new(0, 1, 0);
    if (contract.major, contract.minor) != (known.major, known.minor) {
        let newer = contract > known;
        let repair = if newer { "update toolhost" } else { "build the plugin with a newer SDK" };
        return Err(ContractError::Version {
            built: contract.to_string(),
            known: KNOWN_CONTRACT,
            repair,
        });
    }
    for function in FUNCTIONS {
        if !exports.iter().any(|export| export == function) {
            return Err(no_contract(format!("export `{function}`"), exports));
        }
    }
    Ok(contract)
}

fn no_contract(missing: String, exports: &[String]) -> ContractError {
    let shown: Vec<String> = exports
        .iter()
        .take(EXPORTS_SHOWN_MAX)
        .map(|export| format!("`{}`", text::cut(&text::one_line(export), 60)))
        .collect();
    let exports = match shown.as_slice() {
        [] => " and exports nothing".to_owned(),
        shown if exports.len() > shown.len() => format!(" (it exports {}, ...)", shown.join(", ")),
        shown => format!(" (it exports {})", shown.join(", ")),
    };
    ContractError::NoContract { missing, exports }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_component_is_told_what_it_lacks() {
        let bytes = wat::parse_str("(component)").expect("valid WAT");
        assert_eq!(
            check(&bytes).expect_err("no plugin").to_string(),
            "a component, but not a toolhost plugin: it does not import `toolhost:plugin/types` and exports nothing; build it with a toolhost SDK"
        );
    }

    #[test]
    fn versions_match_by_minor() {
        let built = |version: &str, exports: &[&str]| {
            let import = format!("{TYPES_INTERFACE}@{version}");
            let exports: Vec<String> = exports.iter().map(|&name| name.to_owned()).collect();
            self::version(&[import], &exports).map_err(|error| error.to_string())
        };
        assert!(built("0.1.0", &FUNCTIONS).is_ok());
        assert!(built("0.1.7", &FUNCTIONS).is_ok());
        assert_eq!(
            built("0.2.0", &FUNCTIONS),
            Err("built for contract 0.2.0; this host knows 0.1: update toolhost".to_owned())
        );
        assert_eq!(
            built("0.0.9", &FUNCTIONS),
            Err("built for contract 0.0.9; this host knows 0.1: build the plugin with a newer SDK"
                .to_owned())
        );
        assert!(
            built("0.1.0", &["call"])
                .expect_err("no register")
                .contains("does not export `register` (it exports `call`)")
        );
    }
}
