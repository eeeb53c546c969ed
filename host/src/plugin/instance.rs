//! One call: a fresh store, a fresh instance, one function, and all of it dropped.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use wasmtime::{Store, Trap};

use super::bindings::{Plugin, PluginPre, types};
use super::convert;
use super::directories::{Directory, DirectoryRules};
use super::engine::Engine;
use super::optional::Optional;
use super::store::{self, Allowed, Denied, Guest, HostCallsExceeded};
use crate::authority::{self, Access, DirGrant, HookGrant, Variables};
use crate::limits::Limits;
use crate::text;
use crate::tool::{CallError, Code, Held, Invocation, Meter, Need, Tool, ToolOutput, ToolSpec};

/// A component that is linked and ready to be instantiated.
pub(super) struct Prepared {
    pub(super) engine: Arc<Engine>,
    pub(super) pre: PluginPre<Guest>,
    pub(super) optional: Optional,
    /// For logs and hints.
    pub(super) id: String,
    pub(super) rules: Arc<DirectoryRules>,
    /// Values of variables, of which it sees those it was granted.
    pub(super) variables: Arc<Variables>,
    /// Set once the plugin's bytes are known to be the ones that the grants were given to.
    pub(super) authority: OnceLock<Authority>,
}

/// What a plugin asked for, and what it was granted.
#[derive(Debug, Default)]
pub(super) struct Authority {
    pub(super) needs: Vec<Need>,
    pub(super) directories: Vec<Directory>,
    pub(super) env: Vec<String>,
    pub(super) hooks: Vec<HookGrant>,
}

/// One tool of a component.
pub(super) struct PluginTool {
    pub(super) spec: ToolSpec,
    pub(super) plugin: Arc<Prepared>,
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
        let granted = self.plugin.authority.get().map_or(&[][..], |authority| &authority.env);
        let unmet = |name: &String| {
            let value = self.plugin.variables.0.get(name);
            if !granted.contains(name) {
                let id = &self.plugin.id;
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
        let allowed = self.allowed(&[]);
        let with = |access| allowed.directories.iter().any(|(_, granted)| *granted == access);
        let hooks = self.plugin.authority.get().is_some_and(|held| !held.hooks.is_empty());
        Held {
            reads: with(Access::Read),
            writes: with(Access::Write),
            variables: !allowed.variables.is_empty(),
            hooks,
            ..Held::default()
        }
    }
}

impl PluginTool {
    async fn run(&self, invocation: Invocation<'_>) -> Result<ToolOutput, CallError> {
        let engine = &self.plugin.engine;
        let limits = &engine.limits;
        let transfer_bytes_max = limits.transfer_bytes_max();
        let meter = Arc::clone(&invocation.meter);
        let for_this_call = self.for_this_call(invocation.dirs)?;
        let mut store = store::new(
            engine,
            &self.plugin.id,
            meter,
            invocation.progress,
            transfer_bytes_max,
            &self.allowed(&for_this_call),
        )
        .map_err(|error| {
            CallError::new(Code::Internal, "a granted directory is gone")
                .with_log(error.to_string())
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
        let answer = match self.plugin.instantiate(&mut store).await {
            Ok(instance) => {
                let tool = self.spec.name.as_str();
                instance.call_call(&mut store, tool, invocation.arguments, &context).await
            }
            Err(error) => Err(error),
        };
        match answer {
            Ok(Ok(output)) => {
                let output = convert::output(output, limits)?;
                invocation.meter.saw_output(output.len());
                Ok(output)
            }
            Ok(Err(error)) => Err(convert::tool_error(error, limits)),
            Err(error) => Err(stopped(&error, store.data(), transfer_bytes_max, limits)),
        }
    }
}

impl PluginTool {
    /// What this tool may use, with the directories of one call besides.
    pub(super) fn allowed<'a>(&'a self, more: &'a [Directory]) -> Allowed<'a> {
        self.plugin.allowed(self.spec.name.as_str(), &self.spec.requires_env, more)
    }

    /// Opens the directories that were granted for one call alone.
    fn for_this_call(&self, dirs: &[String]) -> Result<Vec<Directory>, CallError> {
        let denied = |message: String| CallError::new(Code::Denied, message);
        let open = |text: &String| {
            let grant = DirGrant::parse(text, None).map_err(|error| denied(error.to_string()))?;
            let needs = self.plugin.authority.get().map(|authority| &authority.needs);
            let tool = self.spec.name.as_str();
            if needs.and_then(|needs| authority::access(needs, tool, &grant)).is_none() {
                return Err(denied(format!(
                    "`{tool}` of plugin:{} does not ask for the directory {}, so it is not granted",
                    self.plugin.id, grant.guest
                )));
            }
            Directory::open(&grant, &self.plugin.rules).map_err(denied)
        };
        dirs.iter().map(open).collect()
    }
}

impl Prepared {
    /// What one tool may use of what the plugin was granted; of a hook, the name is empty.
    pub(super) fn allowed<'a>(
        &'a self,
        tool: &str,
        requires_env: &[String],
        more: &'a [Directory],
    ) -> Allowed<'a> {
        let Some(authority) = self.authority.get() else { return Allowed::default() };
        let directories = authority.directories.iter().chain(more).filter_map(|directory| {
            Some((directory, authority::access(&authority.needs, tool, &directory.grant)?))
        });
        let names = match authority.env.as_slice() {
            [] => Vec::new(),
            granted => authority::variables(&authority.needs, requires_env, tool, granted),
        };
        let variable = |name: &String| {
            self.variables.0.get_key_value(name).map(|(name, value)| (&**name, &**value))
        };
        Allowed {
            directories: directories.collect(),
            variables: names.iter().filter_map(variable).collect(),
        }
    }

    /// Runs `register` in a store without any authority.
    ///
    /// # Cancel safety
    /// Dropping the future stops the guest.
    pub(super) async fn register(
        &self,
        meter: Arc<Meter>,
    ) -> Result<Result<types::Registration, String>, CallError> {
        let limits = &self.engine.limits;
        let allowed = limits.registration_bytes_max.0;
        let mut store =
            store::new(&self.engine, &self.id, meter, None, allowed, &Allowed::default())
                .map_err(|error| CallError::new(Code::Internal, error.to_string()))?;
        let answer = match self.instantiate(&mut store).await {
            Ok(instance) => instance.call_register(&mut store).await,
            Err(error) => Err(error),
        };
        answer.map_err(|error| stopped(&error, store.data(), allowed, limits))
    }

    async fn instantiate(&self, store: &mut Store<Guest>) -> wasmtime::Result<Plugin> {
        self.pre.instantiate_async(store).await
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
        CallError::new(Code::Memory, denied_message(denied))
    } else if chain.contains("too much data is being copied") {
        // wasmtime has no type for this error, nor for the next.
        let given = format!("more than {transfer_bytes_max}");
        convert::too_large(&given, limits.output_bytes_max.0)
    } else if chain.contains("maximum concurrent") {
        CallError::new(Code::Internal, "the host has no room for another guest")
    } else {
        CallError::new(Code::Trap, format!("the tool crashed: {}", crash(error)))
    };
    stopped.log = Some(text::printable(&chain));
    stopped.stderr = Some(text::printable(&guest.stderr.text())).filter(|text| !text.is_empty());
    stopped
}

fn denied_message(denied: Denied) -> String {
    match denied {
        Denied::Guest { asked, allowed } => {
            format!("stopped: memory of {asked} bytes exceeds `memory_bytes_max` of {allowed}")
        }
        Denied::AllGuests { asked, allowed } => format!(
            "stopped: memory of {asked} bytes is not left; all tools together may use {allowed}"
        ),
        Denied::Table { asked, allowed } => format!(
            "stopped: a table of {asked} elements exceeds `table_elements_max` of {allowed}"
        ),
    }
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
