//! What authors of plugins need. Builds plugins from source: finds the toolchain, runs it, makes a
//! component of what it gives, checks that, and puts it into a plugins folder in one step.
//! [`scaffold`] makes the folder of a new one, [`check`] says what could be better.
//!
//! Paths and environment are values it is given. What it does not do: install anything.

mod check;
mod scaffold;
mod toolchain;

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use thiserror::Error;
use wasi_preview1_component_adapter_provider as adapter;

use crate::plugin::{self, ContractError};
use crate::process::{self, Command, End, StartError};
use crate::tool::{PluginId, PluginIdError};

pub use check::{CheckError, CheckRequest, Checked, CheckedTool, Finding, Level, check};
pub use scaffold::{Language, ScaffoldError, ScaffoldRequest, Scaffolded, Sdk, scaffold};
pub use toolchain::Toolchain;

/// The most that is read of what cargo says it built.
const MESSAGES_BYTES_MAX: u64 = 64 << 20;

/// What to build, with what, and where to put it.
#[derive(Clone, Debug)]
pub struct BuildRequest {
    /// A Cargo package, or a workspace of several.
    pub folder: PathBuf,
    /// The folder for the components.
    pub out: PathBuf,
    /// The environment of the toolchain; `PATH` is where it is looked for.
    pub environment: Vec<(OsString, OsString)>,
    /// The compiler's messages go where the host's stderr goes; otherwise they are in the error.
    pub show_messages: bool,
}

/// A plugin that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Its id.
    pub id: PluginId,
    /// The component.
    pub path: PathBuf,
    /// SHA-256 of its bytes, in hexadecimal.
    pub digest: Arc<str>,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Why nothing was built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// There is nothing to build in the folder.
    #[error("{folder} has no Cargo.toml; name the folder of a Rust plugin, or of a workspace of them", folder = .0.display())]
    NoPackage(PathBuf),
    /// No toolchain can build for WebAssembly.
    #[error(
        "no Rust toolchain for WebAssembly was found ({looked_at}). Install one: `rustup target add wasm32-wasip2`, or on Debian `apt-get install rustc-web cargo-web rust-web-src wasi-libc lld`"
    )]
    NoToolchain {
        /// What was looked at, in words.
        looked_at: String,
    },
    /// The toolchain does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The compiler says no.
    #[error("the build of {folder} failed{messages}", folder = folder.display())]
    Compiler {
        /// What was built.
        folder: PathBuf,
        /// The compiler's messages, unless they were shown already.
        messages: String,
    },
    /// No package of the folder makes a plugin.
    #[error("{folder} has no `cdylib` library: add `[lib] crate-type = [\"cdylib\"]` to the plugin's Cargo.toml", folder = .0.display())]
    NoLibrary(PathBuf),
    /// The package's name is no plugin id.
    #[error("the library's name cannot be a file name of a plugin: {0}")]
    Id(#[from] PluginIdError),
    /// The module is none that a component can be made of.
    #[error("{name} cannot be made a component: {reason}; does it use a toolhost SDK?")]
    Component {
        /// The library.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The component is no plugin.
    #[error("{name} is {error}")]
    Contract {
        /// The library.
        name: String,
        /// What is wrong.
        error: ContractError,
    },
    /// A file cannot be read or written.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
}

/// Builds every plugin of a folder, in release mode.
///
/// Nothing is written unless all of them build, and each file appears whole.
///
/// # Errors
/// With the reason, and the repair where there is one.
///
/// # Cancel safety
/// Dropping the future kills the toolchain's first process and writes nothing.
pub async fn build(request: &BuildRequest) -> Result<Vec<Built>, BuildError> {
    let folder = fs::canonicalize(&request.folder).map_err(io(&request.folder))?;
    if !folder.join("Cargo.toml").is_file() {
        return Err(BuildError::NoPackage(request.folder.clone()));
    }
    let toolchain = Toolchain::find(&request.environment).await?;
    let command = Command {
        program: toolchain.cargo().to_owned(),
        arguments: toolchain.arguments(),
        folder,
        environment: toolchain.environment(&request.environment),
        stdin: Arc::default(),
        stdout_bytes_max: MESSAGES_BYTES_MAX,
        show_stderr: request.show_messages,
    };
    let finished = process::run(&command).await?;
    if finished.end != End::Success {
        let messages =
            if request.show_messages { String::new() } else { format!(":\n{}", finished.stderr) };
        return Err(BuildError::Compiler { folder: request.folder.clone(), messages });
    }
    let libraries = libraries(&finished.stdout);
    if libraries.is_empty() {
        return Err(BuildError::NoLibrary(request.folder.clone()));
    }
    let components: Vec<(PluginId, Vec<u8>)> =
        libraries.iter().map(|library| component(library)).collect::<Result<_, _>>()?;
    fs::create_dir_all(&request.out).map_err(io(&request.out))?;
    components.into_iter().map(|(id, bytes)| write(&request.out, id, &bytes)).collect()
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
fn component(library: &Path) -> Result<(PluginId, Vec<u8>), BuildError> {
    const COMPONENT_LAYER: [u8; 4] = [0x0d, 0, 1, 0];
    let name = library.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let id = PluginId::from_stem(&name)?;
    let module = fs::read(library).map_err(io(library))?;
    let bytes = if module.get(4..8) == Some(&COMPONENT_LAYER) {
        module
    } else {
        encode(&module).map_err(|reason| BuildError::Component { name: name.clone(), reason })?
    };
    plugin::check_contract(&bytes).map_err(|error| BuildError::Contract { name, error })?;
    Ok((id, bytes))
}

fn encode(module: &[u8]) -> Result<Vec<u8>, String> {
    wit_component::ComponentEncoder::default()
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

fn write(out: &Path, id: PluginId, bytes: &[u8]) -> Result<Built, BuildError> {
    let path = out.join(format!("{id}.wasm"));
    let mut file = tempfile::NamedTempFile::new_in(out).map_err(io(&path))?;
    file.write_all(bytes).map_err(io(&path))?;
    let readable = fs::Permissions::from_mode(0o644);
    file.as_file().set_permissions(readable).map_err(io(&path))?;
    file.persist(&path).map_err(|error| io(&path)(error.error))?;
    Ok(Built { id, digest: plugin::digest(bytes), bytes: bytes.len() as u64, path })
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> BuildError {
    let path = path.to_owned();
    move |error| BuildError::Io { path: path.clone(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core module for the world `plugin` as `wasm32-wasip1` gives them: WASI comes from the
    /// adapter.
    fn core_module() -> Vec<u8> {
        let wit = concat!(env!("CARGO_MANIFEST_DIR"), "/../wit");
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
        let (id, bytes) = component(&library).expect("a component");
        assert_eq!(id.as_str(), "my-words");
        let built = write(folder.path(), id, &bytes).expect("written");
        assert_eq!(built.path, folder.path().join("my-words.wasm"));
        assert_eq!(fs::read(&built.path).expect("read"), bytes);
        // What is a component already stays as it is.
        assert_eq!(component(&built.path).expect("a component").1, bytes);
    }

    #[test]
    fn a_module_without_an_sdk_is_no_plugin() {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("other.wasm");
        fs::write(&library, wat::parse_str("(module)").expect("valid WAT")).expect("written");
        let message = component(&library).expect_err("no plugin").to_string();
        assert!(message.contains("toolhost SDK"), "{message}");
    }
}
