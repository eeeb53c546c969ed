//! What else is built with a source: the members of its workspace and what it depends on by a path. A
//! clone that lies there is its author's, whoever is trusted around it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{MANIFEST, MANIFEST_BYTES_MAX};
use toolhost_state::config;
use toolhost_state::read::ReadScope;

/// Packages that are looked at; of more, nobody can tell whose they are.
const PARTS_MAX: usize = 1_000;

/// The folders that are built with a source and are not its author's: `is_own` tells that of a folder
/// without links.
pub(super) fn foreign(source: &Path, is_own: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let has_workspace = |folder: &Path| config::has_workspace(&manifest(folder), true);
    let mut left: Vec<PathBuf> = vec![source.to_owned()];
    if !has_workspace(source) {
        let around = source.ancestors().skip(1).filter(|folder| is_own(folder));
        left.extend(around.filter(|folder| has_workspace(folder)).map(Path::to_owned));
    }
    let (mut seen, mut foreign) = (BTreeSet::new(), Vec::new());
    while let Some(folder) = left.pop() {
        if !seen.insert(folder.clone()) {
            continue;
        }
        if seen.len() > PARTS_MAX {
            foreign.push(folder);
            break;
        }
        let named = config::named_by_manifest(&manifest(&folder));
        let paths = named.paths.iter().map(|path| folder.join(path));
        let members = named.members.iter().flat_map(|pattern| members(&folder, pattern));
        // What is not there, cargo does not build.
        for real in paths.chain(members).filter_map(|path| fs::canonicalize(path).ok()) {
            let real = match (real.is_file(), real.parent()) {
                (true, Some(above)) => above.to_owned(),
                _ => real,
            };
            if !is_own(&real) && !foreign.contains(&real) {
                foreign.push(real.clone());
            }
            left.push(real);
        }
    }
    foreign
}

fn manifest(folder: &Path) -> String {
    ReadScope::Own.text(&folder.join(MANIFEST), MANIFEST_BYTES_MAX).unwrap_or_default()
}

/// The packages that a pattern of a workspace may mean.
fn members(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for part in Path::new(pattern).components() {
        let name = part.as_os_str().to_string_lossy().into_owned();
        let is_pattern =
            matches!(part, Component::Normal(_)) && name.contains(['*', '?', '[', ']']);
        found = match (is_pattern, &*name) {
            (false, _) => found.into_iter().map(|path| path.join(part)).collect(),
            (true, "**") => found.iter().flat_map(|path| all_below(path)).collect(),
            (true, _) => {
                let below = found.iter().flat_map(|path| folders(path));
                below.filter(|path| fits(path, &name)).collect()
            }
        };
        found.truncate(PARTS_MAX + 1);
    }
    found.retain(|path| path.join(MANIFEST).exists());
    found
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// A folder and all below it, as many as are looked at.
fn all_below(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut next) = (vec![folder.to_owned()], 0);
    while next < found.len() && found.len() <= PARTS_MAX {
        let below = folders(&found[next]);
        found.extend(below.into_iter().filter(|path| !path.is_symlink()));
        next += 1;
    }
    found
}

/// Tells whether a folder's name may fit a pattern. What stands from a `[` on may be anything.
fn fits(path: &Path, pattern: &str) -> bool {
    fn is(name: &[u8], pattern: &[u8]) -> bool {
        match (pattern, name) {
            ([b'[', ..], _) => true,
            ([], name) => name.is_empty(),
            ([b'*', rest @ ..], _) => (0..=name.len()).any(|at| is(&name[at..], rest)),
            ([b'?', rest @ ..], [_, name @ ..]) => is(name, rest),
            ([one, rest @ ..], [other, name @ ..]) => one == other && is(name, rest),
            (_, []) => false,
        }
    }
    is(path.file_name().unwrap_or_default().as_encoded_bytes(), pattern.as_bytes())
}
