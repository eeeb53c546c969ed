//! `toolhost probe`

mod tried;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::Global;
use super::call::{outcome_json, print_output, read_text};
use super::choose::{Choice, Chooser, CommandWords};
use super::failure::Failure;
use super::grant::listed;
use super::home::Home;
use super::ui::Ui;
use toolhost::{self as host, HostSettings, Probed};
use toolhost_core::text;
use toolhost_core::tool::{Call, Class, PluginId};
use toolhost_policy::capability::{self, Grants, Kind};
use toolhost_sources::folder;
use toolhost_wasm::script;
use tried::Tried;

/// Runs an untrusted tool with every grant denied, and shows what it tried to use, as grants.
///
/// Nothing is saved: `--with` grants for this run only. Grant what was denied with `--with`, and
/// the tool gets further.
#[derive(Debug, clap::Args)]
pub(super) struct ProbeArguments {
    /// The component.
    file: PathBuf,

    /// The tool to call.
    tool: String,

    /// The arguments: a JSON object, `@FILE`, or `-` for stdin.
    #[arg(value_name = "ARGS", default_value = "{}")]
    arguments: String,

    #[arg(long, value_name = "KIND=VALUE", help = with_help())]
    with: Vec<String>,

    /// Stop the call after this time, such as `5s`.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    timeout: Option<std::time::Duration>,
}

pub(super) async fn run(ui: &Ui, global: &Global, given: &ProbeArguments) -> Result<(), Failure> {
    let grants = read_grants(&given.with)?;
    let home = Home::from_environment()?;
    let settings = home.settings_with(global, &grants)?;
    let text = read_text(&given.arguments, settings.config.limits.arguments_bytes_max)?;
    let file = given.file.display().to_string();
    let id = given.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (_compiling, compiling) = watch::channel(BTreeSet::from([id]));
    let said = text.clone();
    let call = Call { time_max: given.timeout, ..Call::new(&given.tool, text) };
    let probing = host::probe(&given.file, call, &grants, &settings);
    let probed = ui.while_waiting(probing, compiling).await;
    let probed = probed.map_err(|error| Failure::inspect(&file, &error))?;
    if let Err(error) = &probed.outcome.result
        && error.class() == Class::Rejected
        && probed.outcome.refusals.is_empty()
    {
        // It never ran, so nothing was probed.
        return Err(Failure::call(error));
    }
    let rules = settings.directory_rules();
    let tried = Tried::new(&probed, &given.tool, &said, &rules);
    if ui.json {
        let mut report = outcome_json(&probed.outcome);
        report["attempts"] = tried
            .attempts
            .iter()
            .map(|(refusal, grant)| {
                json!({
                    "what": refusal.what,
                    "why": refusal.why,
                    "repair": refusal.repair,
                    "grant": grant.as_ref().map(|(kind, text)| with(*kind, text)),
                })
            })
            .collect();
        report["elsewhere"] = json!(tried.elsewhere);
        let told: Vec<String> =
            tried.attempts.iter().map(|(refusal, _)| refusal.to_string()).collect();
        if let Some(Value::Array(refused)) = report.pointer_mut("/error/refused") {
            refused.retain(|sentence| told.iter().any(|told| sentence == told));
        }
        report["refusals"] = json!(told);
        report["idle"] = json!(probed.idle);
        return ui.json(&report);
    }
    let words = words(&home, global, &settings, given)?;
    show(ui, given, &words, &grants, (&probed, &tried))
}

fn with_help() -> String {
    format!(
        "Grant this for the run; may be repeated. KIND is {}, VALUE as `toolhost grant` takes it: `http=https://api.example.com`, `dirs=.:ro`, `kv`",
        kinds("or")
    )
}

/// The kinds that can be granted to a probe.
fn kinds(word: &str) -> String {
    let kinds = Kind::all().filter(|kind| kind.can_be_probed());
    listed(kinds.map(|kind| kind.key().to_owned()), word)
}

fn read_grants(with: &[String]) -> Result<Grants, Failure> {
    let here = super::grant::working_directory()?;
    let mut grants = Grants::default();
    for given in with {
        let (key, text) = given.split_once('=').unwrap_or((given, ""));
        let kind = Kind::all().find(|kind| kind.key() == key || kind.flag() == key);
        let kind = kind.filter(|kind| kind.can_be_probed()).ok_or_else(|| {
            let shown = text::one_line(&text::cut(key, 60));
            Failure::usage(format!("`--with {shown}` names no kind of grant")).hint(format!(
                "kinds are {}, as in `--with http=https://api.example.com`",
                kinds("and")
            ))
        })?;
        let added = grants.add(kind, text, Some(&here));
        added.map_err(|error| Failure::usage(error.to_string()))?;
    }
    Ok(grants)
}

fn with(kind: Kind, text: &str) -> String {
    match kind.value_name() {
        None => kind.key().to_owned(),
        Some(_) => format!("{}={text}", kind.key()),
    }
}

/// What commands call the plugin of the file: its id, if that reaches this file and no other.
fn words(
    home: &Home,
    global: &Global,
    settings: &HostSettings,
    given: &ProbeArguments,
) -> Result<String, Failure> {
    let file = folder::whole(&settings.folders, &given.file);
    let id = script::stem(&file);
    let command = CommandWords { name: "grant", rest: "", of_gone: false };
    let chooser = Chooser::new(home, settings, home.operators_config(global), command)?;
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let is_it = |choice: &Choice| {
        choice.file.as_ref().is_some_and(|known| real(&known.path) == real(&file))
    };
    if let Ok(id) = PluginId::from_stem(&id)
        && chooser.choose(id.as_str()).is_ok_and(|choice| is_it(&choice))
    {
        return Ok(id.to_string());
    }
    let file = file.display().to_string();
    let file = if file.contains('/') { file } else { format!("./{file}") };
    Ok(capability::quoted(&file))
}

fn show(
    ui: &Ui,
    given: &ProbeArguments,
    words: &str,
    grants: &Grants,
    (probed, tried): (&Probed, &Tried<'_>),
) -> Result<(), Failure> {
    let granted = grants.all();
    ui.line(&match granted.as_slice() {
        [] => "Every grant was denied.".to_owned(),
        granted => {
            let granted: Vec<String> =
                granted.iter().map(|(kind, text)| with(*kind, text)).collect();
            format!("Every grant was denied but {}.", granted.join(", "))
        }
    })?;
    for problem in &probed.idle {
        ui.line(&format!("A grant gave nothing: {problem}"))?;
    }
    match &probed.outcome.result {
        Ok(output) => {
            ui.line("\nThe tool answered:")?;
            print_output(ui, output)?;
        }
        Err(error) => {
            let message = text::without_error_mark(&error.message);
            ui.line(&format!("\nThe tool gave no answer [{}]: {message}", error.code))?;
        }
    }
    ui.line(match (tried.attempts.as_slice(), tried.elsewhere) {
        ([], 0) => "\nIt tried nothing that it may not.",
        _ => "\nIt tried in vain:",
    })?;
    for (refusal, grant) in &tried.attempts {
        let is_directory = refusal.is_of_directories();
        let grant = match grant {
            Some((kind, text)) => format!("  [{}]", with(*kind, text)),
            None if is_directory => "  [no directory that would do can be granted]".to_owned(),
            None => String::new(),
        };
        let line = format!("{} ({}){grant}", refusal.what, refusal.why);
        ui.line(&format!("  {}", text::one_line(&line)))?;
    }
    match tried.elsewhere {
        0 => {}
        1 => ui.line("  a path that is not on this machine")?,
        more => ui.line(&format!("  {more} paths that are not on this machine"))?,
    }
    let mut known = grants.clone();
    for (kind, text) in tried.grants.all() {
        // It was read from such a text.
        let _ = known.add(kind, &text, None);
    }
    let unmet = super::need::unmet(words, &probed.needs, &known);
    if !unmet.is_empty() {
        ui.line("\nIt did not get to everything it asks for:")?;
        for line in unmet {
            ui.line(&format!("  {}", text::one_line(&line)))?;
        }
    }
    if tried.grants.is_empty() {
        return Ok(());
    }
    let all = known.all();
    let flags: Vec<String> = all
        .iter()
        .map(|(kind, text)| {
            format!("--with {}", toolhost_policy::capability::quoted(&with(*kind, text)))
        })
        .collect();
    ui.line("\nTo let it get further in another probe:")?;
    ui.line(&format!(
        "  toolhost probe {} {} {} {}",
        toolhost_policy::capability::quoted(&given.file.display().to_string()),
        toolhost_policy::capability::quoted(&given.tool),
        toolhost_policy::capability::quoted(&given.arguments),
        flags.join(" ")
    ))?;
    let flags: Vec<String> = all.iter().map(|(kind, text)| kind.flag_for(text)).collect();
    ui.line("To grant it for good:")?;
    ui.line(&format!("  toolhost grant {words} {}", flags.join(" ")))
}
