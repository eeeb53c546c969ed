//! What would be trusted, for whoever decides.

use std::path::Path;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::inspect::{need_json, need_line};
use crate::problem::{location, shown};
use crate::ui::Ui;
use toolhost_core::text;
use toolhost_core::text::suspect::visible;
use toolhost_core::tool::{PluginId, SourceId};
use toolhost_sources::reload::{Ready, SourceStatus};
use toolhost_state::config::{PluginConfig, ServerConfig, Update};

/// A source, and its file if it has no name.
pub(super) fn name(status: &SourceStatus) -> String {
    match &status.source {
        Some(source) => source.to_string(),
        None => location(&status.location),
    }
}

/// A definition: its digest, what it asks for and has been granted, what to look at, what differs.
pub(crate) fn plugin(
    ui: &Ui,
    said: &PluginConfig,
    status: &SourceStatus,
    ready: &Ready,
) -> Result<(), Failure> {
    let line = |text: String| ui.line(&text::one_line(&text));
    line(format!("{}: {}", name(status), location(&status.location)))?;
    let facts = &ready.facts;
    let (title, version) = (visible(&facts.name), visible(&facts.version));
    line(format!("  digest   sha256:{}", facts.digest))?;
    let bytes = facts.plugin.as_ref().map(|plugin| format!(", {} bytes", plugin.bytes));
    line(format!("  made as  {title} {version}{}", bytes.unwrap_or_default()))?;
    let tools: Vec<&str> = ready.outline.tools.keys().map(String::as_str).collect();
    line(format!("  tools    {}", some(&tools.join(", "))))?;
    let needs: Vec<String> = ready.needs.iter().map(|need| visible(&need_line(need))).collect();
    line(format!("  asks for {}", some(needs.first().map(String::as_str).unwrap_or_default())))?;
    for need in needs.iter().skip(1) {
        line(format!("           {need}"))?;
    }
    line(format!("  granted  {}", some(&permitted(said))))?;
    let Some(pending) = &ready.pending else { return Ok(()) };
    line(format!("  pending  {}; {}", pending.why, pending.meanwhile))?;
    if !pending.suspicions.is_empty() {
        line("  look at:".to_owned())?;
    }
    for place in &pending.suspicions {
        line(format!("    ! {place}"))?;
    }
    if !pending.differences.is_empty() {
        line("  differs from the build before:".to_owned())?;
    }
    for difference in &pending.differences {
        line(format!("    {difference}"))?;
    }
    match pending.differences_count - pending.differences.len() {
        0 => Ok(()),
        more => line(format!("    and {more} more")),
    }
}

/// All that a file says a plugin may, as flags and keys.
fn permitted(said: &PluginConfig) -> String {
    let mut all = said.grants.flags();
    if said.allow_tool_override {
        all.push("allow_tool_override (it may replace tools of others)".to_owned());
    }
    if said.update == Update::SameNeeds {
        all.push(
            "update = \"same-needs\" (new bytes that ask for no more need no trust)".to_owned(),
        );
    }
    all.join(" ")
}

/// The id of a plugin.
pub(super) fn id(status: &SourceStatus) -> Option<&PluginId> {
    match status.source.as_ref()? {
        SourceId::Plugin { id, .. } => Some(id),
        _ => None,
    }
}

fn some(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text }
}

/// Lines of a project's file that are shown; a person reads the rest there.
const SHOWN_LINES_MAX: usize = 400;

/// A project's file, word for word: all of it counts once it is trusted.
pub(super) fn config(ui: &Ui, file: &Path, text: Option<&str>) -> Result<(), Failure> {
    let Some(text) = text else { return Ok(()) };
    let digest = toolhost_wasm::digest(text.as_bytes());
    ui.line(&format!("{}: sha256:{digest}", shown(file)))?;
    for line in text.lines().take(SHOWN_LINES_MAX) {
        ui.line(text::one_line(&format!("  | {}", visible(line))).trim_end())?;
    }
    match text.lines().count().saturating_sub(SHOWN_LINES_MAX) {
        0 => Ok(()),
        more => {
            ui.line(&format!("  and {more} more lines, which would count as well: read them there"))
        }
    }
}

/// A server: how it is started or reached. Values of variables and headers may be secret.
pub(super) fn server(ui: &Ui, name: &str, entry: &ServerConfig) -> Result<(), Failure> {
    let how = match &entry.url {
        Some(url) => format!("reached at {}", visible(url)),
        None => format!("started as `{}`", visible(&entry.command.join(" "))),
    };
    let names = |what: &str, names: Vec<&String>| match names.as_slice() {
        [] => String::new(),
        names => {
            let names: Vec<String> = names.iter().map(|name| visible(name)).collect();
            format!(", with {what} {}", names.join(", "))
        }
    };
    let env = names("variables", entry.env.keys().collect());
    let headers = names("header fields", entry.headers.keys().collect());
    ui.line(&text::one_line(&format!("mcp:{name} is {how}{env}{headers}")))
}

/// A plugin that was trusted.
pub(super) fn to_json(status: &SourceStatus, ready: &Ready) -> Value {
    let pending = ready.pending.as_ref();
    json!({
        "source": name(status),
        "file": location(&status.location),
        "digest": format!("sha256:{}", ready.facts.digest),
        "needs": ready.needs.iter().map(need_json).collect::<Vec<_>>(),
        "suspicions": pending.map(|pending| pending.suspicions.clone()).unwrap_or_default(),
        "differences": pending.map(|pending| pending.differences.clone()).unwrap_or_default(),
    })
}
