//! `toolhost rollback`

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;

use super::choose::{Choice, Chooser, CommandWords};
use super::failure::Failure;
use super::home::Home;
use super::ui::Ui;
use super::{Global, loaded_anew};
use toolhost::HostSettings;
use toolhost_core::tool::{Origin, PluginAddress, PluginId, SourceId};
use toolhost_policy::capability;
use toolhost_sources::folder::{self, Folder, RollbackError};
use toolhost_sources::reload::{self, SourceStatus};
use toolhost_state::store::Builds;
use toolhost_state::trust_store;

/// Lets an earlier build of a plugin serve again, in place of the file that lies in the folder.
///
/// Builds are kept: the last five of each plugin that were good, by digest. The file stays as it is
/// and is not served any more; another one that is saved there is tried again. A running host picks
/// it up. Without DIGEST it is the build before the one that serves. If the present build was
/// trusted, the earlier one is trusted too: it was good before.
///
/// A running host does the same by itself when the first three calls of a new build crash within a
/// minute, and those of the build before did not.
#[derive(Debug, clap::Args)]
pub(super) struct RollbackArguments {
    /// The plugin's id; where several have that, `bundled/ID`, `user/ID` or the file.
    #[arg(value_name = "ID|FILE")]
    plugin: String,

    /// The build to go back to, or forward: how its SHA-256 begins. `--list` shows all.
    digest: Option<String>,

    /// Show the builds that are kept, and change nothing.
    #[arg(long, conflicts_with = "digest")]
    list: bool,
}

pub(super) async fn run(
    ui: &Ui,
    global: &Global,
    given: &RollbackArguments,
) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let found = find(ui, &home, global, given).await?;
    let (id, words) = (&found.id, capability::quoted(&given.plugin));
    if given.list {
        return list(ui, &home, id, &found);
    }
    let serving = found.serving.as_deref();
    let (to, runners) = (given.digest.as_deref(), &found.runners);
    let back = folder::roll_back(&home.state, &found.folder, id, serving, to, runners);
    let back = back.map_err(|error| failure(&error, &words))?;
    if ui.json {
        return ui.json(&json!({ "id": id.as_str(), "serves": back.to, "given_up": back.refused }));
    }
    ui.line(&format!("plugin:{id}: its build sha256:{} serves from now on", short(&back.to)))?;
    ui.line(&match back.refused.as_slice() {
        [] => "no build is given up".to_owned(),
        refused => {
            let refused: Vec<&str> = refused.iter().map(|digest| short(digest)).collect();
            format!(
                "given up: {}; `toolhost rollback {words} DIGEST` takes one of them back",
                refused.join(", ")
            )
        }
    })
}

/// What there is of a plugin.
struct KeptBuild {
    id: PluginId,
    folder: PathBuf,
    /// The digest of the build that serves.
    serving: Option<String>,
    /// The digest of the file.
    file: Option<String>,
    /// The digests of what runs scripts here.
    runners: Vec<Arc<str>>,
}

async fn find(
    ui: &Ui,
    home: &Home,
    global: &Global,
    given: &RollbackArguments,
) -> Result<KeptBuild, Failure> {
    let mut settings: HostSettings = home.settings(global)?;
    let rest = match (&given.digest, given.list) {
        (Some(digest), _) => digest.as_str(),
        (None, true) => "--list",
        (None, false) => "",
    };
    let command = CommandWords { name: "rollback", rest, of_gone: false };
    let config = home.operators_config(global);
    let choice = Chooser::new(home, &settings, config, command)?.choose(&given.plugin)?;
    let Choice { address: PluginAddress { id, .. }, file: Some(file) } = choice else {
        return Err(Failure::usage(format!("there is no file of plugin {}", given.plugin)));
    };
    settings.folders.push(Folder { path: file.folder.clone(), origin: Origin::Project });
    // Nothing is loaded that was not loaded before.
    settings.config.audit.enabled = false;
    let host = loaded_anew(ui, settings).await?;
    let (statuses, runners) = (host.loaded().await, host.runner_digests().await);
    let digest = |ready: &reload::Ready| ready.facts.digest.to_string();
    let of = |status: &SourceStatus| {
        let Some(SourceId::Plugin { folder, .. }) = &status.source else { return None };
        Some(KeptBuild {
            id: id.clone(),
            folder: folder.clone(),
            serving: status.serving().map(digest),
            file: status.state.as_ref().ok().map(digest),
            runners: runners.clone(),
        })
    };
    let found = statuses.iter().find(|status| status.location.is(&file.path));
    found.and_then(of).ok_or_else(|| {
        Failure::usage(format!("there is no plugin `{id}`"))
            .hint("`toolhost list` shows all plugins; `--plugins DIR` names another folder")
    })
}

fn list(ui: &Ui, home: &Home, id: &PluginId, found: &KeptBuild) -> Result<(), Failure> {
    let lock = trust_store::load(&home.state).map_err(|error| Failure::usage(error.to_string()))?;
    let known = lock.plugin(&found.folder, id.as_str()).cloned().unwrap_or_default();
    let state = |digest: &String| {
        let is = |other: &Option<String>| other.as_ref() == Some(digest);
        let mut words = Vec::new();
        for (holds, word) in [
            (is(&found.serving), "serves"),
            (is(&found.file), "the file"),
            (is(&known.trusted), "trusted"),
            (known.refused.contains(digest), "given up"),
        ] {
            if holds {
                words.push(word);
            }
        }
        words.join(", ")
    };
    // The newest first.
    let builds = Builds::new(&home.state);
    let kept = known.kept.iter().rev().filter(|digest| builds.find(digest).is_some());
    let rows: Vec<Vec<String>> = kept.map(|digest| vec![digest.clone(), state(digest)]).collect();
    if ui.json {
        let build = |row: &Vec<String>| json!({ "digest": row[0], "state": row[1] });
        return ui.json(&rows.iter().map(build).collect());
    }
    if rows.is_empty() {
        return ui.line(&format!("no build of plugin:{id} is kept yet"));
    }
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| vec![short(&row[0]).to_owned(), row[1].clone()]).collect();
    ui.table(&["BUILD", "STATE"], &rows)
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

fn failure(error: &RollbackError, words: &str) -> Failure {
    let failure = Failure::usage(error.to_string());
    match error {
        RollbackError::Lock(_) => failure,
        _ => failure
            .hint(format!("`toolhost rollback {words} --list` shows the builds that are kept")),
    }
}
