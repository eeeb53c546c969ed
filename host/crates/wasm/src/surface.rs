//! What a component shows from outside, read off its bytes before anything is compiled, and why it may
//! not be one.

use std::fmt;

use wasmparser::{Chunk, ComponentTypeRef, Encoding, Parser, Payload};

use super::toolchain::Toolchain;
use toolhost_core::text;
use toolhost_core::tool::Reason;

/// What a component shows from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ComponentSurface {
    pub(super) imports: Vec<String>,
    pub(super) exports: Vec<String>,
    pub(super) toolchain: Toolchain,
}

/// Why a file is no plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContractError {
    /// It does not begin as WebAssembly does.
    NotWasm(&'static str),
    /// It ends too early.
    Truncated(usize),
    /// It is a core module.
    CoreModule,
    /// Its sections make no sense.
    Damaged(String),
    /// It is some other component.
    NoContract {
        /// What a plugin has and it has not.
        missing: String,
        /// What it exports instead, in words.
        exports: String,
    },
    /// It was built for another version.
    Version {
        /// The version it was built for.
        built: String,
        /// What this host knows.
        known: &'static str,
        /// What to do.
        repair: &'static str,
    },
}

impl ContractError {
    /// Why, and what to do.
    pub fn reason(&self) -> Reason {
        let (problem, repair) = match self {
            ContractError::NotWasm(given) => (
                format!("not WebAssembly{given}"),
                Some("replace it by a component, or remove it".to_owned()),
            ),
            ContractError::Truncated(given) => (
                format!("truncated: the file ends after {given} bytes in the middle of a section"),
                Some("copy it again".to_owned()),
            ),
            ContractError::CoreModule => (
                "a core module, not a component".to_owned(),
                Some(
                    "build it with `toolhost build`, or wrap it with `wasm-tools component new`"
                        .to_owned(),
                ),
            ),
            ContractError::Damaged(given) => {
                (format!("damaged: {given}"), Some("build or copy it again".to_owned()))
            }
            ContractError::NoContract { missing, exports } => (
                format!("a component, but not a toolhost plugin: it does not {missing}{exports}"),
                Some("build it with a toolhost SDK".to_owned()),
            ),
            ContractError::Version { built, known, repair } => (
                format!("built for contract {built}"),
                Some(format!("this host knows {known}: {repair}")),
            ),
        };
        Reason { problem, repair }
    }
}

impl fmt::Display for ContractError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(formatter)
    }
}

impl std::error::Error for ContractError {}

/// Reads off bytes what they show as a component.
pub(super) fn read(bytes: &[u8]) -> Result<ComponentSurface, ContractError> {
    check_magic(bytes)?;
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    let mut toolchain = Toolchain::default();
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|error| damaged(&error, bytes))? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return Err(ContractError::CoreModule);
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let import = import.map_err(|error| damaged(&error, bytes))?;
                    // Names for types of an interface are no imports of their own.
                    if !matches!(import.ty, ComponentTypeRef::Type(_)) {
                        imports.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    let export = export.map_err(|error| damaged(&error, bytes))?;
                    exports.push(export.name.name.to_owned());
                }
            }
            // Those of nested modules too, since a runtime is one of them.
            Payload::CustomSection(section) => toolchain.read(&section),
            _ => {}
        }
    }
    // Between two sections of a nested module the parser ends without an error.
    if is_truncated(bytes) {
        return Err(ContractError::Truncated(bytes.len()));
    }
    toolchain.finish(&imports);
    Ok(ComponentSurface { imports, exports, toolchain })
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

fn damaged(error: &wasmparser::BinaryReaderError, bytes: &[u8]) -> ContractError {
    match is_truncated(bytes) {
        true => ContractError::Truncated(bytes.len()),
        false => ContractError::Damaged(text::cut(&text::one_line(error.message()), 200)),
    }
}

/// Tells whether the bytes end where more of them have to come.
fn is_truncated(bytes: &[u8]) -> bool {
    let (mut parser, mut rest) = (Parser::new(0), bytes);
    loop {
        let (consumed, nested) = match parser.parse(rest, false) {
            // Behind the last section of the component itself, nothing has to come.
            Ok(Chunk::NeedMoreData(_)) => return !rest.is_empty(),
            Ok(Chunk::Parsed { consumed, payload }) => match payload {
                Payload::ModuleSection { unchecked_range: range, .. }
                | Payload::ComponentSection { unchecked_range: range, .. } => {
                    (consumed, range.len())
                }
                Payload::End(_) => return false,
                _ => (consumed, 0),
            },
            Err(_) => return false,
        };
        // What is nested is one section of what is around it.
        rest = match rest.get(consumed.saturating_add(nested)..) {
            Some(rest) => rest,
            None => return true,
        };
    }
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
        let large = component(&format!(
            "(component (core module (memory 1) (data \"{}\")))",
            "x".repeat(999)
        ));
        refused(&large[..500], "truncated: the file ends after 500 bytes");
        // Cut within the header of a section, and between two sections of the module in it.
        refused(&large[..9], "truncated: the file ends after 9 bytes");
        let module = large.windows(4).rposition(|four| four == b"\0asm").expect("the module");
        refused(&large[..module + 8], "truncated: ");
        // A section that says less than it holds is whole.
        refused(b"\0asm\x0d\0\x01\0\x0a\x01\x05", "damaged: ");
        let mut bytes = component("(component)");
        bytes.extend([1, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
        refused(&bytes, "damaged: ");
    }
}
