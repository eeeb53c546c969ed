//! Hooks: which calls of others a plugin hears of.

use std::fmt;

use serde::Deserialize;

use super::{GrantError, needs_for};
use toolhost_core::tool::{HookEvent, Need};

/// An event of calls of certain tools that an operator lets a plugin hear of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HookGrant {
    /// The event.
    pub event: HookEvent,
    /// A tool's name, or the beginning of names followed by `*`.
    pub tools: String,
}

impl HookGrant {
    /// Reads a grant written `EVENT:TOOL`.
    ///
    /// # Errors
    /// If the event is unknown, or the tool is no name and no beginning of one.
    pub fn parse(text: &str) -> Result<HookGrant, GrantError> {
        let error = |problem| {
            let shape = "EVENT:TOOL, such as pre-call:* or transform:web_*; events are request, pre-call, post-call, transform";
            GrantError::new(text, "hook", problem, shape)
        };
        let (event, tools) = text.split_once(':').ok_or(error("it has no `:`"))?;
        let event = event.parse().map_err(|()| error("there is no such event"))?;
        let name = tools.strip_suffix('*').unwrap_or(tools);
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if tools.is_empty() || !name.bytes().all(allowed) {
            return Err(error(
                "after the `:` stands a tool's name, or the beginning of one and `*`",
            ));
        }
        Ok(HookGrant { event, tools: tools.to_owned() })
    }
}

impl fmt::Display for HookGrant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.event, self.tools)
    }
}

/// The value of a need of kind `hooks`.
#[derive(Debug, Deserialize)]
struct HooksNeed {
    events: Vec<String>,
    tools: Vec<String>,
}

/// Tells whether `pattern`, a name or the beginning of names followed by `*`, fits `name`.
pub fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

/// Tells whether a plugin both asked for and was granted to hear of an event of a tool.
pub fn hears(needs: &[Need], granted: &[HookGrant], event: HookEvent, tool: &str) -> bool {
    let asks = |need: HooksNeed| {
        need.events.iter().any(|name| name == event.as_str())
            && need.tools.iter().any(|pattern| fits(pattern, tool))
    };
    granted.iter().any(|grant| grant.event == event && fits(&grant.tools, tool))
        && needs_for::<HooksNeed>(needs, "hooks", "").any(asks)
}

/// Tells whether a plugin asks to hear of something that a grant is for.
pub(super) fn asks(needs: &[Need], grant: &HookGrant) -> bool {
    // Of two beginnings, one begins with the other, or nothing begins with both.
    let begins = |pattern: &str| pattern.strip_suffix('*').map(str::to_owned);
    let meets = |pattern: &String| match (begins(pattern), begins(&grant.tools)) {
        (Some(one), Some(other)) => one.starts_with(&other) || other.starts_with(&one),
        (Some(_), None) => fits(pattern, &grant.tools),
        (None, _) => fits(&grant.tools, pattern),
    };
    needs_for::<HooksNeed>(needs, "hooks", "").any(|need| {
        need.events.iter().any(|name| name == grant.event.as_str()) && need.tools.iter().any(meets)
    })
}
