//! What is not in order with files, tools and grants, for every command that shows it.

use std::path::Path;

use serde_json::{Value, json};

use super::failure::Failure;
use super::ui::Ui;
use toolhost::Host;
use toolhost_core::text;
use toolhost_core::tool::{Origin, Rejection, SourceId};
use toolhost_kernel::registry::Catalog;
use toolhost_sources::driver::Location;
use toolhost_sources::reload::{Ready, SourceStatus, Status};

/// One thing that is not in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The place, the tool, or the toolset.
    pub(super) place: String,
    /// Why, and what to do.
    pub(super) reason: String,
    /// More of it, a line each.
    pub(super) details: Vec<String>,
}

impl Problem {
    pub(super) fn new(place: impl Into<String>, reason: impl Into<String>) -> Problem {
        Problem { place: place.into(), reason: reason.into(), details: Vec::new() }
    }

    pub(super) fn to_json(&self) -> Value {
        let mut problem = json!({ "place": self.place, "reason": self.reason });
        if !self.details.is_empty() {
            problem["details"] = json!(self.details);
        }
        problem
    }
}

/// Prints problems under a heading, or nothing if there are none.
pub(super) fn print(ui: &Ui, heading: &str, problems: &[Problem]) -> Result<(), Failure> {
    if problems.is_empty() {
        return Ok(());
    }
    ui.line(&format!("\n{heading}"))?;
    for Problem { place, reason, details } in problems {
        ui.line(&format!("  {}", text::one_line(&format!("{place}: {reason}"))))?;
        for detail in details {
            ui.line(&format!("    {}", text::one_line(detail)))?;
        }
    }
    Ok(())
}

/// Sources that do not load, files that are none, and folders that cannot be read.
pub(super) fn not_loaded(sources: &[SourceStatus]) -> Vec<Problem> {
    let problem = |status: &SourceStatus| {
        // What is listed from before is not there yet.
        if status.status() == Status::Loading && status.kept.is_none() {
            return None;
        }
        let reason = status.state.as_ref().err()?;
        let kept = status
            .kept
            .as_ref()
            .map(|kept| format!("; its build sha256:{} keeps serving", short(&kept.facts.digest)));
        let reason = format!("{reason}{}", kept.unwrap_or_default());
        Some(Problem::new(location(&status.location), reason))
    };
    sources.iter().filter_map(problem).collect()
}

/// What a plugin is at present, and of a live one how far it is trusted.
pub(super) fn state(host: &Host, status: &SourceStatus) -> String {
    let word = host.status(status);
    let state = match (&status.state, word) {
        (Err(failed), Status::Failed | Status::Degraded) => format!("{word} ({})", failed.phase),
        (Ok(Ready { same_as: Some(twin), .. }), Status::Same) => {
            format!("not counted: {} is the same plugin", location(twin))
        }
        (Ok(ready), Status::Live | Status::Quarantined) => format!("{word}{}", trust(ready)),
        _ => word.to_string(),
    };
    match &status.kept {
        Some(_) => format!("{state}, kept build serves"),
        None => state,
    }
}

/// As many characters of a digest as tell two builds apart for a person.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// Builds that wait for a person, each with its texts to look at and what has changed.
pub(super) fn pending(sources: &[SourceStatus]) -> Vec<Problem> {
    let problem = |status: &SourceStatus| {
        let (source, ready) = (status.source.as_ref()?, status.state.as_ref().ok()?);
        let (pending, words) = (ready.pending.as_ref()?, &status.words);
        let path = location(&status.location);
        let look = || match status.location.file() {
            Some(_) => format!(
                "look at it with `toolhost inspect {path}`, then run `toolhost trust {words}`"
            ),
            None => format!("look at it, and run `toolhost trust {words}`"),
        };
        let repair = pending.repair.clone().unwrap_or_else(look);
        let reason = format!("{}; {}; {repair}", pending.why, pending.meanwhile);
        let more = match pending.differences_count - pending.differences.len() {
            0 => None,
            more => Some(format!("and {more} more")),
        };
        let details = pending.suspicions.iter().map(|place| format!("! {place}"));
        let details = details.chain(pending.differences.iter().cloned()).chain(more);
        Some(Problem { place: source.to_string(), reason, details: details.collect() })
    };
    sources.iter().filter_map(problem).collect()
}

/// Grants that give nothing.
pub(super) fn idle_grants(sources: &[SourceStatus]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for status in sources {
        let ready = status.kept.as_deref().or(status.state.as_ref().ok());
        if let (Some(source), Some(Ready { grants, .. })) = (&status.source, ready) {
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
        let chosen =
            |rejection: &&Rejection| report.replaced.contains_key(&rejection.tool) == replaced;
        let problem = |rejection: &Rejection| {
            Problem::new(format!("{source} `{}`", rejection.tool), rejection.reason.to_string())
        };
        Some(report.rejected.iter().filter(chosen).map(problem).collect::<Vec<_>>())
    };
    ids.into_iter().filter_map(of_source).flatten().collect()
}

/// How far a plugin is trusted, in a word that goes behind its state.
pub(super) fn trust(ready: &Ready) -> &'static str {
    match ready.origin {
        Origin::Bundled => ", bundled",
        Origin::Project if !ready.trusted => ", untrusted",
        _ => "",
    }
}

/// Where a source is: of a file, the path below the current folder, if it is there.
pub(super) fn location(location: &Location) -> String {
    location.file().map_or_else(|| location.to_string(), shown)
}

/// The path below the current folder, if it is there.
pub(super) fn shown(path: &Path) -> String {
    let here = std::env::current_dir().and_then(std::fs::canonicalize).unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}
