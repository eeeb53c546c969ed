//! Building Rust plugins: cargo's libraries, made components.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wasi_preview1_component_adapter_provider as adapter;
use wit_component::ComponentEncoder;

use super::{BuildError, BuildRequest, Component, RustToolchain, io, stage};
use toolhost_core::tool::PluginId;
use toolhost_process::{self as process, Command, End};

/// The most that is read of what cargo says it built.
const MESSAGES_BYTES_MAX: u64 = 64 << 20;

/// Builds every plugin of a package or a workspace, in release mode.
pub(super) async fn build(
    request: &BuildRequest,
    folder: PathBuf,
) -> Result<Vec<Component>, BuildError> {
    let toolchain = RustToolchain::find(&request.environment).await?;
    let mut environment = toolchain.environment(&request.environment);
    // Without one, `out` need not be there, and stays so if nothing is built.
    let staged = request.stage.as_ref().map(|_| stage(request)).transpose()?;
    environment.extend(staged.iter().map(|(_, temporary)| temporary.clone()));
    let command = Command {
        program: toolchain.cargo().to_owned(),
        arguments: toolchain.arguments(),
        folder,
        environment,
        stdin: Vec::new(),
        stdout_bytes_max: MESSAGES_BYTES_MAX,
        show_stderr: request.show_messages,
    };
    let finished = process::run(&command).await?;
    if finished.end != End::Success {
        let messages =
            if request.show_messages { String::new() } else { format!(":\n{}", finished.stderr) };
        return Err(BuildError::Compiler { folder: request.source.clone(), messages });
    }
    let libraries = libraries(&finished.stdout);
    if libraries.is_empty() {
        return Err(BuildError::NoLibrary(request.source.clone()));
    }
    libraries.iter().map(|library| component(library)).collect()
}

/// A message of `cargo build --message-format=json`.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

fn libraries(stdout: &[u8]) -> Vec<PathBuf> {
    let messages = stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Message>(line).ok());
    let artifacts = messages.filter(|message| message.reason == "compiler-artifact");
    let mut libraries: Vec<PathBuf> = artifacts
        .flat_map(|artifact| artifact.filenames)
        .filter(|file| file.extension().is_some_and(|extension| extension == "wasm"))
        .collect();
    libraries.sort();
    libraries
}

/// Makes a component of what the compiler gave, if it is not one already.
fn component(library: &Path) -> Result<Component, BuildError> {
    const COMPONENT_LAYER: [u8; 4] = [0x0d, 0, 1, 0];
    let name = library.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let id = PluginId::from_stem(&name)?;
    let module = fs::read(library).map_err(io(library))?;
    let bytes = if module.get(4..8) == Some(&COMPONENT_LAYER) {
        module
    } else {
        encode(&module).map_err(|reason| BuildError::Component { name: name.clone(), reason })?
    };
    Ok(Component { id, name, bytes })
}

fn encode(module: &[u8]) -> Result<Vec<u8>, String> {
    ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(|encoder| {
            encoder.adapter(
                adapter::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
                adapter::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
            )
        })
        .and_then(|mut encoder| encoder.encode())
        .map_err(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core module for the world `plugin` as `wasm32-wasip1` gives them: WASI comes from the
    /// adapter.
    fn core_module() -> Vec<u8> {
        let wit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../wit");
        let mut resolve = wit_parser::Resolve::default();
        let (package, _) = resolve.push_dir(wit).expect("the contract");
        let world = resolve.select_world(&[package], Some("plugin")).expect("the world");
        let mut module = wat::parse_str(
            r#"(module
                (import "wasi_snapshot_preview1" "fd_write"
                    (func (param i32 i32 i32 i32) (result i32)))
                (memory (export "memory") 1)
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
                (func (export "register") (result i32) unreachable)
                (func (export "call")
                    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
                    (result i32) unreachable))"#,
        )
        .expect("valid WAT");
        let encoding = wit_component::StringEncoding::UTF8;
        wit_component::embed_component_metadata(&mut module, &resolve, world, encoding)
            .expect("metadata");
        module
    }

    #[test]
    fn a_core_module_becomes_a_component() {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("my_words.wasm");
        fs::write(&library, core_module()).expect("written");
        let built = component(&library).expect("a component");
        assert_eq!(built.id.as_str(), "my-words");
        toolhost_wasm::check_contract(&built.bytes).expect("a plugin");
        // What is a component already stays as it is.
        fs::write(&library, &built.bytes).expect("written");
        assert_eq!(component(&library).expect("a component").bytes, built.bytes);
    }

    #[test]
    fn a_module_without_an_sdk_is_no_plugin() {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("other.wasm");
        fs::write(&library, wat::parse_str("(module)").expect("valid WAT")).expect("written");
        let refused = component(&library).and_then(|built| {
            let refuse = |error| BuildError::Contract { name: built.name, error };
            toolhost_wasm::check_contract(&built.bytes).map_err(refuse)
        });
        let message = refused.expect_err("no plugin").to_string();
        assert!(message.contains("toolhost SDK"), "{message}");
    }
}
