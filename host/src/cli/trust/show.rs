//! What would be trusted, for whoever decides.

use std::path::Path;

use serde_json::{Value, json};

use crate::authority::Grants;
use crate::cli::failure::Failure;
use crate::cli::inspect::{need_json, need_line};
use crate::cli::problem::shown;
use crate::cli::ui::Ui;
use crate::config::{Config, ServerConfig};
use crate::reload::{Ready, SourceStatus};
use crate::text;
use crate::text::suspect::visible;
use crate::tool::SourceId;

/// A source, and its file if it has no name.
pub(super) fn name(status: &SourceStatus) -> String {
    match &status.source {
        Some(source) => source.to_string(),
        None => shown(&status.path),
    }
}

/// A plugin: its bytes, what it asks for and has been granted, what to look at, what differs.
pub(super) fn plugin(
    ui: &Ui,
    config: &Config,
    status: &SourceStatus,
    ready: &Ready,
) -> Result<(), Failure> {
    let line = |text: String| ui.line(&text::one_line(&text));
    line(format!("{}: {}", name(status), shown(&status.path)))?;
    let facts = &ready.facts;
    let (title, version) = (visible(&facts.name), visible(&facts.version));
    line(format!("  digest   sha256:{}", facts.digest))?;
    line(format!("  made as  {title} {version}, {} bytes", facts.bytes))?;
    let tools: Vec<&str> = ready.outline.tools.keys().map(String::as_str).collect();
    line(format!("  tools    {}", some(&tools.join(", "))))?;
    let needs: Vec<String> = ready.needs.iter().map(|need| visible(&need_line(need))).collect();
    line(format!("  asks for {}", some(needs.first().map(String::as_str).unwrap_or_default())))?;
    for need in needs.iter().skip(1) {
        line(format!("           {need}"))?;
    }
    let flags = granted(config, status).flags();
    line(format!("  granted  {}", some(&flags.join(" "))))?;
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

fn granted(config: &Config, status: &SourceStatus) -> Grants {
    match &status.source {
        Some(SourceId::Plugin { id, folder }) => config.plugin(id, folder).grants,
        _ => Grants::default(),
    }
}

fn some(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text }
}

/// What a project's file says that counts once it is trusted, besides grants of its plugins.
pub(super) fn config(
    ui: &Ui,
    file: &Path,
    text: Option<&str>,
    config: &Config,
    plugins: &[(&SourceStatus, &Ready)],
) -> Result<(), Failure> {
    let Some(text) = text else { return Ok(()) };
    let digest = crate::plugin::digest(text.as_bytes());
    ui.line(&format!("{}: sha256:{digest}", shown(file)))?;
    for (id, settings) in &config.plugins {
        let is_here = plugins.iter().any(|(status, _)| {
            matches!(&status.source, Some(SourceId::Plugin { id: known, .. }) if known == id)
        });
        let whose = if is_here { "" } else { " (which is not here now)" };
        let mut all = settings.grants.flags();
        if settings.allow_tool_override {
            all.push("allow_tool_override".to_owned());
        }
        ui.line(&text::one_line(&format!("  plugin:{id}{whose} has {}", some(&all.join(" ")))))?;
    }
    for (name, entry) in &config.servers {
        server(ui, name, entry)?;
    }
    Ok(())
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
        "file": shown(&status.path),
        "digest": format!("sha256:{}", ready.facts.digest),
        "needs": ready.needs.iter().map(need_json).collect::<Vec<_>>(),
        "suspicions": pending.map(|pending| pending.suspicions.clone()).unwrap_or_default(),
        "differences": pending.map(|pending| pending.differences.clone()).unwrap_or_default(),
    })
}
