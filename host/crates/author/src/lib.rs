//! What authors of plugins need. Builds plugins from source: finds what builds them, runs it, checks
//! the component it gives, and puts that into a plugins folder in one step. [`scaffold`] makes the
//! folder of a new one, [`check`] says what could be better.
//!
//! One file a language. Paths and environment are values it is given. What it does not do: install
//! anything.

mod check;
mod javascript;
mod kit;
mod place;
mod python;
mod rust;
mod scaffold;
mod toolchain;

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use toolhost_core::tool::{PluginId, PluginIdError};
use toolhost_process::SpawnError;
use toolhost_wasm::script::{self, ScriptError};
use toolhost_wasm::{self as plugin, ContractError};

pub use check::{CheckError, CheckRequest, CheckedPlugin, CheckedTool, Finding, Level, check};
pub use kit::Places;
pub use place::{StagedBuild, copy_script, put};
pub use scaffold::{ScaffoldError, ScaffoldRequest, Scaffolded, TemplateLanguage, scaffold};
pub use toolchain::RustToolchain;

/// What to build, with what, and where to put it.
#[derive(Clone, Debug, Default)]
pub struct BuildRequest {
    /// A Cargo package, a workspace of several, or a script: its file, or its folder.
    pub source: PathBuf,
    /// The folder for the components.
    pub out: PathBuf,
    /// Where temporary files go, those of compilers among them, which decide what is built: a folder
    /// that no plugin can write to. Without one, they go into `out`.
    pub stage: Option<PathBuf>,
    /// Where to look for what builds scripts.
    pub places: Places,
    /// Folders with packages that a Python script imports.
    pub packages: Vec<PathBuf>,
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
    /// There is nothing to build.
    #[error("{source} is nothing to build; name a folder with Cargo.toml (Rust), plugin.py (Python) or plugin.js, .mjs or .ts (JavaScript), or the file of a script", source = .0.display())]
    NoSource(PathBuf),
    /// The script is none.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// Packages of Python were named for something else.
    #[error(
        "`--packages` is for Python alone: cargo takes packages from Cargo.toml, and npm puts them beside a script"
    )]
    Packages,
    /// The SDK of the script's language is nowhere.
    #[error(
        "a {} script is built with the SDK in `sdk/{}` of toolhost's repository, and there is none ({looked_for}); run `make install` in a clone of it, or name its folder with `--sdk`",
        language.name(), language.word()
    )]
    NoSdk {
        /// What the script is written in.
        language: script::Language,
        /// Where it was looked for, in words.
        looked_for: String,
    },
    /// What builds scripts of this language is nowhere.
    #[error("{what} is not installed; run `{command}`, then build again")]
    NoTools {
        /// What is missing.
        what: &'static str,
        /// What installs it.
        command: String,
    },
    /// The script cannot be built.
    #[error("{path} cannot be built: {reason}", path = path.display())]
    Refused {
        /// The script.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The component would have the id of a script beside it.
    #[error(
        "{out} has the script `{script}`; beside it `{id}.wasm` would have the same plugin id, and neither would be loaded. Put the component elsewhere, with `--out dist`",
        out = out.display()
    )]
    Twin {
        /// The folder.
        out: PathBuf,
        /// The script there.
        script: String,
        /// The id of both.
        id: PluginId,
    },
    /// The script would have the id of a component beside it.
    #[error(
        "{component} has the plugin id `{id}` too, and neither would be loaded; remove it, or choose another folder with `--out`",
        component = component.display()
    )]
    TwinOfComponent {
        /// The component.
        component: PathBuf,
        /// The id of both.
        id: PluginId,
    },
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
    Start(#[from] SpawnError),
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
    /// The name is no plugin id.
    #[error("its name cannot be a file name of a plugin: {0}")]
    Id(#[from] PluginIdError),
    /// The module is none that a component can be made of.
    #[error("{name} cannot be made a component: {reason}; does it use a toolhost SDK?")]
    Component {
        /// Its name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// The component is no plugin.
    #[error("{name} is {error}")]
    Contract {
        /// Its name.
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

/// A component that was built and not yet written.
struct Component {
    id: PluginId,
    /// What it is called in errors.
    name: String,
    bytes: Vec<u8>,
}

/// Tells whether there is something to build, by what lies there.
pub fn is_source(path: &Path) -> bool {
    path.join("Cargo.toml").is_file() || script::language(path).is_some()
}

/// Builds every plugin of a source, in release mode.
///
/// This runs the code of the source's author as this user, outside the sandbox: cargo runs build
/// scripts and macros. Whether that is meant, the caller knows.
///
/// Nothing is written unless all of them build, and each file appears whole.
///
/// # Errors
/// With the reason, and the repair where there is one.
///
/// # Cancel safety
/// Dropping the future kills the toolchain's first process and writes nothing.
pub async fn build(request: &BuildRequest) -> Result<Vec<Built>, BuildError> {
    let source = fs::canonicalize(&request.source).map_err(io(&request.source))?;
    let source = script::whole(&source);
    let components = if source.join("Cargo.toml").is_file() {
        if !request.packages.is_empty() {
            return Err(BuildError::Packages);
        }
        rust::build(request, source).await?
    } else {
        vec![build_script(request, &source).await?]
    };
    for Component { id, name, bytes } in &components {
        let not = |error| BuildError::Contract { name: name.clone(), error };
        plugin::check_contract(bytes).map_err(not)?;
        refuse_twin(&request.out, id)?;
    }
    fs::create_dir_all(&request.out).map_err(io(&request.out))?;
    components.into_iter().map(|component| write(&request.out, component)).collect()
}

async fn build_script(request: &BuildRequest, source: &Path) -> Result<Component, BuildError> {
    let Some(language) = script::language(source) else {
        return Err(BuildError::NoSource(request.source.clone()));
    };
    let id = PluginId::from_stem(&script::stem(source))?;
    // Before what takes half a minute.
    refuse_twin(&request.out, &id)?;
    let main = script::main_file(source)?;
    if language != script::Language::Python && !request.packages.is_empty() {
        return Err(BuildError::Packages);
    }
    let kit = kit::Kit::find(request, language)?;
    let bytes = match language {
        script::Language::Python => python::build(request, &kit, source).await?,
        script::Language::JavaScript => javascript::build(request, &kit, &main).await?,
    };
    let name = main.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Component { id, name, bytes })
}

/// A component and a script with one id are both refused by a host.
fn refuse_twin(out: &Path, id: &PluginId) -> Result<(), BuildError> {
    // A folder that is not there holds no script.
    let entries = fs::read_dir(out).into_iter().flatten().flatten();
    let is_twin = |path: &PathBuf| {
        script::language(path).is_some()
            && PluginId::from_stem(&script::stem(path)).is_ok_and(|other| other == *id)
    };
    match entries.map(|entry| entry.path()).find(is_twin) {
        None => Ok(()),
        Some(path) => Err(BuildError::Twin {
            out: out.to_owned(),
            script: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            id: id.clone(),
        }),
    }
}

fn write(out: &Path, Component { id, bytes, .. }: Component) -> Result<Built, BuildError> {
    let path = out.join(format!("{id}.wasm"));
    let mut file = tempfile::NamedTempFile::new_in(out).map_err(io(&path))?;
    file.write_all(&bytes).map_err(io(&path))?;
    let readable = fs::Permissions::from_mode(0o644);
    file.as_file().set_permissions(readable).map_err(io(&path))?;
    file.persist(&path).map_err(|error| io(&path)(error.error))?;
    Ok(Built { id, digest: plugin::digest(&bytes), bytes: bytes.len() as u64, path })
}

/// A folder for temporary files of a build, and the environment by which compilers find it.
fn stage(request: &BuildRequest) -> Result<(StagedBuild, (OsString, OsString)), BuildError> {
    let stage = StagedBuild::new(request.stage.as_ref().unwrap_or(&request.out))?;
    let variable = ("TMPDIR".into(), stage.path().into());
    Ok((stage, variable))
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> BuildError {
    let path = path.to_owned();
    move |error| BuildError::Io { path: path.clone(), error }
}
