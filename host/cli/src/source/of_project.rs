//! The sources of a project that are built unasked once it is trusted: those that lay there then. What a
//! plugin writes somewhere in the project later is none of them.

use std::fs;
use std::path::{Path, PathBuf};

use super::MANIFEST;
use crate::home::PROJECT_PLUGINS;
use crate::ui;
use toolhost_state::read::is_project;
use toolhost_state::trust_store::{self, Consent};
use toolhost_wasm::script;

/// Folders of a project that are looked at, and sources that are remembered of it. The rest is asked about.
const FOLDERS_MAX: usize = 1_000;
const SOURCES_MAX: usize = 100;

/// Remembers the sources of a project that has just been trusted.
pub(crate) fn record(state: &Path, project: &Path) {
    for source in find(project) {
        if let Err(error) = trust_store::record_consent(state, &source, Consent::Project) {
            ui::error_line(&format!(
                "warning: you will be asked before sources are built: {error}"
            ));
            return;
        }
    }
}

/// Tells whether a source lay in a project when that was trusted, or lies among its plugins, which no
/// plugin can be let write to.
pub(super) fn is_of(state: &Path, project: &Path, source: &Path) -> bool {
    let is_known =
        |folder: &Path| matches!(trust_store::consent(state, folder), Ok(Some(Consent::Project)));
    let mut within = source.ancestors().take_while(|folder| folder.starts_with(project));
    source.starts_with(project.join(PROJECT_PLUGINS)) || within.any(is_known)
}

/// The folders of a project that hold sources, each with all below it.
fn find(project: &Path) -> Vec<PathBuf> {
    let (mut found, mut left, mut seen) = (Vec::new(), vec![project.to_owned()], 0);
    while let Some(folder) = left.pop() {
        seen += 1;
        if seen > FOLDERS_MAX || found.len() == SOURCES_MAX {
            break;
        }
        if folder != project && is_project(&folder) {
            continue;
        }
        if folder.join(MANIFEST).is_file() || script::language(&folder).is_some() {
            found.push(folder);
            continue;
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten().take(FOLDERS_MAX);
        let below = entries.filter(|entry| {
            let name = entry.file_name();
            let is_skipped = name.as_encoded_bytes().starts_with(b".")
                || ["node_modules", "target", "__pycache__"].iter().any(|known| name == *known);
            !is_skipped && entry.file_type().is_ok_and(|kind| kind.is_dir())
        });
        left.extend(below.map(|entry| entry.path()));
    }
    found
}
