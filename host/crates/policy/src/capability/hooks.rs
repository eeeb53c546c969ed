//! Hooks: which calls of others a plugin hears of.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Asks, Capability, Grant, GrantError, Grants, Kind, ToolNeeds, asks_for_key, needs_for, strings,
    words,
};
use toolhost_core::tool::{HookEvent, Need};

struct HooksKind;

impl Kind {
    /// Calls of other plugins' tools.
    pub const HOOKS: Kind = Kind(&HooksKind);
}

impl Capability for HooksKind {
    fn key(&self) -> &'static str {
        "hooks"
    }

    fn flag(&self) -> &'static str {
        "hook"
    }

    fn value_name(&self) -> Option<&'static str> {
        Some("EVENT:TOOL")
    }

    fn help(&self) -> &'static str {
        "Let it observe, change or stop calls of other plugins' tools. EVENT is request, \
         pre-call, post-call or transform; TOOL a name, or a prefix followed by `*`"
    }

    fn noun(&self) -> &'static str {
        "hook"
    }

    fn read(&self, text: &str, _: Option<&Path>) -> Result<Arc<dyn Grant>, GrantError> {
        Ok(Arc::new(HookGrant::parse(text)?))
    }

    fn may_guard(&self) -> bool {
        true
    }

    fn is_asked(&self, asks: &Asks<'_>) -> bool {
        asks.has_hooks && asks_for_key(asks.needs, self.key())
    }

    fn meets(&self, asks: &Asks<'_>, _: ToolNeeds<'_>, grant: &dyn Grant) -> bool {
        asks.has_hooks && grant.value().is_some_and(|grant| self::asks(asks.needs, grant))
    }

    fn lacking(&self, _: &Need, value: &Value, held: &Grants) -> Vec<String> {
        let (events, tools) = (strings(&value["events"]), strings(&value["tools"]));
        let pairs = events.iter().flat_map(|event| tools.iter().map(move |tool| (event, tool)));
        let lacks = |hook: &String| {
            // A grant of another pattern may well be what the operator wants.
            let is_held =
                |hook: &HookGrant| held.of::<HookGrant>().any(|held| held.event == hook.event);
            HookGrant::parse(hook).is_ok_and(|hook| !is_held(&hook))
        };
        pairs.map(|(event, tool)| format!("{event}:{tool}")).filter(lacks).collect()
    }

    fn need_words(&self, value: &Map<String, Value>) -> Option<(String, usize)> {
        let tools = words::list(value.get("tools")?, "every tool")?;
        let may = |event: &Value| {
            Some(match event.as_str()? {
                "request" => "to replace the arguments of",
                "pre-call" => "to refuse",
                "post-call" => "to hear of the end of",
                "transform" => "to replace the answers of",
                _ => return None,
            })
        };
        let may: Option<Vec<&str>> = value.get("events")?.as_array()?.iter().map(may).collect();
        let may = may.filter(|may| !may.is_empty())?.join(", ");
        Some((format!("{may} calls of {tools}"), 2))
    }

    fn used_by_export(&self) -> Option<&'static str> {
        Some("toolhost:plugin/hooks@")
    }

    fn can_be_probed(&self) -> bool {
        false
    }

    fn is_of_use_without_tools(&self) -> bool {
        true
    }
}

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
            return Err(error("after the `:` comes a tool's name, or a prefix followed by `*`"));
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
pub fn hears(needs: &[Need], granted: &Grants, event: HookEvent, tool: &str) -> bool {
    let asks = |need: HooksNeed| {
        need.events.iter().any(|name| name == event.as_str())
            && need.tools.iter().any(|pattern| fits(pattern, tool))
    };
    granted.of::<HookGrant>().any(|grant| grant.event == event && fits(&grant.tools, tool))
        && needs_for::<HooksNeed>(needs, Kind::HOOKS.key(), "").any(asks)
}

/// Tells whether a plugin asks to hear of something that a grant is for.
fn asks(needs: &[Need], grant: &HookGrant) -> bool {
    // Of two beginnings, one begins with the other, or nothing begins with both.
    let begins = |pattern: &str| pattern.strip_suffix('*').map(str::to_owned);
    let meets = |pattern: &String| match (begins(pattern), begins(&grant.tools)) {
        (Some(one), Some(other)) => one.starts_with(&other) || other.starts_with(&one),
        (Some(_), None) => fits(pattern, &grant.tools),
        (None, _) => fits(&grant.tools, pattern),
    };
    needs_for::<HooksNeed>(needs, Kind::HOOKS.key(), "").any(|need| {
        need.events.iter().any(|name| name == grant.event.as_str()) && need.tools.iter().any(meets)
    })
}
