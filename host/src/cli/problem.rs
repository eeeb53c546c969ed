//! What is not in order with files, tools and grants, for every command that shows it.

use std::path::Path;

use serde_json::{Value, json};

use super::failure::Failure;
use super::ui::Ui;
use crate::registry::Catalog;
use crate::reload::{Ready, SourceStatus};
use crate::text;
use crate::tool::{Origin, Rejection, SourceId};

/// One thing that is not in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The file, the tool, or the toolset.
    pub(super) place: String,
    /// Why, and what to do.
    pub(super) reason: String,
}

impl Problem {
    pub(super) fn new(place: impl Into<String>, reason: impl Into<String>) -> Problem {
        Problem { place: place.into(), reason: reason.into() }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "place": self.place, "reason": self.reason })
    }
}

/// Prints problems under a heading, or nothing if there are none.
pub(super) fn print(ui: &Ui, heading: &str, problems: &[Problem]) -> Result<(), Failure> {
    if problems.is_empty() {
        return Ok(());
    }
    ui.line(&format!("\n{heading}"))?;
    for Problem { place, reason } in problems {
        ui.line(&format!("  {}", text::one_line(&format!("{place}: {reason}"))))?;
    }
    Ok(())
}

/// Files that are no plugins, and folders that cannot be read.
pub(super) fn not_loaded(sources: &[SourceStatus]) -> Vec<Problem> {
    let problem = |status: &SourceStatus| {
        Some(Problem::new(shown(&status.path), status.state.as_ref().err()?))
    };
    sources.iter().filter_map(problem).collect()
}

/// Grants that give nothing.
pub(super) fn idle_grants(sources: &[SourceStatus]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for status in sources {
        if let (Some(source), Ok(Ready { grants, .. })) = (&status.source, &status.state) {
            problems.extend(grants.iter().map(|reason| Problem::new(source.to_string(), reason)));
        }
    }
    problems
}

/// Tools that sources declared and that are none. `replaced` chooses those which the operator
/// lets another source replace, or else all others.
pub(super) fn left_out(
    sources: &[SourceStatus],
    catalog: &Catalog,
    replaced: bool,
) -> Vec<Problem> {
    let mut ids: Vec<&SourceId> =
        sources.iter().filter_map(|status| status.source.as_ref()).collect();
    ids.sort();
    ids.dedup();
    let of_source = |source: &SourceId| {
        let report = catalog.report(source)?;
        let chosen = |rejection: &&Rejection| report.replaced.contains(&rejection.tool) == replaced;
        let problem = |rejection: &Rejection| {
            Problem::new(format!("{source} `{}`", rejection.tool), &rejection.reason)
        };
        Some(report.rejected.iter().filter(chosen).map(problem).collect::<Vec<_>>())
    };
    ids.into_iter().filter_map(of_source).flatten().collect()
}

/// How far a plugin is trusted, in a word.
pub(super) fn trust(ready: &Ready) -> &'static str {
    match ready.origin {
        Origin::Bundled => "ready, bundled",
        Origin::Project => "ready, untrusted",
        _ => "ready",
    }
}

/// The path below the current folder, if it is there.
pub(super) fn shown(path: &Path) -> String {
    let here = std::env::current_dir().and_then(std::fs::canonicalize).unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}
