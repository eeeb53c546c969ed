//! Running commands. The only room that starts processes.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
    /// What it reads from stdin.
    pub stdin: Arc<[u8]>,
    /// The most it may write to stdout; what is over is cut.
    pub stdout_bytes_max: u64,
    /// Its stderr goes where the host's goes; otherwise it is collected.
    pub show_stderr: bool,
}

/// The most that is collected of stderr; what is over is cut.
const STDERR_BYTES_MAX: u64 = 4 << 20;

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub end: End,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr, unless that was shown.
    pub stderr: String,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With exit code 0.
    Success,
    /// With another exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// The command could not be run.
#[derive(Debug, Error)]
#[error("{program} cannot be run: {error}", program = program.display())]
pub struct StartError {
    program: PathBuf,
    error: std::io::Error,
}

/// Runs a command to its end.
///
/// # Errors
/// If the program cannot be started, or its pipes break.
///
/// # Cancel safety
/// Dropping the future kills the process, not those it has started.
pub async fn run(command: &Command) -> Result<Finished, StartError> {
    let failed = |error| StartError { program: command.program.clone(), error };
    let mut child = tokio::process::Command::new(&command.program)
        .args(&command.arguments)
        .current_dir(&command.folder)
        .env_clear()
        .envs(command.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stderr(if command.show_stderr { Stdio::inherit() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A process need not read all it is given.
            let _ = stdin.write_all(&command.stdin).await;
        }
    };
    let ((), stdout, stderr) =
        tokio::join!(write, read(stdout, command.stdout_bytes_max), read(stderr, STDERR_BYTES_MAX));
    let status = child.wait().await.map_err(failed)?;
    let end = match (status.code(), status.signal()) {
        (Some(0), _) => End::Success,
        (Some(code), _) => End::Code(code),
        (None, signal) => End::Signal(signal.unwrap_or_default()),
    };
    let stderr = String::from_utf8_lossy(&stderr.map_err(failed)?).into_owned();
    Ok(Finished { end, stdout: stdout.map_err(failed)?, stderr })
}

/// Reads a pipe to its end and keeps at most `bytes_max` of it.
async fn read(pipe: Option<impl AsyncReadExt + Unpin>, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        (&mut pipe).take(bytes_max).read_to_end(&mut bytes).await?;
        tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}
