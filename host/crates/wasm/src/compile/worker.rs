//! Compiling in a short-lived process, so that a hostile component exhausts or crashes that
//! process and not the host. Both ends are here: the host's, which starts it, and its own.
//!
//! The process gets a component on stdin and gives code on stdout. It limits its own CPU time and
//! memory before it reads a byte, and gives up the file system and the network where the kernel
//! lets it. What this does not contain: a compiler that was subverted gives whatever code it
//! likes.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tokio::io::AsyncWrite;
use wasmparser::{Parser, Payload};

use crate::account::{Account, Standing};
use crate::compile::LARGE_BYTES;
use crate::engine::{self, Speed};
use crate::load_error::LoadError;
use toolhost_core::limits::{Bytes, Limits};
use toolhost_core::text;
use toolhost_process::{self as process, Command, Death, End, Streamed};

/// The argument that makes the program compile what is on its stdin.
pub const COMPILE_COMMAND: &str = "compile-component";
/// Numbers before the component.
const SETTINGS: usize = 6;
/// By how much a process is nicer than the host whose component takes seconds, ...
const LARGE_NICER_BY: u64 = 10;
/// ... and one that works for a project.
const PROJECT_NICER_BY: u64 = 5;
/// What the images of a component's memories may take beside its data, for each of its bytes...
const IMAGE_BYTES_PER_BYTE: u64 = 8;
/// ... and in any case.
const IMAGE_BYTES: u64 = 64 << 10;
/// wasmtime's own bound on what the image of one memory may take beside its data.
const IMAGE_BYTES_MAX: u64 = 16 << 20;

/// Compiles a component in a process of its own, into `output`.
pub(crate) async fn compile(
    program: &Path,
    component: Arc<[u8]>,
    (limits, speed): (&Limits, Speed),
    account: &Account<'_>,
    output: &mut (impl AsyncWrite + Unpin),
) -> Result<(), LoadError> {
    let cpu_time_max = account.compile_time_left()?;
    let nicer_by = match account.standing() {
        _ if component.len() > LARGE_BYTES => LARGE_NICER_BY,
        Standing::User => 0,
        Standing::Project | Standing::Untrusted => PROJECT_NICER_BY,
    };
    let settings: [u64; SETTINGS] = [
        limits.stack_bytes_max.0,
        cpu_time_max.as_secs().max(1),
        limits.compile_memory_bytes_max.0,
        u64::from(speed == Speed::OfCompiling),
        nicer_by,
        component.len() as u64,
    ];
    let head: Arc<[u8]> = settings.map(u64::to_le_bytes).concat().into();
    let command = Command {
        program: program.to_owned(),
        arguments: vec![COMPILE_COMMAND.into()],
        folder: PathBuf::from("/"),
        environment: vec![process::allocator()],
        stdin: vec![head, component],
        stdout_bytes_max: limits.code_bytes_max.0,
        show_stderr: false,
    };
    let (time_max, start) = (limits.compile_time_max, Instant::now());
    let run = tokio::time::timeout(time_max, process::run_into(&command, output)).await;
    let measured = run.as_ref().ok().and_then(|run| run.as_ref().ok()?.cpu_time);
    account.compiled(measured.unwrap_or_else(|| start.elapsed().min(cpu_time_max)));
    let refused = |reason: String| Err(LoadError::Compile(reason));
    let Ok(run) = run else {
        let time_max = humantime::format_duration(time_max);
        return refused(format!("not done within `compile_time_max` of {time_max}"));
    };
    let Streamed { end, stderr, .. } =
        run.map_err(|error| LoadError::Internal(error.to_string()))?;
    match end {
        End::Success => Ok(()),
        End::TooMuch => refused(too_much_code(limits)),
        End::Code(1) if !stderr.trim().is_empty() => {
            refused(text::cut(&text::one_line(stderr.trim()), 400))
        }
        end if process::death(end, &stderr) == Death::CpuTime
            && cpu_time_max < limits.compile_cpu_time_max =>
        {
            Err(account.compiled_too_long())
        }
        end => refused(died(end, &stderr, limits)),
    }
}

/// What is said of a component whose code is too large.
pub(crate) fn too_much_code(limits: &Limits) -> String {
    let Bytes(allowed) = limits.code_bytes_max;
    format!(
        "its code has more than `code_bytes_max` of {allowed} bytes; raise that in toolhost.toml, or build it smaller"
    )
}

/// Why the process died without a word of its own.
fn died(end: End, stderr: &str, limits: &Limits) -> String {
    let memory = limits.compile_memory_bytes_max.0;
    let cpu_time = humantime::format_duration(limits.compile_cpu_time_max);
    match process::death(end, stderr) {
        Death::CpuTime => format!("it takes more than `compile_cpu_time_max` of {cpu_time}"),
        Death::Memory => {
            format!("it takes more than `compile_memory_bytes_max` of {memory} bytes")
        }
        Death::Crash => match end {
            End::Signal(signal) => format!("the compiler crashed (signal {signal})"),
            End::Code(code) => format!("the compiler failed (exit code {code})"),
            End::Success | End::TooMuch => "the compiler gave nothing".to_owned(),
        },
    }
}

/// The other end: reads a component from `input` and writes its code to `output`.
///
/// It limits the process it runs in, for good; nothing else may run there.
///
/// # Errors
/// With the reason on one line, if the component does not compile.
pub fn compile_here(mut input: impl Read, mut output: impl Write) -> Result<(), String> {
    let mut head = [0; 8 * SETTINGS];
    input.read_exact(&mut head).map_err(|error| error.to_string())?;
    let (numbers, _) = head.as_chunks::<8>();
    let [stack_bytes, cpu_seconds, memory_bytes, is_quick, nicer_by, length] =
        [0, 1, 2, 3, 4, 5].map(|n| u64::from_le_bytes(numbers[n]));
    process::confine(cpu_seconds, memory_bytes)?;
    let mut component = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    input.take(length).read_to_end(&mut component).map_err(|error| error.to_string())?;
    step_back(nicer_by);
    let speed = if is_quick == 1 { Speed::OfCompiling } else { Speed::OfCalls };
    let code = precompile(&component, Bytes(stack_bytes), speed)?;
    drop(component);
    output.write_all(&code).and_then(|()| output.flush()).map_err(|error| error.to_string())
}

/// Compiles a component, here and now.
pub(crate) fn precompile(
    component: &[u8],
    stack_bytes_max: Bytes,
    speed: Speed,
) -> Result<Vec<u8>, String> {
    let limits = Limits { stack_bytes_max, ..Limits::default() };
    let mut config = engine::config(&limits, None, speed);
    config.memory_guaranteed_dense_image_size(sparse_image_bytes_max(component));
    let shown = |error: wasmtime::Error| format!("{error:#}");
    let engine = wasmtime::Engine::new(&config).map_err(shown)?;
    engine.precompile_component(component).map_err(shown)
}

/// The largest image of a memory whose data lies far apart: so large that those of all modules
/// together are a bounded number of times what the component has. Larger ones are not made, and the
/// data is copied when an instance is.
fn sparse_image_bytes_max(component: &[u8]) -> u64 {
    let payloads = Parser::new(0).parse_all(component).map_while(Result::ok);
    let modules =
        payloads.filter(|payload| matches!(payload, Payload::ModuleSection { .. })).count();
    let all = component.len() as u64 * IMAGE_BYTES_PER_BYTE + IMAGE_BYTES;
    (all / modules.max(1) as u64).min(IMAGE_BYTES_MAX)
}

/// What takes long, or is another's, leaves the cores to others, if these want them.
fn step_back(nicer_by: u64) {
    if nicer_by == 0 {
        return;
    }
    let nicer_by = i32::try_from(nicer_by).unwrap_or(i32::MAX);
    if let Err(error) = rustix::process::nice(nicer_by) {
        tracing::debug!(%error, "a component is compiled as fast as others");
    }
}
