//! Running commands. The only room that starts processes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use thiserror::Error;

/// A command with everything it gets: nothing is inherited but what stands here.
#[derive(Clone, Debug)]
pub struct Command {
    /// The program's path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The folder it runs in.
    pub folder: PathBuf,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Its stderr goes where the host's goes; otherwise it is collected.
    pub show_stderr: bool,
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// It ended with exit code 0.
    pub success: bool,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr, unless that was shown.
    pub stderr: String,
}

/// The command could not be started.
#[derive(Debug, Error)]
#[error("{program} cannot be started: {error}", program = program.display())]
pub struct StartError {
    program: PathBuf,
    error: std::io::Error,
}

/// Runs a command to its end.
///
/// # Errors
/// If the program cannot be started.
///
/// # Cancel safety
/// Dropping the future kills the process, not those it has started.
pub async fn run(command: &Command) -> Result<Finished, StartError> {
    let failed = |error| StartError { program: command.program.clone(), error };
    let output = tokio::process::Command::new(&command.program)
        .args(&command.arguments)
        .current_dir(&command.folder)
        .env_clear()
        .envs(command.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stderr(if command.show_stderr { Stdio::inherit() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?
        .wait_with_output()
        .await
        .map_err(failed)?;
    Ok(Finished {
        success: output.status.success(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
