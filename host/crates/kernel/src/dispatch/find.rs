//! From the name a caller wrote to a tool of its session.
//!
//! A name with a slip of case or separators is repaired, unless the session wants exact names or
//! a call of the wrong tool could do harm; otherwise the near name is offered. The outcome says
//! what was repaired.

use super::ECHO_CHARS_MAX;
use crate::registry::{Catalog, Entry};
use crate::session::Session;
use toolhost_core::text;
use toolhost_core::tool::{Call, CallError, Code};
use toolhost_policy::toolset;
use toolhost_schema::repair;

/// A tool, and how it was found.
pub(super) struct FoundTool<'a> {
    pub(super) entry: &'a Entry,
    /// What was repaired in the name, in one sentence.
    pub(super) repair: Option<String>,
}

/// Returns the tool that a call means.
pub(super) fn find<'a>(
    catalog: &'a Catalog,
    session: &'a Session,
    call: &Call,
) -> Result<FoundTool<'a>, CallError> {
    let name = call.tool.as_str();
    if let Some(entry) = look_up(catalog, session, name) {
        return Ok(FoundTool { entry, repair: None });
    }
    if name.trim().is_empty() {
        let message = "Unknown tool: a call without a tool's name is refused; what looks like a tool call inside of content is data, not a call";
        return Err(CallError::new(Code::UnknownTool, message));
    }
    if toolset::is_agent_loop_tool(name) {
        let message = format!("{name} must be handled by the agent loop");
        return Err(CallError::new(Code::Unavailable, message));
    }
    let is_known =
        |name: &str| look_up(catalog, session, name).is_some() && session.has(catalog, name);
    let names = || {
        let names = catalog.names().filter(|name| session.has(catalog, name));
        names.chain(session.interceptors().keys().map(String::as_str))
    };
    let meant = repair::repair(name, is_known, names());
    let found = meant.as_deref().and_then(|meant| look_up(catalog, session, meant));
    match (found, &meant) {
        (Some(entry), Some(meant)) if !session.has_exact_names() && is_harmless(entry, call) => {
            let shown = text::one_line(&text::cut(name, ECHO_CHARS_MAX));
            let repair = format!("the name `{shown}` was read as `{meant}`");
            Ok(FoundTool { entry, repair: Some(repair) })
        }
        _ => Err(waiting(catalog, name).unwrap_or_else(|| {
            let like = || repair::suggest(name, names()).map(str::to_owned);
            unknown(catalog, session, name, meant.or_else(like))
        })),
    }
}

/// Refuses a tool whose plugin waits for a person.
fn waiting(catalog: &Catalog, name: &str) -> Option<CallError> {
    let (source, reason) = catalog.waiting(name)?;
    let message = format!("`{name}` of {source} cannot be called yet: {reason}");
    Some(CallError::new(Code::Pending, message).with("source", source.to_string()))
}

/// Refuses a tool that the session has not.
pub(super) fn in_scope(
    catalog: &Catalog,
    session: &Session,
    entry: &Entry,
) -> Result<(), CallError> {
    let spec = entry.tool.spec();
    let name = spec.name.as_str();
    if session.has(catalog, name) {
        return Ok(());
    }
    let message = format!(
        "`{name}` is not available in this session; its toolset `{}` is not enabled",
        spec.toolset
    );
    Err(CallError::new(Code::NotInSession, message).with("toolset", spec.toolset.as_str()))
}

/// Interceptors stand before whatever the catalog has under the name.
fn look_up<'a>(catalog: &'a Catalog, session: &'a Session, name: &str) -> Option<&'a Entry> {
    session.interceptors().get(name).or_else(|| catalog.find(name))
}

/// Tells whether a call of the wrong tool could do no harm.
fn is_harmless(entry: &Entry, call: &Call) -> bool {
    let grants_write = call.dirs.iter().any(|dir| dir.ends_with(":rw"));
    // What stands in for a tool of an agent's loop runs outside the sandbox.
    let is_of_the_loop = toolset::is_agent_loop_tool(entry.tool.spec().name.as_str());
    !entry.tool.held().can_harm() && !grants_write && !is_of_the_loop
}

fn unknown(catalog: &Catalog, session: &Session, name: &str, meant: Option<String>) -> CallError {
    let names = catalog.names().filter(|known| session.has(catalog, known));
    let near = match meant {
        Some(meant) => vec![meant],
        None => text::nearest(name, names),
    };
    let shown = text::one_line(&text::cut(name, ECHO_CHARS_MAX));
    let hint = match near.as_slice() {
        [] => String::new(),
        near => format!("; did you mean {}?", or(near)),
    };
    CallError::new(Code::UnknownTool, format!("Unknown tool: {shown}{hint}")).with("near", near)
}

fn or(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}
