//! The words of the host: what a tool, a call and an outcome are. Values only, no I/O.
//!
//! Whatever runs a tool (a component, an MCP server, the host itself), the rest of the host
//! sees a [`Tool`] inside a [`Registration`].

mod approval;
mod example;
mod hook;
mod name;
mod outcome;
mod output;
mod plugin_address;
mod reason;
mod registration;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

pub use approval::{Approval, Approver, Question};
pub use example::{Mismatch, fits};
pub use hook::{Decision, HookEvent, HookedCall, HookedOutcome, Hooks};
pub use name::{NameError, ToolName, check_toolset};
pub use outcome::{CallError, Class, Code, Meter, Outcome, Refusal, Usage};
pub use output::{Content, ToolOutput};
pub use plugin_address::{Place, PluginAddress, PluginAddressError};
pub use reason::Reason;
pub use registration::{
    Annotations, Example, Need, Origin, PluginId, PluginIdError, Registration, Rejection, SourceId,
    ToolSpec,
};

/// One callable thing. Every tool of the host is one of these.
pub trait Tool: Send + Sync {
    /// What the tool registered.
    fn spec(&self) -> &ToolSpec;

    /// Runs one call. Arguments have been checked against `spec().parameters`.
    ///
    /// # Errors
    /// If the tool says no, was stopped by a limit of its own, or broke.
    ///
    /// # Cancel safety
    /// Dropping the future stops the call and frees all it held; this is how deadlines work.
    fn call<'a>(
        &'a self,
        invocation: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, CallError>>;

    /// Answers whether the tool can work at present, or in one sentence why not. It ends within
    /// the tool's own time limit, and counts in `meter` what it uses.
    ///
    /// # Cancel safety
    /// Dropping the future stops the check.
    fn check(&self, _meter: Arc<Meter>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    /// What the tool requires and does not have, each with the repair.
    fn unmet(&self) -> Vec<Reason> {
        Vec::new()
    }

    /// Returns what changes in the tool's definition when the tools `visible` are listed
    /// beside it: the JSON text of an object with `description`, `parameters` or both. It ends
    /// within the tool's own time limit.
    ///
    /// # Errors
    /// In one sentence, if the source cannot answer.
    ///
    /// # Cancel safety
    /// Dropping the future stops it.
    fn describe<'a>(
        &'a self,
        _visible: &'a [String],
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(async { Ok(None) })
    }

    /// The authority the tool has at present.
    fn held(&self) -> Held {
        Held::default()
    }
}

/// What authority a tool has, as far as rules of the host ask. Nothing is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// It reads directories.
    pub reads: bool,
    /// It changes directories.
    pub writes: bool,
    /// It sees variables.
    pub variables: bool,
    /// It sends requests.
    pub http: bool,
    /// It keeps things in a store of its own.
    pub kv: bool,
    /// It runs processes.
    pub processes: bool,
    /// Its source has hooks.
    pub hooks: bool,
}

impl Held {
    /// Everything: for tools that run outside the sandbox.
    pub const ALL: Held = Held {
        reads: true,
        writes: true,
        variables: true,
        http: true,
        kv: true,
        processes: true,
        hooks: true,
    };

    /// Tells whether a call of the wrong tool could do harm outside the sandbox.
    pub fn can_harm(self) -> bool {
        self.writes || self.http || self.processes || self.hooks
    }

    /// Tells whether the tool has nothing, or only reads directories.
    pub fn only_reads(self) -> bool {
        Held { reads: false, ..self } == Held::default()
    }
}

/// Reads results that were too large to show; a session lends it to its calls.
pub trait KeptResults: Send + Sync + fmt::Debug {
    /// Returns a part of a kept result, as JSON text for the model.
    ///
    /// # Errors
    /// In one sentence, if there is no such result or no such part.
    fn read(&self, id: &str, offset: usize, limit: usize) -> Result<String, String>;
}

/// What a [`Tool`] is given to run one call.
#[derive(Clone, Debug)]
pub struct Invocation<'a> {
    /// A JSON object as text, checked.
    pub arguments: &'a str,
    /// Who asks.
    pub caller: &'a Caller,
    /// When the call is stopped, at the latest.
    pub deadline: Instant,
    /// Where the tool counts what it uses, so that it is known also when the call is dropped.
    pub meter: Arc<Meter>,
    /// Who hears of progress, if anyone.
    pub progress: Option<ProgressSink>,
    /// Directories granted for this call alone, as texts that `authority` reads.
    pub dirs: &'a [String],
    /// The session's kept results, if the call has a session that keeps any.
    pub kept: Option<&'a dyn KeptResults>,
}

/// Hears of a call's progress. It is called from within the call, so it must not block.
#[derive(Clone)]
pub struct ProgressSink(Arc<dyn Fn(Progress) + Send + Sync>);

impl ProgressSink {
    /// A sink that calls `hear` for every report that is passed on.
    pub fn new(hear: impl Fn(Progress) + Send + Sync + 'static) -> ProgressSink {
        ProgressSink(Arc::new(hear))
    }

    /// Passes a report on.
    pub fn report(&self, progress: Progress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for ProgressSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ProgressSink")
    }
}

/// How far a call has come, in units of the tool's own choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What is done.
    pub done: f64,
    /// What there is to do, if known.
    pub total: Option<f64>,
    /// A word about it, as the guest wrote it.
    pub message: Option<String>,
}

/// One way in which arguments break a schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// JSON Pointer to the offending value; empty for the whole.
    pub path: String,
    /// What was given, what is allowed.
    pub message: String,
    /// The first property that is not allowed, where that is what is wrong.
    pub unexpected: Option<String>,
}

/// One call as a front end hands it in.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The tool's name as the caller wrote it.
    pub tool: String,
    /// The arguments as the caller wrote them: JSON text.
    pub arguments: String,
    /// Who asks.
    pub caller: Caller,
    /// How long the call may take, and before that wait for its turn; only ever shortens the
    /// operator's `wall_time_max` and `permit_wait_max`.
    pub time_max: Option<Duration>,
    /// Who hears of progress, if anyone.
    pub progress: Option<ProgressSink>,
    /// Directories granted for this call alone, written `DIR[=GUEST]:ro|rw` with absolute host
    /// paths. Only a front end may fill this, from what its operator said; never from a model.
    pub dirs: Vec<String>,
}

impl Call {
    /// A call without a session or a time of its own.
    pub fn new(tool: impl Into<String>, arguments: impl Into<String>) -> Call {
        Call { tool: tool.into(), arguments: arguments.into(), ..Call::default() }
    }
}

/// Who asks, in names that mean something to the caller. The host passes them on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The session.
    pub session: Option<String>,
    /// The task within the session.
    pub task: Option<String>,
    /// The caller's id of this call.
    pub tool_call: Option<String>,
}
