//! The hot path: one call, from its name to its outcome.
//!
//! [`Dispatch::call`] is the only function of the host that runs a tool, and it never fails:
//! whatever happens to the tool is in the outcome. The order of its stages is the contract, and each
//! takes what only the one before can make: what was checked is what was approved, and what was
//! approved is what runs.

mod arguments;
mod batch;
mod check;
mod find;
mod hooks;
mod note;
mod order;
mod permits;
mod stage;

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use crate::availability::Availability;
use crate::checker::Checker;
use crate::quarantine::Quarantine;
use crate::registry::{Catalog, Entry, Registry};
use crate::session::{self, Ended, Session};
use arguments::GivenArguments;
use find::FoundTool;
use hooks::Hooked;
use note::{Noting, RunningCall};
use order::OrderPlace;
use permits::Permits;
use stage::{Admitted, Checked, Questions, Ran, Resolved};
use toolhost_core::limits::Limits;
use toolhost_core::runtime::MemoryBudget;
use toolhost_core::text;
use toolhost_core::tool::{Call, CallError, Class, Code, Invocation, Outcome, Refusal, ToolOutput};
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
        let ended = self.execute(session, &running, OrderPlace::default()).await;
        let outcome = session.show(session.bound(ended));
        log(&outcome);
        noting.done(running, &outcome);
        outcome
    }

    /// Runs one call, without bounding what is shown of its result.
    async fn execute(&self, session: &Session, running: &RunningCall, place: OrderPlace) -> Ended {
        let started = Instant::now();
        let catalog = self.registry.current();
        let stages = self.stages(&catalog, session, running, place);
        let finished = AssertUnwindSafe(stages).catch_unwind().await;
        let finished = finished.unwrap_or_else(|panic| {
            let tool = &running.call.tool;
            FinishedCall::unresolved(tool, fault(tool, &*panic))
        });
        let FinishedCall { tool, repairs, result, chars_max, is_structured } = finished;
        for repair in &repairs {
            tracing::warn!("`{tool}` was called with a repair: {repair}");
        }
        let refusals = running.meter.refusals();
        let result = match result {
            Ok(output) => Ok(session.say_structure(output)),
            Err(error) => Err(with_refusals(error, &refusals)),
        };
        let outcome = Outcome {
            tool,
            repairs,
            result,
            is_structured,
            usage: running.meter.usage(),
            refusals,
            generation: catalog.generation,
            elapsed: started.elapsed(),
        };
        Ended { outcome, call_id: running.call.caller.tool_call.clone(), chars_max }
    }

    /// One call, stage by stage: resolve, check, admit, run, finish.
    async fn stages(
        &self,
        catalog: &Catalog,
        session: &Session,
        running: &RunningCall,
        place: OrderPlace,
    ) -> FinishedCall {
        let found = match find::find(catalog, session, &running.call) {
            Ok(found) => found,
            Err(error) => return FinishedCall::unresolved(&running.call.tool, error),
        };
        running.found(found.entry);
        let ended = match self.resolve(catalog, session, running, found.entry, place).await {
            Ok(resolved) => {
                let stages = async {
                    let checked = self.check(resolved).await?;
                    let admitted = self.admit(checked).await?;
                    Ok(self.run(admitted).await)
                };
                let ran = stages.await.unwrap_or_else(|refused: Box<Ran<'_>>| *refused);
                self.finish(ran).await
            }
            Err(error) => (Vec::new(), Err(error)),
        };
        FinishedCall::of(found, ended)
    }

    /// Refuses a tool that the session has not, or that cannot work at present.
    async fn resolve<'a>(
        &'a self,
        catalog: &'a Catalog,
        session: &'a Session,
        running: &'a RunningCall,
        entry: &'a Entry,
        place: OrderPlace,
    ) -> Result<Resolved<'a>, CallError> {
        let started = Instant::now();
        find::in_scope(catalog, session, entry)?;
        self.quarantine.check(entry, session.caller())?;
        self.available(entry).await?;
        let RunningCall { call, meter, .. } = running;
        let hooked = Hooked::find(catalog, entry, &call.caller, meter, &self.limits);
        Ok(Resolved { session, running, entry, hooked, place, started })
    }

    /// Reads the arguments, lets hooks replace them and stop the call, and checks them against the
    /// schema.
    async fn check<'a>(&self, resolved: Resolved<'a>) -> Result<Checked<'a>, Box<Ran<'a>>> {
        let mut arguments = GivenArguments::written(resolved.running.call.arguments.clone());
        match self.questions(&resolved, &mut arguments).await {
            Ok(questions) => Ok(Checked { resolved, arguments, questions }),
            Err(error) => Err(resolved.refused(arguments, error)),
        }
    }

    async fn questions(
        &self,
        resolved: &Resolved<'_>,
        arguments: &mut GivenArguments,
    ) -> Result<Questions, CallError> {
        let Resolved { session, running, entry, hooked, .. } = resolved;
        arguments.read(&self.limits)?;
        let replaced = hooked.request(&arguments.text).await?;
        let are_new = replaced.is_some();
        if let Some(text) = replaced {
            arguments.text = text;
            arguments.read(&self.limits)?;
        }
        arguments.coerce(&entry.tool.spec().parameters);
        self.check_arguments(session, &running.call, entry, arguments).await?;
        let asked = hooked.pre_call(&arguments.text).await?;
        Ok(Questions { asked, are_new })
    }

    /// Asks the guardrails, a human where a hook wants one, and waits for a permit.
    async fn admit<'a>(&'a self, checked: Checked<'a>) -> Result<Admitted<'a>, Box<Ran<'a>>> {
        let Checked { mut resolved, mut arguments, questions } = checked;
        let session = resolved.session;
        let signature = resolved.signature(&mut arguments);
        if session.stops_circles() {
            // Whether this one is refused depends on how those before it end.
            resolved.place.reached().await;
        }
        if let Some(Err(error)) = signature.as_ref().map(|signature| session.guard(signature)) {
            let result = Err(error);
            return Err(Box::new(Ran { resolved, arguments, signature: None, result }));
        }
        let permitted = async {
            let Questions { asked, are_new } = questions;
            for asked in asked {
                let time_max = self.limits.approval_time_max;
                let (hooked, text) = (&resolved.hooked, &arguments.text);
                hooked.approve(session, asked, text, are_new, time_max).await?;
            }
            let entry = resolved.entry;
            let permit = self.permits.take(entry, resolved.running.call.time_max).await?;
            Ok((permit, self.quarantine.begin(entry, session.caller()).await?))
        };
        match permitted.await {
            Ok((permit, watch)) => Ok(Admitted { resolved, arguments, signature, permit, watch }),
            Err(error) => Err(Box::new(Ran { resolved, arguments, signature, result: Err(error) })),
        }
    }

    /// Calls the tool and checks its output, both within the time of the call.
    async fn run<'a>(&self, admitted: Admitted<'a>) -> Ran<'a> {
        let Admitted { resolved, arguments, signature, permit, watch } = admitted;
        let Resolved { session, running: RunningCall { call, meter, .. }, entry, .. } = resolved;
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
            self.check_output(entry, &output, deadline).await?;
            Ok(output)
        };
        let result = tokio::time::timeout_at(deadline.into(), answered)
            .await
            .unwrap_or_else(|_| Err(too_late(time_max, time_max < self.limits.wall_time_max)));
        watch.end(&result).await;
        drop(permit);
        Ran { resolved, arguments, signature, result }
    }

    /// Lets guardrails and hooks hear of the end of a call. Returns the repairs of its arguments,
    /// and its answer.
    async fn finish(&self, ran: Ran<'_>) -> (Vec<String>, Result<ToolOutput, CallError>) {
        let Ran { resolved, arguments, signature, result } = ran;
        let Resolved { session, running, hooked, mut place, started, .. } = resolved;
        place.reached().await;
        let result = match &signature {
            Some(signature) => session.observe(signature, result),
            None => result,
        };
        place.pass();
        let output_bytes_max = self.limits.output_bytes_max.as_usize();
        let elapsed = started.elapsed();
        let result = hooked.after(&arguments.text, result, elapsed, output_bytes_max).await;
        running.ran(arguments.text);
        (arguments.repairs, result)
    }

    /// Refuses a tool that cannot work at present.
    async fn available(&self, entry: &Entry) -> Result<(), CallError> {
        self.availability.of(entry).await.map_err(|unavailable| {
            let name = &entry.tool.spec().name;
            let message = format!("`{name}` is not available: {}", unavailable.reason);
            // The words of a check are a guest's; what is unmet, the host says itself.
            let by_guest = entry.tool.unmet().is_empty();
            let message = if by_guest { text::sanitized(&message) } else { message };
            CallError::new(Code::Unavailable, message)
        })
    }
}

/// A call after its last stage, and what an outcome takes of its tool.
struct FinishedCall {
    tool: String,
    repairs: Vec<String>,
    result: Result<ToolOutput, CallError>,
    /// How many characters the tool wants shown of a result.
    chars_max: Option<usize>,
    /// The tool promises structured output that is nobody else's text.
    is_structured: bool,
}

impl FinishedCall {
    /// Of a tool that was found.
    fn of(
        found: FoundTool<'_>,
        (repairs, result): (Vec<String>, Result<ToolOutput, CallError>),
    ) -> FinishedCall {
        let spec = found.entry.tool.spec();
        let name = spec.name.as_str();
        FinishedCall {
            tool: name.to_owned(),
            repairs: found.repair.into_iter().chain(repairs).collect(),
            result,
            chars_max: spec.max_result_size_chars.map(|chars| chars as usize),
            is_structured: found.entry.output.is_some() && !session::is_untrusted(name),
        }
    }

    /// Of a call that came to no tool.
    fn unresolved(tool: &str, error: CallError) -> FinishedCall {
        let (tool, result) = (tool.to_owned(), Err(error));
        FinishedCall { tool, repairs: Vec::new(), result, chars_max: None, is_structured: false }
    }
}

fn too_late(time_max: Duration, by_caller: bool) -> CallError {
    let limit = if by_caller { "the time the caller gave" } else { "`wall_time_max`" };
    let time_max = humantime::format_duration(time_max);
    let message = format!("stopped: not done within {limit} of {time_max}");
    let error = CallError::new(Code::Deadline, message);
    if by_caller { error } else { error.with("limit", Limits::WALL_TIME) }
}

/// A tool that fails may not say what it lacked; the host does. What the tool has handed on word for
/// word is not said twice.
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
