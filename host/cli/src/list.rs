//! `toolhost list`

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::failure::Failure;
use super::problem::{self, Problem};
use super::schema::format_parser;
use super::selection::{self, SelectionFlags};
use super::ui::Ui;
use super::{Global, listed_host};
use toolhost::Host;
use toolhost_kernel::availability::Unavailable;
use toolhost_kernel::definitions::Listed;
use toolhost_kernel::quarantine::Quarantined;
use toolhost_kernel::registry::{Catalog, Entry};
use toolhost_schema::schema::{Definition, Format, tokens};
use toolhost_sources::reload::SourceStatus;

/// Lists the tools, and every source that has none with the reason.
///
/// TOKENS is about what the tool's definition costs in a prompt: its JSON in characters,
/// divided by four. Tools marked `quarantined` belong to a plugin that crashed or broke its limits
/// again and again; they are listed to models all the same. Plugins marked `untrusted` lie in a project's folder: they run without any
/// authority and take no name from another.
#[derive(Debug, clap::Args)]
pub(super) struct ListArguments {
    /// Sort by TOKENS, the most expensive first, with each tool's share and the sum. Tools that
    /// cannot work at present are not shown to a model, so they cost nothing.
    #[arg(long)]
    tokens: bool,

    /// The format in which the tokens of a definition are counted.
    #[arg(long, default_value = Format::OpenAi.as_str(), value_parser = format_parser())]
    format: Format,

    #[command(flatten)]
    selection: SelectionFlags,
}

pub(super) async fn run(ui: &Ui, global: &Global, given: &ListArguments) -> Result<(), Failure> {
    let host = listed_host(ui, global).await?;
    show(ui, &host, given).await
}

/// Shows the tools of a host.
pub(super) async fn show(ui: &Ui, host: &Host, given: &ListArguments) -> Result<(), Failure> {
    let (sources, catalog) = (host.listed().await, host.catalog());
    let session = given.selection.session(host)?;
    let listed = host.definitions(&session, given.format).await;
    selection::warn(&listed.selected);
    let quarantined = host.quarantined();
    let known = ListInput { sources: &sources, listed: &listed, quarantined: &quarantined };
    let listing = ToolTable::new(&known, &catalog, given);
    if ui.json { ui.json(&listing.to_json()) } else { listing.print(ui) }
}

/// What is known of the tools at present.
struct ListInput<'a> {
    sources: &'a [SourceStatus],
    listed: &'a Listed,
    quarantined: &'a BTreeMap<String, Quarantined>,
}

/// One tool.
struct Row<'a> {
    entry: &'a Entry,
    state: String,
    /// Why it cannot work at present.
    reason: Option<String>,
    /// When its quarantine ends.
    until: Option<String>,
    is_available: bool,
    tokens: usize,
}

struct ToolTable<'a> {
    rows: Vec<Row<'a>>,
    /// What all available tools cost together, if that was asked for.
    total: Option<usize>,
    not_loaded: Vec<Problem>,
    pending: Vec<Problem>,
    left_out: Vec<Problem>,
    idle_grants: Vec<Problem>,
    /// There are tools, but none is enabled.
    none_enabled: bool,
}

impl<'a> ToolTable<'a> {
    fn new(known: &ListInput<'_>, catalog: &'a Catalog, given: &ListArguments) -> ToolTable<'a> {
        let ListInput { sources, listed, quarantined } = *known;
        let shown: HashMap<&str, usize> =
            listed.names.iter().map(String::as_str).zip(listed.values.iter().map(tokens)).collect();
        let row = |entry: &'a Entry| {
            let spec = entry.tool.spec();
            let name = spec.name.as_str();
            let (is_available, tokens) = match shown.get(name) {
                Some(tokens) => (true, *tokens),
                None => (false, tokens(&Definition::of(spec).render(given.format))),
            };
            let unavailable = listed.unavailable.get(name);
            let unavailable = unavailable.map(|Unavailable { reason, .. }| reason.clone());
            let quarantined = quarantined.get(name);
            let state = match (quarantined, &unavailable) {
                (Some(_), _) => "quarantined".to_owned(),
                (None, Some(_)) => "unavailable".to_owned(),
                (None, None) => state(entry, sources),
            };
            let reason = quarantined.map(Quarantined::to_string).or(unavailable);
            let until = quarantined.and_then(Quarantined::until);
            Row { entry, state, reason, until, is_available, tokens }
        };
        let in_session =
            |entry: &&Entry| listed.selected.tools.contains(entry.tool.spec().name.as_str());
        let mut rows: Vec<Row<'_>> =
            catalog.tools().into_iter().filter(in_session).map(row).collect();
        let total = given.tokens.then(|| {
            // Stable: those of equal cost stay sorted by name.
            rows.sort_by_key(|row| (!row.is_available, Reverse(row.tokens)));
            rows.iter().filter(|row| row.is_available).map(|row| row.tokens).sum()
        });
        let mut left_out = problem::left_out(sources, catalog, false);
        left_out.extend(problem::left_out(sources, catalog, true));
        ToolTable {
            total,
            not_loaded: problem::not_loaded(sources),
            pending: problem::pending(sources),
            left_out,
            idle_grants: problem::idle_grants(sources),
            none_enabled: rows.is_empty() && !catalog.tools().is_empty(),
            rows,
        }
    }

    fn print(&self, ui: &Ui) -> Result<(), Failure> {
        match (self.rows.as_slice(), self.total) {
            ([], _) if self.none_enabled => ui.line(
                "No tools: there are some, and none is in an enabled toolset; `toolhost toolsets` lists these.",
            )?,
            ([], _) => ui.line(
                "No tools. Drop a .wasm component into ./plugins, or name a folder with --plugins.",
            )?,
            (rows, None) => {
                let rows: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
                ui.table(&["TOOL", "TOOLSET", "SOURCE", "STATE", "TOKENS"], &rows)?;
            }
            (rows, Some(total)) => {
                let with_share = |row: &Row<'_>| {
                    let mut cells = row.cells();
                    cells.push(match row.share(total) {
                        Some(share) => format!("{share:.1}%"),
                        None => "-".to_owned(),
                    });
                    cells
                };
                let rows: Vec<Vec<String>> = rows.iter().map(with_share).collect();
                ui.table(&["TOOL", "TOOLSET", "SOURCE", "STATE", "TOKENS", "SHARE"], &rows)?;
                ui.line(&format!("\n{}", self.sum(total)))?;
            }
        }
        let unavailable = self.rows.iter().filter_map(|row| {
            Some(Problem::new(row.entry.tool.spec().name.as_str(), row.reason.as_ref()?))
        });
        problem::print(ui, "Unavailable:", &unavailable.collect::<Vec<_>>())?;
        problem::print(ui, "Not loaded:", &self.not_loaded)?;
        problem::print(ui, "Pending:", &self.pending)?;
        problem::print(ui, "Left out:", &self.left_out)?;
        problem::print(ui, "Grants that give nothing:", &self.idle_grants)
    }

    fn sum(&self, total: usize) -> String {
        let count = self.rows.iter().filter(|row| row.is_available).count();
        let rest = match self.rows.len() - count {
            0 => String::new(),
            rest => format!("; {rest} more cannot work at present and are not counted"),
        };
        let tools = if count == 1 { "tool" } else { "tools" };
        format!("{total} tokens for {count} {tools}{rest}")
    }

    fn to_json(&self) -> Value {
        let list = |problems: &[Problem]| problems.iter().map(Problem::to_json).collect::<Vec<_>>();
        let tools: Vec<Value> = self.rows.iter().map(|row| row.to_json(self.total)).collect();
        let mut listing = json!({ "tools": tools });
        if let Some(total) = self.total {
            listing["tokens"] = json!(total);
        }
        listing["not_loaded"] = json!(list(&self.not_loaded));
        listing["pending"] = json!(list(&self.pending));
        listing["left_out"] = json!(list(&self.left_out));
        listing["idle_grants"] = json!(list(&self.idle_grants));
        listing
    }
}

impl Row<'_> {
    fn cells(&self) -> Vec<String> {
        let spec = self.entry.tool.spec();
        vec![
            spec.name.to_string(),
            spec.toolset.clone(),
            self.entry.source.to_string(),
            self.state.clone(),
            self.tokens.to_string(),
        ]
    }

    fn to_json(&self, total: Option<usize>) -> Value {
        let spec = self.entry.tool.spec();
        let mut tool = json!({
            "name": spec.name.as_str(),
            "toolset": spec.toolset,
            "source": self.entry.source.to_string(),
            "state": self.state,
            "tokens": self.tokens,
        });
        if let Some(reason) = &self.reason {
            tool["reason"] = json!(reason);
        }
        if let Some(until) = &self.until {
            tool["until"] = json!(until);
        }
        if let Some(total) = total {
            tool["share_percent"] = json!(self.share(total));
        }
        tool
    }

    /// How much of the whole it costs, in percent with one decimal; nothing if it is not shown
    /// to a model.
    fn share(&self, total: usize) -> Option<f64> {
        self.is_available.then(|| ((self.tokens * 1_000 + total / 2) / total.max(1)) as f64 / 10.0)
    }
}

fn state(entry: &Entry, sources: &[SourceStatus]) -> String {
    let counted = |status: &&SourceStatus| status.source.as_ref() == Some(&entry.source);
    let mut serving = sources
        .iter()
        .filter(counted)
        .filter_map(|status| Some((problem::trust(status.serving()?), status.kept.is_some())));
    match serving.next() {
        Some((trust, false)) => format!("ready{trust}"),
        Some((trust, true)) => format!("ready{trust}, kept build"),
        None => "ready".to_owned(),
    }
}
