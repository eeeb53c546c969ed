//! `toolhost check`

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::Global;
use super::failure::Failure;
use super::grant::read_id;
use super::home::Home;
use super::source;
use super::ui::Ui;
use toolhost::HostSettings;
use toolhost_author::{
    self as author, BuildRequest, CheckRequest, CheckedPlugin, CheckedTool, Level, StagedBuild,
};
use toolhost_core::tool::{PluginAddress, PluginId};
use toolhost_policy::capability;
use toolhost_sources::folder;
use toolhost_sources::reload;
use toolhost_state::read::ReadScope;
use toolhost_state::trust_store::LockError;
use toolhost_wasm::{Candidate, script};

/// Main files of a plugin that is a folder of scripts.
const MAIN_FILES: [&str; 4] = ["plugin.py", "plugin.js", "plugin.mjs", "plugin.ts"];

/// Checks a plugin before you share it: descriptions and schemas, needs and imports, and its
/// examples, which are run.
///
/// It runs with nothing granted, in an empty directory; an example that cannot work so is skipped,
/// with what it needs. `register` runs twice and must give the same. TOKENS are counted as in
/// `toolhost list`. The exit code is 1 if there are errors; warnings and notes do not count, unless
/// `--strict` is given. Before a folder is built, it asks as `toolhost build` does.
#[derive(Debug, clap::Args)]
pub(super) struct CheckArguments {
    /// A file; a folder with the source, named by its path (`./json`), which is built first where it
    /// has a Cargo.toml (nothing is put into a plugins folder); or the id of a plugin.
    #[arg(value_name = "FILE|DIR|ID")]
    plugin: String,

    /// Warnings fail too.
    #[arg(long)]
    strict: bool,

    /// Do not ask whether the code of the source's author may run, to build it.
    #[arg(long, short)]
    yes: bool,
}

/// What is to be checked: a file, and its name for people.
struct CheckTarget {
    name: String,
    candidate: Candidate,
    /// What was built for the check goes with it.
    _built: Option<StagedBuild>,
}

pub(super) async fn run(ui: &Ui, global: &Global, given: &CheckArguments) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let settings = home.settings(global)?;
    let mut results = Vec::new();
    for target in targets(ui, &home, given, &settings).await? {
        let checked = check(ui, &home, &settings, &target.candidate).await?;
        results.push((target, checked));
    }
    let count = |level| results.iter().map(|(_, checked)| checked.count(level)).sum::<usize>();
    let counts = [Level::Error, Level::Warning, Level::Note].map(|level| (level, count(level)));
    if ui.json {
        let plugins: Vec<Value> =
            results.iter().map(|(target, checked)| to_json(target, checked)).collect();
        let mut report = json!({ "plugins": plugins });
        for (level, count) in counts {
            report[format!("{}s", level.as_str())] = json!(count);
        }
        ui.json(&report)?;
    } else {
        for (target, checked) in &results {
            show(ui, target, checked)?;
        }
        let words: Vec<String> =
            counts.iter().map(|(level, count)| counted(*count, level.as_str())).collect();
        ui.line(&words.join(", "))?;
    }
    let [(_, errors), (_, warnings), _] = counts;
    if errors > 0 || given.strict && warnings > 0 { Err(Failure::broken()) } else { Ok(()) }
}

async fn check(
    ui: &Ui,
    home: &Home,
    settings: &HostSettings,
    candidate: &Candidate,
) -> Result<CheckedPlugin, Failure> {
    let unusable = |error: LockError| Failure::usage(error.to_string());
    let remembered = home.remembered().map_err(unusable)?;
    let address = PluginAddress::in_folder(&candidate.folder, candidate.id.clone());
    let config = reload::said(&settings.config, &address, &remembered);
    let request = CheckRequest {
        candidate: candidate.clone(),
        limits: settings.config.limits.clone(),
        allow_tool_override: config.allow_tool_override,
        bundled: remembered.bundled.clone(),
        cache: settings.cache.clone(),
        compiler: settings.compiler.clone(),
        runners: settings.runners.clone(),
    };
    let (_compiling, compiling) = watch::channel(BTreeSet::from([candidate.id.to_string()]));
    let checked = ui.while_waiting(author::check(&request), compiling).await;
    checked.map_err(|error| Failure::fault(error.to_string()))
}

/// The files that are meant.
async fn targets(
    ui: &Ui,
    home: &Home,
    given: &CheckArguments,
    settings: &HostSettings,
) -> Result<Vec<CheckTarget>, Failure> {
    let named = Path::new(&given.plugin);
    if source::is_path(named) {
        source::stays_in_project(home, named)?;
        let path = &folder::whole(&settings.folders, named);
        if path.is_dir() {
            return folder(ui, home, path, (settings, given.yes)).await;
        }
        if let Err(error) = path.metadata() {
            return Err(Failure::usage(format!("{} cannot be read: {error}", given.plugin)));
        }
        let candidate = candidate(path, settings)?;
        return Ok(vec![CheckTarget { name: given.plugin.clone(), candidate, _built: None }]);
    }
    let here = source::hint(named);
    let id = read_id(&given.plugin).map_err(|failure| match here.clone() {
        Some(hint) => failure.hint(hint),
        None => failure,
    })?;
    let mut found = folder::find(&settings.folders, &id, &settings.config.limits);
    if found.len() > 1 {
        let failure = Failure::usage(format!("{} files have the id `{id}`", found.len()));
        return Err(found.iter().fold(failure, |failure, (candidate, _)| {
            let path = candidate.path.display().to_string();
            let path = capability::quoted(&path);
            failure.hint(format!("name the one you mean: `toolhost check {path}`"))
        }));
    }
    let (candidate, _) = found.pop().ok_or_else(|| match here {
        Some(hint) => Failure::usage(format!("there is no plugin `{id}`")).hint(hint),
        None => {
            Failure::usage(format!("there is no plugin `{id}`, and no file or folder of that name"))
                .hint("`toolhost list` shows all plugins")
        }
    })?;
    let name = super::problem::shown(&candidate.path);
    Ok(vec![CheckTarget { name, candidate, _built: None }])
}

/// A folder with a source: built, or checked as it is where it is made of scripts.
async fn folder(
    ui: &Ui,
    home: &Home,
    folder: &Path,
    (settings, yes): (&HostSettings, bool),
) -> Result<Vec<CheckTarget>, Failure> {
    let real = source::real(home, folder)?;
    if script::language(&real).is_some() {
        let name = folder.display().to_string();
        return Ok(vec![CheckTarget {
            name,
            candidate: candidate(&real, settings)?,
            _built: None,
        }]);
    }
    if !folder.join("Cargo.toml").is_file() {
        return Err(Failure::usage(format!(
            "{} has neither Cargo.toml nor {}",
            folder.display(),
            MAIN_FILES.join(", ")
        ))
        .hint("name a file, the folder of a plugin's source, or the id of a plugin"));
    }
    source::may_build(ui, home, &real, yes)?;
    let mut out =
        Some(StagedBuild::new(&home.cache).map_err(|error| super::build::failure(&error))?);
    let request = BuildRequest {
        source: real,
        out: out.as_ref().map_or_else(PathBuf::new, |out| out.path().to_owned()),
        stage: Some(home.cache.clone()),
        environment: std::env::vars_os().collect(),
        show_messages: true,
        ..BuildRequest::default()
    };
    let built = author::build(&request).await.map_err(|error| super::build::failure(&error))?;
    let targets = built.into_iter().map(|built| {
        let candidate = Candidate {
            id: built.id.clone(),
            folder: request.out.clone(),
            path: built.path,
            place: ReadScope::Own,
        };
        let name = format!("{} of {}", built.id, folder.display());
        CheckTarget { name, candidate, _built: None }
    });
    let mut targets: Vec<CheckTarget> = targets.collect();
    if let Some(last) = targets.last_mut() {
        last._built = out.take();
    }
    Ok(targets)
}

fn candidate(path: &Path, settings: &HostSettings) -> Result<Candidate, Failure> {
    let stem = if path.is_dir() { path.file_name() } else { path.file_stem() };
    let stem = stem.unwrap_or_default().to_string_lossy();
    let id = PluginId::from_stem(&stem)
        .map_err(|error| Failure::usage(format!("{error}; rename the file")))?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let place = folder::place_of(&settings.folders, path)
        .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))?;
    Ok(Candidate { id, folder: folder.to_owned(), path: path.to_owned(), place })
}

fn show(ui: &Ui, target: &CheckTarget, checked: &CheckedPlugin) -> Result<(), Failure> {
    match &checked.facts {
        Some(facts) => ui.line(&format!(
            "{} is {} {}: {}, {} bytes",
            target.name,
            toolhost_core::text::one_line(&facts.name),
            toolhost_core::text::one_line(&facts.version),
            counted(checked.tools.len(), "tool"),
            facts.bytes
        ))?,
        None => ui.line(&target.name)?,
    }
    for finding in &checked.findings {
        ui.line(&finding.to_string())?;
    }
    if !checked.tools.is_empty() {
        ui.line("")?;
        let rows: Vec<Vec<String>> = checked.tools.iter().map(row).collect();
        ui.table(&["TOOL", "EXAMPLES", "CALL", "TOKENS"], &rows)?;
        let tokens: usize = checked.tools.iter().map(|tool| tool.tokens).sum();
        let register = checked.register.map(time).unwrap_or_default();
        ui.line(&format!("{tokens} tokens in all; `register` takes {register}"))?;
    }
    ui.line("")
}

fn row(tool: &CheckedTool) -> Vec<String> {
    let counts = [(tool.passed, "passed"), (tool.skipped, "skipped"), (tool.failed, "failed")];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let examples = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
    let call = tool.call.map_or_else(|| "-".to_owned(), time);
    vec![tool.name.clone(), examples, call, tool.tokens.to_string()]
}

/// As exact as it was measured.
fn time(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1_000.0)
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn to_json(target: &CheckTarget, checked: &CheckedPlugin) -> Value {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let tool = |tool: &CheckedTool| {
        json!({
            "name": tool.name,
            "tokens": tool.tokens,
            "call_us": tool.call.map(micros),
            "examples": { "passed": tool.passed, "skipped": tool.skipped, "failed": tool.failed },
        })
    };
    let facts = checked.facts.as_ref();
    json!({
        "id": target.candidate.id.as_str(),
        "plugin": target.name,
        "loads": facts.is_some(),
        "name": facts.map(|facts| &facts.name),
        "version": facts.map(|facts| &facts.version),
        "contract": facts.map(|facts| facts.contract.to_string()),
        "digest": facts.map(|facts| format!("sha256:{}", facts.digest)),
        "bytes": facts.map(|facts| facts.bytes),
        "findings": checked.findings,
        "tools": checked.tools.iter().map(tool).collect::<Vec<_>>(),
        "tokens": checked.tools.iter().map(|tool| tool.tokens).sum::<usize>(),
        "register_us": checked.register.map(micros),
    })
}
