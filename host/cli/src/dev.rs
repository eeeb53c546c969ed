//! `toolhost dev`

mod asked;
mod pane;
mod show;
mod work;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

use super::Global;
use super::failure::Failure;
use super::home::Home;
use super::source;
use super::ui::{self, Ui};
use pane::OutputPane;
use show::{Answers, Told};
use toolhost::{Host, HostSettings};
use toolhost_sources::reload::Gate;
use toolhost_sources::watcher::Watcher;
use toolhost_state::audit::{self, Follower};
use toolhost_wasm::script;
use work::{DevSource, Stamps};

/// How often the audit log is looked at.
const TICK: Duration = Duration::from_millis(250);
/// Files that stay as they are for so long are whole, if nobody is heard to write them.
const SETTLED_AFTER: Duration = Duration::from_millis(10);
/// What changes all the time is built as it is.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(2);
/// How long a host may take to load what was built.
const LOAD_TIME_MAX: Duration = Duration::from_secs(120);

/// Builds a plugin and loads it, again whenever its source is saved.
///
/// SOURCE is a folder with Cargo.toml, or a script: its folder or its file. The plugin goes into a
/// plugins folder, so every host that scans that (`toolhost serve`, say) has it at once. A failed
/// build changes nothing: the compiler's errors are shown as they are, and the build before keeps
/// serving. So it does when the examples of a build do not give what they expect.
///
/// What is shown: each build and load with its time, what has changed and whether that breaks
/// calls, calls of the plugin by any host as they come (on a terminal also in sum), and log lines
/// of those made here. While a build is broken, calls are only counted, so that its errors stay in
/// view. Ctrl-C ends it; the plugin stays.
///
/// If the plugin was granted something, what this command makes of the source is trusted in place of
/// what was trusted before, once its examples have passed; of a script that lies in a plugins folder
/// already, what is saved there while this command runs. It trusts nothing else, and no texts that a
/// person should look at first.
///
/// It asks before it builds, as `toolhost build` does; before a script that lies in a plugins folder and
/// is not what was trusted has what that was granted; and before a copy of a script comes in place of a
/// plugin that was granted something.
#[derive(Debug, clap::Args)]
pub(super) struct DevArguments {
    /// The plugin's source, by its path: `./json`.
    #[arg(default_value = ".")]
    source: PathBuf,

    /// The plugins folder to put it into: by default `./plugins`. From within the plugin's own folder
    /// it is that of the folder around it, if there is one, or else your own. A script that lies in a
    /// plugins folder already stays where it is.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Call a tool after each load, and show how its answer has changed; may be repeated.
    #[arg(long, num_args = 2, value_names = ["TOOL", "JSON"], action = clap::ArgAction::Append)]
    call: Vec<String>,

    /// Run the examples with what the plugin was granted, not without authority.
    #[arg(long)]
    examples_with_grants: bool,

    /// Build a self-contained component of a script too, as `toolhost build` does, rather than load
    /// the script itself.
    #[arg(long)]
    component: bool,

    /// Build and load once, make the calls, and end; with exit code 1 if something fails.
    #[arg(long)]
    once: bool,

    /// Do not ask whether the code of the source's author may run, to build it, and whether what lies
    /// there or is put there may have what the plugin was granted.
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(ui: &Ui, global: &Global, given: &DevArguments) -> Result<(), Failure> {
    if ui.json {
        return Err(Failure::usage("`toolhost dev` is for a terminal, and prints no JSON").hint(
            "`toolhost build --json`, `toolhost check --json` and `toolhost audit --json` do",
        ));
    }
    let home = Home::from_environment()?;
    let source = source::read(&given.source)?;
    let work = DevSource::new(&home, source, given.out.as_deref(), given.component)?;
    if let Some(place) = work.elsewhere() {
        ui.line(&place)?;
    }
    if work.is_built() {
        source::may_build(ui, &home, work.source(), given.yes)?;
    } else if work.in_place().is_none() {
        asked::may_be_put(ui, &home, global, &work, given.yes)?;
    }
    let global = Global { plugins: folders(&home, global, work.out()), ..global.clone() };
    let mut settings = home.lasting_settings(&global)?;
    settings.load_all = true;
    settings.own.extend(asked::in_place(ui, &home, &global, &work, given.yes).await?);
    if given.examples_with_grants {
        settings.gate = Gate::WithGrants;
    }
    let allowed = settings.config.limits.arguments_bytes_max;
    let calls: Vec<(String, String)> = given
        .call
        .chunks(2)
        .map(|pair| Ok((pair[0].clone(), super::call::read_text(&pair[1], allowed)?)))
        .collect::<Result<_, Failure>>()?;
    let stopped = stopped()?;
    tokio::select! {
        ended = develop(ui, &home, work, settings, calls, given.once) => ended,
        // The host ends with what is dropped here, and so does what is being built.
        () = stopped => Ok(()),
    }
}

/// Waits for a signal that is to stop this.
fn stopped() -> Result<impl Future<Output = ()>, Failure> {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::quit(),
        SignalKind::alarm(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    let heard = kinds.map(signal).into_iter().collect::<Result<Vec<_>, _>>();
    let mut heard =
        heard.map_err(|error| Failure::fault(format!("signals cannot be heard: {error}")))?;
    Ok(std::future::poll_fn(move |context| {
        match heard.iter_mut().any(|signal| signal.poll_recv(context).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }))
}

/// The folders to scan: those that were named, and the one that is built into, unless it is this
/// user's own and scanned in any case.
fn folders(home: &Home, global: &Global, out: &Path) -> Vec<PathBuf> {
    let is_out = |folder: &PathBuf| fs::canonicalize(folder).is_ok_and(|real| real == out);
    let mut folders = global.plugins.clone();
    if !folders.iter().chain(&home.folders()).any(is_out) {
        folders.insert(0, out.to_owned());
    }
    folders
}

async fn develop(
    ui: &Ui,
    home: &Home,
    mut work: DevSource,
    settings: HostSettings,
    calls: Vec<(String, String)>,
    once: bool,
) -> Result<(), Failure> {
    let mut watcher = Watcher::start();
    let mut log = Follower::open(&audit::folder(&home.state), 0)
        .map_err(|error| Failure::usage(format!("the audit log cannot be read: {error}")))?;
    // What lies there from before is not what is shown.
    let (mut told, mut answers) = (Told::default(), Answers::new(calls));
    let mut pane = OutputPane::new();
    let host = Host::start(settings).map_err(Failure::start)?;
    ui.while_waiting(host.loaded(), host.compiling()).await;
    let (mut known, mut is_first) = (None, true);
    loop {
        watcher.watch(&work.watched());
        if known.as_ref() != Some(&work.stamp()) {
            known = Some(settled(&watcher, &work).await);
            // Calls before this save.
            show::calls(ui, &mut log, &work, &mut pane)?;
            pane.hide();
            let serves = load(ui, home, &mut work, &host, &mut told).await?;
            if serves {
                // Calls until it served.
                show::calls(ui, &mut log, &work, &mut pane)?;
                pane.hide();
            }
            if let Some(held) = pane.broken(!serves) {
                ui.line(&held)?;
            }
            let worked = serves && answers.ask(ui, &host).await?;
            // So that the next save finds these calls in the log.
            host.written().await;
            if once {
                host.stop().await;
                return if worked { Ok(()) } else { Err(Failure::broken()) };
            }
            if is_first {
                ui.line(&format!("watching {}; Ctrl-C ends", work.source().display()))?;
            }
            is_first = false;
        }
        pane.show();
        tokio::select! {
            () = watcher.changed() => {}
            () = tokio::time::sleep(TICK) => {}
        }
        show::calls(ui, &mut log, &work, &mut pane)?;
    }
}

/// The state of the source's files once nobody writes them any more: an editor may empty a file
/// before it writes it.
async fn settled(watcher: &Watcher, work: &DevSource) -> Stamps {
    let start = Instant::now();
    let mut known = work.stamp();
    loop {
        tokio::time::sleep(SETTLED_AFTER).await;
        let now = work.stamp();
        let is_written = now != known || watcher.is_written(work.source(), &|_| true);
        if !is_written || start.elapsed() > SETTLE_TIME_MAX {
            return now;
        }
        known = now;
    }
}

/// Builds, waits until the host has it, and shows what has become of it. Tells whether it serves;
/// if not, there are errors to read.
async fn load(
    ui: &Ui,
    home: &Home,
    work: &mut DevSource,
    host: &Host,
    told: &mut Told,
) -> Result<bool, Failure> {
    let start = Instant::now();
    let made = match work.make(ui, home, host).await {
        Ok(made) => made,
        Err(failure) => {
            let took = pane::millis(start.elapsed());
            ui::error_line(&format!("not built ({took}): {}", failure.message()));
            if work.is_served(host) {
                ui::error_line("the build before keeps serving");
            }
            return Ok(false);
        }
    };
    let built = start.elapsed();
    let start = Instant::now();
    let mut all_well = true;
    for path in &made {
        let loading = work::wait_for(host, path, LOAD_TIME_MAX);
        let status = ui.while_waiting(loading, host.compiling()).await;
        all_well &= told.load(ui, path, status.as_ref(), built, start.elapsed())?;
    }
    Ok(all_well)
}

/// Folders that hold no source.
fn is_source_folder(name: &str) -> bool {
    !name.starts_with('.') && !["target", "node_modules", "__pycache__"].contains(&name)
}

/// The folders of a source, as many as anybody has.
fn source_folders(source: &Path) -> BTreeSet<PathBuf> {
    const FOLDERS_MAX: usize = 1_000;
    if script::language(source).is_some() {
        let mut paths: BTreeSet<PathBuf> =
            script::folders(source, script::MODULES_MAX).into_iter().collect();
        paths.insert(source.to_owned());
        return paths;
    }
    let (mut found, mut left) = (BTreeSet::new(), vec![source.to_owned()]);
    while let Some(folder) = left.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let below = entries.filter(|entry| {
            entry.file_type().is_ok_and(|kind| kind.is_dir())
                && entry.file_name().to_str().is_some_and(is_source_folder)
        });
        left.extend(below.map(|entry| entry.path()));
        found.insert(folder);
        if found.len() == FOLDERS_MAX {
            break;
        }
    }
    found
}
