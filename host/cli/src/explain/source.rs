//! The first part of the chain: each source that has the tool, and what the registry made of it.

use super::{ExplainView, Section};
use crate::inspect::need_line;
use crate::problem::location;
use toolhost_core::tool::{Need, Origin, Reason, SourceId};
use toolhost_kernel::registry::SourceReport;
use toolhost_sources::driver::{Location, SourceFacts};
use toolhost_sources::reload::{Ready, SourceStatus};

/// The sources that declare the tool, whoever of them has the name; and copies of their files.
pub(super) fn sections(view: &ExplainView<'_>) -> Vec<Section> {
    let mut sections: Vec<Section> =
        view.sources.iter().filter_map(|status| of_status(view, status)).collect();
    // The host's own tools are no source's that is looked after.
    if let Some(entry) = view.catalog.find(view.name)
        && !view.sources.iter().any(|status| status.source.as_ref() == Some(&entry.source))
    {
        let steps = vec![("registered", format!("`{}` by {}", view.name, entry.source))];
        sections.push(Section { title: entry.source.to_string(), steps });
    }
    sections
}

/// What to change so that a tool gets its name which was left out everywhere.
pub(super) fn change(view: &ExplainView<'_>) -> Option<String> {
    let reasons = view.sources.iter().filter_map(|status| status.source.as_ref());
    let mut reasons = reasons.filter_map(|source| left_out(view, view.catalog.report(source)?));
    let Reason { problem, repair } = reasons.next()?;
    Some(repair.unwrap_or_else(|| format!("see to why it was left out ({problem})")))
}

fn of_status(view: &ExplainView<'_>, status: &SourceStatus) -> Option<Section> {
    let source = status.source.as_ref()?;
    let ready = status.kept.as_deref().or(status.state.as_ref().ok())?;
    let mut steps = vec![
        placed(&status.location, Some(ready)),
        ("digest", format!("sha256:{}", ready.facts.digest)),
    ];
    if status.kept.is_some() {
        let why = match &status.state {
            Ok(Ready { pending: Some(pending), .. }) => {
                format!("the new one waits: {}", pending.why)
            }
            Ok(_) => "the new one waits".to_owned(),
            Err(reason) => format!("the new one does not load: {reason}"),
        };
        steps.push(("kept build", why));
    }
    if let Some(twin) = &ready.same_as {
        // A copy counts as what it is a copy of.
        let twin_status = view.sources.iter().find(|status| status.location == *twin)?;
        declares(view, twin_status.source.as_ref()?).then_some(())?;
        steps.push(("not counted", format!("{} is the same plugin", location(twin))));
        return Some(Section { title: source.to_string(), steps });
    }
    let report = view.catalog.report(source)?;
    declares(view, source).then_some(())?;
    let facts = &ready.facts;
    let built = made(facts);
    steps.push((made_as(facts), built));
    match (report.replaced.get(view.name), left_out(view, report)) {
        (Some(by), Some(_)) => {
            steps.push(("replaced", format!("by the tool of the same name of {by}")));
        }
        (None, Some(reason)) if !report.tools.iter().any(|name| name == view.name) => {
            steps.push(("rejected", reason.to_string()));
        }
        _ => steps.push(("registered", format!("`{}` by {source}", view.name))),
    }
    steps.extend(authority(view, ready));
    Some(Section { title: source.to_string(), steps })
}

fn declares(view: &ExplainView<'_>, source: &SourceId) -> bool {
    let report = view.catalog.report(source);
    report.is_some_and(|report| {
        report.tools.iter().any(|name| name == view.name) || left_out(view, report).is_some()
    })
}

fn left_out(view: &ExplainView<'_>, report: &SourceReport) -> Option<Reason> {
    let rejection = report.rejected.iter().find(|rejection| rejection.tool == view.name)?;
    Some(rejection.reason.clone())
}

/// What the plugin asks for on behalf of the tool, and what it was granted.
fn authority(
    view: &ExplainView<'_>,
    ready: &Ready,
) -> impl Iterator<Item = (&'static str, String)> {
    let is_for_it =
        |need: &&Need| need.tools.is_empty() || need.tools.iter().any(|tool| tool == view.name);
    let asks: Vec<String> = ready.needs.iter().filter(is_for_it).map(need_line).collect();
    let grants = ready.granted.flags();
    let steps = [("asks for", listed(asks)), ("granted", listed(grants))];
    let idle = ready.grants.iter().map(|reason| ("gives nothing", reason.clone()));
    steps.into_iter().chain(idle.collect::<Vec<_>>())
}

/// What a definition says of itself.
pub(super) fn made(facts: &SourceFacts) -> String {
    let contract = facts.contract().map(|contract| format!(", built for contract {contract}"));
    format!("{} {}{}", facts.name, facts.version, contract.unwrap_or_default())
}

/// Texts in one line.
pub(super) fn listed(texts: Vec<String>) -> String {
    if texts.is_empty() { "nothing".to_owned() } else { texts.join("; ") }
}

/// What the step is called in which a definition says of itself what it is.
pub(super) fn made_as(facts: &SourceFacts) -> &'static str {
    if facts.plugin.is_some() { "plugin" } else { "definition" }
}

/// Where a source is, and whose that place is, if it has loaded.
pub(super) fn placed(at: &Location, ready: Option<&Ready>) -> (&'static str, String) {
    let step = if at.file().is_some() { "file" } else { "place" };
    let whose = ready.map(|ready| format!(" ({})", place(ready)));
    (step, format!("{}{}", location(at), whose.unwrap_or_default()))
}

fn place(ready: &Ready) -> &'static str {
    match ready.origin {
        Origin::Project if ready.trusted => "in a project's folder, trusted",
        Origin::Builtin => "the host's own",
        Origin::Bundled => "bundled with toolhost",
        Origin::User => "in the user's own folder",
        Origin::Project => "in a project's folder: untrusted, so it takes no name from another",
        Origin::Mcp => "an MCP server's",
    }
}
