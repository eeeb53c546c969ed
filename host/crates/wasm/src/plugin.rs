//! A plugin as the rest of the host sees it: tools, each of whose calls has a fresh instance that is
//! dropped with it; and hooks.

pub(super) mod program;
mod questions;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::adapter::{Offers, Registering, ToolCall};
use super::capability::authority::{self, Authority};
use super::capability::{self, FailedCall, GrantedForCall, Shares, Values};
use super::cpu_isolation::Habit;
use super::engine::Engine;
use super::guest_time;
use super::instance::call::CallSetup;
use super::load_error::told;
use super::redaction::Redaction;
use super::rights::Rights;
use program::{LazyProgram, Program};
use toolhost_core::limits::Limits;
use toolhost_core::runtime::at_length;
use toolhost_core::scheduler::SourceKey;
use toolhost_core::tool::{
    CallError, Code, Held, Invocation, Meter, Reason, Tool, ToolOutput, ToolSpec,
};

pub(super) use questions::PluginHooks;

/// A plugin: what it runs, and what all that it runs share.
pub(super) struct Prepared {
    /// Of its bounds; its code may be of another, see [`Program`].
    pub(super) engine: Arc<Engine>,
    pub(super) program: Arc<LazyProgram>,
    pub(super) offers: Offers,
    /// For logs and hints.
    pub(super) id: Arc<str>,
    /// In whose queue it waits beside the calls.
    key: SourceKey,
    pub(super) shares: Shares,
    /// Values that it may be granted.
    pub(super) values: Arc<Values>,
    /// Of what it does beside calls.
    habit: Arc<Habit>,
    /// It is probed: what it requires is not asked for, and all that it tries is remembered.
    is_probed: bool,
    /// It was replaced or removed, and the time is over that its calls had to end.
    pub(super) retired: watch::Sender<bool>,
    /// What it may use without authority: nothing.
    nothing: Arc<Rights>,
    /// Set once the plugin's bytes are known to be the ones that the grants were given to.
    pub(super) authority: OnceLock<Authority>,
}

/// One tool of a component.
pub(super) struct PluginTool {
    spec: ToolSpec,
    plugin: Arc<Prepared>,
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

    fn unmet(&self) -> Vec<Reason> {
        if self.plugin.is_probed {
            // It is to be seen how far it comes.
            return Vec::new();
        }
        capability::unmet(&self.spec, &self.rights())
    }

    fn describe<'a>(
        &'a self,
        visible: &'a [String],
    ) -> BoxFuture<'a, Result<Option<String>, String>> {
        Box::pin(self.run_describe(visible))
    }

    fn held(&self) -> Held {
        self.rights().held()
    }
}

impl PluginTool {
    pub(super) fn new(spec: ToolSpec, plugin: Arc<Prepared>) -> PluginTool {
        PluginTool { spec, plugin, habit: Arc::default() }
    }

    async fn run(&self, invocation: Invocation<'_>) -> Result<ToolOutput, CallError> {
        let meter = Arc::clone(&invocation.meter);
        let rights = self.rights_of_call(invocation.dirs);
        let mut answer = match &rights {
            Ok(rights) => self.answer(invocation, Arc::clone(rights)).await,
            Err(error) => Err(error.clone()),
        };
        if let (Ok(rights), Err(error)) = (&rights, &answer)
            && error.code == Code::Failed
            && !self.plugin.is_probed
        {
            self.explain(&error.message, rights, &meter);
        }
        // A second line: what comes in is redacted already.
        let redaction = self.plugin.redaction();
        if !redaction.redactor().is_empty() {
            at_length(|| match &mut answer {
                Ok(output) => redaction.redact_output(output),
                Err(error) => redaction.redact_error(error),
            });
        }
        answer
    }

    /// Remembers what the host can say of a failure of the tool itself.
    fn explain(&self, message: &str, rights: &Rights, meter: &Meter) {
        let failed = FailedCall { tool: self.spec.name.as_str(), rights, meter, message };
        for refusal in capability::explain(&failed) {
            meter.refused(refusal, self.plugin.engine.limits.refusals_max.0);
        }
    }

    async fn answer(
        &self,
        invocation: Invocation<'_>,
        rights: Arc<Rights>,
    ) -> Result<ToolOutput, CallError> {
        let engine = &self.plugin.engine;
        let program = self.plugin.program().await.map_err(|error| {
            CallError::new(Code::Unavailable, format!("its plugin {}", told(&error)))
        })?;
        let (meter, arguments) = (invocation.meter, Arc::<str>::from(invocation.arguments));
        let setup = CallSetup {
            progress: invocation.progress,
            arguments: Some(Arc::clone(&arguments)),
            deadline: Some(invocation.deadline),
            ..self.plugin.setup(rights, &meter)
        };
        let tool = self.spec.name.to_string();
        let call = ToolCall { tool, arguments, caller: invocation.caller.clone() };
        let question = program.linked.adapted.call(call);
        // The guest, its memory and what it answers: all that may take long.
        let running = async move { program.ask(setup, question).await.flatten() };
        let mut retired = self.plugin.retired.subscribe();
        let answer = tokio::select! {
            biased;
            answer = engine.long.run(Arc::clone(&meter), &self.habit, running) => answer,
            Ok(_) = retired.wait_for(|retired| *retired) => Err(replaced(&engine.limits)),
        };
        answer.inspect(|output| meter.saw_output(output.len()))
    }

    /// What this tool may use.
    fn rights(&self) -> Arc<Rights> {
        let authority = self.plugin.authority.get();
        let held = authority.and_then(|held| held.of_tool(self.spec.name.as_str()));
        held.unwrap_or_else(|| Arc::clone(&self.plugin.nothing))
    }

    /// What this tool may use, with what was granted for one call alone.
    fn rights_of_call(&self, dirs: &[String]) -> Result<Arc<Rights>, CallError> {
        let mut rights = self.rights();
        let needs = self.plugin.authority.get().map(|authority| authority.needs.as_slice());
        let extra = GrantedForCall {
            plugin: &self.plugin.id,
            tool: self.spec.name.as_str(),
            needs: needs.unwrap_or_default(),
            dirs,
        };
        capability::add_for_call(&mut rights, &extra)?;
        Ok(rights)
    }
}

/// What is made of a plugin before it has any authority.
pub(super) struct Preparing {
    pub(super) engine: Arc<Engine>,
    pub(super) program: Arc<LazyProgram>,
    pub(super) offers: Offers,
    pub(super) id: Arc<str>,
    pub(super) shares: Shares,
    pub(super) values: Arc<Values>,
    pub(super) is_probed: bool,
}

impl Prepared {
    /// Has no authority.
    pub(super) fn new(preparing: Preparing) -> Prepared {
        let Preparing { engine, program, offers, id, shares, values, is_probed } = preparing;
        Prepared {
            nothing: authority::none(&id, &values, &shares),
            engine,
            program,
            offers,
            id,
            key: SourceKey::new(),
            shares,
            values,
            habit: Arc::default(),
            is_probed,
            retired: watch::Sender::new(false),
            authority: OnceLock::new(),
        }
    }

    /// The same, without authority.
    pub(super) fn renewed(&self, values: Arc<Values>) -> Prepared {
        Prepared {
            key: self.key,
            ..Prepared::new(Preparing {
                engine: Arc::clone(&self.engine),
                program: Arc::clone(&self.program),
                offers: self.offers,
                id: Arc::clone(&self.id),
                shares: self.shares.clone(),
                values,
                is_probed: self.is_probed,
            })
        }
    }

    /// What no text of it may show.
    fn redaction(&self) -> Arc<Redaction> {
        self.authority.get().map(Authority::redaction).unwrap_or_default()
    }

    /// What is known of a call with these rights, whoever makes it.
    fn setup(&self, rights: Arc<Rights>, meter: &Arc<Meter>) -> CallSetup {
        CallSetup {
            plugin: Arc::clone(&self.id),
            rights,
            redaction: self.redaction(),
            meter: Arc::clone(meter),
            progress: None,
            arguments: None,
            deadline: None,
            transfer_bytes_max: self.engine.limits.transfer_bytes_max(),
            is_probed: self.is_probed,
            registers: false,
        }
    }

    /// Asks what it registers, without any authority, for at most `time_max` of its own time.
    /// Returns its answer, if it came to one, and how long it took.
    ///
    /// # Cancel safety
    /// Dropping the future stops the guest.
    pub(super) async fn register(
        &self,
        program: Arc<Program>,
        time_max: Duration,
        meter: Arc<Meter>,
    ) -> (Option<Result<Result<Box<dyn Registering>, String>, CallError>>, Duration) {
        let setup = CallSetup {
            transfer_bytes_max: self.engine.limits.registration_bytes_max.0,
            registers: true,
            ..self.setup(Arc::clone(&self.nothing), &meter)
        };
        let question = program.linked.adapted.register();
        let registering = async move { program.ask(setup, question).await };
        let registering = guest_time::within(time_max, registering);
        self.engine.long.run(meter, &self.habit, registering).await
    }
}

fn replaced(limits: &Limits) -> CallError {
    let time_max = humantime::format_duration(limits.drain_time_max);
    let message = format!(
        "stopped: its plugin was replaced or removed, and it did not end within `drain_time_max` of {time_max}; call it again"
    );
    CallError::new(Code::Deadline, message)
}
