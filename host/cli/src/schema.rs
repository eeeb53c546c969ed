//! `toolhost schema`

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::Value;

use super::failure::Failure;
use super::selection::{self, SelectionFlags};
use super::ui::{self, Ui};
use super::{Global, loaded_host};
use toolhost_schema::schema::Format;

/// How many names a note lists.
const NAMED_MAX: usize = 5;

/// Prints the definitions of the tools that a model is shown, as a JSON list sorted by name.
///
/// Tools that cannot work at present are left out. An unknown toolset is reported on stderr with
/// the nearest name, and otherwise ignored.
#[derive(Debug, clap::Args)]
pub(super) struct SchemaArguments {
    #[command(flatten)]
    selection: SelectionFlags,

    /// The format of the definitions.
    #[arg(long, default_value = Format::OpenAi.as_str(), value_parser = format_parser())]
    format: Format,
}

pub(super) async fn run(ui: &Ui, global: &Global, given: &SchemaArguments) -> Result<(), Failure> {
    let host = loaded_host(ui, global).await?;
    let session = given.selection.one_call(&host)?;
    let listed = host.definitions(&session, given.format).await;
    selection::warn(&listed.selected);
    if !listed.unavailable.is_empty() {
        let names: Vec<&str> =
            listed.unavailable.keys().take(NAMED_MAX).map(String::as_str).collect();
        let more = match listed.unavailable.len() - names.len() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        ui::error_line(&format!(
            "note: left out because they cannot work at present: {}{more}; `toolhost list` says why",
            names.join(", ")
        ));
    }
    ui.json(&Value::Array(listed.values.clone()))
}

/// Reads a format's name; clap names the allowed ones and the nearest.
pub(super) fn format_parser() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::as_str))
        .try_map(|name| name.parse::<Format>())
}
