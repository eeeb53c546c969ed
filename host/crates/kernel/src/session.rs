//! A session: whom the calls of one caller belong to, and what they add up to.
//!
//! It knows which toolsets its caller has, what a human has approved, how often a call was
//! repeated in the present turn, and which results were too large to show. All of it goes when
//! the session ends. What it does not do: run anything, or ask anyone.

mod results;
mod untrusted;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio::time::Instant;

use crate::registry::{Catalog, Entry};
use toolhost_core::limits::Limits;
use toolhost_core::scheduler::SourceKey;
use toolhost_core::tool::{
    Approver, CallError, Content, KeptResults, Outcome, SourceId, Tool, ToolOutput,
};
use toolhost_policy::guardrails::{
    self, GuardrailSettings, Guardrails, Observed, Reads, Signature,
};
use toolhost_policy::toolset::{self, Selected, Selection, Toolsets, UserToolset};
use toolhost_schema::schema::{Schema, SchemaError};

pub use results::{READ_CHARS_MAX, ResultReadError, Results, Returned, Slice, Window, window};
pub use untrusted::{is_untrusted, wrap};

/// After so long without a call, the next one begins a new turn.
const TURN_ENDS_AFTER: Duration = Duration::from_secs(30);

/// Whose calls those without a session of their own are, together, as far as their failures count:
/// so are those of all processes of the command line.
pub const COMMAND_LINE: &str = "command line";

/// What a session is made with.
#[derive(Clone, Default)]
pub struct SessionSettings {
    /// The toolsets its caller has.
    pub selection: Selection,
    /// Who asks a human, if there is one to ask.
    pub approver: Option<Arc<dyn Approver>>,
    /// Tools that stand in for `todo`, `memory`, `session_search` and `delegate_task`, which
    /// need state of whoever runs the model.
    pub interceptors: Vec<Arc<dyn Tool>>,
    /// The session ends with its first call, as one of the command line does: results are
    /// returned whole, and nothing is counted.
    pub is_one_call: bool,
    /// When calls that turn in circles are warned of or refused; without it, as the operator's
    /// configuration says.
    pub guardrails: Option<GuardrailSettings>,
    /// Whose calls they are, as far as failures of plugins count; without it, the session's own.
    pub caller: Option<String>,
    /// Only a tool's exact name calls it: nothing is repaired, as MCP has it.
    pub exact_names: bool,
    /// Structured output is passed on beside the texts, as MCP does: a text that is too large is
    /// shortened without it where the tool promises it by a schema.
    pub keeps_structure: bool,
    /// No turn is bounded by `turn_chars_max`: nobody says when one begins.
    pub turns_are_unbounded: bool,
    /// How large the context of the caller's model is, in tokens, if it is known. Results are
    /// fitted to it.
    pub context_tokens: Option<u64>,
}

/// Why a session cannot be made.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SessionError {
    /// The interceptor is none of the tools of an agent's loop.
    #[error(
        "`{0}` is no tool of the agent's loop; interceptors are for todo, memory, session_search and delegate_task"
    )]
    NotOfTheLoop(String),
    /// The interceptor's schema cannot be used.
    #[error("`{0}`: {1}")]
    Schema(String, SchemaError),
}

/// One caller's calls.
pub struct Session {
    settings: SessionSettings,
    caller: String,
    toolsets: Arc<BTreeMap<String, UserToolset>>,
    interceptors: BTreeMap<String, Entry>,
    /// The tools of the selection, for one generation of the catalog.
    scope: Mutex<Option<(u64, Arc<Selected>)>>,
    approvals: Mutex<HashSet<String>>,
    /// Held while a human is asked: one question at a time.
    asking: tokio::sync::Mutex<()>,
    window: Window,
    turn: Mutex<Turn>,
    results: Mutex<Results>,
}

/// What is counted in one turn; [`Reads`] outlive it.
struct Turn {
    guardrails: Guardrails,
    reads: Reads,
    chars_left: usize,
    last_call: Instant,
}

/// A call that ended, with what its result is shown by.
#[derive(Debug)]
pub struct Ended {
    /// What became of it.
    pub outcome: Outcome,
    /// The caller's id of it, if it gave one.
    pub call_id: Option<String>,
    /// How many characters the tool wants shown of a result; it can only lower what the session
    /// shows.
    pub chars_max: Option<usize>,
}

/// Approvals remembered in one session; more are asked for again.
const APPROVALS_MAX: usize = 1_024;

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Session")
            .field("selection", &self.settings.selection)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Makes a session. `toolsets` are the operator's own.
    ///
    /// # Errors
    /// If an interceptor is no tool of the agent's loop, or its schema cannot be used.
    pub fn new(
        settings: SessionSettings,
        toolsets: Arc<BTreeMap<String, UserToolset>>,
        limits: &Limits,
    ) -> Result<Session, SessionError> {
        let mut interceptors = BTreeMap::new();
        for tool in &settings.interceptors {
            let name = tool.spec().name.to_string();
            if !toolset::is_agent_loop_tool(&name) {
                return Err(SessionError::NotOfTheLoop(name));
            }
            let schema = Schema::compile(&tool.spec().parameters, limits)
                .map_err(|error| SessionError::Schema(name.clone(), error))?;
            let entry = Entry {
                tool: Arc::clone(tool),
                parameters: Arc::new(schema),
                output: None,
                source: SourceId::Builtin,
                trusted: true,
                of_stranger: false,
                digest: None,
                key: SourceKey::new(),
                published: 0,
            };
            interceptors.insert(name, entry);
        }
        let mut window = window(settings.context_tokens, limits);
        if settings.turns_are_unbounded {
            window.turn_chars_max = usize::MAX;
        }
        let turn = Turn {
            guardrails: Guardrails::new(settings.guardrails.clone().unwrap_or_default()),
            reads: Reads::default(),
            chars_left: window.turn_chars_max,
            last_call: Instant::now(),
        };
        let caller = settings.caller.clone().unwrap_or_else(|| match settings.is_one_call {
            true => COMMAND_LINE.to_owned(),
            false => format!("{:016x}", RandomState::new().hash_one(0)),
        });
        Ok(Session {
            window,
            caller,
            turn: Mutex::new(turn),
            results: Mutex::new(Results::new(limits.results_bytes_max)),
            settings,
            toolsets,
            interceptors,
            scope: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            approvals: Mutex::default(),
        })
    }

    /// What calls belong to that have no session: every tool, nobody to ask, results as they
    /// are.
    pub fn alone(toolsets: Arc<BTreeMap<String, UserToolset>>, limits: &Limits) -> Session {
        let settings = SessionSettings { is_one_call: true, ..SessionSettings::default() };
        Session::new(settings, toolsets, limits).expect("a session without interceptors")
    }

    /// The toolsets its caller has.
    pub fn selection(&self) -> &Selection {
        &self.settings.selection
    }

    /// The operator's own toolsets.
    pub fn user_toolsets(&self) -> &BTreeMap<String, UserToolset> {
        &self.toolsets
    }

    /// The tools that stand in for those of an agent's loop, by name.
    pub fn interceptors(&self) -> &BTreeMap<String, Entry> {
        &self.interceptors
    }

    /// Who asks a human, if there is one to ask.
    pub fn approver(&self) -> Option<&dyn Approver> {
        self.settings.approver.as_deref()
    }

    /// Tells whether the session has every tool there is.
    pub fn has_all(&self) -> bool {
        let Selection { enabled, disabled } = &self.settings.selection;
        enabled.is_none() && disabled.is_empty()
    }

    /// What the selection comes to in a catalog.
    pub fn scope(&self, catalog: &Catalog) -> Arc<Selected> {
        let mut scope = locked(&self.scope);
        if let Some((generation, selected)) = &*scope
            && *generation == catalog.generation
        {
            return Arc::clone(selected);
        }
        let toolsets = Toolsets::new(&self.toolsets, catalog.toolsets());
        let selected = Arc::new(toolsets.select(&self.settings.selection));
        *scope = Some((catalog.generation, Arc::clone(&selected)));
        selected
    }

    /// Tells whether the session has a tool. The host's own tools, and those that stand in for
    /// an agent's loop, are in every session that does not disable them.
    pub fn has(&self, catalog: &Catalog, tool: &str) -> bool {
        let everywhere = || {
            self.interceptors.contains_key(tool)
                || catalog.find(tool).is_some_and(|entry| entry.source == SourceId::Builtin)
        };
        self.has_all()
            || self.scope(catalog).tools.contains(tool)
            || (everywhere() && !self.disables(catalog, tool))
    }

    fn disables(&self, catalog: &Catalog, tool: &str) -> bool {
        let disabled = &self.settings.selection.disabled;
        !disabled.is_empty()
            && Toolsets::new(&self.toolsets, catalog.toolsets())
                .resolve_all(disabled)
                .contains(tool)
    }

    /// Whose calls they are, as far as failures of plugins count.
    pub fn caller(&self) -> &str {
        &self.caller
    }

    /// Only a tool's exact name calls it.
    pub fn has_exact_names(&self) -> bool {
        self.settings.exact_names
    }

    /// The session ends with its first call.
    pub fn is_one_call(&self) -> bool {
        self.settings.is_one_call
    }

    /// Begins a new turn: what is counted by turns begins anew. Without it, a turn ends after
    /// 30 seconds without a call.
    pub fn begin_turn(&self) {
        locked(&self.turn).begin(&self.window);
    }

    /// Forgets which reads the caller has seen: for the moment when a context is compressed.
    pub fn forget_reads(&self) {
        locked(&self.turn).reads.reset();
    }

    /// Tells whether guardrails refuse calls, and do not only warn.
    pub fn stops_circles(&self) -> bool {
        !self.settings.is_one_call
            && self.settings.guardrails.as_ref().is_some_and(|settings| settings.hard_stop_enabled)
    }

    /// Which call this is to the guardrails; none where nothing is counted.
    pub fn signature<'a>(
        &self,
        tool: &'a str,
        arguments: &Map<String, Value>,
    ) -> Option<Signature<'a>> {
        (!self.settings.is_one_call).then(|| Signature::new(tool, arguments))
    }

    /// Refuses a call that only repeats what came before. To be asked before each call that
    /// would run.
    ///
    /// # Errors
    /// If a guardrail refuses the call.
    pub fn guard(&self, signature: &Signature<'_>) -> Result<(), CallError> {
        let mut turn = locked(&self.turn);
        turn.see_call(&self.window);
        if let Some(block) = turn.guardrails.before(signature) {
            return Err(block.to_error());
        }
        match turn.reads.before(signature) {
            Some(repeated) => Err(repeated.to_error()),
            None => Ok(()),
        }
    }

    /// Counts a call that a guardrail did not refuse, and returns its result, replaced or
    /// annotated where one says so.
    pub fn observe(
        &self,
        signature: &Signature<'_>,
        result: Result<ToolOutput, CallError>,
    ) -> Result<ToolOutput, CallError> {
        let mut turn = locked(&self.turn);
        let result = turn.reads.after(signature, result);
        let text = match &result {
            Ok(output) => output.to_json_text(),
            Err(error) => error.message.clone(),
        };
        let observed = Observed { failed: result.is_err(), text: &text };
        let note = turn.guardrails.after(signature, observed);
        drop(turn);
        match note {
            Some(note) => guardrails::annotate(result, &note.to_string()),
            None => result,
        }
    }

    /// Says structured output as a text too, where the session passes it on, for whoever looks at
    /// texts only.
    pub fn say_structure(&self, output: ToolOutput) -> ToolOutput {
        if self.settings.keeps_structure { results::say_structure(output) } else { output }
    }

    /// Makes a result fit into what the session shows of one; one that is too large is kept and
    /// previewed.
    pub fn bound(&self, mut ended: Ended) -> Ended {
        if self.settings.is_one_call {
            return ended;
        }
        let chars_max = ended.chars_max.unwrap_or(usize::MAX);
        let chars_max = chars_max.min(self.window.result_chars_max);
        if let Some(returned) = self.returned(&mut ended) {
            let mut turn_is_no_bound_here = usize::MAX;
            locked(&self.results).fit(returned, chars_max, &mut turn_is_no_bound_here);
        }
        ended
    }

    /// Makes bounded results fit into what is left of the turn: those that are too large are kept
    /// and previewed; then what strangers wrote is marked.
    pub fn show(&self, ended: Ended) -> Outcome {
        let mut ended = [ended];
        self.fit(&mut ended);
        let [ended] = ended;
        ended.outcome
    }

    /// As [`Session::show`], of a batch.
    pub fn show_all(&self, mut ended: Vec<Ended>) -> Vec<Outcome> {
        self.fit(&mut ended);
        ended.into_iter().map(|ended| ended.outcome).collect()
    }

    fn fit(&self, ended: &mut [Ended]) {
        if self.settings.is_one_call {
            return;
        }
        let mut turn = locked(&self.turn);
        turn.see_call(&self.window);
        let mut shown: Vec<Returned<'_>> =
            ended.iter_mut().filter_map(|ended| self.returned(ended)).collect();
        locked(&self.results).fit_all(&mut shown, usize::MAX, &mut turn.chars_left);
        drop(turn);
        for Returned { tool, output, .. } in shown {
            untrusted::wrap(tool, output);
        }
    }

    /// What a call returned, if it did.
    fn returned<'a>(&self, ended: &'a mut Ended) -> Option<Returned<'a>> {
        let Outcome { tool, result, is_structured, .. } = &mut ended.outcome;
        let output = result.as_mut().ok()?;
        let keeps_structure = *is_structured && self.settings.keeps_structure;
        Some(Returned { tool, call_id: ended.call_id.as_deref(), keeps_structure, output })
    }

    /// Waits until no other question of the session is open; held while one is asked.
    pub async fn one_question(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.asking.lock().await
    }

    /// Tells whether a human has approved of this for the session.
    pub fn is_approved(&self, key: &str) -> bool {
        locked(&self.approvals).contains(key)
    }

    /// Remembers that a human approved of this for the session.
    pub fn approve(&self, key: String) {
        let mut approvals = locked(&self.approvals);
        if approvals.len() < APPROVALS_MAX {
            approvals.insert(key);
        }
    }
}

impl Turn {
    fn begin(&mut self, window: &Window) {
        self.guardrails.begin_turn();
        self.chars_left = window.turn_chars_max;
        self.last_call = Instant::now();
    }

    /// Notes that there is a call, and begins a new turn if the last one has ended.
    fn see_call(&mut self, window: &Window) {
        let now = Instant::now();
        if now.duration_since(self.last_call) >= TURN_ENDS_AFTER {
            self.begin(window);
        }
        self.last_call = now;
    }
}

impl KeptResults for Session {
    fn read(&self, id: &str, offset: usize, limit: usize) -> Result<String, String> {
        let read = locked(&self.results).read(id, offset, limit);
        let Slice { tool, text, total_chars, next_offset } =
            read.map_err(|error| error.to_string())?;
        // What a stranger wrote is no more to be trusted now.
        let content = vec![Content::Text(text)];
        let mut output = ToolOutput { content, ..ToolOutput::default() };
        untrusted::wrap(&tool, &mut output);
        let text = output.content.into_iter().next();
        let Some(Content::Text(text)) = text else {
            return Err("the result is no text".to_owned());
        };
        let part = json!({
            "text": text, "offset": offset, "total_chars": total_chars, "next_offset": next_offset,
        });
        Ok(part.to_string())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
