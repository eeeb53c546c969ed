//! `toolhost inspect`

mod ceiling;
mod page;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::Global;
use super::describe::spec_json;
use super::failure::Failure;
use super::home::Home;
use super::ui::Ui;
use toolhost::{self as host, InspectError};
use toolhost_core::text;
use toolhost_core::text::suspect::visible;
use toolhost_core::tool::{Need, ToolSpec};
use toolhost_kernel::registry::SourceReport;
use toolhost_policy::capability::{is_known, need_words};
use toolhost_policy::review::{Suspicion, Texts, suspicions};
use toolhost_policy::toolset;
use toolhost_schema::schema::{Definition, Format, tokens};
use toolhost_wasm::script::Language;
use toolhost_wasm::{LoadError, Loaded};

/// Inspects one file without making it callable: what it asks for, the most it could use, its
/// tools, suspicious text, and what its definitions cost.
///
/// The file is compiled and its `register` runs, in a sandbox without any authority. Warnings name
/// text that is invisible to a person, or that tells a model what to do. A plugin without warnings
/// is not proven harmless, nor one with some harmful. TOKENS is as in `toolhost list`.
#[derive(Debug, clap::Args)]
pub(super) struct InspectArguments {
    /// The component.
    file: PathBuf,
}

pub(super) async fn run(
    ui: &Ui,
    global: &Global,
    arguments: &InspectArguments,
) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let settings = home.settings(global)?;
    let file = arguments.file.display().to_string();
    let id = arguments.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (_compiling, compiling) = watch::channel(BTreeSet::from([id]));
    let inspected = ui.while_waiting(host::inspect(&arguments.file, &settings), compiling).await;
    let (loaded, report) = inspected.map_err(|error| match error {
        // Whoever looks at a folder should not be told to remove it.
        InspectError::Load(LoadError::NotAFile(kind)) => {
            Failure::usage(format!("{file}: {kind}, not a regular file; name a component"))
        }
        error => Failure::inspect(&file, &error),
    })?;
    let inspected = Inspected::new(&file, &loaded, &report);
    if ui.json { ui.json(&inspected.to_json()) } else { inspected.print(ui) }
}

/// All there is to show of a file.
struct Inspected<'a> {
    file: &'a str,
    loaded: &'a Loaded,
    /// The tools that can be called, with the tokens of each definition as registered.
    tools: Vec<(&'a ToolSpec, usize)>,
    report: &'a SourceReport,
    warnings: Vec<Suspicion>,
}

impl<'a> Inspected<'a> {
    fn new(file: &'a str, loaded: &'a Loaded, report: &'a SourceReport) -> Inspected<'a> {
        let (registration, facts) = (&loaded.registration, &loaded.facts);
        let specs = registration.tools.iter().map(|tool| tool.spec());
        let callable =
            specs.filter(|spec| report.tools.iter().any(|name| *name == *spec.name.as_str()));
        let with_tokens =
            |spec: &'a ToolSpec| (spec, tokens(&Definition::of(spec).render(Format::OpenAi)));
        let texts = Texts {
            name: &facts.name,
            version: &facts.version,
            registration,
            extensions: &facts.extensions,
        };
        Inspected {
            file,
            loaded,
            tools: callable.map(with_tokens).collect(),
            report,
            warnings: suspicions(&texts, toolset::core_tools()),
        }
    }

    fn tokens(&self) -> usize {
        self.tools.iter().map(|(_, tokens)| tokens).sum()
    }

    fn to_json(&self) -> Value {
        let (registration, facts) = (&self.loaded.registration, &self.loaded.facts);
        let ceilings = ceiling::ceilings(&facts.imports);
        let ceiling = |ceiling: &ceiling::Ceiling<'_>| {
            json!({
                "what": ceiling.words,
                "refuses_without_grant": ceiling.refuses,
                "interfaces": ceiling.interfaces,
            })
        };
        let runtime = facts.toolchain.runtime.map(|runtime| {
            json!({
                "language": runtime.language,
                "engine": runtime.engine,
                "note": ceiling::runtime_sentence(runtime),
            })
        });
        let need = |need: &Need| {
            let mut shown = need_json(need);
            shown["words"] = json!(need_words(&need.kind, &need.value));
            shown
        };
        let rejected = self.report.rejected.iter();
        json!({
            "source": registration.source.to_string(),
            "file": self.file,
            "name": facts.name,
            "version": facts.version,
            "digest": format!("sha256:{}", facts.digest),
            "bytes": facts.bytes,
            "script": facts.script.map(Language::word),
            "contract": facts.contract.to_string(),
            "made_with": facts.toolchain.producers,
            "needs": registration.needs.iter().map(need).collect::<Vec<_>>(),
            "imports": {
                "ceilings": ceilings.iter().map(ceiling).collect::<Vec<_>>(),
                "runtime": runtime,
            },
            "exports": facts.exports,
            "tools": self.tools.iter().map(|(spec, tokens)| tool_json(spec, *tokens)).collect::<Vec<_>>(),
            "left_out": rejected.map(|rejection| json!({ "tool": rejection.tool, "reason": rejection.reason.to_string() })).collect::<Vec<_>>(),
            "extensions": facts.extensions.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "warnings": self.warnings.iter().map(warning_json).collect::<Vec<_>>(),
            "tokens": self.tokens(),
        })
    }
}

fn tool_json(spec: &ToolSpec, tokens: usize) -> Value {
    let mut tool = spec_json(spec);
    tool["tokens"] = json!(tokens);
    tool
}

fn warning_json(Suspicion { tool, pointer, suspect }: &Suspicion) -> Value {
    json!({
        "kind": suspect.kind.as_str(),
        "what": suspect.what,
        "tool": tool,
        "pointer": visible(pointer),
        "excerpt": suspect.excerpt,
    })
}

/// A need in one line, for people.
pub(super) fn need_line(need: &Need) -> String {
    let unknown = if is_known(&need.kind) {
        ""
    } else {
        " (a kind this host does not know: it grants nothing)"
    };
    let tools = match need.tools.as_slice() {
        [] => String::new(),
        tools => format!(" for {}", tools.join(", ")),
    };
    let reason = match need.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    text::one_line(&format!("{} {}{tools}{reason}{unknown}", need.kind, need.value))
}

/// A need for programs.
pub(super) fn need_json(need: &Need) -> Value {
    let value = serde_json::from_str(&need.value).unwrap_or_else(|_| json!(need.value));
    json!({
        "kind": need.kind,
        "known": is_known(&need.kind),
        "value": value,
        "tools": need.tools,
        "reason": need.reason,
    })
}
