//! What a component is asked beside calls: whether a tool can work, how it is described, and what its
//! hooks say. Each question is asked in a fresh instance and has a time limit of its own.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::program::Program;
use super::{PluginTool, Prepared};
use crate::adapter::{GuestQuestion, bounded};
use crate::capability::authority::Authority;
use crate::load_error::told;
use crate::rights::Rights;
use toolhost_core::scheduler::Full;
use toolhost_core::text;
use toolhost_core::tool::{
    CallError, Decision, HookEvent, HookedCall, HookedOutcome, Hooks, Meter,
};

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

    /// Asks, and waits for the answer of the guest; what is in the way becomes one sentence.
    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        program: Arc<Program>,
        rights: Arc<Rights>,
        meter: Arc<Meter>,
        question: GuestQuestion<T>,
        patience: Patience,
    ) -> Result<T, String> {
        let Patience { what, limit, time_max } = patience;
        let (setup, plugin) = (self.setup(rights, &meter), Arc::clone(self));
        let asking = async move {
            program.ask(setup, question).await.map_err(|error| plugin.stopped(error))
        };
        let in_its_slot = async {
            let slot = self.engine.beside.take(self.key).await;
            let _slot = slot.map_err(|Full(load)| {
                let (waiting, most) = (load.waiting, self.engine.beside.bounds().waiting);
                format!(
                    "its {what} found no place to wait: {waiting} wait, and `waiting_max` is {most}"
                )
            })?;
            self.engine.long.run(meter, &self.habit, asking).await
        };
        tokio::time::timeout(time_max, in_its_slot).await.unwrap_or_else(|_| {
            let time_max = humantime::format_duration(time_max);
            Err(format!("its {what} did not answer within `{limit}` of {time_max}"))
        })
    }

    /// The text of a guest's error, on one line, bounded, and without secrets.
    fn said(&self, reason: String) -> String {
        let bytes_max = self.engine.limits.error_bytes_max.as_usize();
        text::one_line(&bounded(self.clean(reason), bytes_max))
    }

    /// A text of a guest without secrets.
    fn clean(&self, mut text: String) -> String {
        self.redaction().redact(&mut text);
        text
    }

    /// Why there is no answer.
    fn stopped(&self, mut error: CallError) -> String {
        self.redaction().redact_error(&mut error);
        if let Some(stderr) = &error.stderr {
            tracing::debug!("{}: {stderr}", self.id);
        }
        error.message
    }
}

impl PluginTool {
    /// Runs `check`, with the tool's own authority.
    pub(super) async fn run_check(&self, meter: Arc<Meter>) -> Result<(), String> {
        let plugin = &self.plugin;
        if !self.spec.has_check || plugin.is_probed {
            // Of what is probed, it is to be seen how far it comes.
            return Ok(());
        }
        let program = plugin.asked().await?;
        let Some(question) = program.linked.adapted.check(self.spec.name.as_str()) else {
            return Ok(());
        };
        let time_max = plugin.engine.limits.check_time_max;
        let patience = Patience { what: "check", limit: "check_time_max", time_max };
        let answer = plugin.ask(program, self.rights(), meter, question, patience).await?;
        answer.map_err(|reason| plugin.said(reason))
    }

    /// Runs `describe`, without any authority: what it sees is in its arguments.
    pub(super) async fn run_describe(&self, visible: &[String]) -> Result<Option<String>, String> {
        let plugin = &self.plugin;
        if !self.spec.has_dynamic_schema {
            return Ok(None);
        }
        let program = plugin.asked().await?;
        let adapted = &program.linked.adapted;
        let Some(question) = adapted.describe(self.spec.name.as_str(), visible) else {
            return Ok(None);
        };
        let time_max = plugin.engine.limits.describe_time_max;
        let patience = Patience { what: "describe", limit: "describe_time_max", time_max };
        let nothing = Arc::clone(&plugin.nothing);
        plugin.ask(program, nothing, Arc::default(), question, patience).await
    }
}

/// The hooks of a component that was granted some.
pub(crate) struct PluginHooks(pub(crate) Arc<Prepared>);

impl PluginHooks {
    /// Asks a hook, with what is asked for without naming a tool.
    async fn ask<T: Send + 'static>(
        &self,
        event: HookEvent,
        program: Arc<Program>,
        question: Option<GuestQuestion<Result<T, String>>>,
    ) -> Result<T, String> {
        let (plugin, question) = (&self.0, question.ok_or("it exports no hooks")?);
        let rights = match plugin.authority.get() {
            Some(authority) => authority.of_hooks(),
            None => Arc::clone(&plugin.nothing),
        };
        let time_max = plugin.engine.limits.hook_time_max;
        let patience = Patience { what: event.as_str(), limit: "hook_time_max", time_max };
        let answer = plugin.ask(program, rights, Arc::default(), question, patience).await?;
        answer.map_err(|reason| plugin.said(reason))
    }

    async fn ask_request(&self, call: HookedCall<'_>) -> Result<Option<String>, String> {
        let program = self.0.asked().await?;
        let question = program.linked.adapted.request(call);
        let arguments = self.ask(HookEvent::Request, program, question).await?;
        Ok(arguments.map(|text| self.0.clean(text)))
    }

    async fn ask_pre_call(&self, call: HookedCall<'_>) -> Result<Decision, String> {
        let program = self.0.asked().await?;
        let question = program.linked.adapted.pre_call(call);
        let decision = self.ask(HookEvent::PreCall, program, question).await?;
        let bytes_max = self.0.engine.limits.error_bytes_max.as_usize();
        let bounded = |text| bounded(self.0.clean(text), bytes_max);
        Ok(match decision {
            Decision::Allow => Decision::Allow,
            Decision::Block(message) => Decision::Block(bounded(message)),
            Decision::Ask { message, rule_key } => {
                Decision::Ask { message: bounded(message), rule_key: rule_key.map(bounded) }
            }
        })
    }

    async fn ask_post_call(
        &self,
        call: HookedCall<'_>,
        outcome: HookedOutcome<'_>,
    ) -> Result<(), String> {
        let program = self.0.asked().await?;
        let question = program.linked.adapted.post_call(call, outcome);
        self.ask(HookEvent::PostCall, program, question).await
    }

    async fn ask_transform(
        &self,
        call: HookedCall<'_>,
        outcome: HookedOutcome<'_>,
    ) -> Result<Option<String>, String> {
        let program = self.0.asked().await?;
        let question = program.linked.adapted.transform(call, outcome);
        let answer = self.ask(HookEvent::Transform, program, question).await?;
        Ok(answer.map(|text| self.0.clean(text)))
    }
}

impl Hooks for PluginHooks {
    fn hears(&self, event: HookEvent, tool: &str) -> bool {
        self.0.authority.get().is_some_and(|authority: &Authority| authority.hears(event, tool))
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
