//! `toolhost list`

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::failure::Failure;
use super::ui::Ui;
use super::{Global, loaded_host};
use crate::availability::Unavailable;
use crate::registry::{Catalog, Entry};
use crate::reload::SourceStatus;
use crate::tool::{Origin, Rejection, SourceId, ToolSpec};

/// Lists the tools, and every file that is none with the reason.
///
/// TOKENS is about what the tool's definition costs in a prompt: its JSON in characters,
/// divided by four. Plugins marked `untrusted` lie in a project's folder: they run without any
/// authority and take no name from another.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) async fn run(ui: &Ui, global: &Global, _: &Arguments) -> Result<(), Failure> {
    let host = loaded_host(ui, global).await?;
    let (sources, catalog) = (host.loaded().await, host.catalog());
    let unavailable = host.unavailable().await;
    let listing = Listing { sources: &sources, catalog: &catalog, unavailable: &unavailable };
    if ui.json { ui.json(&listing.to_json()) } else { listing.print(ui) }
}

/// What is not in order with one file, or one tool of it.
struct Problem {
    place: String,
    reason: String,
}

struct Listing<'a> {
    sources: &'a [SourceStatus],
    catalog: &'a Catalog,
    /// Tools that cannot work at present, with the reason.
    unavailable: &'a BTreeMap<String, Unavailable>,
}

impl Listing<'_> {
    fn print(&self, ui: &Ui) -> Result<(), Failure> {
        let tools = self.catalog.tools();
        if tools.iter().all(|entry| entry.source == SourceId::Builtin) {
            ui.line(
                "No tools. Drop a .wasm component into ./plugins, or name a folder with --plugins.",
            )?;
        } else {
            let row = |entry: &&Entry| {
                let spec = entry.tool.spec();
                let state = self.state(entry);
                let tokens = tokens(spec).to_string();
                vec![
                    spec.name.to_string(),
                    spec.toolset.clone(),
                    entry.source.to_string(),
                    state,
                    tokens,
                ]
            };
            let rows: Vec<Vec<String>> = tools.iter().map(row).collect();
            ui.table(&["TOOL", "TOOLSET", "SOURCE", "STATE", "TOKENS"], &rows)?;
        }
        self.print_problems(ui, "Not loaded:", &self.not_loaded())?;
        self.print_problems(ui, "Left out:", &self.left_out())?;
        self.print_problems(ui, "Grants that give nothing:", &self.idle_grants())
    }

    fn print_problems(&self, ui: &Ui, heading: &str, problems: &[Problem]) -> Result<(), Failure> {
        if problems.is_empty() {
            return Ok(());
        }
        ui.line(&format!("\n{heading}"))?;
        for Problem { place, reason } in problems {
            let line = crate::text::one_line(&format!("{place}: {reason}"));
            ui.line(&format!("  {line}"))?;
        }
        Ok(())
    }

    fn to_json(&self) -> Value {
        let tool = |entry: &&Entry| {
            let spec = entry.tool.spec();
            json!({
                "name": spec.name.as_str(),
                "toolset": spec.toolset,
                "source": entry.source.to_string(),
                "state": self.state(entry),
                "tokens": tokens(spec),
            })
        };
        let problem =
            |problem: &Problem| json!({ "place": problem.place, "reason": problem.reason });
        json!({
            "tools": self.catalog.tools().iter().map(tool).collect::<Vec<_>>(),
            "not_loaded": self.not_loaded().iter().map(problem).collect::<Vec<_>>(),
            "left_out": self.left_out().iter().map(problem).collect::<Vec<_>>(),
            "idle_grants": self.idle_grants().iter().map(problem).collect::<Vec<_>>(),
        })
    }

    fn state(&self, entry: &Entry) -> String {
        if let Some(Unavailable { reason, .. }) =
            self.unavailable.get(entry.tool.spec().name.as_str())
        {
            return format!("unavailable: {}", crate::text::cut(reason, 80));
        }
        let source = &entry.source;
        let status = self.sources.iter().find(|status| {
            status.source.as_ref() == Some(source)
                && status.state.as_ref().is_ok_and(|ready| ready.same_as.is_none())
        });
        let origin = status.and_then(|status| status.state.as_ref().ok()).map(|ready| ready.origin);
        match origin {
            Some(Origin::Bundled) => "ready, bundled",
            Some(Origin::Project) => "ready, untrusted",
            _ => "ready",
        }
        .to_owned()
    }

    fn not_loaded(&self) -> Vec<Problem> {
        let problem = |status: &SourceStatus| {
            let reason = status.state.as_ref().err()?.clone();
            Some(Problem { place: shown(&status.path), reason })
        };
        self.sources.iter().filter_map(problem).collect()
    }

    fn idle_grants(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for status in self.sources {
            if let (Some(source), Ok(ready)) = (&status.source, &status.state) {
                let problem =
                    |reason: &String| Problem { place: source.to_string(), reason: reason.clone() };
                problems.extend(ready.grants.iter().map(problem));
            }
        }
        problems
    }

    fn left_out(&self) -> Vec<Problem> {
        let rejected = |source: &SourceId| {
            let report = self.catalog.report(source)?;
            let problem = |rejection: &Rejection| Problem {
                place: format!("{source} `{}`", rejection.tool),
                reason: rejection.reason.clone(),
            };
            Some(report.rejected.iter().map(problem).collect::<Vec<_>>())
        };
        let mut sources: Vec<&SourceId> =
            self.sources.iter().filter_map(|status| status.source.as_ref()).collect();
        sources.sort();
        sources.dedup();
        sources.into_iter().filter_map(rejected).flatten().collect()
    }
}

/// The path below the current folder, if it is there.
fn shown(path: &std::path::Path) -> String {
    let here = std::env::current_dir().and_then(std::fs::canonicalize).unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

fn tokens(spec: &ToolSpec) -> usize {
    super::schema::function(spec).to_string().len().div_ceil(4)
}
