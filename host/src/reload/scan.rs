//! What lies in the folders: files that may be plugins, and files that cannot be.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{Folder, SourceStatus, refused};
use crate::limits::Limits;
use crate::plugin::Candidate;
use crate::script;
use crate::tool::{Origin, PluginId, SourceId};

/// A file that is worth a try.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) candidate: Candidate,
    pub(super) origin: Origin,
    pub(super) rank: usize,
    /// Why it is not even tried: other files of the folder have its id.
    pub(super) twins: Option<String>,
}

/// Returns the files with this id in `folders`, the highest rank first.
pub fn find(folders: &[Folder], id: &PluginId, limits: &Limits) -> Vec<Candidate> {
    let (found, _) = scan_all(folders, limits);
    let mut found: Vec<Found> = found
        .into_iter()
        .filter(|found| found.candidate.id == *id && found.twins.is_none())
        .collect();
    found.sort_by_key(|found| found.rank);
    found.into_iter().map(|found| found.candidate).collect()
}

pub(super) fn scan_all(folders: &[Folder], limits: &Limits) -> (Vec<Found>, Vec<SourceStatus>) {
    let (mut found, mut statuses) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for (rank, folder) in folders.iter().enumerate() {
        // A folder that is not there holds no plugins.
        let Ok(path) = std::fs::canonicalize(&folder.path) else { continue };
        if !seen.insert(path.clone()) {
            continue;
        }
        match scan(&path, limits) {
            Ok((candidates, problems)) => {
                let origin = folder.origin;
                found.extend(candidates.into_iter().map(|(candidate, twins)| Found {
                    candidate,
                    origin,
                    rank,
                    twins,
                }));
                statuses.extend(problems);
            }
            Err(reason) => statuses.push(refused(path, None, reason)),
        }
    }
    (found, statuses)
}

/// A file; and why it is not tried, if others have its id.
type Candidates = (Candidate, Option<String>);

/// Lists the components and scripts of one folder. Of the folders in it, only those count that are
/// scripts.
fn scan(folder: &Path, limits: &Limits) -> Result<(Vec<Candidates>, Vec<SourceStatus>), String> {
    let failed = |error: std::io::Error| {
        format!("the folder cannot be read: {error}; check its permissions")
    };
    let mut candidates: BTreeMap<PluginId, Vec<PathBuf>> = BTreeMap::new();
    let mut statuses = Vec::new();
    let files_max = limits.plugin_files_max.0;
    for (count, entry) in std::fs::read_dir(folder).map_err(failed)?.enumerate() {
        if count == files_max {
            return Err(format!(
                "the folder holds more than `plugin_files_max` of {files_max} files; plugins need a folder of their own"
            ));
        }
        let path = entry.map_err(failed)?.path();
        let Some(stem) = stem(&path) else { continue };
        match PluginId::from_stem(&stem) {
            Ok(id) => candidates.entry(id).or_default().push(path),
            Err(error) => {
                statuses.push(refused(path, None, format!("{error}; rename the file")));
            }
        }
    }
    let mut found = Vec::new();
    for (id, mut paths) in candidates {
        paths.sort();
        let twins = twins(&id, &paths);
        let mut of_id = paths.into_iter().map(|path| Candidate {
            id: id.clone(),
            folder: folder.to_owned(),
            path,
        });
        found.extend(of_id.next().map(|first| (first, twins.clone())));
        let reason = twins.unwrap_or_default();
        statuses.extend(of_id.map(|other| {
            let source = SourceId::Plugin { id: other.id, folder: other.folder };
            refused(other.path, Some(source), reason.clone())
        }));
    }
    Ok((found, statuses))
}

/// The stem of what is a plugin by its name: a component, or a script. Hidden files are of no
/// concern.
fn stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    let extension = path.extension().unwrap_or_default();
    if extension.eq_ignore_ascii_case("wasm") && !name.starts_with('.') {
        return path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    }
    script::language(path).map(|_| script::stem(path))
}

/// Why files of one folder with one id are all refused, if there are several.
fn twins(id: &PluginId, paths: &[PathBuf]) -> Option<String> {
    let name =
        |path: &PathBuf| format!("`{}`", path.file_name().unwrap_or_default().to_string_lossy());
    let names: Vec<String> = paths.iter().map(name).collect();
    (names.len() > 1).then(|| {
        let names = names.join(" and ");
        format!("{names} have the same plugin id `{id}`; rename or remove all but one")
    })
}
