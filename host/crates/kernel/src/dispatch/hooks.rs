//! The hooks around one call: asked one after the other, and a human where one of them wants.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::registry::{Catalog, Entry};
use crate::session::Session;
use toolhost_core::limits::Limits;
use toolhost_core::text;
use toolhost_core::tool::{
    Approval, CallError, Caller, Code, Content, Decision, HookEvent, HookedCall, HookedOutcome,
    Hooks, Meter, Question, SourceId, ToolOutput,
};

/// What a hook wants a human to be asked.
pub(super) struct Asked {
    /// What a "yes, for this session" is remembered for.
    key: String,
    asker: String,
    message: String,
}

/// The hooks that hear of the calls of one tool.
pub(super) struct Hooked<'a> {
    tool: &'a str,
    source: String,
    caller: &'a Caller,
    hooks: Vec<(&'a SourceId, &'a Arc<dyn Hooks>)>,
    meter: &'a Meter,
    used_max: usize,
}

impl<'a> Hooked<'a> {
    /// None hear of the tools of a source that has hooks itself.
    pub(super) fn find(
        catalog: &'a Catalog,
        entry: &'a Entry,
        caller: &'a Caller,
        meter: &'a Meter,
        limits: &Limits,
    ) -> Hooked<'a> {
        let all = catalog.hooks();
        let is_hook =
            all.iter().any(|(source, hooks)| *source == entry.source && !hooks.are_missing());
        let all = if is_hook { &[][..] } else { all };
        let hooks: Vec<_> = all.iter().map(|(source, hooks)| (source, hooks)).collect();
        // Most calls have no hook, and then nothing is made.
        let source = if hooks.is_empty() { String::new() } else { entry.source.to_string() };
        let used_max = limits.audit_used_max.0;
        Hooked { tool: entry.tool.spec().name.as_str(), source, caller, hooks, meter, used_max }
    }

    fn hearing(&self, event: HookEvent) -> impl Iterator<Item = (&SourceId, &dyn Hooks)> {
        self.hooks
            .iter()
            .filter(move |(_, hooks)| hooks.hears(event, self.tool))
            .map(|(source, hooks)| (*source, &***hooks))
    }

    /// What a hook is told of the call; that it is told something is authority in use.
    fn call<'b>(
        &'b self,
        event: HookEvent,
        source: &SourceId,
        arguments: &'b str,
    ) -> HookedCall<'b> {
        self.meter.used(format!("hooks:{event} of {source}"), self.used_max);
        HookedCall { tool: self.tool, source: &self.source, arguments, caller: self.caller }
    }

    /// Lets hooks replace the arguments; each sees what the one before left. Returns other
    /// arguments, if there are any.
    pub(super) async fn request(&self, arguments: &str) -> Result<Option<String>, CallError> {
        let mut replaced: Option<String> = None;
        for (source, hooks) in self.hearing(HookEvent::Request) {
            let arguments = replaced.as_deref().unwrap_or(arguments);
            let call = self.call(HookEvent::Request, source, arguments);
            let answer = hooks.request(call).await;
            let answer = answer.map_err(|reason| silent(source, HookEvent::Request, &reason))?;
            replaced = answer.or(replaced);
        }
        Ok(replaced)
    }

    /// Asks every hook whether the call may run; one that stops it is enough. Returns what a
    /// human is to be asked first.
    pub(super) async fn pre_call(&self, arguments: &str) -> Result<Vec<Asked>, CallError> {
        let mut asked = Vec::new();
        for (source, hooks) in self.hearing(HookEvent::PreCall) {
            let decision = hooks.pre_call(self.call(HookEvent::PreCall, source, arguments)).await;
            match decision.map_err(|reason| silent(source, HookEvent::PreCall, &reason))? {
                Decision::Allow => {}
                Decision::Block(message) => {
                    return Err(CallError::new(Code::Denied, text::sanitized(&message))
                        .with("by", source.to_string()));
                }
                Decision::Ask { message, rule_key } => {
                    let key = approval_key(source, self.tool, &message, rule_key.as_deref());
                    let asker = source.to_string();
                    asked.push(Asked { key, asker, message: text::printable(&message) });
                }
            }
        }
        Ok(asked)
    }

    /// Asks a human. `is_new` arguments are approved again, whatever was approved before.
    pub(super) async fn approve(
        &self,
        session: &Session,
        asked: Asked,
        arguments: &str,
        is_new: bool,
        time_max: Duration,
    ) -> Result<(), CallError> {
        let Asked { key, asker, message } = asked;
        // Two questions side by side would get each other's answers.
        let _question = session.one_question().await;
        if !is_new && session.is_approved(&key) {
            return Ok(());
        }
        let question = Question { tool: self.tool, arguments, asker: &asker, message: &message };
        ask(session, question, key, time_max).await
    }

    /// Lets hooks hear of the end of a call; returns its answer, which they may have replaced.
    pub(super) async fn after(
        &self,
        arguments: &str,
        result: Result<ToolOutput, CallError>,
        duration: Duration,
        output_bytes_max: usize,
    ) -> Result<ToolOutput, CallError> {
        let hears = |event| self.hearing(event).next().is_some();
        if !hears(HookEvent::PostCall) && !hears(HookEvent::Transform) {
            return result;
        }
        let (code, text) = match &result {
            Ok(output) => (None, output.to_json_text()),
            Err(error) => (Some(error.code), error.to_json().to_string()),
        };
        let outcome = HookedOutcome { code, result: &text, duration };
        for (source, hooks) in self.hearing(HookEvent::PostCall) {
            if let Err(reason) =
                hooks.post_call(self.call(HookEvent::PostCall, source, arguments), outcome).await
            {
                tracing::warn!("the hook `post-call` of {source} failed: {reason}");
            }
        }
        if code.is_some() {
            return result;
        }
        for (source, hooks) in self.hearing(HookEvent::Transform) {
            match hooks.transform(self.call(HookEvent::Transform, source, arguments), outcome).await
            {
                Ok(None) => {}
                Ok(Some(text)) if text.len() <= output_bytes_max => {
                    let content = vec![Content::Text(text)];
                    return Ok(ToolOutput { content, ..ToolOutput::default() });
                }
                Ok(Some(text)) => tracing::warn!(
                    "the hook `transform` of {source} returned {} bytes, more than `output_bytes_max` of {output_bytes_max}; the answer stays as it was",
                    text.len()
                ),
                Err(reason) => tracing::warn!(
                    "the hook `transform` of {source} failed, the answer stays as it was: {reason}"
                ),
            }
        }
        result
    }
}

/// A hook gave no answer, so the call is refused. The reason is for the log.
fn silent(source: &SourceId, event: HookEvent, reason: &str) -> CallError {
    tracing::warn!("the hook `{event}` of {source} failed, the call is refused: {reason}");
    let message = format!(
        "the hook `{event}` of {source} gave no answer, so the call is refused; `toolhost doctor` says what is wrong with it, and `toolhost revoke` takes it away"
    );
    CallError::new(Code::Denied, message).with("by", source.to_string()).with_log(reason)
}

/// What a "yes, for this session" is remembered for.
fn approval_key(source: &SourceId, tool: &str, message: &str, rule_key: Option<&str>) -> String {
    match rule_key {
        Some(key) => format!("plugin_rule:{source}:{key}"),
        None => {
            let mut hash = String::new();
            for byte in &Sha256::digest(message.as_bytes())[..6] {
                let _ = write!(hash, "{byte:02x}");
            }
            format!("plugin_rule:{source}:{tool}:{hash}")
        }
    }
}

/// Asks a human. Nobody there, and no answer in time, is a no.
async fn ask(
    session: &Session,
    question: Question<'_>,
    key: String,
    time_max: Duration,
) -> Result<(), CallError> {
    let message = text::sanitized(question.message);
    let denied = |why: String| {
        Err(CallError::new(Code::Denied, why)
            .with("by", question.asker)
            .with("question", &*message))
    };
    let Some(approver) = session.approver() else {
        return denied(format!(
            "`{}` needs a human's approval, and there is nobody to ask, so it is refused",
            question.tool
        ));
    };
    match tokio::time::timeout(time_max, approver.ask(question)).await {
        Ok(Approval::Once) => Ok(()),
        Ok(Approval::Session) => {
            session.approve(key);
            Ok(())
        }
        Ok(Approval::Denied { reason }) => {
            let reason = reason.map(|reason| format!(" Reason given by the user: \"{reason}\"."));
            denied(format!(
                "BLOCKED: `{}` was denied by the user.{} Do NOT retry it.",
                question.tool,
                reason.unwrap_or_default()
            ))
        }
        Err(_) => denied(format!(
            "BLOCKED: nobody answered within `approval_time_max` of {}. Silence is not consent. Do NOT retry `{}`.",
            humantime::format_duration(time_max),
            question.tool
        )),
    }
}
