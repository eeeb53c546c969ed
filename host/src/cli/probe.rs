//! `toolhost probe`

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::json;
use tokio::sync::watch;

use super::Global;
use super::call::{outcome_json, print_output, read_text};
use super::failure::Failure;
use super::home::Home;
use super::ui::Ui;
use crate::authority::{Grants, Kind};
use crate::host::{self, Probed};
use crate::text;
use crate::tool::{Call, Class, Outcome, PluginId};

/// Runs a stranger's tool with every grant denied, and shows what it tried, as grants.
///
/// Nothing is written down: what `--with` grants, it grants for this run. Give what it tried in
/// vain with `--with`, and it comes further.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The component.
    file: PathBuf,

    /// The tool to call.
    tool: String,

    /// The arguments: a JSON object, `@FILE`, or `-` for stdin.
    #[arg(value_name = "ARGS", default_value = "{}")]
    arguments: String,

    /// Grant this for the run; may be repeated. KIND is dirs, http, env, secrets or kv, VALUE as
    /// `toolhost grant` takes it: `http=https://api.example.com`, `dirs=.:ro`, `kv`.
    #[arg(long, value_name = "KIND=VALUE")]
    with: Vec<String>,

    /// Stop the call after this time, such as `5s`.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    timeout: Option<std::time::Duration>,
}

pub(super) async fn run(ui: &Ui, global: &Global, given: &Arguments) -> Result<(), Failure> {
    let grants = read_grants(&given.with)?;
    let text = read_text(&given.arguments)?;
    let home = Home::from_environment()?;
    let settings = home.settings_with(global, &grants)?;
    let file = given.file.display().to_string();
    let id = given.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (_compiling, compiling) = watch::channel(BTreeSet::from([id]));
    let call = Call { time_max: given.timeout, ..Call::new(&given.tool, text) };
    let probing = host::probe(&given.file, call, &grants, &settings);
    let probed = ui.while_waiting(probing, compiling).await;
    let probed = probed.map_err(|error| Failure::inspect(&file, &error))?;
    if let Err(error) = &probed.outcome.result
        && error.code.class() == Class::Rejected
        && probed.outcome.refusals.is_empty()
    {
        // It never ran, so nothing was probed.
        return Err(Failure::call(error));
    }
    let attempted = attempted(&probed.outcome);
    if ui.json {
        let mut report = outcome_json(&probed.outcome);
        report["attempts"] = probed
            .outcome
            .refusals
            .iter()
            .map(|refusal| {
                json!({
                    "what": refusal.what,
                    "why": refusal.why,
                    "repair": refusal.repair,
                    "grant": refusal.grant.as_ref().map(|(kind, text)| with(kind, text)),
                })
            })
            .collect();
        report["idle"] = json!(probed.idle);
        return ui.json(&report);
    }
    show(ui, given, &grants, &probed, &attempted)
}

fn read_grants(with: &[String]) -> Result<Grants, Failure> {
    let here = super::grant::working_directory()?;
    let mut grants = Grants::default();
    for given in with {
        let (key, text) = given.split_once('=').unwrap_or((given, ""));
        let kind = Kind::ALL.into_iter().find(|kind| kind.key() == key || kind.flag() == key);
        let kind = kind.filter(|kind| *kind != Kind::Hooks).ok_or_else(|| {
            let shown = text::one_line(&text::cut(key, 60));
            Failure::usage(format!("`--with {shown}` names no kind of grant"))
                .hint("kinds are dirs, http, env, secrets and kv, as in `--with http=https://api.example.com`")
        })?;
        let added = grants.add(kind, text, Some(&here));
        added.map_err(|error| Failure::usage(error.to_string()))?;
    }
    Ok(grants)
}

/// The grants that what was tried in vain would have taken, each once.
fn attempted(outcome: &Outcome) -> Grants {
    let mut grants = Grants::default();
    for (key, text) in outcome.refusals.iter().filter_map(|refusal| refusal.grant.as_ref()) {
        if let Some(kind) = Kind::of_key(key) {
            let text = if kind == Kind::Dirs { here(text) } else { text.clone() };
            // What a grant cannot say is among the attempts all the same.
            let _ = grants.add(kind, &text, None);
        }
    }
    grants
}

/// A tool that says `data/x` is seen to say `/data/x`; what is there decides which it meant.
fn here(grant: &str) -> String {
    let Some((path, access)) = grant.rsplit_once(':') else { return grant.to_owned() };
    let relative = path.trim_start_matches('/');
    let is_here = !Path::new(path).exists() || path == "/";
    match std::env::current_dir() {
        Ok(here) if is_here && here.join(relative).exists() => {
            format!("{}=.:{access}", here.display())
        }
        _ => grant.to_owned(),
    }
}

fn with(key: &str, text: &str) -> String {
    match Kind::of_key(key) {
        Some(Kind::Kv) => "kv".to_owned(),
        _ => format!("{key}={text}"),
    }
}

fn show(
    ui: &Ui,
    given: &Arguments,
    grants: &Grants,
    probed: &Probed,
    attempted: &Grants,
) -> Result<(), Failure> {
    let granted = grants.all();
    ui.line(&match granted.as_slice() {
        [] => "Every grant was denied.".to_owned(),
        granted => {
            let granted: Vec<String> =
                granted.iter().map(|(kind, text)| with(kind.key(), text)).collect();
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
            let message = error.message.strip_prefix("[TOOL_ERROR] ").unwrap_or(&error.message);
            ui.line(&format!("\nThe tool gave no answer [{}]: {message}", error.code))?;
        }
    }
    let refusals = &probed.outcome.refusals;
    ui.line(match refusals.as_slice() {
        [] => "\nIt tried nothing that it may not.",
        _ => "\nIt tried in vain:",
    })?;
    for refusal in refusals {
        let grant = refusal.grant.as_ref().map(|(kind, text)| format!("  [{}]", with(kind, text)));
        let line = format!("{} ({}){}", refusal.what, refusal.why, grant.unwrap_or_default());
        ui.line(&format!("  {}", text::one_line(&line)))?;
    }
    let id = given.file.file_stem().unwrap_or_default().to_string_lossy();
    let id = PluginId::from_stem(&id).map_err(|error| Failure::usage(error.to_string()))?;
    let mut known = grants.clone();
    for (kind, text) in attempted.all() {
        // It was read from such a text.
        let _ = known.add(kind, &text, None);
    }
    let unmet = super::need::unmet(&id, &probed.needs, &known);
    if !unmet.is_empty() {
        ui.line("\nIt did not come to everything it asks for:")?;
        for line in unmet {
            ui.line(&format!("  {}", text::one_line(&line)))?;
        }
    }
    if attempted.is_empty() {
        return Ok(());
    }
    let all = known.all();
    let flags: Vec<String> = all
        .iter()
        .map(|(kind, text)| format!("--with {}", crate::authority::quoted(&with(kind.key(), text))))
        .collect();
    ui.line("\nTo let it come further in another probe:")?;
    ui.line(&format!(
        "  toolhost probe {} {} {} {}",
        crate::authority::quoted(&given.file.display().to_string()),
        crate::authority::quoted(&given.tool),
        crate::authority::quoted(&given.arguments),
        flags.join(" ")
    ))?;
    let flags: Vec<String> = all.iter().map(|(kind, text)| kind.flag_for(text)).collect();
    ui.line("To grant it for good:")?;
    ui.line(&format!("  toolhost grant {id} {}", flags.join(" ")))
}
