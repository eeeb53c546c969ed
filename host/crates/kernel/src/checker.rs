//! Checks values against the schemas of strangers: here where that is quick, and elsewhere in a
//! process that can be stopped.
//!
//! A schema knows the most steps that a check takes ([`Schema::work`]), and a value what memory it
//! takes. What is over within milliseconds is checked on the spot. Anything else goes to a
//! short-lived process of the same program, with limits on its CPU time and memory, without files
//! and network where the kernel has Landlock; both ends of it are here. It dies when the check is
//! dropped. Of one source one such process runs at a time, and of all sources as many as there are
//! cores, source by source.
//!
//! A host without that program checks what takes up to a second on a thread that may be slow, and
//! refuses the rest: schemas where they are registered, values when they come.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use toolhost_core::json::{self, Size};
use toolhost_core::limits::{Bytes, Limits};
use toolhost_core::runtime::{MemoryBudget, Reserved};
use toolhost_core::scheduler::{Bounds, Scheduler, SourceKey};
use toolhost_core::text;
use toolhost_core::tool::Violation;
use toolhost_process::{self as process, Command, Death, End};
use toolhost_schema::schema::{self, BRIEF_WORK_MAX, QUICK_WORK_MAX, Schema};

/// The argument that makes the program check what is on its stdin.
pub const CHECK_COMMAND: &str = "check-value";
/// Values for which there is always room in memory; each takes some hundred bytes at most.
const QUICK_NODES_MAX: u64 = 50_000;
/// Text that is read at once.
const QUICK_BYTES_MAX: u64 = 4 << 20;
/// Values for which a host without the program makes room on a thread that may be slow.
const BRIEF_NODES_MAX: u64 = 500_000;
/// With less memory, the process does not start.
const PROCESS_BYTES_MIN: u64 = 128 << 20;
/// How long a check waits for memory that others have, and how often it looks.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(5);
const MEMORY_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// What the process says: a verdict, and some errors of some hundred characters.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// The verdict of a value that fits, and of one that does not.
const FITS: u8 = b'+';
const BREAKS: u8 = b'-';

/// What checks values.
#[derive(Debug)]
pub struct Checker {
    program: Option<PathBuf>,
    checks: Scheduler,
    /// Of strangers, who keep nobody else waiting.
    checks_of_strangers: Scheduler,
    /// What the processes that check take is counted here, as long as they live.
    memory: Arc<MemoryBudget>,
    limits: Arc<Limits>,
}

/// A value to be checked. Its text is one JSON value, as [`json::measure`] says.
#[derive(Clone, Copy, Debug)]
pub struct GivenValue<'a> {
    /// As text.
    pub text: &'a str,
    /// As a value, where somebody has made it.
    pub value: Option<&'a Value>,
    /// How large it is.
    pub size: Size,
}

/// Whether a value fits, or the first few ways in which it does not.
pub type CheckResult = Result<(), Vec<Violation>>;

/// Why a value was not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unchecked {
    /// It took more CPU time than `schema_check_time_max`.
    Time,
    /// It took more memory than `schema_check_memory_bytes_max`.
    Memory,
    /// Too many checks wait, or it had no slot in time.
    Busy,
    /// So much memory for it is not left in `memory_all_bytes_max`.
    NoMemory(u64),
    /// The host has no process for it, and it can take more than a second.
    NoProcess,
    /// The host is wrong.
    Fault(String),
}

impl Checker {
    /// With the program that checks, if there is one: it is started with the argument
    /// [`CHECK_COMMAND`] and calls [`check_here`].
    pub fn new(program: Option<PathBuf>, limits: Arc<Limits>, cores: usize) -> Checker {
        let checks = |running: usize| {
            Scheduler::new(Bounds {
                running_of_one: 1,
                running,
                waiting_of_one: limits.waiting_per_source_max.0,
                waiting: limits.waiting_max.0,
            })
        };
        let (checks, checks_of_strangers) = (checks(cores.max(2)), checks(cores.div_ceil(2)));
        let memory = Arc::new(MemoryBudget::new(u64::MAX));
        Checker { program, checks, checks_of_strangers, memory, limits }
    }

    /// Counts what the processes that check take in a budget that guests have as well.
    pub fn count_in(&mut self, memory: Arc<MemoryBudget>) {
        self.memory = memory;
    }

    /// Memory of one process that checks, which is taken before it starts: at most half of all there
    /// is, and enough to start. It waits for it where others have it.
    async fn reserve(&self) -> Result<(u64, Reserved), Unchecked> {
        let (total, most) = (self.memory.total(), self.limits.schema_check_memory_bytes_max.0);
        let allowed = most.min((total / 2).max(PROCESS_BYTES_MIN));
        let counted = allowed.min(total);
        let waiting = async {
            loop {
                if let Some(reserved) = self.memory.reserve(counted) {
                    return reserved;
                }
                tokio::time::sleep(MEMORY_AGAIN_AFTER).await;
            }
        };
        let reserved = tokio::time::timeout(MEMORY_WAIT_MAX, waiting).await;
        Ok((allowed, reserved.map_err(|_| Unchecked::NoMemory(counted))?))
    }

    /// Checks a value against a schema, and the JSON that it was compiled of. The schema is that of
    /// a source, which may be a stranger: of a project that nobody has trusted. It waits for a slot
    /// no longer than until `deadline`: that others took the time is nothing the source has done.
    ///
    /// # Errors
    /// If the check was stopped by a limit, or there is no room for it.
    ///
    /// # Cancel safety
    /// Dropping the future stops the check, but one that is over within a second anyway.
    pub async fn check(
        &self,
        (key, is_stranger): (SourceKey, bool),
        schema: &Arc<Schema>,
        source: &Value,
        given: GivenValue<'_>,
        deadline: Instant,
    ) -> Result<CheckResult, Unchecked> {
        if let Some(checked) = quick(schema, given)? {
            return Ok(checked);
        }
        let checks = if is_stranger { &self.checks_of_strangers } else { &self.checks };
        let slot = tokio::time::timeout_at(deadline.into(), checks.take(key)).await;
        let Ok(Ok(_slot)) = slot else { return Err(Unchecked::Busy) };
        match &self.program {
            Some(program) => self.elsewhere(program, source, given.text).await,
            None => brief(schema, given).await,
        }
    }

    /// Checks in a process of its own.
    async fn elsewhere(
        &self,
        program: &Path,
        source: &Value,
        text: &str,
    ) -> Result<CheckResult, Unchecked> {
        let (memory_bytes, _reserved) = self.reserve().await?;
        let schema = source.to_string();
        let numbers = [
            self.limits.schema_check_time_max.as_secs().max(1),
            memory_bytes,
            self.limits.schema_expanded_bytes_max.0,
            self.limits.schema_patterns_bytes_max.0,
            schema.len() as u64,
        ];
        let head = numbers.map(u64::to_le_bytes).concat();
        let command = Command {
            program: program.to_owned(),
            arguments: vec![CHECK_COMMAND.into()],
            folder: PathBuf::from("/"),
            environment: vec![process::allocator()],
            stdin: vec![head.into(), schema.as_bytes().into(), text.as_bytes().into()],
            stdout_bytes_max: ANSWER_BYTES_MAX,
            show_stderr: false,
        };
        let finished =
            process::run(&command).await.map_err(|error| Unchecked::Fault(error.to_string()))?;
        match finished.stdout.split_first() {
            Some((&FITS, _)) => Ok(Ok(())),
            // Where describing takes too much, the verdict has been given all the same.
            Some((&BREAKS, described)) => Ok(Err(violations(described))),
            _ => Err(died(finished.end, &finished.stderr)),
        }
    }
}

/// Checks on the spot, if it is over within milliseconds and there is room for the value.
fn quick(schema: &Schema, given: GivenValue<'_>) -> Result<Option<CheckResult>, Unchecked> {
    let GivenValue { text, value, size } = given;
    let has_room =
        value.is_some() || (size.nodes <= QUICK_NODES_MAX && size.bytes <= QUICK_BYTES_MAX);
    if !has_room || schema.work(size) > QUICK_WORK_MAX {
        return Ok(None);
    }
    let read;
    let value = match value {
        Some(value) => value,
        None => {
            read = json::read(text).map_err(|error| Unchecked::Fault(error.to_string()))?;
            &read
        }
    };
    if schema.fits(value) {
        return Ok(Some(Ok(())));
    }
    Ok(schema.explain(value, size).map(Err))
}

/// Checks on a thread that may be slow, if it is over within a second.
async fn brief(schema: &Arc<Schema>, given: GivenValue<'_>) -> Result<CheckResult, Unchecked> {
    let GivenValue { text, size, .. } = given;
    if schema.work(size) > BRIEF_WORK_MAX || size.nodes > BRIEF_NODES_MAX {
        return Err(Unchecked::NoProcess);
    }
    let (schema, text) = (Arc::clone(schema), text.to_owned());
    let check = move || {
        let value = json::read(&text).map_err(|error| Unchecked::Fault(error.to_string()))?;
        Ok(schema.check(&value))
    };
    let checking = tokio::task::spawn_blocking(check).await;
    checking.unwrap_or_else(|error| Err(Unchecked::Fault(error.to_string())))
}

/// What the process described.
fn violations(described: &[u8]) -> Vec<Violation> {
    let found: Vec<Violation> = serde_json::from_slice(described).unwrap_or_default();
    if found.is_empty() { schema::unexplained() } else { found }
}

/// Why the process died without a verdict.
fn died(end: End, stderr: &str) -> Unchecked {
    match process::death(end, stderr) {
        Death::CpuTime => Unchecked::Time,
        Death::Memory => Unchecked::Memory,
        Death::Crash => {
            let said = text::one_line(&text::cut(stderr.trim(), 400));
            Unchecked::Fault(format!("the process that checks ended with {end:?}: {said}"))
        }
    }
}

/// The other end: reads a schema and a value from `input`, and writes the verdict to `output`.
///
/// It limits the process it runs in, for good; nothing else may run there.
///
/// # Errors
/// With the reason on one line, if there is no verdict.
pub fn check_here(mut input: impl Read, mut output: impl Write) -> Result<(), String> {
    let shown = |error: std::io::Error| error.to_string();
    let mut head = [0; 40];
    input.read_exact(&mut head).map_err(shown)?;
    let (numbers, _) = head.as_chunks::<8>();
    let [cpu_seconds, memory_bytes, expanded_bytes, patterns_bytes, schema_bytes] =
        [0, 1, 2, 3, 4].map(|n| u64::from_le_bytes(numbers[n]));
    process::confine(cpu_seconds, memory_bytes)?;
    let mut text = String::new();
    input.by_ref().take(schema_bytes).read_to_string(&mut text).map_err(shown)?;
    let source = json::read(&text).map_err(|error| error.to_string())?;
    let limits = Limits {
        schema_expanded_bytes_max: Bytes(expanded_bytes),
        schema_patterns_bytes_max: Bytes(patterns_bytes),
        ..Limits::default()
    };
    let schema = Schema::compile(&source, &limits).map_err(|error| error.to_string())?;
    text.clear();
    input.read_to_string(&mut text).map_err(shown)?;
    let value = json::read(&text).map_err(|error| error.to_string())?;
    let size = Size::of(&value);
    if schema.fits(&value) {
        return output.write_all(&[FITS]).and_then(|()| output.flush()).map_err(shown);
    }
    // Describing may take all the memory, and then this is the whole answer.
    output.write_all(&[BREAKS]).and_then(|()| output.flush()).map_err(shown)?;
    let described = schema.explain(&value, size).unwrap_or_else(|| schema.explain_first(&value));
    let described = serde_json::to_vec(&described).map_err(|error| error.to_string())?;
    output.write_all(&described).and_then(|()| output.flush()).map_err(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_checks_takes_of_the_memory_of_all() {
        let limits = Arc::new(Limits::default());
        let mut checker = Checker::new(None, limits, 2);
        // As much as two may have, and each no more than half.
        let budget = Arc::new(MemoryBudget::new(600 << 20));
        checker.count_in(Arc::clone(&budget));
        let (bytes, first) = checker.reserve().await.expect("memory");
        assert_eq!(bytes, 300 << 20);
        let (_, second) = checker.reserve().await.expect("memory");
        let refused = checker.reserve().await.map(|(bytes, _)| bytes);
        assert_eq!(refused, Err(Unchecked::NoMemory(300 << 20)));
        assert!(!budget.take(1), "guests have none either");
        drop(first);
        assert!(budget.take(100 << 20));
        let refused = checker.reserve().await.map(|(bytes, _)| bytes);
        assert_eq!(refused, Err(Unchecked::NoMemory(300 << 20)));
        budget.give_back(100 << 20);
        drop(checker.reserve().await.expect("memory"));
        drop(second);
        // Where there is plenty, it is what is configured.
        checker.count_in(Arc::new(MemoryBudget::new(64 << 30)));
        let (bytes, _reserved) = checker.reserve().await.expect("memory");
        assert_eq!(bytes, 512 << 20);
    }

    #[tokio::test]
    async fn strangers_keep_nobody_elses_checks_waiting() {
        use futures_util::FutureExt;

        let limits = Arc::new(Limits::default());
        let checker = Checker::new(None, Arc::clone(&limits), 2);
        let source = serde_json::json!({
            "type": "object",
            "properties": { "a": { "type": "array", "items": { "type": "integer" } } },
        });
        let schema = Arc::new(Schema::compile(&source, &limits).expect("a schema"));
        let text = format!("{{\"a\":[{}1]}}", "1,".repeat(200_000));
        let size = json::measure(&text).expect("JSON");
        let given = GivenValue { text: &text, value: None, size };
        assert!(schema.work(size) > QUICK_WORK_MAX, "it takes a slot");
        // Strangers have one slot for each two cores, and one of them checks for ever.
        let held = checker.checks_of_strangers.take(SourceKey::new()).await.expect("a slot");
        let another = (SourceKey::new(), true);
        let soon = Instant::now() + Duration::from_millis(20);
        let later = Instant::now() + Duration::from_secs(600);
        let mut waiting = Box::pin(checker.check(another, &schema, &source, given, later));
        assert!(waiting.as_mut().now_or_never().is_none());
        // Who waits in vain has done nothing.
        let third = (SourceKey::new(), true);
        let checked = checker.check(third, &schema, &source, given, soon).await;
        assert_eq!(checked, Err(Unchecked::Busy));
        let user = (SourceKey::new(), false);
        assert_eq!(checker.check(user, &schema, &source, given, later).await, Ok(Ok(())));
        assert!(waiting.as_mut().now_or_never().is_none(), "it waits for its own");
        drop(held);
        assert_eq!(waiting.await, Ok(Ok(())));
    }
}
