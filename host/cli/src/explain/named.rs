//! What else than a tool has a name: a toolset, a plugin, or an MCP server.

use std::collections::BTreeSet;

use super::source::{listed, made, made_as, placed};
use super::{ExplainView, Section};
use crate::inspect::need_line;
use crate::problem::{location, state};
use toolhost_sources::reload::SourceStatus;

/// What has the name besides a tool.
pub(super) fn sections(view: &ExplainView<'_>) -> Vec<Section> {
    let plugins = view.sources.iter().filter(|status| is_called(status, view.name));
    let mut sections: Vec<Section> = plugins.map(|status| plugin(view, status)).collect();
    if view.toolsets().is_known(view.name) {
        sections.push(toolset(view));
    }
    let server = view.name.strip_prefix("mcp:").unwrap_or(view.name);
    if view.host.config().servers.contains_key(server) {
        let steps = vec![
            ("configured", format!("[mcp_servers.{server}] in toolhost.toml")),
            ("tools", "none: this version does not mount MCP servers".to_owned()),
        ];
        sections.push(Section { title: format!("mcp:{server}"), steps });
    }
    sections
}

/// Everything that can be explained besides tools.
pub(super) fn names(view: &ExplainView<'_>) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = view.toolsets().names().into_iter().collect();
    names.extend(view.sources.iter().filter_map(id));
    names.extend(view.host.config().servers.keys().cloned());
    names
}

fn id(status: &SourceStatus) -> Option<String> {
    let source = status.source.as_ref()?;
    Some(source.plugin().map_or_else(|| source.to_string(), |(id, _)| id.to_string()))
}

/// By its id, by what `list` shows, by the words that commands take, or by its file.
fn is_called(status: &SourceStatus, name: &str) -> bool {
    id(status).is_some_and(|id| name == id || name.strip_prefix("plugin:") == Some(&*id))
        || status.words == name
        || status.location.short() == name
        || location(&status.location) == name
}

fn plugin(view: &ExplainView<'_>, status: &SourceStatus) -> Section {
    let title = match &status.source {
        Some(source) => source.to_string(),
        None => "a file that is no plugin".to_owned(),
    };
    let mut steps = vec![("state", state(view.host, status))];
    let ready = status.kept.as_deref().or(status.state.as_ref().ok());
    steps.insert(0, placed(&status.location, ready));
    match &status.state {
        Err(failed) => steps.push(("why", failed.to_string())),
        Ok(ready) => {
            let pending = ready.pending.as_ref();
            steps.extend(
                pending.map(|pending| ("waits", format!("{}; {}", pending.why, pending.meanwhile))),
            );
        }
    }
    if let Some(ready) = ready {
        let facts = &ready.facts;
        steps.push(("digest", format!("sha256:{}", facts.digest)));
        let built = made(facts);
        steps.push((made_as(facts), built));
        if let Some(report) = status.source.as_ref().and_then(|source| view.catalog.report(source))
        {
            steps.push(("tools", listed(report.tools.iter().map(ToString::to_string).collect())));
            let left_out = report.rejected.iter();
            steps.extend(left_out.map(|rejection| {
                ("left out", format!("{}: {}", rejection.tool, rejection.reason))
            }));
        }
        steps.push(("asks for", listed(ready.needs.iter().map(need_line).collect())));
        steps.push(("granted", listed(ready.granted.flags())));
        steps.extend(ready.grants.iter().map(|reason| ("gives nothing", reason.clone())));
    }
    Section { title, steps }
}

fn toolset(view: &ExplainView<'_>) -> Section {
    let has = |tool: &&String| view.catalog.find(tool).is_some();
    let tools = view.toolsets().resolve(view.name);
    let (here, missing): (Vec<&String>, Vec<&String>) = tools.iter().partition(has);
    let in_session: Vec<String> = here
        .iter()
        .filter(|tool| view.listed.names.iter().any(|name| name == **tool))
        .map(|tool| (*tool).clone())
        .collect();
    let of = |tool: &&String| {
        let entry = view.catalog.find(tool);
        entry.map_or_else(|| (*tool).clone(), |entry| format!("{tool} of {}", entry.source))
    };
    let steps = vec![
        ("tools", listed(here.iter().map(of).collect())),
        ("nobody provides", listed(missing.into_iter().cloned().collect())),
        ("listed", listed(in_session)),
    ];
    Section { title: format!("toolset {}", view.name), steps }
}
