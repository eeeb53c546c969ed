//! The hot path: one call, from its name to its outcome.
//!
//! [`Dispatch::call`] is the only function of the house that runs a tool, and it never fails:
//! whatever happens to the tool is in the outcome.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::arguments;
use crate::limits::Limits;
use crate::registry::{Catalog, Entry, Registry};
use crate::schema::Schema;
use crate::text;
use crate::tool::{
    Call, CallError, Class, Code, Invocation, Meter, Outcome, ToolOutput, Violation,
};

/// From so many visits to a node of a schema on, arguments are checked beside the calls of
/// others and not in between.
const INLINE_VISITS_MAX: usize = 10_000_000;
/// Characters of a caller's text that are echoed in an error.
const ECHO_CHARS_MAX: usize = 80;

/// Runs calls against the current catalog.
pub struct Dispatch {
    registry: Arc<Registry>,
    permits: Semaphore,
    limits: Arc<Limits>,
}

impl Dispatch {
    /// Lets `calls_max` calls run at once.
    pub fn new(registry: Arc<Registry>, limits: Arc<Limits>, calls_max: usize) -> Dispatch {
        Dispatch { registry, permits: Semaphore::new(calls_max), limits }
    }

    /// Runs one call.
    ///
    /// # Cancel safety
    /// Dropping the future stops the call at once; nothing of it goes on.
    pub async fn call(&self, call: Call) -> Outcome {
        let started = Instant::now();
        let catalog = self.registry.current();
        let meter = Arc::new(Meter::default());
        let running = AssertUnwindSafe(self.run(&catalog, &call, &meter));
        let result = running.catch_unwind().await.unwrap_or_else(|panic| Err(fault(&*panic)));
        let outcome = Outcome {
            tool: call.tool,
            result,
            usage: meter.usage(),
            generation: catalog.generation,
            elapsed: started.elapsed(),
        };
        log(&outcome);
        outcome
    }

    async fn run(
        &self,
        catalog: &Catalog,
        call: &Call,
        meter: &Arc<Meter>,
    ) -> Result<ToolOutput, CallError> {
        let entry = catalog.find(&call.tool).ok_or_else(|| unknown(catalog, &call.tool))?;
        let read = arguments::parse(&call.arguments, &self.limits)?;
        let given = Value::Object(read.value);
        self.check_arguments(entry, &given, call).await?;
        let repaired = (!read.repairs.is_empty()).then(|| given.to_string());
        let arguments = match call.arguments.trim() {
            "" => "{}",
            text => repaired.as_deref().unwrap_or(text),
        };
        let _permits = self.permits(entry).await?;

        let time_max = call.time_max.unwrap_or(Duration::MAX).min(self.limits.wall_time_max);
        let deadline = Instant::now() + time_max;
        let invocation = Invocation {
            arguments,
            caller: &call.caller,
            deadline,
            meter: Arc::clone(meter),
            progress: call.progress.clone(),
            dirs: &call.dirs,
        };
        let output = tokio::time::timeout_at(deadline.into(), entry.tool.call(invocation))
            .await
            .map_err(|_| too_late(time_max, time_max < self.limits.wall_time_max))??;
        check_structured(entry, &output)?;
        Ok(output)
    }

    /// Checks arguments; where that may take long, on a thread that may be slow.
    async fn check_arguments(
        &self,
        entry: &Entry,
        given: &Value,
        call: &Call,
    ) -> Result<(), CallError> {
        let schema = &entry.parameters;
        let checked = if schema.visits_max(call.arguments.len()) <= INLINE_VISITS_MAX {
            schema.check(given)
        } else {
            check_aside(Arc::clone(schema), given.clone(), self.limits.wall_time_max).await?
        };
        checked.map_err(|violations| {
            arguments::explain(&call.tool, &violations, &entry.tool.spec().parameters)
        })
    }

    async fn permits<'a>(
        &'a self,
        entry: &'a Entry,
    ) -> Result<(SemaphorePermit<'a>, SemaphorePermit<'a>), CallError> {
        // Without waiting, most of the time.
        if let (Ok(source), Ok(all)) = (entry.permits.try_acquire(), self.permits.try_acquire()) {
            return Ok((source, all));
        }
        let both = async {
            // The source's first: whoever waits for a busy source holds nothing of the others.
            let source = entry.permits.acquire().await;
            Ok((
                source.map_err(|_| closing())?,
                self.permits.acquire().await.map_err(|_| closing())?,
            ))
        };
        let wait_max = self.limits.permit_wait_max;
        tokio::time::timeout(wait_max, both).await.unwrap_or_else(|_| Err(busy(entry, wait_max)))
    }
}

async fn check_aside(
    schema: Arc<Schema>,
    given: Value,
    time_max: Duration,
) -> Result<Result<(), Vec<Violation>>, CallError> {
    let checking = tokio::task::spawn_blocking(move || schema.check(&given));
    match tokio::time::timeout(time_max, checking).await {
        Ok(Ok(checked)) => Ok(checked),
        Ok(Err(error)) => Err(fault(&error.to_string())),
        Err(_) => Err(too_late(time_max, false)),
    }
}

fn check_structured(entry: &Entry, output: &ToolOutput) -> Result<(), CallError> {
    let (Some(schema), Some(structured)) = (&entry.output, &output.structured) else {
        return Ok(());
    };
    let value = serde_json::from_str(structured)
        .map_err(|error| fault(&format!("structured output was checked to be JSON: {error}")))?;
    schema.check(&value).map_err(|violations| {
        let first = violations.first().map(|violation| violation.message.clone());
        let message = "the tool's structured output breaks its own output schema";
        CallError::new(Code::Failed, format!("{message}: {}", first.unwrap_or_default()))
    })
}

fn unknown(catalog: &Catalog, name: &str) -> CallError {
    let near = catalog.nearest(name);
    let shown = text::one_line(&text::cut(name, ECHO_CHARS_MAX));
    let hint = match near.as_slice() {
        [] => String::new(),
        near => format!("; did you mean {}?", or(near)),
    };
    CallError::new(Code::UnknownTool, format!("Unknown tool: {shown}{hint}")).with("near", near)
}

fn or(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}

fn busy(entry: &Entry, waited: Duration) -> CallError {
    let all = if entry.permits.available_permits() == 0 { "its source" } else { "the host" };
    let waited = humantime::format_duration(waited);
    CallError::new(
        Code::Busy,
        format!("busy: {all} had no room for the call within {waited}; try again later"),
    )
}

fn too_late(time_max: Duration, by_caller: bool) -> CallError {
    let limit = if by_caller { "the time the caller gave" } else { "`wall_time_max`" };
    let time_max = humantime::format_duration(time_max);
    CallError::new(Code::Deadline, format!("stopped: not done within {limit} of {time_max}"))
}

fn closing() -> CallError {
    CallError::new(Code::Internal, "the host is stopping")
}

/// The host is wrong. The model learns an id, the log everything.
fn fault(cause: &(dyn std::any::Any + Send)) -> CallError {
    let text = cause
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| cause.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a text");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let id = format!("{:x}", now.unwrap_or_default().as_nanos());
    let message = format!("internal error {id}; the host's log has the rest under this id");
    CallError::new(Code::Internal, message).with("id", id).with_log(text)
}

fn log(outcome: &Outcome) {
    let (tool, elapsed) =
        (&text::one_line(&text::cut(&outcome.tool, ECHO_CHARS_MAX)), outcome.elapsed);
    match &outcome.result {
        Ok(_) => tracing::debug!(%tool, ?elapsed, usage = ?outcome.usage, "called"),
        Err(error) if error.code.class() == Class::Fault => {
            let log = error.log.as_deref().unwrap_or_default();
            tracing::error!(%tool, ?elapsed, "{}: {log}", error.message);
        }
        Err(error) => {
            tracing::debug!(%tool, ?elapsed, code = %error.code, "{}", text::one_line(&error.message));
            for log in error.log.iter().chain(&error.stderr) {
                tracing::debug!(%tool, "{log}");
            }
        }
    }
}
