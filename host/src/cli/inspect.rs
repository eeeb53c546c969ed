//! `toolhost inspect`

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::Global;
use super::failure::Failure;
use super::home::Home;
use super::ui::Ui;
use crate::host;
use crate::plugin::Loaded;
use crate::registry::SourceReport;
use crate::text;
use crate::tool::Need;

/// Looks at one file without making it callable: what it asks for first, then its tools.
///
/// The file is compiled and its `register` runs, in a sandbox without any authority.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The component.
    file: PathBuf,
}

pub(super) async fn run(ui: &Ui, global: &Global, arguments: &Arguments) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let settings = home.settings(global)?;
    let file = arguments.file.display().to_string();
    let id = arguments.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (_compiling, compiling) = watch::channel(BTreeSet::from([id]));
    let inspected = ui.while_waiting(host::inspect(&arguments.file, &settings), compiling).await;
    let (loaded, report) = inspected.map_err(|error| Failure::inspect(&file, &error))?;
    if ui.json { ui.json(&to_json(&loaded, &report)) } else { print(ui, &loaded, &report) }
}

/// The plugin's own interfaces, and WASI ones that come with a language runtime.
fn split_imports(loaded: &Loaded) -> (Vec<&str>, Vec<&str>) {
    let names = loaded.facts.imports.iter().map(String::as_str);
    names.partition(|name| name.starts_with("toolhost:"))
}

fn to_json(loaded: &Loaded, report: &SourceReport) -> Value {
    let (registration, facts) = (&loaded.registration, &loaded.facts);
    let (own, runtime) = split_imports(loaded);
    let tool = |name: &String| {
        let tool = registration.tools.iter().find(|tool| tool.spec().name.as_str() == name);
        tool.map(|tool| super::schema::function(tool.spec())["function"].clone())
    };
    let rejected = report.rejected.iter();
    json!({
        "source": registration.source.to_string(),
        "name": facts.name,
        "version": facts.version,
        "contract": facts.contract.to_string(),
        "digest": format!("sha256:{}", facts.digest),
        "bytes": facts.bytes,
        "needs": registration.needs.iter().map(need_json).collect::<Vec<_>>(),
        "tools": report.tools.iter().filter_map(tool).collect::<Vec<_>>(),
        "left_out": rejected.map(|rejection| json!({ "tool": rejection.tool, "reason": rejection.reason })).collect::<Vec<_>>(),
        "imports": { "toolhost": own, "ceiling_of_the_language_runtime": runtime },
        "exports": facts.exports,
        "extensions": facts.extensions.iter().map(|(name, _)| name).collect::<Vec<_>>(),
    })
}

fn print(ui: &Ui, loaded: &Loaded, report: &SourceReport) -> Result<(), Failure> {
    let (registration, facts) = (&loaded.registration, &loaded.facts);
    ui.line(&text::one_line(&format!(
        "{} is {} {}, built for contract {}",
        registration.source, facts.name, facts.version, facts.contract
    )))?;
    ui.line(&format!("{} bytes, sha256:{}", facts.bytes, facts.digest))?;

    ui.line("\nAsks for:")?;
    if registration.needs.is_empty() {
        ui.line("  nothing")?;
    }
    for need in &registration.needs {
        ui.line(&format!("  {}", need_line(need)))?;
    }

    ui.line("\nTools:")?;
    if report.tools.is_empty() {
        ui.line("  none that can be called")?;
    }
    for name in &report.tools {
        let tool = registration.tools.iter().find(|tool| tool.spec().name.as_str() == name);
        let first =
            tool.and_then(|tool| tool.spec().description.lines().next()).unwrap_or_default();
        ui.line(&format!("  {name}  {}", text::one_line(&text::cut(first, 100))))?;
    }
    for rejection in &report.rejected {
        ui.line(&text::one_line(&format!("  {}  left out: {}", rejection.tool, rejection.reason)))?;
    }

    let (own, runtime) = split_imports(loaded);
    ui.line(&format!("\nImports of toolhost: {}", listed(&own)))?;
    if !runtime.is_empty() {
        ui.line("Imports that come with its language runtime (a ceiling: each refuses without a grant):")?;
        ui.line(&format!("  {}", runtime.join("\n  ")))?;
    }
    let exports: Vec<&str> = facts.exports.iter().map(String::as_str).collect();
    ui.line(&format!("Exports: {}", listed(&exports)))?;
    if !facts.extensions.is_empty() {
        let names: Vec<&str> = facts.extensions.iter().map(|(name, _)| name.as_str()).collect();
        ui.line(&format!(
            "Extensions this host does not know (without effect): {}",
            listed(&names)
        ))?;
    }
    Ok(())
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { text::one_line(&names.join(", ")) }
}

/// Kinds of needs that this version of the host knows by name. Only `dirs` can be granted yet.
const KNOWN_KINDS: [&str; 7] = ["dirs", "http", "env", "secrets", "kv", "process", "hooks"];

/// A need in one line, for people.
pub(super) fn need_line(need: &Need) -> String {
    let unknown = if KNOWN_KINDS.contains(&need.kind.as_str()) {
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
        "known": KNOWN_KINDS.contains(&need.kind.as_str()),
        "value": value,
        "tools": need.tools,
        "reason": need.reason,
    })
}
