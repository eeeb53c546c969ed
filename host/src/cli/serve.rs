//! `toolhost serve`

use super::Global;
use super::failure::Failure;
use super::home::Home;
use super::selection::SelectionFlags;
use crate::host::Host;
use crate::schema::Format;
use crate::server::{self, ServerSettings};

/// Serves the tools to an MCP client, over stdin and stdout.
///
/// Clients start this themselves: their configuration names `toolhost` as the command and `serve`
/// as its argument. Plugins that are added, changed or removed while it runs are noticed. It answers before plugins are compiled, ends when stdin does, and writes
/// nothing but MCP to stdout. Nobody can be asked over MCP yet, so what needs a human's approval
/// is refused.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    selection: SelectionFlags,

    /// Whose form the schemas of arguments have: openai, openai-strict, anthropic, gemini or
    /// mcp, which is as they were registered.
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Mcp, value_parser = str::parse::<Format>)]
    schema_profile: Format,
}

pub(super) async fn run(global: &Global, given: &Arguments) -> Result<(), Failure> {
    let settings = Home::from_environment()?.lasting_settings(global)?;
    let offered = ServerSettings {
        offer: given.selection.offer(&settings.config),
        format: given.schema_profile,
        limits: settings.config.limits.clone(),
    };
    let host = Host::start(settings).map_err(Failure::start)?;
    let (input, output) = server::standard_streams();
    server::serve(host, offered, input, output)
        .await
        .map_err(|error| Failure::fault(error.to_string()))
}
