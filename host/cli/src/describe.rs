//! `toolhost describe`

use serde_json::{Value, json};

use super::failure::Failure;
use super::ui::Ui;
use super::{Global, loaded_host};
use toolhost_core::tool::{Annotations, Example, Need, ToolSpec};
use toolhost_kernel::registry::Entry;

/// Explains one tool: what it does, its arguments, examples, and what it asks for.
#[derive(Debug, clap::Args)]
pub(super) struct DescribeArguments {
    /// The tool's name.
    tool: String,
}

pub(super) async fn run(
    ui: &Ui,
    global: &Global,
    arguments: &DescribeArguments,
) -> Result<(), Failure> {
    let host = loaded_host(ui, global).await?;
    let (sources, catalog) = (host.loaded().await, host.catalog());
    let Some(entry) = catalog.find(&arguments.tool) else {
        let failure = Failure::unknown_tool(&arguments.tool);
        return Err(match catalog.nearest(&arguments.tool).first() {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint("`toolhost list` shows all tools, and why a file is none"),
        });
    };
    let needs: Vec<Need> = sources
        .iter()
        .filter(|status| status.source.as_ref() == Some(&entry.source))
        .filter_map(|status| status.state.as_ref().ok())
        .flat_map(|ready| ready.needs.clone())
        .filter(|need| need.tools.is_empty() || need.tools.contains(&arguments.tool))
        .collect();
    if ui.json { ui.json(&to_json(entry, &needs)) } else { print(ui, entry, &needs) }
}

fn to_json(entry: &Entry, needs: &[Need]) -> Value {
    let mut tool = spec_json(entry.tool.spec());
    tool["source"] = json!(entry.source.to_string());
    tool["needs"] = needs.iter().map(super::inspect::need_json).collect();
    tool
}

/// What a tool registered.
pub(super) fn spec_json(spec: &ToolSpec) -> Value {
    let Annotations { read_only, destructive, idempotent, open_world } = spec.annotations;
    let example =
        |example: &Example| json!({ "arguments": example.arguments, "expected": example.expected });
    json!({
        "name": spec.name.as_str(),
        "toolset": spec.toolset,
        "description": spec.description,
        "parameters": spec.parameters,
        "output": spec.output,
        "emoji": spec.shown_emoji(),
        "overrides": spec.overrides,
        "requires_env": spec.requires_env,
        "max_result_size_chars": spec.max_result_size_chars,
        "has_check": spec.has_check,
        "has_dynamic_schema": spec.has_dynamic_schema,
        "annotations": {
            "read_only": read_only, "destructive": destructive,
            "idempotent": idempotent, "open_world": open_world,
        },
        "examples": spec.examples.iter().map(example).collect::<Vec<_>>(),
        "extensions": spec.extensions.iter().map(|(name, _)| name).collect::<Vec<_>>(),
    })
}

fn print(ui: &Ui, entry: &Entry, needs: &[Need]) -> Result<(), Failure> {
    let spec = entry.tool.spec();
    let emoji = spec.shown_emoji();
    ui.line(&format!(
        "{emoji} {}  (toolset {}, from {})\n",
        spec.name, spec.toolset, entry.source
    ))?;
    ui.line(&spec.description)?;
    ui.line("\nArguments:")?;
    let properties = spec.parameters["properties"].as_object().cloned().unwrap_or_default();
    if properties.is_empty() {
        ui.line("  none declared")?;
    }
    let required = spec.parameters["required"].as_array().cloned().unwrap_or_default();
    for (name, schema) in &properties {
        let must = if required.contains(&json!(name)) { ", required" } else { "" };
        let default = match schema.get("default") {
            Some(value) => format!(", default {value}"),
            None => String::new(),
        };
        ui.line(&format!("  {name}  ({}{must}{default})", kind(schema)))?;
        if let Some(text) = schema["description"].as_str() {
            ui.line(&format!("      {}", text.replace('\n', "\n      ")))?;
        }
    }
    if !spec.examples.is_empty() {
        ui.line("\nExamples:")?;
        for example in &spec.examples {
            let quoted = example.arguments.replace('\'', r"'\''");
            ui.line(&format!("  toolhost call {} '{quoted}'", spec.name))?;
        }
    }
    if !needs.is_empty() {
        ui.line("\nAsks for:")?;
        for need in needs {
            ui.line(&format!("  {}", super::inspect::need_line(need)))?;
        }
    }
    Ok(())
}

/// The type of an argument in a word or two.
pub(super) fn kind(schema: &Value) -> String {
    let named =
        |names: &[Value]| names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ");
    let constants: Vec<Value> = schema["oneOf"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|branch| branch.get("const").cloned())
        .collect();
    match (&schema["enum"], &schema["type"]) {
        (Value::Array(values), _) => named(values),
        _ if !constants.is_empty() => named(&constants),
        (_, Value::String(name)) => name.clone(),
        (_, Value::Array(names)) => named(names),
        _ => "any JSON".to_owned(),
    }
}
