//! `toolhost explain`

use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::selection::{self, SelectionFlags};
use super::ui::Ui;
use super::{Global, loaded_host};
use toolhost::Host;
use toolhost_core::text;
use toolhost_kernel::definitions::Listed;
use toolhost_kernel::registry::Catalog;
use toolhost_kernel::session::Session;
use toolhost_policy::toolset::{self, Toolsets};
use toolhost_schema::schema::Format;
use toolhost_sources::reload::SourceStatus;

mod named;
mod source;
mod tool;

/// Characters of an unknown name that are echoed.
const NAME_CHARS_MAX: usize = 60;

/// Explains why a tool is listed or not: step by step from its source to the session; ends with
/// what to change. Of a toolset, a plugin or an MCP server it shows all that is known.
///
/// `--enable`, `--disable` and `--platform` say which session is meant; without them it has
/// every tool.
#[derive(Debug, clap::Args)]
pub(super) struct ExplainArguments {
    /// A tool, a toolset, a plugin or an MCP server. A tool comes first; `plugin:ID` and
    /// `mcp:NAME` are no tools.
    name: String,

    #[command(flatten)]
    selection: SelectionFlags,
}

pub(super) async fn run(ui: &Ui, global: &Global, given: &ExplainArguments) -> Result<(), Failure> {
    let host = loaded_host(ui, global).await?;
    show(ui, &host, given).await
}

/// Shows what there is to know of a name in a host.
pub(super) async fn show(ui: &Ui, host: &Host, given: &ExplainArguments) -> Result<(), Failure> {
    let session = given.selection.session(host)?;
    let listed = host.definitions(&session, Format::OpenAi).await;
    selection::warn(&listed.selected);
    let view = ExplainView {
        name: &given.name,
        sources: &host.loaded().await,
        catalog: &host.catalog(),
        host,
        session: &session,
        listed: &listed,
        platform: given.selection.platform(),
    };
    let sources = source::sections(&view);
    if sources.is_empty() {
        let named = named::sections(&view);
        if named.is_empty() {
            return Err(unknown(&view));
        }
        if ui.json {
            let sections: Vec<Value> = named.iter().map(Section::to_json).collect();
            return ui.json(&json!({ "name": view.name, "sources": sections }));
        }
        return named.iter().try_for_each(|section| section.print(ui));
    }
    let tool = tool::section(&view).await;
    let change = match view.catalog.find(view.name) {
        Some(entry) => tool::change(&view, entry).await,
        None => source::change(&view),
    };
    let last = match change {
        Some(change) => {
            let listed = view.listed.names.iter().any(|name| name == view.name);
            format!("To {} it: {change}.", if listed { "call" } else { "list" })
        }
        None => "It is listed and can be called.".to_owned(),
    };
    if ui.json {
        return ui.json(&json!({
            "tool": view.name,
            "listed": listed.names.iter().any(|name| name == view.name),
            "sources": sources.iter().map(Section::to_json).collect::<Vec<_>>(),
            "steps": tool.as_ref().map(Section::to_json),
            "conclusion": last,
        }));
    }
    for section in sources.iter().chain(&tool) {
        section.print(ui)?;
    }
    ui.line(&text::one_line(&last))
}

/// What there is to know of one name.
struct ExplainView<'a> {
    name: &'a str,
    sources: &'a [SourceStatus],
    catalog: &'a Catalog,
    host: &'a Host,
    session: &'a Session,
    listed: &'a Listed,
    platform: Option<&'a str>,
}

impl ExplainView<'_> {
    fn toolsets(&self) -> Toolsets<'_> {
        Toolsets::new(&self.host.config().toolsets, self.catalog.toolsets())
    }

    /// The names of the toolsets that have the tool, sorted.
    fn toolsets_with_it(&self) -> Vec<String> {
        let toolsets = self.toolsets();
        let has_it = |name: &String| toolsets.resolve(name).contains(self.name);
        toolsets.names().into_iter().filter(has_it).collect()
    }
}

/// A part of the chain: steps, each with what became of it.
struct Section {
    title: String,
    steps: Vec<(&'static str, String)>,
}

impl Section {
    fn print(&self, ui: &Ui) -> Result<(), Failure> {
        ui.line(&text::one_line(&self.title))?;
        for (step, what) in &self.steps {
            ui.line(&format!("  {step}: {}", text::one_line(what)))?;
        }
        ui.line("")
    }

    fn to_json(&self) -> Value {
        let mut object = Map::from_iter([("what".to_owned(), json!(self.title))]);
        let steps = self.steps.iter().map(|(step, what)| (step.replace(' ', "_"), json!(what)));
        object.extend(steps);
        Value::Object(object)
    }
}

/// Nobody has the name: perhaps it is spelt differently.
fn unknown(view: &ExplainView<'_>) -> Failure {
    let names = named::names(view);
    let tools = view.catalog.names();
    let near = text::nearest(view.name, tools.chain(names.iter().map(String::as_str)));
    let near = match near.as_slice() {
        [] => String::new(),
        near => format!("; near: {}", near.join(", ")),
    };
    let name = text::one_line(&text::cut(view.name, NAME_CHARS_MAX));
    let mut failure = Failure::usage(format!("{name}: there is no such name{near}"));
    if toolset::is_core_tool(view.name) {
        let toolsets = view.toolsets_with_it();
        let toolsets = toolsets.iter().filter(|name| !name.starts_with("hermes-"));
        let toolsets: Vec<&str> = toolsets.map(String::as_str).collect();
        failure = failure.hint(format!(
            "it is a core tool, of the toolsets {}, and no source provides it",
            toolsets.join(", ")
        ));
    }
    failure.hint("`toolhost list` shows tools, plugins and files that did not load; `toolhost toolsets` shows toolsets")
}
