//! Compiling in a short-lived process, so that a hostile component exhausts or crashes that
//! process and not the host. Both ends are here: the host's, which starts it, and its own.
//!
//! The process gets a component on stdin and gives code on stdout. It limits its own CPU time and
//! memory before it reads a byte, and gives up the file system and the network where the kernel
//! lets it. What this does not contain: a compiler that was subverted gives whatever code it
//! likes.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, Signal, setrlimit};

use super::compile::LARGE_BYTES;
use super::engine::{self, Speed};
use super::load_error::LoadError;
use crate::limits::{Bytes, Limits};
use crate::process::{self, Command, End};
use crate::text;

/// The argument that makes the program compile what is on its stdin.
pub const COMPILE_COMMAND: &str = "compile-component";
/// Code is some times larger than the component.
const CODE_BYTES_MAX: u64 = 2 << 30;
/// The exit code of a Rust program that panicked.
const PANICKED: i32 = 101;
/// CPU seconds between the warning and the end.
const CPU_SECONDS_OF_GRACE: u64 = 2;

/// Compiles a component in a process of its own.
pub(super) async fn compile(
    program: &Path,
    component: &[u8],
    limits: &Limits,
    speed: Speed,
) -> Result<Vec<u8>, LoadError> {
    let settings = [
        limits.stack_bytes_max.0,
        limits.compile_cpu_time_max.as_secs(),
        limits.compile_memory_bytes_max.0,
        u64::from(speed == Speed::OfCompiling),
    ];
    let head = settings.map(u64::to_le_bytes).concat();
    let command = Command {
        program: program.to_owned(),
        arguments: vec![COMPILE_COMMAND.into()],
        folder: PathBuf::from("/"),
        environment: Vec::new(),
        stdin: [&head, component].concat().into(),
        stdout_bytes_max: CODE_BYTES_MAX,
        show_stderr: false,
    };
    let refused = |reason: String| Err(LoadError::Compile(reason));
    let time_max = limits.compile_time_max;
    let Ok(run) = tokio::time::timeout(time_max, process::run(&command)).await else {
        let time_max = humantime::format_duration(time_max);
        return refused(format!("not done within `compile_time_max` of {time_max}"));
    };
    let finished = run.map_err(|error| LoadError::Internal(error.to_string()))?;
    match finished.end {
        End::Success => Ok(finished.stdout),
        End::Code(1) if !finished.stderr.trim().is_empty() => {
            refused(text::cut(&text::one_line(finished.stderr.trim()), 400))
        }
        end => refused(died(end, &finished.stderr, limits)),
    }
}

/// Why the process died without a word of its own.
fn died(end: End, stderr: &str, limits: &Limits) -> String {
    let memory = Bytes(limits.compile_memory_bytes_max.0).0;
    let cpu_time = humantime::format_duration(limits.compile_cpu_time_max);
    match end {
        End::Signal(signal)
            if [Signal::XCPU, Signal::KILL].map(Signal::as_raw).contains(&signal) =>
        {
            format!("it takes more than `compile_cpu_time_max` of {cpu_time}")
        }
        // Where memory is refused, parts of the compiler abort, and others panic.
        End::Signal(_) | End::Code(PANICKED) if stderr.contains("memory") => {
            format!("it takes more than `compile_memory_bytes_max` of {memory} bytes")
        }
        End::Signal(signal) => format!("the compiler crashed (signal {signal})"),
        End::Code(code) => format!("the compiler failed (exit code {code})"),
        End::Success => "the compiler gave nothing".to_owned(),
    }
}

/// The other end: reads a component from `input` and writes its code to `output`.
///
/// It limits the process it runs in, for good; nothing else may run there.
///
/// # Errors
/// With the reason on one line, if the component does not compile.
pub fn compile_here(mut input: impl Read, mut output: impl Write) -> Result<(), String> {
    let mut head = [0; 32];
    input.read_exact(&mut head).map_err(|error| error.to_string())?;
    let (numbers, _) = head.as_chunks::<8>();
    let [stack_bytes, cpu_seconds, memory_bytes, is_quick] =
        [0, 1, 2, 3].map(|n| u64::from_le_bytes(numbers[n]));
    confine(cpu_seconds, memory_bytes)?;
    let mut component = Vec::new();
    input.read_to_end(&mut component).map_err(|error| error.to_string())?;
    let limits = Limits { stack_bytes_max: Bytes(stack_bytes), ..Limits::default() };
    if component.len() > LARGE_BYTES {
        step_back();
    }
    let speed = if is_quick == 1 { Speed::OfCompiling } else { Speed::OfCalls };
    let engine = wasmtime::Engine::new(&engine::config(&limits, None, speed))
        .map_err(|error| format!("{error:#}"))?;
    let code = engine.precompile_component(&component).map_err(|error| format!("{error:#}"))?;
    output.write_all(&code).and_then(|()| output.flush()).map_err(|error| error.to_string())
}

/// What takes seconds leaves the cores to others, if these want them.
fn step_back() {
    const NICER_BY: i32 = 10;
    if let Err(error) = rustix::process::nice(NICER_BY) {
        tracing::debug!(%error, "a large component is compiled as fast as small ones");
    }
}

fn confine(cpu_seconds: u64, memory_bytes: u64) -> Result<(), String> {
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
