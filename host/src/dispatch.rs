//! The hot path: one call, from its name to its outcome.
//!
//! [`Dispatch::call`] is the only function of the house that runs a tool, and it never fails:
//! whatever happens to the tool is in the outcome. The order of its steps is the contract: what
//! was checked is what was approved, and what was approved is what runs.

mod batch;
mod find;
mod hooks;
mod note;
mod permits;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde_json::{Map, Value};

use crate::arguments;
use crate::audit::Audit;
use crate::availability::Availability;
use crate::limits::Limits;
use crate::quarantine::Quarantine;
use crate::registry::{Catalog, Entry, Registry};
use crate::schema::Schema;
use crate::session::{Ended, Session};
use crate::text;
use crate::tool::{
    Call, CallError, Class, Code, Invocation, Meter, Outcome, Refusal, ToolOutput, Violation,
};
use find::Found;
use hooks::Hooked;
use note::{Noting, Running};
use permits::Permits;

/// From so many visits to a node of a schema on, arguments are checked beside the calls of
/// others and not in between.
const INLINE_VISITS_MAX: usize = 10_000_000;
/// Characters of a caller's text that are echoed in an error.
const ECHO_CHARS_MAX: usize = 80;

/// Runs calls against the current catalog.
pub struct Dispatch {
    registry: Arc<Registry>,
    availability: Arc<Availability>,
    quarantine: Arc<Quarantine>,
    permits: Permits,
    limits: Arc<Limits>,
    audit: Arc<Audit>,
}

impl Dispatch {
    /// Lets `calls_max` calls run at once, each of which the audit log is told of.
    pub fn new(
        registry: Arc<Registry>,
        availability: Arc<Availability>,
        quarantine: Arc<Quarantine>,
        limits: Arc<Limits>,
        calls_max: usize,
        audit: Arc<Audit>,
    ) -> Dispatch {
        let permits = Permits::new(Arc::clone(&limits), calls_max);
        Dispatch { registry, availability, quarantine, permits, limits, audit }
    }

    /// Runs one call of a session.
    ///
    /// # Cancel safety
    /// Dropping the future stops the call at once; nothing of it goes on.
    pub async fn call(&self, session: &Session, call: Call) -> Outcome {
        let (noting, running) = Noting::new(&self.audit, call);
        let mut ended = [self.execute(session, &running).await];
        session.keep(&mut ended);
        let [Ended { outcome, .. }] = ended;
        log(&outcome);
        noting.done(running, &outcome);
        outcome
    }

    /// Runs one call, without bounding what is shown of its result.
    async fn execute(&self, session: &Session, running: &Running) -> Ended {
        let started = Instant::now();
        let catalog = self.registry.current();
        let Running { call, meter, .. } = running;
        let (mut tool, mut chars_max, mut repairs) = (None, None, Vec::new());
        let result = async {
            let found = find::find(&catalog, session, call)?;
            running.found(found.entry);
            let spec = found.entry.tool.spec();
            tool = Some(spec.name.to_string());
            chars_max = spec.max_result_size_chars.map(|chars| chars as usize);
            repairs.extend(found.repair.clone());
            self.run(&catalog, session, running, &found, &mut repairs).await
        };
        let result = AssertUnwindSafe(result).catch_unwind().await;
        let result = result.unwrap_or_else(|panic| Err(fault(&call.tool, &*panic)));
        let tool = tool.unwrap_or_else(|| call.tool.clone());
        for repair in &repairs {
            tracing::warn!("`{tool}` was called with a repair: {repair}");
        }
        let refusals = meter.refusals();
        let outcome = Outcome {
            tool,
            repairs,
            result: result.map_err(|error| with_refusals(error, &refusals)),
            usage: meter.usage(),
            refusals,
            generation: catalog.generation,
            elapsed: started.elapsed(),
        };
        Ended { outcome, call_id: call.caller.tool_call.clone(), chars_max }
    }

    /// One call, step by step.
    async fn run(
        &self,
        catalog: &Catalog,
        session: &Session,
        running: &Running,
        found: &Found<'_>,
        repairs: &mut Vec<String>,
    ) -> Result<ToolOutput, CallError> {
        let started = Instant::now();
        let (Running { call, meter, .. }, entry) = (running, found.entry);
        find::in_scope(catalog, session, entry)?;
        self.quarantine.check(entry)?;
        self.available(entry).await?;
        let hooked = Hooked::find(catalog, entry, &call.caller, meter, &self.limits);
        let mut arguments = Arguments { text: call.arguments.clone(), ..Arguments::default() };
        let mut result = self.checked(session, call, entry, &hooked, meter, &mut arguments).await;
        repairs.append(&mut arguments.repairs);
        if !arguments.repeated {
            session.observe(entry.tool.spec().name.as_str(), &arguments.value, &mut result);
        }
        let output_bytes_max = self.limits.output_bytes_max.as_usize();
        hooked.after(&arguments.text, &mut result, started.elapsed(), output_bytes_max).await;
        running.ran(arguments.text);
        result
    }

    /// From the arguments as they were written to the tool's checked output.
    async fn checked(
        &self,
        session: &Session,
        call: &Call,
        entry: &Entry,
        hooked: &Hooked<'_>,
        meter: &Arc<Meter>,
        arguments: &mut Arguments,
    ) -> Result<ToolOutput, CallError> {
        arguments.read(&self.limits)?;
        let is_new = match hooked.request(&arguments.text).await? {
            Some(text) => {
                arguments.text = text;
                arguments.read(&self.limits)?;
                true
            }
            None => false,
        };
        arguments.coerce(&entry.tool.spec().parameters);
        self.check_arguments(entry, arguments).await?;
        let asked = hooked.pre_call(&arguments.text).await?;
        let guarded = session.guard(entry.tool.spec().name.as_str(), &arguments.value);
        arguments.repeated = guarded.is_err();
        guarded?;
        for asked in asked {
            let time_max = self.limits.approval_time_max;
            hooked.approve(session, asked, &arguments.text, is_new, time_max).await?;
        }
        let _permit = self.permits.take(entry).await?;
        let watch = self.quarantine.begin(entry).await?;

        let time_max = call.time_max.unwrap_or(Duration::MAX).min(self.limits.wall_time_max);
        let deadline = Instant::now() + time_max;
        let invocation = Invocation {
            arguments: &arguments.text,
            caller: &call.caller,
            deadline,
            meter: Arc::clone(meter),
            progress: call.progress.clone(),
            dirs: &call.dirs,
            kept: Some(session),
        };
        let output = tokio::time::timeout_at(deadline.into(), entry.tool.call(invocation))
            .await
            .unwrap_or_else(|_| Err(too_late(time_max, time_max < self.limits.wall_time_max)));
        watch.end(&output).await;
        let output = output?;
        check_structured(entry, &output)?;
        Ok(output)
    }

    /// Refuses a tool that cannot work at present.
    async fn available(&self, entry: &Entry) -> Result<(), CallError> {
        self.availability.of(entry).await.map_err(|unavailable| {
            let name = &entry.tool.spec().name;
            let message = format!("`{name}` is not available: {}", unavailable.reason);
            // Words of a check are a guest's, what is unmet the house says itself.
            let by_guest = entry.tool.unmet().is_empty();
            let message = if by_guest { text::sanitized(&message) } else { message };
            CallError::new(Code::Unavailable, message)
        })
    }

    /// Checks arguments; where that may take long, on a thread that may be slow.
    async fn check_arguments(&self, entry: &Entry, given: &mut Arguments) -> Result<(), CallError> {
        let schema = &entry.parameters;
        let value = Value::Object(std::mem::take(&mut given.value));
        let checked = if schema.visits_max(given.text.len()) <= INLINE_VISITS_MAX {
            let checked = schema.check(&value);
            if let Value::Object(value) = value {
                given.value = value;
            }
            checked
        } else {
            given.value = value.as_object().cloned().unwrap_or_default();
            check_aside(Arc::clone(schema), value, self.limits.wall_time_max).await?
        };
        checked.map_err(|violations| {
            let spec = entry.tool.spec();
            arguments::explain(spec.name.as_str(), &violations, &spec.parameters)
        })
    }
}

/// The arguments of a call, as text and as value; both say the same once they were read.
#[derive(Default)]
struct Arguments {
    text: String,
    value: Map<String, Value>,
    repairs: Vec<String>,
    /// A guardrail refused the call.
    repeated: bool,
}

impl Arguments {
    /// Reads the text, repairing what can be repaired.
    fn read(&mut self, limits: &Limits) -> Result<(), CallError> {
        let arguments::Read { value, repairs } = arguments::parse(&self.text, limits)?;
        self.value = value;
        if !repairs.is_empty() || self.text.trim().is_empty() {
            self.write();
        }
        self.repairs.extend(repairs);
        Ok(())
    }

    /// Gives values the types that the schema declares.
    fn coerce(&mut self, parameters: &Value) {
        let coerced = arguments::coerce(&mut self.value, parameters);
        if arguments::leave_out_nulls(&mut self.value, parameters) || coerced {
            self.write();
        }
    }

    fn write(&mut self) {
        // A map of JSON values is JSON.
        self.text = serde_json::to_string(&self.value).unwrap_or_default();
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
        Ok(Err(error)) => Err(fault("arguments", &error.to_string())),
        Err(_) => Err(too_late(time_max, false)),
    }
}

fn check_structured(entry: &Entry, output: &ToolOutput) -> Result<(), CallError> {
    let (Some(schema), Some(structured)) = (&entry.output, &output.structured) else {
        return Ok(());
    };
    let value = serde_json::from_str(structured).map_err(|error| {
        let cause = format!("structured output was checked to be JSON: {error}");
        fault(entry.tool.spec().name.as_str(), &cause)
    })?;
    schema.check(&value).map_err(|violations| {
        let first = violations.first().map(|violation| violation.message.clone());
        let message = "the tool's structured output breaks its own output schema";
        let message = format!("{message}: {}", first.unwrap_or_default());
        CallError::new(Code::Failed, text::sanitized(&message))
    })
}

fn too_late(time_max: Duration, by_caller: bool) -> CallError {
    let limit = if by_caller { "the time the caller gave" } else { "`wall_time_max`" };
    let time_max = humantime::format_duration(time_max);
    let message = format!("stopped: not done within {limit} of {time_max}");
    let error = CallError::new(Code::Deadline, message);
    if by_caller { error } else { error.with("limit", Limits::WALL_TIME) }
}

/// A tool that fails may not say what it lacked; the host does.
fn with_refusals(error: CallError, refusals: &[Refusal]) -> CallError {
    let untold = refusals.iter().map(Refusal::to_string);
    let untold: Vec<String> = untold.filter(|refusal| !error.message.contains(refusal)).collect();
    if untold.is_empty() { error } else { error.with("refused", untold) }
}

/// The host is wrong. The model learns an id, the log everything.
fn fault(tool: &str, cause: &(dyn std::any::Any + Send)) -> CallError {
    let text = cause
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| cause.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a text");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let id = format!("{:x}", now.unwrap_or_default().as_nanos());
    let tool = text::one_line(&text::cut(tool, ECHO_CHARS_MAX));
    let message = text::sanitized(&format!(
        "Error executing {tool}: internal error {id}; the host's log has the rest under this id"
    ));
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
