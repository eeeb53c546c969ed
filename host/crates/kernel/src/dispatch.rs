//! The hot path: one call, from its name to its outcome.
//!
//! [`Dispatch::call`] is the only function of the house that runs a tool, and it never fails:
//! whatever happens to the tool is in the outcome. The order of its steps is the contract: what
//! was checked is what was approved, and what was approved is what runs.

mod batch;
mod check;
mod find;
mod hooks;
mod note;
mod order;
mod permits;

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde_json::{Map, Value};

use crate::availability::Availability;
use crate::checker::Checker;
use crate::quarantine::Quarantine;
use crate::registry::{Catalog, Entry, Registry};
use crate::session::{self, Ended, Session};
use find::Found;
use hooks::Hooked;
use note::{Noting, Running};
use order::Place;
use permits::Permits;
use toolhost_core::limits::Limits;
use toolhost_core::runtime::MemoryBudget;
use toolhost_core::text;
use toolhost_core::tool::{Call, CallError, Class, Code, Invocation, Outcome, Refusal, ToolOutput};
use toolhost_schema::arguments;
use toolhost_state::audit::Audit;

/// Characters of a caller's text that are echoed in an error.
const ECHO_CHARS_MAX: usize = 80;

/// Runs calls against the current catalog.
pub struct Dispatch {
    registry: Arc<Registry>,
    availability: Arc<Availability>,
    quarantine: Arc<Quarantine>,
    permits: Permits,
    checker: Checker,
    limits: Arc<Limits>,
    audit: Arc<Audit>,
}

impl Dispatch {
    /// Lets `calls_max` calls run at once, each of which the audit log is told of. What takes long
    /// to check is checked by `program`, if there is one; see [`Checker::new`].
    pub fn new(
        registry: Arc<Registry>,
        availability: Arc<Availability>,
        quarantine: Arc<Quarantine>,
        limits: Arc<Limits>,
        calls_max: usize,
        audit: Arc<Audit>,
        program: Option<PathBuf>,
    ) -> Dispatch {
        let permits = Permits::new(Arc::clone(&limits), calls_max);
        let checker = Checker::new(
            program,
            Arc::clone(&limits),
            std::thread::available_parallelism().map_or(1, usize::from),
        );
        Dispatch { registry, availability, quarantine, permits, checker, limits, audit }
    }

    /// Counts what checks of values take in the memory of all guests.
    pub fn count_checks_in(&mut self, memory: Arc<MemoryBudget>) {
        self.checker.count_in(memory);
    }

    /// Runs one call of a session.
    ///
    /// # Cancel safety
    /// Dropping the future stops the call at once; nothing of it goes on.
    pub async fn call(&self, session: &Session, call: Call) -> Outcome {
        let (noting, running) = Noting::new(&self.audit, call);
        let mut ended = [self.execute(session, &running, Place::default()).await];
        session.keep(&mut ended);
        let [Ended { outcome, .. }] = ended;
        log(&outcome);
        noting.done(running, &outcome);
        outcome
    }

    /// Runs one call, without bounding what is shown of its result.
    async fn execute(&self, session: &Session, running: &Running, mut place: Place) -> Ended {
        let started = Instant::now();
        let catalog = self.registry.current();
        let Running { call, meter, .. } = running;
        let (mut tool, mut chars_max, mut repairs) = (None, None, Vec::new());
        let mut is_structured = false;
        let result = async {
            let found = find::find(&catalog, session, call)?;
            running.found(found.entry);
            let spec = found.entry.tool.spec();
            tool = Some(spec.name.to_string());
            is_structured =
                found.entry.output.is_some() && !session::is_untrusted(spec.name.as_str());
            chars_max = spec.max_result_size_chars.map(|chars| chars as usize);
            repairs.extend(found.repair.clone());
            self.run(&catalog, session, running, &found, &mut repairs, &mut place).await
        };
        let result = AssertUnwindSafe(result).catch_unwind().await;
        let mut result = result.unwrap_or_else(|panic| Err(fault(&call.tool, &*panic)));
        session.say_structure(&mut result);
        let tool = tool.unwrap_or_else(|| call.tool.clone());
        for repair in &repairs {
            tracing::warn!("`{tool}` was called with a repair: {repair}");
        }
        let refusals = meter.refusals();
        let outcome = Outcome {
            tool,
            repairs,
            result: result.map_err(|error| with_refusals(error, &refusals)),
            is_structured,
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
        place: &mut Place,
    ) -> Result<ToolOutput, CallError> {
        let started = Instant::now();
        let (Running { call, meter, .. }, entry) = (running, found.entry);
        find::in_scope(catalog, session, entry)?;
        self.quarantine.check(entry, session.caller())?;
        self.available(entry).await?;
        let hooked = Hooked::find(catalog, entry, &call.caller, meter, &self.limits);
        let mut arguments = Arguments { text: call.arguments.clone(), ..Arguments::default() };
        let mut result =
            self.checked(session, running, entry, &hooked, &mut arguments, place).await;
        repairs.append(&mut arguments.repairs);
        place.turn().await;
        if !arguments.repeated {
            session.observe(entry.tool.spec().name.as_str(), &arguments.value, &mut result);
        }
        place.pass();
        let output_bytes_max = self.limits.output_bytes_max.as_usize();
        hooked.after(&arguments.text, &mut result, started.elapsed(), output_bytes_max).await;
        running.ran(arguments.text);
        result
    }

    /// From the arguments as they were written to the tool's checked output.
    async fn checked(
        &self,
        session: &Session,
        running: &Running,
        entry: &Entry,
        hooked: &Hooked<'_>,
        arguments: &mut Arguments,
        place: &mut Place,
    ) -> Result<ToolOutput, CallError> {
        let Running { call, meter, .. } = running;
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
        self.check_arguments(session, call, entry, arguments).await?;
        let asked = hooked.pre_call(&arguments.text).await?;
        if session.stops_circles() {
            // Whether this one is refused depends on how those before it end.
            place.turn().await;
        }
        let guarded = session.guard(entry.tool.spec().name.as_str(), &arguments.value);
        arguments.repeated = guarded.is_err();
        guarded?;
        for asked in asked {
            let time_max = self.limits.approval_time_max;
            hooked.approve(session, asked, &arguments.text, is_new, time_max).await?;
        }
        let _permit = self.permits.take(entry, call.time_max).await?;
        let watch = self.quarantine.begin(entry, session.caller()).await?;

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
        let answered = async {
            let output = entry.tool.call(invocation).await?;
            self.check_output(entry, &output).await?;
            Ok(output)
        };
        let output = tokio::time::timeout_at(deadline.into(), answered)
            .await
            .unwrap_or_else(|_| Err(too_late(time_max, time_max < self.limits.wall_time_max)));
        watch.end(&output).await;
        output
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
