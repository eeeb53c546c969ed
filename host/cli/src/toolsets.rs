//! `toolhost toolsets`

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::failure::Failure;
use super::ui::{self, Ui};
use super::{Global, loaded_host};
use toolhost_core::text;
use toolhost_kernel::availability::Unavailable;
use toolhost_kernel::registry::Catalog;
use toolhost_policy::toolset::{Info, ToolsetOrigin, Toolsets};

/// How much of a reason the table shows; a toolset's own page shows all of it.
const REASON_CHARS_MAX: usize = 120;

/// Lists the toolsets, or explains one: its tools, which of them are installed, and which are
/// available.
///
/// TOOLS says how many of its tools some source provides. A toolset is available if any of its
/// tools can work at present.
#[derive(Debug, clap::Args)]
pub(super) struct ToolsetsArguments {
    /// The toolset to explain; aliases, former names and `all` are understood too.
    name: Option<String>,
}

pub(super) async fn run(
    ui: &Ui,
    global: &Global,
    given: &ToolsetsArguments,
) -> Result<(), Failure> {
    let host = loaded_host(ui, global).await?;
    let catalog = host.catalog();
    let toolsets = Toolsets::new(&host.config().toolsets, catalog.toolsets());
    for cycle in toolsets.cycles() {
        ui::error_line(&format!("warning: {cycle}"));
    }
    let info = match &given.name {
        None => None,
        Some(name) => Some(toolsets.info(name).ok_or_else(|| {
            let failure = Failure::usage(toolsets.unknown(name).to_string());
            failure.hint("`toolhost toolsets` lists all of them")
        })?),
    };
    let unavailable = host.unavailable().await;
    let view = ToolsetsView { toolsets, catalog: &catalog, unavailable: &unavailable };
    match (&info, &given.name) {
        (Some(info), _) if ui.json => ui.json(&view.to_json(info)),
        (Some(info), Some(name)) => view.print(ui, name, info),
        _ if ui.json => ui.json(&view.all_to_json()),
        _ => view.print_all(ui),
    }
}

/// All toolsets, and what there is of their tools.
struct ToolsetsView<'a> {
    toolsets: Toolsets<'a>,
    catalog: &'a Catalog,
    /// Tools that cannot work at present, with the reason.
    unavailable: &'a BTreeMap<String, Unavailable>,
}

impl ToolsetsView<'_> {
    fn print_all(&self, ui: &Ui) -> Result<(), Failure> {
        let row = |info: Info| {
            let (here, all) = (self.here(&info).count(), info.resolved_tools.len());
            let available = match self.missing(&info) {
                None => "yes".to_owned(),
                Some(why) => format!("no: {}", text::cut(&why, REASON_CHARS_MAX)),
            };
            let origin = origin(&info).to_owned();
            vec![info.name, format!("{here} of {all}"), origin, available]
        };
        let rows: Vec<Vec<String>> = self.infos().map(row).collect();
        ui.table(&["NAME", "TOOLS", "WHERE FROM", "AVAILABLE"], &rows)
    }

    fn print(&self, ui: &Ui, name: &str, info: &Info) -> Result<(), Failure> {
        let stands_for =
            if info.name == name { String::new() } else { format!(", which `{name}` stands for") };
        let head = format!("{}  ({}{stands_for})", info.name, origin(info));
        ui.line(&text::one_line(&head))?;
        if !info.description.is_empty() {
            ui.line(&info.description)?;
        }
        ui.line(&format!(
            "\nAvailable: {}",
            match self.missing(info) {
                None => "yes".to_owned(),
                Some(why) => text::one_line(&format!("no: {why}")),
            }
        ))?;
        if info.is_composite {
            let include = |name: &String| match self.toolsets.is_known(name) {
                true => name.clone(),
                false => format!("{name} (adds nothing: {})", self.toolsets.unknown(name)),
            };
            let includes: Vec<String> = info.includes.iter().map(include).collect();
            ui.line(&format!("Includes: {}", text::one_line(&includes.join(", "))))?;
        }
        if info.resolved_tools.is_empty() {
            return ui.line("It has no tools.");
        }
        let row = |tool: &String| {
            let source = self
                .catalog
                .find(tool)
                .map_or_else(|| "-".to_owned(), |entry| entry.source.to_string());
            let by = if info.direct_tools.contains(tool) { "itself" } else { "included" };
            vec![tool.clone(), by.to_owned(), source, self.state(tool)]
        };
        let rows: Vec<Vec<String>> = info.resolved_tools.iter().map(row).collect();
        ui.line("")?;
        ui.table(&["TOOL", "NAMED BY", "SOURCE", "STATE"], &rows)
    }

    fn all_to_json(&self) -> Value {
        self.infos().map(|info| self.to_json(&info)).collect()
    }

    fn to_json(&self, info: &Info) -> Value {
        let tool = |name: &String| {
            json!({
                "name": name,
                "is_direct": info.direct_tools.contains(name),
                "source": self.catalog.find(name).map(|entry| entry.source.to_string()),
                "state": self.state(name),
            })
        };
        let requirements: BTreeSet<&String> = self
            .here(info)
            .filter_map(|name| self.catalog.find(name))
            .flat_map(|entry| &entry.tool.spec().requires_env)
            .collect();
        let missing = self.missing(info);
        json!({
            "name": info.name,
            "description": info.description,
            "origin": origin(info),
            "available": missing.is_none(),
            "reason": missing,
            "includes": info.includes,
            "requirements": requirements,
            "tools": info.resolved_tools.iter().map(tool).collect::<Vec<_>>(),
        })
    }

    fn infos(&self) -> impl Iterator<Item = Info> {
        self.toolsets.names().into_iter().filter_map(|name| self.toolsets.info(&name))
    }

    /// Its tools that some source provides.
    fn here<'i>(&self, info: &'i Info) -> impl Iterator<Item = &'i String> {
        info.resolved_tools.iter().filter(|name| self.catalog.find(name).is_some())
    }

    /// Why none of its tools can work, if none can.
    fn missing(&self, info: &Info) -> Option<String> {
        let mut reasons = Vec::new();
        for name in self.here(info) {
            // One that can work is enough.
            reasons.push(&self.unavailable.get(name)?.reason);
        }
        Some(match reasons.first() {
            Some(reason) => (*reason).clone(),
            None if info.resolved_tools.is_empty() => "it has no tools".to_owned(),
            None => "no source provides its tools".to_owned(),
        })
    }

    fn state(&self, tool: &str) -> String {
        match (self.catalog.find(tool), self.unavailable.get(tool)) {
            (None, _) => "not here: no source provides it".to_owned(),
            (Some(_), Some(unavailable)) => format!("unavailable: {}", unavailable.reason),
            (Some(_), None) => "ready".to_owned(),
        }
    }
}

/// Where a toolset comes from, in a word.
fn origin(info: &Info) -> &'static str {
    match info.origin {
        ToolsetOrigin::Static => "built-in",
        ToolsetOrigin::User => "yours",
        ToolsetOrigin::Registry => "registered",
        ToolsetOrigin::Legacy => "legacy",
    }
}
