//! Hooks as the host sees them: who hears of a call, and what may come back. Values only.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Caller, Code};

/// A moment of a call at which a hook can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    /// Before the arguments are checked; may replace them.
    Request,
    /// After the arguments were checked; may refuse the call or have a human asked.
    PreCall,
    /// After the call; only hears.
    PostCall,
    /// After a call that was answered; may replace the answer.
    Transform,
}

impl HookEvent {
    /// All events, in the order in which a call meets them.
    pub const ALL: [HookEvent; 4] =
        [HookEvent::Request, HookEvent::PreCall, HookEvent::PostCall, HookEvent::Transform];

    /// The event's name in needs and grants.
    pub fn as_str(self) -> &'static str {
        match self {
            HookEvent::Request => "request",
            HookEvent::PreCall => "pre-call",
            HookEvent::PostCall => "post-call",
            HookEvent::Transform => "transform",
        }
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for HookEvent {
    type Err = ();

    fn from_str(name: &str) -> Result<HookEvent, ()> {
        HookEvent::ALL.into_iter().find(|event| event.as_str() == name).ok_or(())
    }
}

/// The call that a hook is asked about.
#[derive(Clone, Copy, Debug)]
pub struct HookedCall<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Where the tool comes from, such as `plugin:files`.
    pub source: &'a str,
    /// The arguments at this point: the JSON text of an object.
    pub arguments: &'a str,
    /// Who asks.
    pub caller: &'a Caller,
}

/// What became of a call, for hooks.
#[derive(Clone, Copy, Debug)]
pub struct HookedOutcome<'a> {
    /// The error's code; absent if the tool answered.
    pub code: Option<Code>,
    /// What the model reads: JSON text.
    pub result: &'a str,
    /// How long the call took.
    pub duration: Duration,
}

/// What a `pre-call` hook decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The call goes on.
    Allow,
    /// The call is refused, with a text for the model.
    Block(String),
    /// A human is asked.
    Ask {
        /// Why, in one sentence.
        message: String,
        /// What a "yes, for this session" is remembered for.
        rule_key: Option<String>,
    },
}

/// A source's hooks. Each function ends within the source's own time limit, and its error says
/// in one sentence what went wrong.
///
/// # Cancel safety
/// Dropping a future stops the hook.
pub trait Hooks: Send + Sync {
    /// Tells whether the source asked for, and was granted, to hear of this.
    fn hears(&self, event: HookEvent, tool: &str) -> bool;

    /// Tells whether these stand for hooks that were granted and are not there.
    fn are_missing(&self) -> bool {
        false
    }

    /// Returns other arguments, as the JSON text of an object, or none.
    fn request<'a>(&'a self, call: HookedCall<'a>)
    -> BoxFuture<'a, Result<Option<String>, String>>;

    /// Decides whether a call runs.
    fn pre_call<'a>(&'a self, call: HookedCall<'a>) -> BoxFuture<'a, Result<Decision, String>>;

    /// Hears of the end of a call.
    fn post_call<'a>(
        &'a self,
        call: HookedCall<'a>,
        outcome: HookedOutcome<'a>,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Returns a text in place of an answer, or none.
    fn transform<'a>(
        &'a self,
        call: HookedCall<'a>,
        outcome: HookedOutcome<'a>,
    ) -> BoxFuture<'a, Result<Option<String>, String>>;
}
