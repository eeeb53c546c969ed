//! The optional interfaces of a component: `availability`, `schema-override` and `hooks`. Each
//! question is asked in a fresh instance and has a time limit of its own.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use wasmtime::component::InstancePre;

use crate::adapter::contract::bindings::{availability, hooks, schema_override};
use crate::adapter::contract::convert::{self, Exported};
use crate::instance::{self, Guest, GuestStore};
use crate::load_error::told;
use crate::plugin::program::Program;
use crate::plugin::{PluginTool, Prepared, stopped};
use crate::rights::{Authority, Rights};
use toolhost_core::scheduler::Full;
use toolhost_core::text;
use toolhost_core::tool::{Decision, HookEvent, HookedCall, HookedOutcome, Hooks, Meter};
use toolhost_policy::capability;

/// Where the optional interfaces are in a component, if it exports them.
#[derive(Clone)]
pub(crate) struct Optional {
    pub(crate) availability: Option<availability::GuestIndices>,
    pub(crate) schema_override: Option<schema_override::GuestIndices>,
    pub(crate) hooks: Option<hooks::GuestIndices>,
}

impl Optional {
    /// Absent is no error, another shape is.
    pub(crate) fn find(exported: Exported, pre: &InstancePre<Guest>) -> wasmtime::Result<Optional> {
        let Exported { availability, schema_override, hooks } = exported;
        Ok(Optional {
            availability: availability.then(|| availability::GuestIndices::new(pre)).transpose()?,
            schema_override: schema_override
                .then(|| schema_override::GuestIndices::new(pre))
                .transpose()?,
            hooks: hooks.then(|| hooks::GuestIndices::new(pre)).transpose()?,
        })
    }
}

/// A limit on how long a question may take: what is asked, the limit's name, and its value.
#[derive(Clone, Copy)]
struct Patience {
    what: &'static str,
    limit: &'static str,
    time_max: Duration,
}

impl Prepared {
    /// Its program, for a question beside calls.
    async fn asked(self: &Arc<Self>) -> Result<Arc<Program>, String> {
        self.program().await.map_err(|error| format!("its plugin {}", told(&error)))
    }

    async fn store(
        &self,
        program: &Program,
        meter: Arc<Meter>,
        rights: Arc<Rights>,
    ) -> Result<GuestStore, String> {
        let transfer_bytes_max = self.engine.limits.transfer_bytes_max();
        let store = instance::new(self, program, meter, None, transfer_bytes_max, rights).await;
        store.map_err(|error| format!("a granted directory is gone: {error}"))
    }

    /// Waits for the answer of a guest; what is in the way becomes one sentence.
    async fn wait<T: Send + 'static>(
        &self,
        meter: Arc<Meter>,
        asking: impl Future<Output = Result<T, String>> + Send + 'static,
        patience: Patience,
    ) -> Result<T, String> {
        let Patience { what, limit, time_max } = patience;
        let in_turn = async {
            let turn = self.engine.beside.take(self.party).await;
            let _turn = turn.map_err(|Full(load)| {
                let (waiting, most) = (load.waiting, self.engine.beside.bounds().waiting);
                format!(
                    "its {what} found no place to wait: {waiting} wait, and `waiting_max` is {most}"
                )
            })?;
            self.engine.long.run(meter, &self.habit, asking).await
        };
        tokio::time::timeout(time_max, in_turn).await.unwrap_or_else(|_| {
            let time_max = humantime::format_duration(time_max);
            Err(format!("its {what} did not answer within `{limit}` of {time_max}"))
        })
    }

    /// The text of a guest's error, on one line, bounded, and without secrets.
    fn said(&self, reason: String) -> String {
        let bytes_max = self.engine.limits.error_bytes_max.as_usize();
        text::one_line(&self.clean(convert::bounded(reason, bytes_max)))
    }

    /// A text of a guest without secrets.
    fn clean(&self, mut text: String) -> String {
        self.secrets().redact(&mut text);
        text
    }

    fn stopped<T>(&self, answer: wasmtime::Result<T>, store: &GuestStore) -> Result<T, String> {
        let limits = &self.engine.limits;
        let transfer_bytes_max = limits.transfer_bytes_max();
        answer.map_err(|error| {
            let mut error = stopped(&error, store.data(), transfer_bytes_max, limits);
            self.secrets().redact_error(&mut error);
            if let Some(stderr) = &error.stderr {
                tracing::debug!("{}: {stderr}", self.id);
            }
            error.message
        })
    }
}

impl PluginTool {
    /// Runs `check`, with the tool's own authority.
    pub(crate) async fn run_check(&self, meter: Arc<Meter>) -> Result<(), String> {
        let plugin = &self.plugin;
        if !self.spec.has_check || plugin.is_probed {
            // Of what is probed, it is to be seen how far it comes.
            return Ok(());
        }
        let program = plugin.asked().await?;
        let Some(availability) = program.linked.optional.availability.clone() else {
            return Ok(());
        };
        let limits = &plugin.engine.limits;
        let (asked, rights, counting) = (Arc::clone(plugin), self.rights(), Arc::clone(&meter));
        let tool = self.spec.name.clone();
        let asking = async move {
            let mut store = asked.store(&program, counting, rights).await?;
            let answer = async {
                let instance =
                    program.linked.pre.instance_pre().instantiate_async(&mut store).await?;
                let guest = availability.load(&mut store, &instance)?;
                guest.call_check(&mut store, tool.as_str()).await
            };
            let answer = answer.await;
            asked.stopped(answer, &store)
        };
        let time_max = limits.check_time_max;
        let patience = Patience { what: "check", limit: "check_time_max", time_max };
        plugin.wait(meter, asking, patience).await?.map_err(|reason| plugin.said(reason))
    }

    /// Runs `describe`, without any authority: what it sees is in its arguments.
    pub(crate) async fn run_describe(&self, visible: &[String]) -> Result<Option<String>, String> {
        let plugin = &self.plugin;
        if !self.spec.has_dynamic_schema {
            return Ok(None);
        }
        let program = plugin.asked().await?;
        let Some(schema_override) = program.linked.optional.schema_override.clone() else {
            return Ok(None);
        };
        let (asked, visible) = (Arc::clone(plugin), visible.to_owned());
        let tool = self.spec.name.clone();
        let asking = async move {
            let mut store = asked.store(&program, Arc::default(), Arc::default()).await?;
            let answer = async {
                let instance =
                    program.linked.pre.instance_pre().instantiate_async(&mut store).await?;
                let guest = schema_override.load(&mut store, &instance)?;
                guest.call_describe(&mut store, tool.as_str(), &visible).await
            };
            let answer = answer.await;
            asked.stopped(answer, &store)
        };
        let time_max = plugin.engine.limits.describe_time_max;
        let patience = Patience { what: "describe", limit: "describe_time_max", time_max };
        plugin.wait(Arc::default(), asking, patience).await
    }
}

/// The hooks of a component that was granted some.
pub(crate) struct PluginHooks(pub(crate) Arc<Prepared>);

/// Asks one function of the interface `hooks`.
macro_rules! ask {
    ($self:ident, $event:expr, $function:ident ( $($argument:expr),* )) => {{
        let plugin = &$self.0;
        let program = plugin.asked().await?;
        let Some(indices) = program.linked.optional.hooks.clone() else {
            return Err("it exports no hooks".to_owned());
        };
        let limits = &plugin.engine.limits;
        let rights = plugin.authority.get().map(Authority::of_hooks).unwrap_or_default();
        let asked = Arc::clone(plugin);
        let asking = async move {
            let mut store = asked.store(&program, Arc::default(), rights).await?;
            let answer = async {
                let instance = program.linked.pre.instance_pre().instantiate_async(&mut store).await?;
                let guest = indices.load(&mut store, &instance)?;
                guest.$function(&mut store, $(&$argument),*).await
            };
            let answer = answer.await;
            asked.stopped(answer, &store)
        };
        let (what, limit) = (HookEvent::as_str($event), "hook_time_max");
        let patience = Patience { what, limit, time_max: limits.hook_time_max };
        plugin.wait(Arc::default(), asking, patience).await?.map_err(|reason| plugin.said(reason))
    }};
}

impl PluginHooks {
    async fn ask_request(&self, call: HookedCall<'_>) -> Result<Option<String>, String> {
        let call = hooked_call(call);
        let arguments = ask!(self, HookEvent::Request, call_request(call))?;
        Ok(arguments.map(|text| self.0.clean(text)))
    }

    async fn ask_pre_call(&self, call: HookedCall<'_>) -> Result<Decision, String> {
        let call = hooked_call(call);
        let decision = ask!(self, HookEvent::PreCall, call_pre_call(call))?;
        let bytes_max = self.0.engine.limits.error_bytes_max.as_usize();
        let bounded = |text| self.0.clean(convert::bounded(text, bytes_max));
        Ok(match decision {
            hooks::Decision::Allow => Decision::Allow,
            hooks::Decision::Block(message) => Decision::Block(bounded(message)),
            hooks::Decision::Ask(question) => Decision::Ask {
                message: bounded(question.message),
                rule_key: question.rule_key.map(bounded),
            },
        })
    }

    async fn ask_post_call(
        &self,
        call: HookedCall<'_>,
        outcome: HookedOutcome<'_>,
    ) -> Result<(), String> {
        let (call, outcome) = (hooked_call(call), hooked_outcome(outcome));
        ask!(self, HookEvent::PostCall, call_post_call(call, outcome))
    }

    async fn ask_transform(
        &self,
        call: HookedCall<'_>,
        outcome: HookedOutcome<'_>,
    ) -> Result<Option<String>, String> {
        let (call, outcome) = (hooked_call(call), hooked_outcome(outcome));
        let answer = ask!(self, HookEvent::Transform, call_transform(call, outcome))?;
        Ok(answer.map(|text| self.0.clean(text)))
    }
}

impl Hooks for PluginHooks {
    fn hears(&self, event: HookEvent, tool: &str) -> bool {
        self.0
            .authority
            .get()
            .is_some_and(|held| capability::hears(&held.needs, &held.grants, event, tool))
    }

    fn request<'a>(
        &'a self,
        call: HookedCall<'a>,
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(self.ask_request(call))
    }

    fn pre_call<'a>(&'a self, call: HookedCall<'a>) -> BoxFuture<'a, Result<Decision, String>> {
        Box::pin(self.ask_pre_call(call))
    }

    fn post_call<'a>(
        &'a self,
        call: HookedCall<'a>,
        outcome: HookedOutcome<'a>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.ask_post_call(call, outcome))
    }

    fn transform<'a>(
        &'a self,
        call: HookedCall<'a>,
        outcome: HookedOutcome<'a>,
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(self.ask_transform(call, outcome))
    }
}

fn hooked_call(call: HookedCall<'_>) -> hooks::HookedCall {
    hooks::HookedCall {
        tool: call.tool.to_owned(),
        source: call.source.to_owned(),
        arguments: call.arguments.to_owned(),
        session_id: call.caller.session.clone(),
        task_id: call.caller.task.clone(),
        tool_call_id: call.caller.tool_call.clone(),
    }
}

fn hooked_outcome(outcome: HookedOutcome<'_>) -> hooks::HookedOutcome {
    hooks::HookedOutcome {
        code: outcome.code.map(|code| code.as_str().to_owned()),
        result: outcome.result.to_owned(),
        duration_ms: u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
    }
}
