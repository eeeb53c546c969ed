//! `toolhost schema`

use serde_json::{Value, json};

use super::failure::Failure;
use super::ui::Ui;
use super::{Global, loaded_host};
use crate::tool::ToolSpec;

/// Prints the definitions of all tools, as OpenAI's function list, sorted by name.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {}

pub(super) async fn run(ui: &Ui, global: &Global, _: &Arguments) -> Result<(), Failure> {
    let host = loaded_host(ui, global).await?;
    let catalog = host.catalog();
    let functions: Vec<Value> =
        catalog.tools().iter().map(|entry| function(entry.tool.spec())).collect();
    ui.json(&Value::Array(functions))
}

/// The definition of one tool as OpenAI's function.
pub(super) fn function(spec: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": spec.name.as_str(),
            "description": spec.description,
            "parameters": spec.parameters,
        }
    })
}
