//! Reads off a file, before anything is compiled, whether it is a component of our contract.
//!
//! The version is in the import `toolhost:plugin/types@X`, which every toolchain keeps: the
//! exported functions themselves carry none.

pub(crate) mod bindings;
pub(crate) mod convert;

use semver::Version;
use thiserror::Error;
use wasmparser::{ComponentTypeRef, Encoding, Parser, Payload};

use crate::toolchain::Toolchain;

/// The contract this host speaks, as `major.minor`: plugins built for any patch of it load.
pub const KNOWN_CONTRACT: &str = "0.1";

const TYPES_INTERFACE: &str = "toolhost:plugin/types";
const FUNCTIONS: [&str; 2] = ["register", "call"];
/// Most exports named in a message.
const EXPORTS_SHOWN_MAX: usize = 5;

/// What a component shows from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Surface {
    pub(crate) contract: Version,
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
    pub(crate) toolchain: Toolchain,
}

/// Why a file is no plugin.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ContractError {
    /// It does not begin as WebAssembly does.
    #[error("not WebAssembly{0}; replace it by a component, or remove it")]
    NotWasm(&'static str),
    /// It ends too early.
    #[error("truncated: the file ends after {0} bytes in the middle of a section; copy it again")]
    Truncated(usize),
    /// It is a core module.
    #[error(
        "a core module, not a component; build it with `toolhost build`, or wrap it with `wasm-tools component new`"
    )]
    CoreModule,
    /// Its sections make no sense.
    #[error("damaged: {0}; build or copy it again")]
    Damaged(String),
    /// It is some other component.
    #[error(
        "a component, but not a toolhost plugin: it does not {missing}{exports}; build it with a toolhost SDK"
    )]
    NoContract {
        /// What a plugin has and it has not.
        missing: String,
        /// What it exports instead, in words.
        exports: String,
    },
    /// It was built for another version.
    #[error("built for contract {built}; this host knows {KNOWN_CONTRACT}: {repair}")]
    Version {
        /// The version it was built for.
        built: String,
        /// What to do.
        repair: &'static str,
    },
}

/// Checks that bytes are a component built for a contract this host knows.
///
/// It reads the outside of the component only; that its functions fit shows when it is loaded.
///
/// # Errors
/// With the reason and the repair.
pub fn check(bytes: &[u8]) -> Result<(), ContractError> {
    read(bytes).map(|_| ())
}

/// Reads the surface of a component.
pub(crate) fn read(bytes: &[u8]) -> Result<Surface, ContractError> {
    check_magic(bytes)?;
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    let mut toolchain = Toolchain::default();
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|error| damaged(&error, bytes.len()))? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return Err(ContractError::CoreModule);
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let import = import.map_err(|error| damaged(&error, bytes.len()))?;
                    // Names for types of an interface are no imports of their own.
                    if !matches!(import.ty, ComponentTypeRef::Type(_)) {
                        imports.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    let export = export.map_err(|error| damaged(&error, bytes.len()))?;
                    exports.push(export.name.name.to_owned());
                }
            }
            // Those of nested modules too, since a runtime is one of them.
            Payload::CustomSection(section) => toolchain.read(&section),
            _ => {}
        }
    }
    let contract = version(&imports, &exports)?;
    toolchain.finish(&imports);
    Ok(Surface { contract, imports, exports, toolchain })
}

fn check_magic(bytes: &[u8]) -> Result<(), ContractError> {
    if bytes.starts_with(b"\0asm") {
        return Ok(());
    }
    Err(ContractError::NotWasm(match bytes {
        [] => " (the file is empty)",
        [b'(', ..] => " (it looks like WebAssembly text; translate it with `wasm-tools parse`)",
        [0x7f, b'E', b'L', b'F', ..] => " (it is native or precompiled code)",
        [b'P', b'K', ..] => " (it is a zip archive)",
        [b'#', b'!', ..] => " (it is a script)",
        [b'<', ..] => " (it looks like a web page)",
        _ => "",
    }))
}

fn version(imports: &[String], exports: &[String]) -> Result<Version, ContractError> {
    let types =
        imports.iter().find_map(|name| name.strip_prefix(TYPES_INTERFACE)?.strip_prefix('@'));
    let Some(built) = types else {
        return Err(no_contract(format!("import `{TYPES_INTERFACE}`"), exports));
    };
    let contract = Version::parse(built).map_err(|_| ContractError::Version {
        built: toolhost_core::text::cut(&toolhost_core::text::one_line(built), 40),
        repair: "that is no version; build it with a toolhost SDK",
    })?;
    let known = Version::new(0, 1, 0);
    if (contract.major, contract.minor) != (known.major, known.minor) {
        let newer = contract > known;
        let repair = if newer { "update toolhost" } else { "build the plugin with a newer SDK" };
        return Err(ContractError::Version { built: contract.to_string(), repair });
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
        .map(|export| {
            format!("`{}`", toolhost_core::text::cut(&toolhost_core::text::one_line(export), 60))
        })
        .collect();
    let exports = match shown.as_slice() {
        [] => " and exports nothing".to_owned(),
        shown if exports.len() > shown.len() => format!(" (it exports {}, ...)", shown.join(", ")),
        shown => format!(" (it exports {})", shown.join(", ")),
    };
    ContractError::NoContract { missing, exports }
}

fn damaged(error: &wasmparser::BinaryReaderError, length: usize) -> ContractError {
    let message = error.message();
    if message.contains("unexpected end") {
        return ContractError::Truncated(length);
    }
    ContractError::Damaged(toolhost_core::text::cut(&toolhost_core::text::one_line(message), 200))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8], expected: &str) {
        let message = read(bytes).expect_err(expected).to_string();
        assert!(message.starts_with(expected), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }

    fn component(text: &str) -> Vec<u8> {
        wat::parse_str(text).expect("valid WAT")
    }

    #[test]
    fn files_that_are_no_plugins_are_told_apart() {
        refused(b"", "not WebAssembly (the file is empty)");
        refused(b"#!/bin/sh", "not WebAssembly (it is a script)");
        refused(b"hello", "not WebAssembly; replace it");
        refused(b"\0as", "not WebAssembly");
        refused(b"\0asm", "truncated: the file ends after 4 bytes");
        refused(&component("(module)"), "a core module, not a component");
        refused(
            &component("(component)"),
            "a component, but not a toolhost plugin: it does not import `toolhost:plugin/types` and exports nothing",
        );
        let large = component(&format!(
            "(component (core module (memory 1) (data \"{}\")))",
            "x".repeat(999)
        ));
        refused(&large[..500], "truncated: the file ends after 500 bytes");
        let mut bytes = component("(component)");
        bytes.extend([1, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
        refused(&bytes, "damaged: ");
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
