//! Running commands. The only crate that starts processes.
//!
//! Some are this program itself, at work on what a stranger wrote: they [`confine`] themselves
//! before they read a byte of it, and [`death`] says which of their limits they met.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};

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
    /// What it reads from stdin, in pieces.
    pub stdin: Vec<Arc<[u8]>>,
    /// The most it may write to stdout. What is over is cut by [`run`], and ends the process in
    /// [`run_into`].
    pub stdout_bytes_max: u64,
    /// Its stderr goes where the host's goes; otherwise it is collected.
    pub show_stderr: bool,
}

/// The most that is collected of stderr; what is over is cut.
const STDERR_BYTES_MAX: u64 = 4 << 20;
/// The same of a process that says no more than why it fails.
const REASON_BYTES_MAX: u64 = 64 << 10;
/// Bytes that are read from a process at once.
const CHUNK_BYTES: usize = 64 << 10;

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
    /// It was ended, since it wrote more to stdout than it may.
    TooMuch,
}

/// What a command did whose stdout went elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Streamed {
    /// How it ended.
    pub end: End,
    /// The beginning of what it wrote to stderr.
    pub stderr: String,
    /// For how long it had a CPU, as far as the system tells.
    pub cpu_time: Option<Duration>,
}

/// The command could not be run.
#[derive(Debug, Error)]
#[error("{program} cannot be run: {error}", program = program.display())]
pub struct SpawnError {
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
pub async fn run(command: &Command) -> Result<Finished, SpawnError> {
    let failed = |error| command.failed(error);
    let mut child = command.start()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let ((), stdout, stderr) = tokio::join!(
        command.feed(stdin),
        read(stdout, command.stdout_bytes_max),
        read(stderr, STDERR_BYTES_MAX)
    );
    let end = end(child.wait().await.map_err(failed)?);
    let stderr = String::from_utf8_lossy(&stderr.map_err(failed)?).into_owned();
    Ok(Finished { end, stdout: stdout.map_err(failed)?, stderr })
}

/// Runs a command to its end; what it writes to stdout goes into `output` as it comes, and is held
/// nowhere else. It is ended when that is more than it may write.
///
/// # Errors
/// If the program cannot be started, its pipes break, or `output` takes no more.
///
/// # Cancel safety
/// Dropping the future kills the process, not those it has started.
pub async fn run_into(
    command: &Command,
    output: &mut (impl AsyncWrite + Unpin),
) -> Result<Streamed, SpawnError> {
    let failed = |error| command.failed(error);
    let mut child = command.start()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let copy = async {
        let fits = copy(stdout, output, command.stdout_bytes_max).await;
        // Otherwise it would wait for a reader.
        if !matches!(fits, Ok(true)) {
            child.start_kill()?;
        }
        fits
    };
    let ((), fits, stderr) =
        tokio::join!(command.feed(stdin), copy, read(stderr, REASON_BYTES_MAX));
    let cpu_time = child.id().and_then(cpu_time);
    let ended = end(child.wait().await.map_err(failed)?);
    let end = if fits.map_err(failed)? { ended } else { End::TooMuch };
    let stderr = String::from_utf8_lossy(&stderr.map_err(failed)?).into_owned();
    Ok(Streamed { end, stderr, cpu_time })
}

impl Command {
    fn start(&self) -> Result<Child, SpawnError> {
        tokio::process::Command::new(&self.program)
            .args(&self.arguments)
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stderr(if self.show_stderr { Stdio::inherit() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| self.failed(error))
    }

    async fn feed(&self, stdin: Option<ChildStdin>) {
        let Some(mut stdin) = stdin else { return };
        for piece in &self.stdin {
            // A process need not read all it is given.
            if stdin.write_all(piece).await.is_err() {
                return;
            }
        }
    }

    fn failed(&self, error: std::io::Error) -> SpawnError {
        SpawnError { program: self.program.clone(), error }
    }
}

fn end(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(0), _) => End::Success,
        (Some(code), _) => End::Code(code),
        (None, signal) => End::Signal(signal.unwrap_or_default()),
    }
}

/// Copies a pipe to its end; tells whether that was at most `bytes_max`, and stops where it is more.
async fn copy(
    pipe: Option<impl AsyncRead + Unpin>,
    output: &mut (impl AsyncWrite + Unpin),
    bytes_max: u64,
) -> std::io::Result<bool> {
    let Some(mut pipe) = pipe else { return Ok(true) };
    let (mut chunk, mut left) = (vec![0; CHUNK_BYTES], bytes_max);
    loop {
        let count = pipe.read(&mut chunk).await?;
        if count == 0 {
            output.flush().await?;
            return Ok(true);
        }
        let Some(rest) = left.checked_sub(count as u64) else { return Ok(false) };
        left = rest;
        output.write_all(&chunk[..count]).await?;
    }
}

/// For how long a process had a CPU that has not been waited for yet, as `proc_pid_stat(5)` says.
fn cpu_time(process: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Its name may hold anything; what comes after it are numbers, the state being the first.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let ticks = ticks()? + ticks()?;
    Some(Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second()))
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

/// How a confined process gets its memory, as a variable of its environment for the program's
/// allocator: what is given back is gone at once, since the limit is on addresses, and no thread
/// of its own does it.
pub fn allocator() -> (OsString, OsString) {
    const SETTINGS: &str =
        "retain:false,narenas:1,background_thread:false,dirty_decay_ms:0,muzzy_decay_ms:0";
    ("_RJEM_MALLOC_CONF".into(), SETTINGS.into())
}

/// CPU seconds between the warning and the end.
const CPU_SECONDS_OF_GRACE: u64 = 2;
/// The exit code of a confined process that nobody reads.
const READER_GONE: i32 = 3;
/// Enough for a thread that only waits.
const WAITING_STACK_BYTES: usize = 64 << 10;
/// The exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

/// Why a confined process died without a word of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Its CPU time was over.
    CpuTime,
    /// It asked for more memory than it may have.
    Memory,
    /// Something else.
    Crash,
}

/// Reads from its end, and from its stderr, why a confined process died.
pub fn death(end: End, stderr: &str) -> Death {
    match end {
        End::Signal(signal)
            if [Signal::XCPU, Signal::KILL].map(Signal::as_raw).contains(&signal) =>
        {
            Death::CpuTime
        }
        // Where memory is refused, some code aborts, and other code panics.
        End::Signal(_) | End::Code(PANICKED) if stderr.contains("memory") => Death::Memory,
        _ => Death::Crash,
    }
}

/// Limits the CPU time and memory of the process it runs in, and gives up files and network where
/// the kernel lets it; for good, so nothing else may run there. The process ends when nobody reads
/// its stdout any more: whoever started it is gone, however that ended.
///
/// # Errors
/// If a limit cannot be set.
pub fn confine(cpu_seconds: u64, memory_bytes: u64) -> Result<(), String> {
    end_with_the_reader()?;
    let limit = |resource, current, maximum| {
        let limit = Rlimit { current: Some(current), maximum: Some(maximum) };
        setrlimit(resource, limit).map_err(|error| format!("a limit cannot be set: {error}"))
    };
    limit(Resource::Cpu, cpu_seconds, cpu_seconds + CPU_SECONDS_OF_GRACE)?;
    limit(Resource::As, memory_bytes, memory_bytes)?;
    limit(Resource::Core, 0, 0)?;
    // Neither files nor processes are needed.
    limit(Resource::Fsize, 0, 0)?;
    give_up_files_and_network();
    Ok(())
}

/// Waits on a thread of its own, since all others may be at work.
fn end_with_the_reader() -> Result<(), String> {
    let wait = || {
        let stdout = std::io::stdout();
        let mut reader = [PollFd::new(&stdout, PollFlags::empty())];
        // Without flags it returns only when the other end is closed.
        while poll(&mut reader, None) == Err(Errno::INTR) {}
        end_here();
    };
    let waiting = std::thread::Builder::new().stack_size(WAITING_STACK_BYTES).spawn(wait);
    waiting.map(drop).map_err(|error| format!("no thread to wait for the reader: {error}"))
}

/// Ends a process that worked for a host which is gone.
#[expect(clippy::exit, reason = "nobody is left to be told, and another thread is at work")]
fn end_here() -> ! {
    std::process::exit(READER_GONE)
}

/// As far as this kernel can; the limits above hold without it.
#[cfg(target_os = "linux")]
fn give_up_files_and_network() {
    use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetError};

    let confine = || -> Result<(), RulesetError> {
        Ruleset::default()
            .handle_access(AccessFs::from_all(ABI::V5))?
            .handle_access(AccessNet::from_all(ABI::V5))?
            .create()?
            .restrict_self()?;
        Ok(())
    };
    if let Err(error) = confine() {
        tracing::debug!(%error, "no Landlock on this kernel");
    }
}

#[cfg(not(target_os = "linux"))]
fn give_up_files_and_network() {}
