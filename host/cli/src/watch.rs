//! `toolhost watch`

mod draw;
mod lines;
mod screen;
mod view;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::Global;
use super::failure::Failure;
use super::home::Home;
use super::problem;
use super::ui::Ui;
use toolhost::Host;
use toolhost_core::tool::SourceId;
use toolhost_sources::reload::SourceStatus;
use toolhost_state::audit::{self, Follower};
use view::{Inventory, PluginRow, ToolRow, WatchView};

/// How often the log is looked at.
const TICK: Duration = Duration::from_millis(250);
/// What is lately: as long as calls are counted.
const LATELY: Duration = Duration::from_secs(5 * 60);
/// Bytes at the end of the log that are looked at for what was written lately.
const TAIL_BYTES: u64 = 256 << 10;

/// Shows what all toolhost processes of this user do: plugins and their states, calls and how long
/// they take, refusals, loads.
///
/// It follows the audit log, so it sees the calls of `serve`, of clients and of other terminals
/// alike, and none if the log is off. Counts and times are those of the last five minutes; P50 and
/// P99 are the times within which 50% and 99% of the calls ended. Plugins are those that `toolhost
/// list` shows here; RELOADS counts how often changed bytes of one were loaded.
///
/// Keys: q quits, tab goes to the next pane, up and down move, / filters, r looks at the plugins
/// again.
#[derive(Debug, clap::Args)]
pub(super) struct WatchArguments {
    /// Print a line for each event, as `toolhost audit` does, until it is stopped. This is the
    /// default when stdout is no terminal.
    #[arg(long)]
    lines: bool,
}

impl WatchArguments {
    /// Tells whether it takes the whole terminal.
    pub(super) fn draws(&self, json: bool) -> bool {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        is_terminal && !self.lines && !json
    }
}

pub(super) async fn run(ui: &Ui, global: &Global, given: &WatchArguments) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let source = WatchSource { home, global };
    if given.draws(ui.json) { screen::run(&source).await } else { lines::run(ui, &source).await }
}

/// Where events and plugins come from.
struct WatchSource<'a> {
    home: Home,
    global: &'a Global,
}

impl WatchSource<'_> {
    /// Follows the log, from so many bytes before its end on.
    fn follow(&self, bytes_before_end: u64) -> Result<Follower, Failure> {
        let folder = self.folder();
        Follower::open(&folder, bytes_before_end).map_err(|error| unreadable(&folder, &error))
    }

    fn folder(&self) -> std::path::PathBuf {
        audit::folder(&self.home.state)
    }

    /// What to say as long as there is no event.
    fn notice(&self) -> Result<String, Failure> {
        let is_on = self.home.config(self.global)?.audit.enabled;
        Ok(if is_on { self.quiet() } else { self.off() })
    }

    /// What to say before events come line by line.
    fn beginning(&self) -> Result<String, Failure> {
        Ok(match self.home.config(self.global)?.audit.enabled {
            false => self.off(),
            true if self.was_written_lately()? => format!(
                "Following the audit log ({}); `toolhost audit` shows what was before.",
                self.folder().display()
            ),
            true => self.quiet(),
        })
    }

    fn off(&self) -> String {
        format!(
            "The audit log is off, so no calls can be seen: set `enabled = true` under `[audit]` in {}.",
            self.home.operators_file(self.global).display()
        )
    }

    fn quiet(&self) -> String {
        format!(
            "Nothing was written to the audit log ({}) lately: call a tool, as with `toolhost call TOOL '{{}}'`, or by a client of `toolhost serve`.",
            self.folder().display()
        )
    }

    /// Tells whether the end of the log has a record of the last few minutes.
    fn was_written_lately(&self) -> Result<bool, Failure> {
        let mut log = self.follow(TAIL_BYTES)?;
        let since = SystemTime::now().checked_sub(LATELY);
        loop {
            let records = log.read().map_err(|error| unreadable(&self.folder(), &error))?;
            if records.is_empty() {
                return Ok(false);
            }
            let mut records = records.into_iter().flatten();
            if records.any(|record| since.is_none_or(|since| record.time >= since)) {
                return Ok(true);
            }
        }
    }

    /// What a host that starts now knows, as `toolhost list` does.
    async fn known(&self) -> Result<Inventory, Failure> {
        let mut settings = self.home.settings(self.global)?;
        // Its loads would be the news that it is asked for.
        settings.config.audit.enabled = false;
        let host = Host::start(settings).map_err(Failure::start)?;
        let known = known(&host).await;
        host.stop().await;
        Ok(known)
    }
}

/// What a host knows.
async fn known(host: &Host) -> Inventory {
    let sources = host.loaded().await;
    let (unavailable, quarantined) = (host.unavailable().await, host.quarantined());
    let catalog = host.catalog();
    let mut counts: BTreeMap<SourceId, usize> = BTreeMap::new();
    let tools = catalog.tools().into_iter().map(|entry| {
        *counts.entry(entry.source.clone()).or_default() += 1;
        let name = entry.tool.spec().name.to_string();
        let state = match (quarantined.get(&name), unavailable.get(&name)) {
            (Some(_), _) => "quarantined",
            (None, Some(_)) => "unavailable",
            (None, None) => "ready",
        };
        ToolRow { name, source: entry.source.to_string(), state: state.to_owned() }
    });
    let tools: Vec<ToolRow> = tools.collect();
    let plugin = |status: &SourceStatus| {
        let shown = problem::location(&status.location);
        PluginRow {
            source: status.source.as_ref().map_or(shown, ToString::to_string),
            path: status.location.to_string(),
            digest: status.state.as_ref().ok().map(|ready| ready.facts.digest.to_string()),
            state: problem::state(host, status),
            tools: status.source.as_ref().and_then(|id| counts.get(id)).copied().unwrap_or(0),
        }
    };
    let plugins = sources.iter().map(plugin).collect();
    Inventory { plugins, tools }
}

/// Shows what a host knows, as what is followed begins with it.
#[cfg(test)]
pub(super) async fn show(ui: &Ui, host: &Host) -> Result<(), Failure> {
    lines::begin(ui, &known(host).await)
}

fn unreadable(folder: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("the audit log {} cannot be read: {error}", folder.display()))
}
