//! `toolhost doctor`

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::failure::Failure;
use super::home::Home;
use super::need;
use super::problem::{self, Problem, shown};
use super::selection::{self, SelectionFlags};
use super::ui::Ui;
use super::{Global, loaded_anew};
use toolhost::{Host, HostSettings};
use toolhost_author::RustToolchain;
use toolhost_core::tool::{Origin, PluginAddress, PluginId, SourceId};
use toolhost_kernel::definitions::Listed;
use toolhost_kernel::registry::Catalog;
use toolhost_policy::capability::quoted;
use toolhost_policy::toolset::Toolsets;
use toolhost_schema::schema::Format;
use toolhost_sources::folder::{self, Folder};
use toolhost_sources::reload::SourceStatus;
use toolhost_state::config::Config;
use toolhost_wasm::script::Language;
use toolhost_wasm::{self as plugin, RUNNER_REPAIR};

/// Shows how this toolhost is set up, what is wrong with it, and how to fix that.
///
/// It ends with exit code 1 if something enabled is broken: a source that does not load, a
/// tool that was left out, cannot work at present or is quarantined, or a grant that gives nothing. With `--enable`,
/// `--disable` or `--platform`, tools of other toolsets do not count.
#[derive(Debug, clap::Args)]
pub(super) struct DoctorArguments {
    #[command(flatten)]
    selection: SelectionFlags,
}

pub(super) async fn run(ui: &Ui, global: &Global, given: &DoctorArguments) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let settings = home.settings(global)?;
    let around = Around {
        setup: setup(&home, global, &settings).await,
        runners: runners_json(&settings),
        read_only: read_only(&home),
    };
    let host = loaded_anew(ui, settings).await?;
    show(ui, &host, around, given).await
}

/// What there is to know around a host.
#[derive(Default)]
pub(super) struct Around {
    /// Where things are, and what this machine can do.
    setup: Vec<(&'static str, String)>,
    /// What runs scripts.
    runners: Value,
    /// Folders of the home that cannot be written.
    read_only: Vec<Problem>,
}

/// Shows what is wrong with a host.
pub(super) async fn show(
    ui: &Ui,
    host: &Host,
    around: Around,
    given: &DoctorArguments,
) -> Result<(), Failure> {
    let Around { mut setup, runners, read_only } = around;
    let (sources, catalog) = (host.loaded().await, host.catalog());
    let failed = sources.iter().filter(|status| status.state.is_err()).count();
    let tools = catalog.tools().len();
    let plugins = format!("{} sources, {failed} not loaded, {tools} tools", sources.len());
    setup.push(("plugins", plugins));
    let session = given.selection.session(host)?;
    let listed = host.definitions(&session, Format::OpenAi).await;
    selection::warn(&listed.selected);
    let mut findings = Findings::new(host, &sources, &catalog, &listed).await;
    findings.read_only = read_only;
    if ui.json {
        let mut report = to_json(&setup, host, &sources, &findings);
        report["runners"] = runners;
        ui.json(&report)?;
    } else {
        print(ui, &setup, host, &sources, &findings)?;
    }
    if findings.broken() == 0 { Ok(()) } else { Err(Failure::broken()) }
}

/// Where things are, and what this machine can do.
async fn setup(
    home: &Home,
    global: &Global,
    settings: &HostSettings,
) -> Vec<(&'static str, String)> {
    let there = |path: &Path| {
        let missing = if path.exists() { "" } else { " (not there)" };
        format!("{}{missing}", path.display())
    };
    let mut rows = vec![("configuration", there(&home.operators_file(global)))];
    rows.extend(settings.folders.iter().map(|folder| ("plugins folder", there(&folder.path))));
    rows.push(("state", there(&home.state)));
    rows.push(("compiled components", there(&home.components())));
    let compiling = match &settings.compiler {
        Some(_) => "in a process of its own for each component",
        None => {
            "WITHIN THE HOST, which a hostile component can exhaust: this program cannot find its own path"
        }
    };
    rows.push(("compiling", compiling.to_owned()));
    let environment: Vec<_> = std::env::vars_os().collect();
    let building = RustToolchain::find(&environment).await;
    let building = building.map_or_else(|error| error.to_string(), |_| "possible".to_owned());
    rows.push(("building plugins", building));
    rows.extend(runners(settings).into_iter().map(|(language, runner)| {
        let run_by = |path: &Path| format!("run by {}", path.display());
        let how = runner.problem.or(runner.path.map(run_by)).unwrap_or_default();
        (what_runs(language), how)
    }));
    rows
}

fn runners_json(settings: &HostSettings) -> Value {
    let runner = |(language, RunnerRow { path, problem })| {
        let language: Language = language;
        json!({ "language": language.word(), "path": path, "problem": problem })
    };
    runners(settings).into_iter().map(runner).collect()
}

fn what_runs(language: Language) -> &'static str {
    match language {
        Language::Python => "Python scripts",
        Language::JavaScript => "JavaScript scripts",
    }
}

/// The folders of the home that this user cannot write to, and what that costs.
fn read_only(home: &Home) -> Vec<Problem> {
    let places = [
        (
            &home.state,
            "nothing is remembered: no grant, no trust, no store, no kept build, no audit log",
            "TOOLHOST_HOME",
        ),
        (&home.components(), "every start compiles every plugin", "TOOLHOST_CACHE"),
    ];
    let problem = |(folder, cost, variable): (&PathBuf, &str, &str)| {
        // What is not there is made in the first folder above that is.
        let there = folder.ancestors().find(|above| above.exists())?;
        let error = tempfile::tempfile_in(there).err()?;
        let reason = format!(
            "{}; so {cost}; let this user write there, or choose another folder with {variable}",
            error.kind()
        );
        Some(Problem::new(shown(folder), reason))
    };
    places.into_iter().filter_map(problem).collect()
}

/// What runs scripts of a language.
struct RunnerRow<'a> {
    path: Option<&'a Path>,
    /// Why it does not, and what to do.
    problem: Option<String>,
}

/// What runs scripts of each language.
fn runners(settings: &HostSettings) -> Vec<(Language, RunnerRow<'_>)> {
    let runner = |language: Language| {
        let places = settings.runners.get(&language).map(Vec::as_slice).unwrap_or_default();
        let found = places.iter().map(PathBuf::as_path).find(|path| path.is_file());
        let none = || {
            let looked_for: Vec<String> =
                places.iter().map(|path| path.display().to_string()).collect();
            let looked_for = looked_for.join(" and ");
            format!(
                "no runner; `make install` in a clone of toolhost builds one (looked for {looked_for})"
            )
        };
        let limits = &settings.config.limits;
        let problem = match found {
            Some(path) => plugin::check_runner(path, limits)
                .err()
                .map(|problem| format!("{problem}; {RUNNER_REPAIR}")),
            None => Some(none()),
        };
        (language, RunnerRow { path: found, problem })
    };
    Language::ALL.map(runner).into()
}

/// What is not in order.
struct Findings {
    /// Folders of the home that cannot be written.
    read_only: Vec<Problem>,
    not_loaded: Vec<Problem>,
    pending: Vec<Problem>,
    left_out: Vec<Problem>,
    unavailable: Vec<Problem>,
    quarantined: Vec<Problem>,
    idle_grants: Vec<Problem>,
    /// What is worth knowing and breaks nothing.
    notes: Vec<Problem>,
}

impl Findings {
    async fn new(
        host: &Host,
        sources: &[SourceStatus],
        catalog: &Catalog,
        listed: &Listed,
    ) -> Findings {
        let mut notes = problem::left_out(sources, catalog, true);
        let (mut unavailable, mut quarantined) = (Vec::new(), Vec::new());
        let problem = |name: &str, reason: String| {
            let source = catalog.find(name).map(|entry| entry.source.to_string());
            Problem::new(format!("{} `{name}`", source.unwrap_or_default()), reason)
        };
        for (name, why) in host.unavailable().await {
            match listed.selected.tools.contains(&name) {
                true => unavailable.push(problem(&name, why.reason)),
                false => notes.push(problem(&name, why.reason)),
            }
        }
        for (name, why) in host.quarantined() {
            match listed.selected.tools.contains(&name) {
                true => quarantined.push(problem(&name, why.to_string())),
                false => notes.push(problem(&name, why.to_string())),
            }
        }
        notes.extend(unmet_needs(sources));
        notes.extend(of_configuration(host, sources, catalog));
        Findings {
            read_only: Vec::new(),
            not_loaded: problem::not_loaded(sources),
            pending: problem::pending(sources),
            left_out: problem::left_out(sources, catalog, false),
            unavailable,
            quarantined,
            idle_grants: problem::idle_grants(sources)
                .into_iter()
                .chain(missing_guards(host.config(), sources, catalog))
                .collect(),
            notes,
        }
    }

    /// Kinds of what is broken: the key, the heading, one and several of it in words.
    fn kinds(&self) -> [(&'static str, &'static str, [&'static str; 2], &[Problem]); 7] {
        [
            (
                "read_only",
                "Cannot be written:",
                ["folder cannot be written", "folders cannot be written"],
                &self.read_only,
            ),
            (
                "not_loaded",
                "Not loaded:",
                ["source does not load", "sources do not load"],
                &self.not_loaded,
            ),
            (
                "pending",
                "Pending:",
                ["source waits for you", "sources wait for you"],
                &self.pending,
            ),
            ("left_out", "Left out:", ["tool is left out", "tools are left out"], &self.left_out),
            (
                "unavailable",
                "Unavailable:",
                ["tool cannot work", "tools cannot work"],
                &self.unavailable,
            ),
            (
                "quarantined",
                "Quarantined:",
                ["tool is quarantined", "tools are quarantined"],
                &self.quarantined,
            ),
            (
                "idle_grants",
                "Grants that give nothing:",
                ["grant gives nothing", "grants give nothing"],
                &self.idle_grants,
            ),
        ]
    }

    fn broken(&self) -> usize {
        self.kinds().iter().map(|(.., problems)| problems.len()).sum()
    }

    fn summary(&self) -> String {
        let parts: Vec<String> = self
            .kinds()
            .iter()
            .filter(|(.., problems)| !problems.is_empty())
            .map(|(_, _, [one, several], problems)| match problems.len() {
                1 => format!("1 {one}"),
                count => format!("{count} {several}"),
            })
            .collect();
        match parts.as_slice() {
            [] => "Everything that is enabled works.".to_owned(),
            parts => format!("Broken: {}.", parts.join(", ")),
        }
    }
}

/// Hooks that were granted, could stop a call, and are not there.
fn missing_guards(config: &Config, sources: &[SourceStatus], catalog: &Catalog) -> Vec<Problem> {
    let missing = catalog.hooks().iter().filter(|(_, hooks)| hooks.are_missing());
    let words = |source: &SourceId| {
        let status = sources.iter().find(|status| status.source.as_ref() == Some(source));
        let SourceId::Plugin { id, folder } = source else { return source.to_string() };
        let bundled = PluginAddress::bundled(id.clone());
        let of_bundled = config.plugins.get(&bundled);
        match status {
            Some(status) => status.words.clone(),
            None if !folder.as_os_str().is_empty() => {
                quoted(&PluginAddress::in_folder(folder, id.clone()).to_string())
            }
            None if of_bundled.is_some_and(|table| table.grants.has_guards()) => {
                bundled.to_string()
            }
            None => id.to_string(),
        }
    };
    let problem = |source: &SourceId| {
        let reason = format!(
            "its hooks are missing, so the calls they cover are refused; put it back and grant it again, or run `toolhost revoke {}`",
            words(source)
        );
        Problem::new(source.to_string(), reason)
    };
    missing.map(|(source, _)| problem(source)).collect()
}

/// What plugins ask for and nobody granted. A plugin works without, if not with all it can do.
fn unmet_needs(sources: &[SourceStatus]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for status in sources {
        let (Some(source @ SourceId::Plugin { .. }), Some(ready)) =
            (&status.source, status.serving())
        else {
            continue;
        };
        if ready.same_as.is_none() {
            let unmet = need::unmet(&status.words, &ready.needs, &ready.granted);
            let place = source.to_string();
            problems.extend(unmet.into_iter().map(|reason| Problem::new(place.clone(), reason)));
        }
    }
    problems
}

/// Names in the configuration that mean nothing, and toolsets that go in circles.
fn of_configuration(host: &Host, sources: &[SourceStatus], catalog: &Catalog) -> Vec<Problem> {
    let config = host.config();
    let toolsets = Toolsets::new(&config.toolsets, catalog.toolsets());
    let servers = config.servers.keys().map(|name| {
        let reason = "is configured; this version mounts no server yet";
        Problem::new(format!("mcp:{name}"), reason)
    });
    let mut problems: Vec<Problem> =
        toolsets.cycles().into_iter().map(|cycle| Problem::new("toolhost.toml", cycle)).collect();
    problems.extend(servers);
    let mut unknown = |place: String, names: &[String]| {
        for name in names.iter().filter(|name| !toolsets.is_known(name)) {
            problems.push(Problem::new(place.clone(), toolsets.unknown(name).to_string()));
        }
    };
    for (name, toolset) in &config.toolsets {
        unknown(format!("`includes` of [toolsets.{name}]"), &toolset.includes);
    }
    for (name, platform) in &config.platforms {
        unknown(
            format!("`toolsets` of [platforms.{name}]"),
            platform.toolsets.as_deref().unwrap_or_default(),
        );
    }
    let is_here = |id: &PluginId| {
        let is_it =
            |source: &SourceId| matches!(source, SourceId::Plugin { id: known, .. } if known == id);
        sources.iter().filter_map(|status| status.source.as_ref()).any(is_it)
    };
    for (id, table) in &config.ids {
        if table.allows_nothing() {
            continue;
        }
        let has_some = |status: &SourceStatus| {
            let is_it =
                matches!(&status.source, Some(SourceId::Plugin { id: known, .. }) if known == id);
            let granted = status.serving().map(|ready| ready.granted.all()).unwrap_or_default();
            let table = table.grants.all();
            is_it && (table.is_empty() || table.iter().any(|grant| granted.contains(grant)))
        };
        let reason = if is_here(id) {
            if sources.iter().any(has_some) {
                continue;
            }
            "names no folder, and counts only for the plugin it was given to; the next `toolhost grant`, `trust` or `revoke` of that plugin rewrites it".to_owned()
        } else {
            format!(
                "holds grants, and no folder has a plugin of this id; if it is gone for good, run `toolhost revoke {id}`"
            )
        };
        problems.push(Problem::new(format!("[plugins.{id}]"), reason));
    }
    for (address, table) in &config.plugins {
        let Some(folder) = address.folder() else { continue };
        let folders = [Folder { path: folder.to_owned(), origin: Origin::Project }];
        let is_gone = folder::find(&folders, &address.id, &config.limits).is_empty();
        if is_gone && !table.allows_nothing() {
            let words = quoted(&address.to_string());
            let reason = format!(
                "holds grants, and there is no such plugin; if it is gone for good, run `toolhost revoke {words}`"
            );
            problems.push(Problem::new(format!("[plugins.\"{address}\"]"), reason));
        }
    }
    problems
}

fn print(
    ui: &Ui,
    setup: &[(&'static str, String)],
    host: &Host,
    sources: &[SourceStatus],
    findings: &Findings,
) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> =
        setup.iter().map(|(what, how)| vec![(*what).to_owned(), how.clone()]).collect();
    ui.table(&["WHAT", "HOW"], &rows)?;
    if !sources.is_empty() {
        ui.line("")?;
        let rows: Vec<Vec<String>> =
            sources.iter().map(|status| source_cells(host, status)).collect();
        ui.table(&["PLACE", "SOURCE", "DIGEST", "STATE"], &rows)?;
    }
    for (_, heading, _, problems) in findings.kinds() {
        problem::print(ui, heading, problems)?;
    }
    problem::print(ui, "Worth knowing:", &findings.notes)?;
    ui.line(&format!("\n{}", findings.summary()))
}

fn source_cells(host: &Host, status: &SourceStatus) -> Vec<String> {
    let source = status.source.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
    let digest = match &status.state {
        Err(_) => "-",
        Ok(ready) => problem::short(&ready.facts.digest),
    };
    vec![
        problem::location(&status.location),
        source,
        digest.to_owned(),
        problem::state(host, status),
    ]
}

fn to_json(
    setup: &[(&'static str, String)],
    host: &Host,
    sources: &[SourceStatus],
    findings: &Findings,
) -> Value {
    let source = |status: &SourceStatus| {
        let ready = status.state.as_ref().ok();
        json!({
            "file": problem::location(&status.location),
            "source": status.source.as_ref().map(ToString::to_string),
            "digest": ready.map(|ready| format!("sha256:{}", ready.facts.digest)),
            "status": host.status(status).to_string(),
            "phase": status.state.as_ref().err().map(|failed| failed.phase.to_string()),
            "cause": status.state.as_ref().err().map(ToString::to_string),
            "repair": status.state.as_ref().err().and_then(|failed| failed.repair.as_deref()),
            "state": problem::state(host, status),
        })
    };
    let list = |problems: &[Problem]| problems.iter().map(Problem::to_json).collect::<Vec<_>>();
    let row = |(what, how): &(&'static str, String)| json!({ "what": what, "how": how });
    let mut report = json!({
        "setup": setup.iter().map(row).collect::<Vec<_>>(),
        "sources": sources.iter().map(source).collect::<Vec<_>>(),
    });
    for (key, _, _, problems) in findings.kinds() {
        report[key] = json!(list(problems));
    }
    report["notes"] = json!(list(&findings.notes));
    report["is_broken"] = json!(findings.broken() > 0);
    report["summary"] = json!(findings.summary());
    report
}
