//! What lies in the folders: files that may be plugins, and files that cannot be.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Folder;
use crate::reload::{Location, SourceStatus};
use toolhost_core::limits::Limits;
use toolhost_core::tool::{Origin, PluginId, SourceId};
use toolhost_state::read::{Place, Problem, ReadError};
use toolhost_wasm::{Candidate, Phase, script};

/// A file that is worth a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) source: SourceId,
    pub(crate) candidate: Candidate,
    pub(crate) origin: Origin,
    pub(crate) rank: usize,
    /// The file, as whoever configured its folder wrote that.
    pub(crate) named: PathBuf,
    /// Why it is not even tried: other files of the folder have its id.
    pub(crate) twins: Option<String>,
}

/// Returns the files with this id in `folders`, the highest rank first, each with its folder's
/// origin.
pub fn find(folders: &[Folder], id: &PluginId, limits: &Limits) -> Vec<(Candidate, Origin)> {
    let scanned = scan_all(folders, limits);
    let mut found: Vec<Found> = scanned
        .found
        .into_iter()
        .filter(|found| found.candidate.id == *id && found.twins.is_none())
        .collect();
    found.sort_by_key(|found| found.rank);
    found.into_iter().map(|found| (found.candidate, found.origin)).collect()
}

/// The ids of what lies in `folders`.
pub fn ids(folders: &[Folder], limits: &Limits) -> BTreeSet<PluginId> {
    scan_all(folders, limits).found.into_iter().map(|found| found.candidate.id).collect()
}

/// What lies in all folders.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    /// Files that may be plugins.
    pub(crate) found: Vec<Found>,
    /// What cannot be one.
    pub(crate) problems: Vec<SourceStatus>,
    /// Folders that may hold more than was found, since they cannot be read now.
    pub(crate) unreadable: Vec<PathBuf>,
    /// Where folders really are.
    pub(crate) real: Vec<(PathBuf, PathBuf)>,
}

pub(crate) fn scan_all(folders: &[Folder], limits: &Limits) -> Scanned {
    let Scanned { mut found, problems: mut statuses, mut unreadable, mut real } =
        Scanned::default();
    let mut seen = BTreeSet::new();
    for (rank, folder) in folders.iter().enumerate() {
        let path = match std::fs::canonicalize(&folder.path) {
            Ok(path) => path,
            // A folder that is not there holds no plugins.
            Err(error) if is_absent(&error) => continue,
            Err(error) => {
                let reason = unreadable_folder(&error);
                statuses.push(refused(folder.path.clone(), None, reason));
                unreadable.push(folder.path.clone());
                continue;
            }
        };
        real.push((folder.path.clone(), path.clone()));
        if !seen.insert(path.clone()) {
            continue;
        }
        let place = match folder.place() {
            Ok(place) => place,
            Err(reason) => {
                statuses.push(refused(folder.path.clone(), None, reason));
                continue;
            }
        };
        match scan(&path, &place, limits) {
            Ok((candidates, problems)) => {
                let origin = folder.origin;
                found.extend(candidates.into_iter().map(|(candidate, twins)| {
                    let named = named(&candidate.path, &folder.path);
                    let Candidate { id, folder, .. } = candidate.clone();
                    let source = SourceId::Plugin { id, folder };
                    Found { source, candidate, origin, rank, named, twins }
                }));
                statuses.extend(problems);
            }
            // It has just been removed.
            Err(Unlisted::Io(error)) if is_absent(&error) => {}
            Err(reason) => {
                let reason = match reason {
                    Unlisted::Io(error) => unreadable_folder(&error),
                    Unlisted::TooMany(reason) => reason,
                };
                statuses.push(refused(path.clone(), None, reason));
                unreadable.push(path);
            }
        }
    }
    Scanned { found, problems: statuses, unreadable, real }
}

/// Why a folder is not listed.
enum Unlisted {
    Io(std::io::Error),
    TooMany(String),
}

fn is_absent(error: &std::io::Error) -> bool {
    [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind())
}

fn unreadable_folder(error: &std::io::Error) -> String {
    format!(
        "the folder cannot be read: {error}; check its permissions; plugins that were loaded from it stay"
    )
}

/// A file; and why it is not tried, if others have its id.
type Candidates = (Candidate, Option<String>);

/// Lists the components and scripts of one folder. Of the folders in it, only those count that are
/// scripts.
fn scan(
    folder: &Path,
    place: &Place,
    limits: &Limits,
) -> Result<(Vec<Candidates>, Vec<SourceStatus>), Unlisted> {
    let mut candidates: BTreeMap<PluginId, Vec<PathBuf>> = BTreeMap::new();
    let mut statuses = Vec::new();
    let files_max = limits.plugin_files_max.0;
    for (count, entry) in std::fs::read_dir(folder).map_err(Unlisted::Io)?.enumerate() {
        if count == files_max {
            return Err(Unlisted::TooMany(format!(
                "the folder holds more than `plugin_files_max` of {files_max} files, so what is new there is not loaded; plugins need a folder of their own"
            )));
        }
        let entry = entry.map_err(Unlisted::Io)?;
        let path = entry.path();
        // Before anything asks what a link leads to.
        if entry.file_type().is_ok_and(|kind| kind.is_symlink())
            && let Err(ReadError { problem: problem @ Problem::LeadsOut, .. }) = place.real(&path)
        {
            if may_be_a_plugin(&path) {
                statuses.push(refused(path, None, problem.to_string()));
            }
            continue;
        }
        let Some(stem) = stem(&path) else {
            statuses.extend(script::ignored(&path).map(|why| refused(path, None, why)));
            continue;
        };
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
            place: place.clone(),
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
pub fn stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    let extension = path.extension().unwrap_or_default();
    if extension.eq_ignore_ascii_case("wasm") && !name.starts_with('.') {
        return path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    }
    script::language(path).map(|_| script::stem(path))
}

/// Tells whether something may be a plugin by its name alone. A folder may be a script.
fn may_be_a_plugin(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default();
    let is_component = extension.eq_ignore_ascii_case("wasm");
    !name.starts_with('.') && (extension.is_empty() || is_component || script::is_module(path))
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

fn refused(path: PathBuf, source: Option<SourceId>, reason: String) -> SourceStatus {
    SourceStatus::refused(Location::File(path), source, Phase::Find, reason)
}

/// A file of a folder as whoever configured the folder wrote that, so that a plugin is named without
/// more of this machine than need be.
fn named(path: &Path, configured: &Path) -> PathBuf {
    let Some(below) = path.file_name() else { return path.to_owned() };
    // A bare name would be an id.
    let configured = if configured == Path::new("") { Path::new(".") } else { configured };
    configured.join(below)
}
