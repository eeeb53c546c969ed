//! The command line: one file a command. Only this crate prints, reads the environment and
//! chooses exit codes.

#[cfg(test)]
mod any_source;
mod approve;
mod audit;
mod build;
mod call;
mod check;
mod choose;
mod completions;
mod decide;
mod describe;
mod dev;
mod doctor;
mod explain;
mod failure;
mod grant;
mod home;
mod inspect;
mod list;
mod need;
mod new;
mod places;
mod probe;
mod problem;
mod record;
mod rollback;
mod sample;
mod schema;
mod secret;
mod selection;
mod serve;
mod source;
mod toolsets;
mod trust;
mod ui;
mod usage;
mod watch;

use std::io::{stdin, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use failure::Failure;
use home::Home;
use toolhost::{Host, HostSettings};
use toolhost_kernel::checker::{self, CHECK_COMMAND};
use toolhost_mcp::server::LOG_DIRECTIVE;
use toolhost_wasm::{self as plugin, COMPILE_COMMAND};
use ui::Ui;

/// A flood of handles or results leaves holes everywhere, and the C library's allocator keeps its pages
/// for ever: half a gigabyte where this one, whose own thread gives back what is unused for ten
/// seconds, keeps fifty megabytes. A library does not choose, so whoever embeds it does.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Runs WebAssembly components as sandboxed tools for AI agents.
///
/// Drop a `.wasm` component into `plugins/` and call it. A tool can read no file, reach no
/// network and see no variable unless you grant it.
///
/// Exit codes: 0 ok; 1 it ran and failed: the tool said no, a build failed, a file is no plugin, or
/// `doctor`, `check` or `audit verify` found something broken; 2 wrong usage or configuration, or a
/// file that is not there; 3 refused before it ran: a call, a build, a grant or trust; 4 the call
/// was stopped by a limit or a crash; 70 a bug in toolhost.
#[derive(Debug, Parser)]
#[command(name = "toolhost", version, max_term_width = usage::WIDTH)]
struct ProgramArguments {
    #[command(flatten)]
    global: Global,

    #[command(subcommand)]
    command: Subcommands,
}

/// What most commands take; [`usage`] says which ones.
#[derive(Clone, Debug, clap::Args)]
struct Global {
    /// Scan this folder instead of `./plugins`; may be repeated. The user's own folder and the
    /// bundled plugins are scanned besides.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,

    /// Read this configuration instead of the user's `toolhost.toml`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// Log more to stderr: -v what happens, -vv every call. TOOLHOST_LOG sets it in detail.
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    List(list::ListArguments),
    Toolsets(toolsets::ToolsetsArguments),
    Schema(schema::SchemaArguments),
    Describe(describe::DescribeArguments),
    Call(call::CallArguments),
    Explain(explain::ExplainArguments),
    Inspect(inspect::InspectArguments),
    Probe(probe::ProbeArguments),
    Doctor(doctor::DoctorArguments),
    Grant(grant::GrantArguments),
    Revoke(grant::RevokeArguments),
    Trust(trust::TrustArguments),
    Secret(secret::SecretArguments),
    Audit(audit::AuditArguments),
    Watch(watch::WatchArguments),
    New(new::NewArguments),
    Check(check::CheckArguments),
    Build(build::BuildArguments),
    Dev(dev::DevArguments),
    Rollback(rollback::RollbackArguments),
    Sample(sample::SampleArguments),
    Where(places::PlacesArguments),
    Serve(serve::ServeArguments),
    #[command(name = "record-bundled", hide = true)]
    Record(record::RecordArguments),
    Completions(completions::CompletionsArguments),
    /// Compiles the component on stdin. The host starts this.
    #[command(name = COMPILE_COMMAND, hide = true)]
    Compile,
    /// Checks the value on stdin against the schema before it. The host starts this.
    #[command(name = CHECK_COMMAND, hide = true)]
    CheckValue,
}

fn main() -> ExitCode {
    let arguments = usage::parse();
    // Before anything else: no thread, no runtime, no log.
    match arguments.command {
        Subcommands::Compile => {
            return confined(plugin::compile_here(stdin().lock(), stdout().lock()));
        }
        Subcommands::CheckValue => {
            return confined(checker::check_here(stdin().lock(), stdout().lock()));
        }
        _ => {}
    }
    if !matches!(&arguments.command, Subcommands::Watch(given) if given.draws(arguments.global.json))
    {
        // It would stand in the middle of what is drawn.
        let hears_guests = matches!(&arguments.command, Subcommands::Dev(_));
        log_to_stderr(arguments.global.verbose, hears_guests);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::fault(format!("no runtime: {error}")).report(),
    };
    let result = runtime.block_on(run(arguments));
    // What still compiles is not waited for.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

async fn run(ProgramArguments { global, command }: ProgramArguments) -> Result<(), Failure> {
    let ui = Ui::new(global.json);
    match command {
        Subcommands::List(arguments) => list::run(&ui, &global, &arguments).await,
        Subcommands::Toolsets(arguments) => toolsets::run(&ui, &global, &arguments).await,
        Subcommands::Schema(arguments) => schema::run(&ui, &global, &arguments).await,
        Subcommands::Describe(arguments) => describe::run(&ui, &global, &arguments).await,
        Subcommands::Call(arguments) => call::run(&ui, &global, &arguments).await,
        Subcommands::Explain(arguments) => explain::run(&ui, &global, &arguments).await,
        Subcommands::Inspect(arguments) => inspect::run(&ui, &global, &arguments).await,
        Subcommands::Probe(arguments) => probe::run(&ui, &global, &arguments).await,
        Subcommands::Doctor(arguments) => doctor::run(&ui, &global, &arguments).await,
        Subcommands::Grant(arguments) => grant::grant(&ui, &global, &arguments).await,
        Subcommands::Revoke(arguments) => grant::revoke(&ui, &global, &arguments),
        Subcommands::Trust(arguments) => trust::run(&ui, &global, &arguments).await,
        Subcommands::Secret(arguments) => secret::run(&ui, &global, &arguments),
        Subcommands::Audit(arguments) => audit::run(&ui, &global, &arguments),
        Subcommands::Check(arguments) => check::run(&ui, &global, &arguments).await,
        Subcommands::Watch(arguments) => watch::run(&ui, &global, &arguments).await,
        Subcommands::New(arguments) => new::run(&ui, &arguments),
        Subcommands::Build(arguments) => build::run(&ui, &arguments).await,
        Subcommands::Dev(arguments) => dev::run(&ui, &global, &arguments).await,
        Subcommands::Rollback(arguments) => rollback::run(&ui, &global, &arguments).await,
        Subcommands::Record(arguments) => record::run(&ui, &global, &arguments).await,
        Subcommands::Serve(arguments) => serve::run(&global, &arguments).await,
        Subcommands::Sample(arguments) => sample::run(&ui, &global, &arguments).await,
        Subcommands::Where(arguments) => places::run(&ui, &global, &arguments),
        Subcommands::Completions(arguments) => completions::run(&ui, &arguments),
        Subcommands::Compile | Subcommands::CheckValue => Ok(()),
    }
}

/// Ends a process that worked for the host.
fn confined(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            ui::error_line(&reason);
            ExitCode::FAILURE
        }
    }
}

/// Starts a host on the user's folders and waits until everything has loaded.
async fn loaded_host(ui: &Ui, global: &Global) -> Result<Host, Failure> {
    loaded_with(ui, Home::from_environment()?.settings(global)?).await
}

/// Starts a host, and waits until all tools can be listed.
async fn listed_host(ui: &Ui, global: &Global) -> Result<Host, Failure> {
    let settings = Home::from_environment()?.settings(global)?;
    let host = Host::start(settings).map_err(Failure::start)?;
    ui.while_waiting(host.listed(), host.compiling()).await;
    Ok(host)
}

/// Starts a host, and loads what a call of this tool waits for; or everything, if nobody is known to
/// have the tool.
async fn host_with_tool(ui: &Ui, settings: HostSettings, tool: &str) -> Result<Host, Failure> {
    let first = Some(tool.to_owned());
    let host = Host::start(HostSettings { first, ..settings }).map_err(Failure::start)?;
    ui.while_waiting(host.ready_for(tool), host.compiling()).await;
    Ok(host)
}

/// Starts a host that loads also what is recorded, and waits until everything has loaded.
async fn loaded_anew(ui: &Ui, settings: HostSettings) -> Result<Host, Failure> {
    loaded_with(ui, HostSettings { load_all: true, ..settings }).await
}

/// Starts a host with settings, and waits until everything has loaded.
async fn loaded_with(ui: &Ui, settings: HostSettings) -> Result<Host, Failure> {
    let host = Host::start(settings).map_err(Failure::start)?;
    ui.while_waiting(host.loaded(), host.compiling()).await;
    Ok(host)
}

fn log_to_stderr(verbose: u8, hears_guests: bool) {
    let guests = if hears_guests { ",toolhost::guest=trace" } else { "" };
    // What the watcher cannot stop to watch is gone.
    let quiet = format!("warn,notify=error,{LOG_DIRECTIVE}{guests}");
    let default = match verbose {
        0 => &*quiet,
        1 => "info",
        _ => "toolhost=debug,info",
    };
    let filter = std::env::var("TOOLHOST_LOG").ok().filter(|value| !value.is_empty());
    let filter = EnvFilter::try_new(filter.as_deref().unwrap_or(default))
        .unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time()
        .init();
}
