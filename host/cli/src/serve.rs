//! `toolhost serve`

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use tokio::signal::unix::{SignalKind, signal};

use super::Global;
use super::failure::Failure;
use super::home::Home;
use super::selection::SelectionFlags;
use super::ui;
use toolhost::Host;
use toolhost_mcp::server::{self, ServerSettings};
use toolhost_schema::schema::Format;

/// Serves the tools to an MCP client, over stdin and stdout.
///
/// Clients start this themselves: their configuration names `toolhost` as the command and `serve`
/// as its argument. Plugins that are added, changed or removed while it runs are noticed. It
/// answers before plugins are compiled, and writes nothing but MCP to stdout. It ends within two
/// seconds when stdin does or a signal says so, whatever the client does. Nobody can be asked over
/// MCP yet, so what needs a human's approval is refused.
#[derive(Debug, clap::Args)]
pub(super) struct ServeArguments {
    #[command(flatten)]
    selection: SelectionFlags,

    /// Resolve relative paths in arguments against this directory, not the one it is started in. It
    /// only resolves names: what tools may read and write is what was granted.
    #[arg(long, value_name = "DIR")]
    workdir: Option<PathBuf>,

    /// The format of the schemas of arguments: openai, openai-strict, anthropic, gemini or mcp,
    /// which is as they were registered.
    #[arg(long, value_name = "FORMAT", default_value_t = Format::Mcp, value_parser = str::parse::<Format>)]
    schema_profile: Format,
}

pub(super) async fn run(global: &Global, given: &ServeArguments) -> Result<(), Failure> {
    let mut settings = Home::from_environment()?.lasting_settings(global)?;
    if let Some(directory) = &given.workdir {
        settings.directories.working = Some(workdir(directory)?);
    }
    let offered = ServerSettings {
        offer: given.selection.offer(&settings.config),
        format: given.schema_profile,
        limits: settings.config.limits.clone(),
    };
    if std::io::stdin().is_terminal() {
        ui::error_line(
            "`toolhost serve` is an MCP server over stdin and stdout, which MCP clients start themselves. It waits for messages; Ctrl-C, or Ctrl-D on an empty line, stops it. `toolhost list` shows what it serves.",
        );
    }
    let host = Host::start(settings).map_err(Failure::start)?;
    let (input, output) = server::standard_streams();
    server::serve(host, offered, input, output, asked_to_stop())
        .await
        .map_err(|error| Failure::fault(error.to_string()))
}

/// Waits until somebody asks the program to end. What is under way is answered as when stdin ends.
async fn asked_to_stop() {
    let listen = |kind| signal(kind).inspect_err(|error| tracing::warn!("no signals: {error}"));
    let asked = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()]
        .map(|kind| listen(kind).ok());
    let asked =
        asked.into_iter().flatten().map(|mut asked| Box::pin(async move { asked.recv().await }));
    let asked: Vec<_> = asked.collect();
    if asked.is_empty() {
        std::future::pending::<()>().await;
    }
    futures_util::future::select_all(asked).await;
}

fn workdir(given: &Path) -> Result<PathBuf, Failure> {
    let shown = given.display();
    let real = std::fs::canonicalize(given)
        .map_err(|error| Failure::usage(format!("`--workdir {shown}`: {error}")))?;
    if !real.is_dir() {
        return Err(Failure::usage(format!("`--workdir {shown}` is no directory")));
    }
    Ok(real)
}
