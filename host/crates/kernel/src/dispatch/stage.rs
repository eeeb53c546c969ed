//! What a call has become after each stage of dispatch. Only the stage before can make one, so what was
//! checked is what was approved, and what was approved is what runs.

use std::time::Instant;

use super::arguments::GivenArguments;
use super::hooks::{Asked, Hooked};
use super::note::RunningCall;
use super::order::OrderPlace;
use super::permits::Permit;
use crate::quarantine::Watch;
use crate::registry::Entry;
use crate::session::Session;
use toolhost_core::tool::{CallError, ToolOutput};
use toolhost_policy::guardrails::Signature;

/// `resolve`: a tool that the session has and that can work, and the hooks that hear of its calls.
pub(super) struct Resolved<'a> {
    pub(super) session: &'a Session,
    pub(super) running: &'a RunningCall,
    pub(super) entry: &'a Entry,
    pub(super) hooked: Hooked<'a>,
    pub(super) place: OrderPlace,
    pub(super) started: Instant,
}

/// `check`: the arguments fit the tool, and no hook stops the call.
pub(super) struct Checked<'a> {
    pub(super) resolved: Resolved<'a>,
    pub(super) arguments: GivenArguments,
    /// What a human is to be asked first.
    pub(super) questions: Questions,
}

/// What hooks want a human to be asked.
#[derive(Default)]
pub(super) struct Questions {
    pub(super) asked: Vec<Asked>,
    /// A hook has replaced the arguments: they are approved again, whatever was approved before.
    pub(super) are_new: bool,
}

/// `admit`: no guardrail refuses the call, a human approved where one was to be asked, and it has a
/// permit. It holds the permit until it has run.
pub(super) struct Admitted<'a> {
    pub(super) resolved: Resolved<'a>,
    pub(super) arguments: GivenArguments,
    pub(super) signature: Option<Signature<'a>>,
    pub(super) permit: Permit<'a>,
    pub(super) watch: Watch<'a>,
}

/// `run`, or a refusal of a stage before: what `finish` makes an outcome of.
pub(super) struct Ran<'a> {
    pub(super) resolved: Resolved<'a>,
    pub(super) arguments: GivenArguments,
    /// By what guardrails count the call; none where one of them refused it.
    pub(super) signature: Option<Signature<'a>>,
    pub(super) result: Result<ToolOutput, CallError>,
}

impl<'a> Resolved<'a> {
    /// The tool's name.
    pub(super) fn tool(&self) -> &'a str {
        self.entry.tool.spec().name.as_str()
    }

    /// Which call it is to the guardrails. From here on the arguments are text alone.
    pub(super) fn signature(&self, arguments: &mut GivenArguments) -> Option<Signature<'a>> {
        self.session.signature(self.tool(), &arguments.take_value())
    }

    /// Ends the call before it has run; guardrails count it.
    pub(super) fn refused(self, mut arguments: GivenArguments, error: CallError) -> Box<Ran<'a>> {
        let signature = self.signature(&mut arguments);
        Box::new(Ran { resolved: self, arguments, signature, result: Err(error) })
    }
}
