//! One call: a fresh store, a fresh instance, one function, and all of it dropped.

pub(crate) mod program;
pub(crate) mod questions;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use wasmtime::{PoolConcurrencyLimitError, Trap};

use super::adapter::contract::bindings::{Plugin, types};
use super::adapter::contract::convert::{self, Exported};
use super::capability::dirs::directories::{Directory, DirectoryRules};
use super::capability::dirs::files::StuckOpens;
use super::cpu_isolation::Habit;
use super::engine::Engine;
use super::guest_time;
use super::instance::{self, Guest, GuestStore, HostCallsExceeded};
use super::load_error::told;
use super::redaction::{PluginSecrets, Secrets};
use super::rights::{Authority, Rights};
use program::{LazyProgram, Program};
use toolhost_core::limits::Limits;
use toolhost_core::runtime::at_length;
use toolhost_core::scheduler::SourceKey;
use toolhost_core::text;
use toolhost_core::tool::{
    CallError, Code, Held, Invocation, Meter, Refusal, Tool, ToolOutput, ToolSpec,
};
use toolhost_egress::Client;
use toolhost_policy::capability::{self, Access, DirGrant, Kind, VariableGrant, Variables};
use toolhost_state::store::Kv;

/// A plugin: what it runs, and what all that it runs share.
pub(super) struct Prepared {
    /// Of its bounds; its code may be of another, see [`Program`].
    pub(super) engine: Arc<Engine>,
    pub(super) program: Arc<LazyProgram>,
    pub(super) exported: Exported,
    /// For logs and hints.
    pub(super) id: Arc<str>,
    /// As which it takes turns beside the calls.
    pub(super) party: SourceKey,
    pub(super) rules: Arc<DirectoryRules>,
    /// What it keeps, if it was granted a store.
    pub(super) store: Arc<Kv>,
    pub(super) stuck_opens: Arc<StuckOpens>,
    /// Its own connections, so that it never uses one that another's rights opened.
    pub(super) client: Client,
    /// Values that it may be granted.
    pub(super) values: Arc<Values>,
    /// Of what it does beside calls.
    pub(super) habit: Arc<Habit>,
    /// It is probed: what it requires is not asked for, and all that it tries is remembered.
    pub(super) is_probed: bool,
    /// It was replaced or removed, and the time is over that its calls had to end.
    pub(super) retired: watch::Sender<bool>,
    /// Set once the plugin's bytes are known to be the ones that the grants were given to.
    pub(super) authority: OnceLock<Authority>,
}

/// What the operator has to give, to whoever is granted it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    pub(super) variables: Variables,
    pub(super) secrets: Secrets,
}

/// One tool of a component.
pub(super) struct PluginTool {
    pub(super) spec: ToolSpec,
    pub(super) plugin: Arc<Prepared>,
    habit: Arc<Habit>,
}

impl Tool for PluginTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(
        &'a self,
        invocation: Invocation<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        Box::pin(self.run(invocation))
    }

    fn check(&self, meter: Arc<Meter>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(self.run_check(meter))
    }

    fn unmet(&self) -> Vec<String> {
        if self.plugin.is_probed {
            // It is to be seen how far it comes.
            return Vec::new();
        }
        let (plugin, granted) = (&self.plugin, self.plugin.authority.get());
        let rights = self.rights();
        let id = if rights.words.is_empty() { &plugin.id } else { &rights.words };
        let unmet = |name: &String| {
            if rights.secrets.has(name) {
                let is_set = plugin.secrets().value(name).is_some();
                return (!is_set).then(|| {
                    format!("it requires the secret `{name}`, which is granted and not set: run `toolhost secret set {name}`")
                });
            }
            if let Some(asked) = rights.secrets.asked(name) {
                let flag = Kind::SECRETS.flag_for(&asked.to_string());
                return Some(format!(
                    "it requires the secret `{name}`, which it was not granted: run `toolhost grant {id} {flag}`"
                ));
            }
            let value = plugin.values.variables.0.get(name);
            if !granted
                .is_some_and(|granted| granted.grants.of().any(|VariableGrant(held)| held == name))
            {
                Some(format!(
                    "it requires the variable `{name}`, which it was not granted: run `toolhost grant {id} --env {name}`"
                ))
            } else if value.is_none_or(String::is_empty) {
                Some(format!(
                    "it requires the variable `{name}`, which is granted and not set: set `{name}` in the environment of toolhost"
                ))
            } else {
                None
            }
        };
        self.spec.requires_env.iter().filter_map(unmet).collect()
    }

    fn describe<'a>(
        &'a self,
        visible: &'a [String],
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(self.run_describe(visible))
    }

    fn held(&self) -> Held {
        let rights = self.rights();
        let with = |access| rights.directories.iter().any(|(_, granted)| *granted == access);
        let hooks = self.plugin.authority.get().is_some_and(|held| held.grants.has(Kind::HOOKS));
        Held {
            reads: with(Access::Read),
            writes: with(Access::Write),
            variables: !rights.variables.is_empty(),
            http: !rights.http.is_empty(),
            kv: rights.kv.is_some(),
            hooks,
            ..Held::default()
        }
    }
}

/// Tells whether an error is one of files, as Python, JavaScript, Rust and C say it.
fn is_of_files(message: &str) -> bool {
    let words = [
        "FileNotFoundError",
        "PermissionError",
        "NotADirectoryError",
        "ENOENT",
        "EPERM",
        "ENOTCAPABLE",
        "EBADF",
        "No such file or directory",
        "Capabilities insufficient",
        "Operation not permitted",
        "failed to find a pre-opened file descriptor",
    ];
    words.iter().any(|word| message.contains(word))
}

impl PluginTool {
    pub(super) fn new(spec: ToolSpec, plugin: Arc<Prepared>) -> PluginTool {
        PluginTool { spec, plugin, habit: Arc::default() }
    }

    async fn run(&self, invocation: Invocation<'_>) -> Result<ToolOutput, CallError> {
        let meter = Arc::clone(&invocation.meter);
        let has_dirs = !invocation.dirs.is_empty();
        let mut answer = self.answer(invocation).await;
        if let Err(error) = &answer
            && error.code == Code::Failed
            && !has_dirs
        {
            self.tell_of_directories(&error.message, &meter);
        }
        // A second line: what comes in is redacted already.
        let secrets = self.plugin.secrets();
        if !secrets.redactor().is_empty() {
            at_length(|| match &mut answer {
                Ok(output) => secrets.redact_output(output),
                Err(error) => secrets.redact_error(error),
            });
        }
        answer
    }

    /// A guest may know by itself that it was granted no directory, and not ask for any. So the
    /// host says what it can: that directories were asked for, and none was granted; or that they
    /// were not asked for, where the guest says in words of its language that no file is there.
    fn tell_of_directories(&self, message: &str, meter: &Meter) {
        let rights = self.rights();
        let id = if rights.words.is_empty() { &self.plugin.id } else { &rights.words };
        let is_told = || meter.refusals().iter().any(Refusal::is_of_directories);
        if !rights.directories.is_empty() || self.plugin.is_probed || is_told() {
            return;
        }
        let refusal = if rights.asks.contains(&Kind::DIRS) {
            if message.contains("toolhost grant") {
                return;
            }
            Refusal {
                what: format!("any directory, which `{}` asks for,", self.spec.name),
                why: "is not granted".to_owned(),
                repair: format!("if it needs one here, run `toolhost grant {id} --dir DIR:ro`"),
                grant: None,
            }
        } else if is_of_files(message) {
            Refusal {
                what: "any directory".to_owned(),
                why: format!(
                    "is nothing that `{}` asks for, so none is granted, and no path leads anywhere",
                    self.spec.name
                ),
                repair: format!(
                    "if it is to use files of this machine, its author must add a need of kind \
                     `dirs`; `toolhost grant {id} --dir DIR:ro` grants one then"
                ),
                grant: None,
            }
        } else {
            return;
        };
        meter.refused(refusal, self.plugin.engine.limits.refusals_max.0);
    }

    async fn answer(&self, invocation: Invocation<'_>) -> Result<ToolOutput, CallError> {
        let engine = &self.plugin.engine;
        let limits = &engine.limits;
        let transfer_bytes_max = limits.transfer_bytes_max();
        let meter = Arc::clone(&invocation.meter);
        let rights = self.rights_of_call(invocation.dirs)?;
        let program = self.plugin.program().await.map_err(|error| {
            CallError::new(Code::Unavailable, format!("its plugin {}", told(&error)))
        })?;
        let context = types::CallContext {
            session_id: invocation.caller.session.clone(),
            task_id: invocation.caller.task.clone(),
            tool_call_id: invocation.caller.tool_call.clone(),
            remaining_ms: milliseconds(
                invocation.deadline.saturating_duration_since(Instant::now()),
            ),
            extensions: Vec::new(),
        };
        let (plugin, progress) = (Arc::clone(&self.plugin), invocation.progress);
        let (tool, arguments) = (self.spec.name.clone(), invocation.arguments.to_owned());
        let counting = Arc::clone(&meter);
        // The guest, its memory and what it answers: all that may take long.
        let running = async move {
            let made =
                instance::new(&plugin, &program, counting, progress, transfer_bytes_max, rights)
                    .await;
            let mut store = made.map_err(|error| {
                CallError::new(Code::Internal, "a granted directory is gone")
                    .with_log(error.to_string())
            })?;
            if store.data().conduct.rights.may_have_directories() {
                store.data_mut().names.said(&arguments);
            }
            let answer = match program.instantiate(&mut store).await {
                Ok(instance) => {
                    instance.call_call(&mut store, tool.as_str(), &arguments, &context).await
                }
                Err(error) => Err(error),
            };
            let limits = &plugin.engine.limits;
            match answer {
                Ok(Ok(output)) => convert::output(output, limits),
                Ok(Err(error)) => Err(convert::tool_error(error, limits)),
                Err(error) => Err(stopped(&error, store.data(), transfer_bytes_max, limits)),
            }
        };
        let mut retired = self.plugin.retired.subscribe();
        let answer = tokio::select! {
            biased;
            answer = engine.long.run(Arc::clone(&meter), &self.habit, running) => answer,
            Ok(_) = retired.wait_for(|retired| *retired) => Err(replaced(limits)),
        };
        answer.inspect(|output| meter.saw_output(output.len()))
    }
}

impl PluginTool {
    /// What this tool may use.
    pub(super) fn rights(&self) -> Arc<Rights> {
        let authority = self.plugin.authority.get();
        authority.map(|held| held.of_tool(self.spec.name.as_str())).unwrap_or_default()
    }

    /// What this tool may use, with the directories that were granted for one call alone.
    fn rights_of_call(&self, dirs: &[String]) -> Result<Arc<Rights>, CallError> {
        let mut rights = self.rights();
        let denied = |message: String| CallError::new(Code::Denied, message);
        for text in dirs {
            let grant = DirGrant::parse(text, None).map_err(|error| denied(error.to_string()))?;
            let needs = self.plugin.authority.get().map(|authority| &authority.needs);
            let tool = self.spec.name.as_str();
            let access = needs.and_then(|needs| capability::access(needs, tool, &grant));
            let access = access.ok_or_else(|| {
                denied(format!(
                    "`{tool}` of plugin:{} does not ask for the directory {}, so it is not granted",
                    self.plugin.id, grant.guest
                ))
            })?;
            let directory = Directory::open(&grant, &self.plugin.rules).map_err(denied)?;
            Arc::make_mut(&mut rights).with(directory, access);
        }
        Ok(rights)
    }
}

impl Prepared {
    /// The same, without authority.
    pub(super) fn renewed(&self, values: Arc<Values>) -> Prepared {
        Prepared {
            engine: Arc::clone(&self.engine),
            program: Arc::clone(&self.program),
            exported: self.exported,
            id: Arc::clone(&self.id),
            party: self.party,
            rules: Arc::clone(&self.rules),
            store: Arc::clone(&self.store),
            stuck_opens: Arc::clone(&self.stuck_opens),
            client: self.client.clone(),
            values,
            habit: Arc::default(),
            is_probed: self.is_probed,
            retired: watch::Sender::new(false),
            authority: OnceLock::new(),
        }
    }

    /// The secrets it was granted, as far as they are set.
    pub(super) fn secrets(&self) -> Arc<PluginSecrets> {
        self.authority.get().map(Authority::secrets).unwrap_or_default()
    }

    /// Runs `register` in a store without any authority, for at most `time_max` of its own time.
    /// Returns its answer, if it came to one, and how long it took.
    ///
    /// # Cancel safety
    /// Dropping the future stops the guest.
    pub(super) async fn register(
        self: &Arc<Self>,
        program: Arc<Program>,
        time_max: Duration,
        meter: Arc<Meter>,
    ) -> (Option<Result<Result<types::Registration, String>, CallError>>, Duration) {
        let (plugin, counting) = (Arc::clone(self), Arc::clone(&meter));
        let registering = async move {
            let limits = &plugin.engine.limits;
            let allowed = limits.registration_bytes_max.0;
            let store =
                instance::new(&plugin, &program, counting, None, allowed, Arc::default()).await;
            let mut store =
                store.map_err(|error| CallError::new(Code::Internal, error.to_string()))?;
            store.data_mut().registers = true;
            let answer = match program.instantiate(&mut store).await {
                Ok(instance) => instance.call_register(&mut store).await,
                Err(error) => Err(error),
            };
            answer.map_err(|error| stopped(&error, store.data(), allowed, limits))
        };
        let registering = guest_time::within(time_max, registering);
        self.engine.long.run(meter, &self.habit, registering).await
    }
}

impl Program {
    async fn instantiate(&self, store: &mut GuestStore) -> wasmtime::Result<Plugin> {
        self.linked.pre.instantiate_async(store).await
    }
}

/// Says why wasmtime gave up: which limit it was, or how the guest crashed.
pub(super) fn stopped(
    error: &wasmtime::Error,
    guest: &Guest,
    transfer_bytes_max: u64,
    limits: &Limits,
) -> CallError {
    let chain = format!("{error:#}");
    let mut stopped = if error.is::<HostCallsExceeded>() {
        let allowed = guest.host_calls_max;
        let message = format!("stopped: more host calls than `host_calls_max` of {allowed}");
        CallError::new(Code::Trap, message)
    } else if let Some(denied) = guest.memory.denied() {
        CallError::new(Code::Memory, format!("stopped: {}", denied.message()))
            .with("limit", denied.limit())
    } else if chain.contains("too much data is being copied") {
        // wasmtime has no type for this error.
        let given = format!("more than {transfer_bytes_max}");
        convert::too_large(&given, limits.output_bytes_max.0)
    } else if error.is::<PoolConcurrencyLimitError>() {
        CallError::new(Code::Internal, "the host has no room for another guest")
    } else {
        CallError::new(Code::Trap, format!("the tool crashed: {}", crash(error)))
    };
    stopped.log = Some(text::printable(&chain));
    stopped.stderr = Some(text::printable(&guest.stderr.text())).filter(|text| !text.is_empty());
    stopped
}

fn replaced(limits: &Limits) -> CallError {
    let time_max = humantime::format_duration(limits.drain_time_max);
    let message = format!(
        "stopped: its plugin was replaced or removed, and it did not end within `drain_time_max` of {time_max}; call it again"
    );
    CallError::new(Code::Deadline, message)
}

fn crash(error: &wasmtime::Error) -> String {
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return match trap {
            Trap::UnreachableCodeReached => "it aborted (a panic, most likely)".to_owned(),
            Trap::StackOverflow => {
                "its stack overflowed `stack_bytes_max` (endless recursion, most likely)".to_owned()
            }
            other => other.to_string(),
        };
    }
    if error.is::<wasmtime_wasi::I32Exit>() {
        return "it ended its own process".to_owned();
    }
    text::cut(&text::one_line(&error.root_cause().to_string()), 200)
}

fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
