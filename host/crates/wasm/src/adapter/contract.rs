//! Our own contract, in `wit/`: which components are built for it, and for which version.
//!
//! The version is in the import `toolhost:plugin/types@X`, which every toolchain keeps: the
//! exported functions themselves carry none.

pub(crate) mod bindings;
pub(crate) mod convert;

use semver::Version;

use crate::surface::{self, ContractError, Surface};
use toolhost_core::text;

/// The contract this host speaks, as `major.minor`: plugins built for any patch of it load.
pub const KNOWN_CONTRACT: &str = "0.1";

const TYPES_INTERFACE: &str = "toolhost:plugin/types";
const FUNCTIONS: [&str; 2] = ["register", "call"];
/// Most exports named in a message.
const EXPORTS_SHOWN_MAX: usize = 5;

/// Checks that bytes are a component built for a contract this host knows.
///
/// It reads the outside of the component only; that its functions fit shows when it is loaded.
///
/// # Errors
/// With the reason and the repair.
pub fn check(bytes: &[u8]) -> Result<(), ContractError> {
    version(&surface::read(bytes)?).map(|_| ())
}

/// The version of the contract that a component was built for.
pub(crate) fn version(surface: &Surface) -> Result<Version, ContractError> {
    let Surface { imports, exports, .. } = surface;
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
    use crate::toolchain::Toolchain;

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
            let surface =
                Surface { imports: vec![import], exports, toolchain: Toolchain::default() };
            self::version(&surface).map_err(|error| error.to_string())
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
