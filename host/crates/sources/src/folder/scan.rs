//! What lies in the folders: files that may be plugins, and files that cannot be.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Folder, FolderError};
use crate::driver::{Location, NoSource};
use toolhost_core::limits::Limits;
use toolhost_core::tool::{Origin, PluginId, SourceId};
use toolhost_state::read::{FileProblem, ReadError, ReadScope};
use toolhost_wasm::script::EntriesLeft;
use toolhost_wasm::{Candidate, script};

/// A file that is worth a try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileFound {
    pub(super) candidate: Candidate,
    pub(super) origin: Origin,
    pub(super) rank: usize,
    /// The file, as whoever configured its folder wrote that.
    pub(super) named: PathBuf,
    /// Why it is not even looked at: other files of the folder have its id, or the folders there are too
    /// large.
    pub(super) problem: Option<String>,
}

/// Returns the files with this id in `folders`, the highest rank first, each with its folder's
/// origin.
pub fn find(folders: &[Folder], id: &PluginId, limits: &Limits) -> Vec<(Candidate, Origin)> {
    let scanned = scan_all(folders, limits);
    let mut found: Vec<FileFound> = scanned
        .found
        .into_iter()
        .filter(|found| found.candidate.id == *id && found.problem.is_none())
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
pub(super) struct FolderScan {
    /// Files that may be plugins.
    pub(super) found: Vec<FileFound>,
    /// What cannot be one.
    pub(super) problems: Vec<NoSource>,
    /// Folders that may hold more than was found, since they cannot be read now.
    pub(super) unreadable: Vec<PathBuf>,
    /// Where folders really are.
    pub(super) real: Vec<(PathBuf, PathBuf)>,
}

pub(super) fn scan_all(folders: &[Folder], limits: &Limits) -> FolderScan {
    let FolderScan { mut found, mut problems, mut unreadable, mut real } = FolderScan::default();
    let mut seen = BTreeSet::new();
    for (rank, folder) in folders.iter().enumerate() {
        let seen_there = folder.place().and_then(|place| Ok((folder.real()?, place)));
        let (path, place) = match seen_there {
            Ok(seen_there) => seen_there,
            // A folder that is not there holds no plugins.
            Err(FolderError::Io(error)) if is_absent(&error) => continue,
            Err(FolderError::Io(error)) => {
                let reason = unreadable_folder(&error);
                problems.push(refused(folder.path.clone(), None, reason));
                unreadable.push(folder.path.clone());
                continue;
            }
            // Its plugins are found anyway.
            Err(FolderError::LeadsOut(target)) if seen.contains(&target) => continue,
            Err(error) => {
                problems.push(refused(folder.path.clone(), None, error.to_string()));
                continue;
            }
        };
        real.push((folder.path.clone(), path.clone()));
        if !seen.insert(path.clone()) {
            continue;
        }
        match scan(&path, &place, limits) {
            Ok((candidates, of_folder)) => {
                let origin = folder.origin;
                found.extend(candidates.into_iter().map(|(candidate, problem)| {
                    let named = named(&candidate.path, &folder.path);
                    FileFound { candidate, origin, rank, named, problem }
                }));
                problems.extend(of_folder);
            }
            // It has just been removed.
            Err(Unlisted::Io(error)) if is_absent(&error) => {}
            Err(reason) => {
                let reason = match reason {
                    Unlisted::Io(error) => unreadable_folder(&error),
                    Unlisted::TooMany(reason) => reason,
                };
                problems.push(refused(path.clone(), None, reason));
                unreadable.push(path);
            }
        }
    }
    FolderScan { found, problems, unreadable, real }
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

/// A file; and why it is not even looked at, if that is so.
type Candidates = (Candidate, Option<String>);

/// Lists the components and scripts of one folder. Of the folders in it, only those count that are
/// scripts.
fn scan(
    folder: &Path,
    place: &ReadScope,
    limits: &Limits,
) -> Result<(Vec<Candidates>, Vec<NoSource>), Unlisted> {
    let mut candidates: BTreeMap<PluginId, Vec<PathBuf>> = BTreeMap::new();
    let mut problems = Vec::new();
    let files_max = limits.plugin_files_max.0;
    let mut entries_left = EntriesLeft::new(limits);
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
            && let Err(ReadError { problem: problem @ FileProblem::LeadsOut, .. }) =
                place.real(&path)
        {
            if may_be_a_plugin(&path) {
                problems.push(refused(path, None, problem.to_string()));
            }
            continue;
        }
        let Some(stem) = stem(&path) else {
            problems.extend(
                script::ignored(&path, &mut entries_left).map(|why| refused(path, None, why)),
            );
            continue;
        };
        match PluginId::from_stem(&stem) {
            Ok(id) => candidates.entry(id).or_default().push(path),
            Err(error) => {
                problems.push(refused(path, None, format!("{error}; rename the file")));
            }
        }
    }
    let mut found = Vec::new();
    for (id, mut paths) in candidates {
        paths.sort();
        let twins = twins(&id, &paths);
        let too_crowded = match &*paths {
            [path] => entries_left.count(path, limits).err().map(|error| error.to_string()),
            _ => None,
        };
        let mut of_id = paths.into_iter().map(|path| Candidate {
            id: id.clone(),
            folder: folder.to_owned(),
            path,
            place: place.clone(),
        });
        found.extend(of_id.next().map(|first| (first, twins.clone().or(too_crowded))));
        let reason = twins.unwrap_or_default();
        problems.extend(of_id.map(|other| {
            let source = SourceId::Plugin { id: other.id, folder: other.folder };
            refused(other.path, Some(source), reason.clone())
        }));
    }
    Ok((found, problems))
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

fn refused(path: PathBuf, source: Option<SourceId>, reason: String) -> NoSource {
    NoSource { location: Location::File(path), source, reason }
}

/// A file of a folder as whoever configured the folder wrote that, so that a plugin is named without
/// more of this machine than need be.
fn named(path: &Path, configured: &Path) -> PathBuf {
    let Some(below) = path.file_name() else { return path.to_owned() };
    // A bare name would be an id.
    let configured = if configured == Path::new("") { Path::new(".") } else { configured };
    configured.join(below)
}
