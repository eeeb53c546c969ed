//! What builds scripts: the SDK of a language and the tools it needs, where they lie; and running
//! them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::{BuildError, BuildRequest, io, stage};
use toolhost_process::{self as process, Command, End};
use toolhost_wasm::script::Language;

/// Where what builds scripts may lie; the first that is there counts.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Folders with the SDKs, `python` and `javascript`; beside each the contract, `wit`.
    pub sdks: Vec<PathBuf>,
    /// Folders with `python` and `javascript`, where the `tools.sh` of each SDK installed what it
    /// needs. What is missing is to be installed in the last one.
    pub tools: Vec<PathBuf>,
}

/// What builds scripts of one language.
#[derive(Debug)]
pub(super) struct Kit {
    /// The SDK.
    pub(super) sdk: PathBuf,
    /// The contract.
    pub(super) wit: PathBuf,
    /// Where the tools may lie that the SDK needs.
    places: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Kit {
    pub(super) fn find(request: &BuildRequest, language: Language) -> Result<Kit, BuildError> {
        let Places { sdks, tools } = &request.places;
        let Some(sdks) = sdks.iter().find(|sdks| sdks.join(language.word()).is_dir()) else {
            let shown: Vec<String> = sdks.iter().map(|path| path.display().to_string()).collect();
            let looked_for = match shown.as_slice() {
                [] => "it was looked for nowhere".to_owned(),
                shown => format!("looked into {}", shown.join(" and ")),
            };
            return Err(BuildError::NoSdk { language, looked_for });
        };
        let path = request.environment.iter().find(|(name, _)| name == "PATH");
        let folders = path.map(|(_, value)| std::env::split_paths(value));
        Ok(Kit {
            sdk: sdks.join(language.word()),
            wit: sdks.with_file_name("wit"),
            places: tools.iter().map(|tools| tools.join(language.word())).collect(),
            folders: folders.into_iter().flatten().collect(),
        })
    }

    /// The folder of tools that has this file.
    pub(super) fn tools_with(&self, file: &str) -> Option<&Path> {
        self.places.iter().map(PathBuf::as_path).find(|tools| tools.join(file).is_file())
    }

    /// A program along `PATH`.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        self.folders.iter().map(|folder| folder.join(name)).find(|program| program.is_file())
    }

    /// The error that says how to install the tools.
    pub(super) fn no_tools(&self, what: &'static str) -> BuildError {
        let script = self.sdk.join("tools.sh");
        let tools =
            self.places.last().map_or_else(|| "TOOLS".into(), |tools| tools.display().to_string());
        BuildError::NoTools { what, command: format!("sh {} {tools}", script.display()) }
    }
}

/// Runs a builder, which is given the path to write to, and returns what it wrote there.
///
/// It says what is wrong with a script on stderr, on a line that begins with `error: `.
pub(super) async fn run(
    request: &BuildRequest,
    program: PathBuf,
    arguments: impl FnOnce(&Path) -> Vec<OsString>,
    mut environment: Vec<(OsString, OsString)>,
) -> Result<Vec<u8>, BuildError> {
    let (stage, temporary) = stage(request)?;
    environment.push(temporary);
    let out = stage.path().join("plugin.wasm");
    let command = Command {
        program,
        arguments: arguments(&out),
        folder: stage.path().to_owned(),
        environment,
        stdin: Vec::new(),
        stdout_bytes_max: 64 << 10,
        show_stderr: false,
    };
    let finished = process::run(&command).await?;
    if finished.end != End::Success {
        let path = request.source.clone();
        return Err(BuildError::Refused { path, reason: reason(&finished.stderr) });
    }
    fs::read(&out).map_err(io(&out))
}

/// What a builder says in its own words, or else everything.
fn reason(stderr: &str) -> String {
    let (_, own) = stderr.split_once("error: ").unwrap_or(("", stderr));
    own.trim().to_owned()
}

/// The environment without what would choose other modules or another interpreter.
pub(super) fn without(
    environment: &[(OsString, OsString)],
    unwanted: &[&str],
) -> Vec<(OsString, OsString)> {
    let wanted = |(name, _): &&(OsString, OsString)| !unwanted.iter().any(|other| name == other);
    environment.iter().filter(wanted).cloned().collect()
}
