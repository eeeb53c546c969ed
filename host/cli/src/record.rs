//! `toolhost record-bundled`, for `make`

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::build::{self, record_of};
use super::failure::Failure;
use super::home::Home;
use super::ui::Ui;
use super::{Global, loaded_anew};
use toolhost::{Host, HostSettings};
use toolhost_author as author;
use toolhost_core::limits::Limits;
use toolhost_core::tool::{Origin, SourceId, ToolSpec};
use toolhost_sources::folder::{self, Folder};
use toolhost_sources::reload::SourceStatus;
use toolhost_state::trust_store;

/// Records scripts as bundled with toolhost, and what all bundled plugins register, so that they are
/// listed before they are compiled. `make` uses this for toolhost's own plugins.
#[derive(Debug, clap::Args)]
pub(super) struct RecordArguments {
    /// Folders of scripts, in a folder of plugins.
    #[arg(required = true)]
    scripts: Vec<PathBuf>,

    /// Copy them into the user's folder of bundled plugins first, so that they are found from any
    /// directory.
    #[arg(long)]
    install: bool,
}

pub(super) async fn run(ui: &Ui, global: &Global, given: &RecordArguments) -> Result<(), Failure> {
    let home = Home::from_environment()?;
    let record = record_of(&home, given.install)?;
    let failed = |error: std::io::Error| Failure::usage(error.to_string());
    let mut scripts = Vec::new();
    for script in &given.scripts {
        let real = fs::canonicalize(script)
            .map_err(|error| Failure::usage(format!("{}: {error}", script.display())))?;
        scripts.push(if given.install { install(&home, &real)? } else { real });
    }
    let folder = match (given.install, scripts.first().and_then(|script| script.parent())) {
        (false, Some(folder)) => folder.to_owned(),
        _ => home.bundled.clone(),
    };
    let settings = || {
        let folders = vec![Folder { path: folder.clone(), origin: Origin::User }];
        Ok::<_, Failure>(HostSettings { folders, ..home.settings(global)? })
    };
    // A script's digest is that of its text and its runner.
    let host = loaded_anew(ui, settings()?).await?;
    let mut digests = Vec::new();
    for status in host.loaded().await.iter() {
        let Some(file) = status.location.file() else { continue };
        let is_it = scripts.iter().any(|script| file.starts_with(script));
        match (&status.source, &status.state) {
            (Some(SourceId::Plugin { id, .. }), Ok(ready)) if is_it => {
                digests.push((id.to_string(), ready.facts.digest.to_string()));
            }
            (_, Err(problem)) if is_it => {
                ui.line(&format!("{} is not recorded: {problem}", file.display()))?;
            }
            _ => {}
        }
    }
    drop(host);
    trust_store::record_bundled(record, &digests)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let host = loaded_anew(ui, settings()?).await?;
    folder::record_definitions(record, &registered(&host).await).map_err(failed)
}

/// Copies a script into the user's folder of bundled plugins.
fn install(home: &Home, script: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| Failure::usage(error.to_string());
    fs::create_dir_all(&home.bundled).map_err(failed)?;
    let stage = tempfile::Builder::new().prefix(".toolhost-").tempdir_in(&home.bundled);
    let stage = stage.map_err(failed)?;
    let limits = Limits::default();
    let copy = author::copy_script(script, stage.path(), &home.bundled, &limits);
    let copy = copy.map_err(|error| build::failure(&error))?;
    author::put(&copy, &home.bundled).map_err(|error| build::failure(&error))
}

/// What bundled plugins register, by their digests.
async fn registered(host: &Host) -> Vec<(Arc<str>, Vec<ToolSpec>)> {
    let (sources, catalog) = (host.loaded().await, host.catalog());
    let of = |status: &SourceStatus| {
        let ready = status.serving().filter(|ready| ready.origin == Origin::Bundled)?;
        let entries = catalog.tools().into_iter();
        let entries = entries.filter(|entry| Some(&entry.source) == status.source.as_ref());
        let tools: Vec<ToolSpec> = entries.map(|entry| entry.tool.spec().clone()).collect();
        (!tools.is_empty()).then(|| (Arc::clone(&ready.facts.digest), tools))
    };
    sources.iter().filter_map(of).collect()
}
