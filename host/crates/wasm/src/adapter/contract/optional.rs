//! The optional interfaces of a component: `availability`, `schema-override` and `hooks`.

use wasmtime::component::InstancePre;

use super::bindings::{availability, hooks, schema_override};
use crate::adapter::{GuestQuestion, Offers};
use crate::instance::Guest;
use toolhost_core::tool::{Decision, HookedCall, HookedOutcome};

/// Where the optional interfaces are in a component, if it exports them.
pub(super) struct Optional {
    availability: Option<availability::GuestIndices>,
    schema_override: Option<schema_override::GuestIndices>,
    hooks: Option<hooks::GuestIndices>,
}

/// Which of them a component with these exports has.
pub(super) fn offers(exports: &[String]) -> Offers {
    let has = |interface: &str| {
        let is_it = |name: &String| {
            name.strip_prefix(interface).is_some_and(|rest| rest.starts_with("@0.1."))
        };
        exports.iter().any(is_it)
    };
    Offers {
        availability: has("toolhost:plugin/availability"),
        schema_override: has("toolhost:plugin/schema-override"),
        hooks: has("toolhost:plugin/hooks"),
    }
}

/// Asks one function of an optional interface, if the component has that.
macro_rules! ask {
    ($indices:expr, $function:ident ( $($argument:expr),* )) => {{
        let indices = $indices.clone()?;
        Some(Box::new(move |instance| {
            Box::pin(async move {
                let exports = instance.exports()?;
                let guest = indices.load(&mut *instance, &exports)?;
                guest.$function(&mut *instance, $(&$argument),*).await
            })
        }))
    }};
}

impl Optional {
    /// Absent is no error, another shape is.
    pub(super) fn find(offers: Offers, pre: &InstancePre<Guest>) -> wasmtime::Result<Optional> {
        let Offers { availability, schema_override, hooks } = offers;
        Ok(Optional {
            availability: availability.then(|| availability::GuestIndices::new(pre)).transpose()?,
            schema_override: schema_override
                .then(|| schema_override::GuestIndices::new(pre))
                .transpose()?,
            hooks: hooks.then(|| hooks::GuestIndices::new(pre)).transpose()?,
        })
    }

    pub(super) fn check(&self, tool: String) -> Option<GuestQuestion<Result<(), String>>> {
        ask!(self.availability, call_check(tool))
    }

    pub(super) fn describe(
        &self,
        tool: String,
        visible: Vec<String>,
    ) -> Option<GuestQuestion<Option<String>>> {
        ask!(self.schema_override, call_describe(tool, visible))
    }

    pub(super) fn request(
        &self,
        call: HookedCall<'_>,
    ) -> Option<GuestQuestion<Result<Option<String>, String>>> {
        let call = hooked_call(call);
        ask!(self.hooks, call_request(call))
    }

    pub(super) fn pre_call(
        &self,
        call: HookedCall<'_>,
    ) -> Option<GuestQuestion<Result<Decision, String>>> {
        let (indices, call) = (self.hooks.clone()?, hooked_call(call));
        Some(Box::new(move |instance| {
            Box::pin(async move {
                let exports = instance.exports()?;
                let guest = indices.load(&mut *instance, &exports)?;
                Ok(guest.call_pre_call(&mut *instance, &call).await?.map(decision))
            })
        }))
    }

    pub(super) fn post_call(
        &self,
        call: HookedCall<'_>,
        outcome: HookedOutcome<'_>,
    ) -> Option<GuestQuestion<Result<(), String>>> {
        let (call, outcome) = (hooked_call(call), hooked_outcome(outcome));
        ask!(self.hooks, call_post_call(call, outcome))
    }

    pub(super) fn transform(
        &self,
        call: HookedCall<'_>,
        outcome: HookedOutcome<'_>,
    ) -> Option<GuestQuestion<Result<Option<String>, String>>> {
        let (call, outcome) = (hooked_call(call), hooked_outcome(outcome));
        ask!(self.hooks, call_transform(call, outcome))
    }
}

fn decision(decision: hooks::Decision) -> Decision {
    match decision {
        hooks::Decision::Allow => Decision::Allow,
        hooks::Decision::Block(message) => Decision::Block(message),
        hooks::Decision::Ask(question) => {
            Decision::Ask { message: question.message, rule_key: question.rule_key }
        }
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
