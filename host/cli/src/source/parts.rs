//! What else is built with a source: the members of its workspace and what it depends on by a path. A
//! clone that lies there is its author's, whoever is trusted around it.
//!
//! A stranger may have written all of this: nothing is looked at that lies elsewhere, folders and entries
//! are counted, and names are compared in the time of their length.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::manifest;
use toolhost_state::config;
use toolhost_state::read::{self, Astray};

/// Packages that are looked at; of more, nobody can tell whose they are.
const PARTS_MAX: usize = 1_000;
/// Entries of folders that are looked at for them, all together; as above.
const ENTRIES_MAX: usize = 20_000;

/// The first folder that is built with a source, and is not its author's: it lies in none of these, or
/// `is_own` says no. All of them, and what `is_own` is asked of, are without links.
pub(super) fn foreign(
    source: &Path,
    folders: &[PathBuf],
    is_own: &dyn Fn(&Path) -> bool,
) -> Option<PathBuf> {
    // One that cannot be read may have one.
    let has_workspace = |folder: &Path| {
        manifest(folder).map_or(true, |manifest| config::has_workspace(&manifest, true))
    };
    let mut parts =
        BuiltParts { folders, entries_left: ENTRIES_MAX, left: vec![source.to_owned()] };
    if !has_workspace(source) {
        let around = source.ancestors().skip(1).filter(|folder| is_own(folder));
        parts.left.extend(around.filter(|folder| has_workspace(folder)).map(Path::to_owned));
    }
    let mut seen = BTreeSet::new();
    while let Some(folder) = parts.left.pop() {
        if !seen.insert(folder.clone()) {
            continue;
        }
        if seen.len() > PARTS_MAX || !is_own(&folder) && folder != source {
            return Some(folder);
        }
        if let Err(foreign) = parts.add(&folder) {
            return Some(foreign);
        }
    }
    None
}

/// Packages that are still to be looked at, and how much more that may be.
struct BuiltParts<'a> {
    folders: &'a [PathBuf],
    entries_left: usize,
    left: Vec<PathBuf>,
}

impl BuiltParts<'_> {
    /// Adds what the manifest of a folder names.
    ///
    /// # Errors
    /// With what is foreign.
    fn add(&mut self, folder: &Path) -> Result<(), PathBuf> {
        let manifest = manifest(folder).map_err(|_| folder.join(super::MANIFEST))?;
        let named = config::named_by_manifest(&manifest);
        for path in &named.paths {
            let Some(real) = self.real(folder, Path::new(path))? else { continue };
            self.left.push(match (real.is_file(), real.parent()) {
                (true, Some(above)) => above.to_owned(),
                _ => real,
            });
        }
        for pattern in &named.members {
            let members = self.members(folder, Path::new(pattern))?;
            self.left.extend(members);
        }
        Ok(())
    }

    /// Where a path leads; nowhere, if it is not there: that, cargo does not build.
    fn real(&self, folder: &Path, path: &Path) -> Result<Option<PathBuf>, PathBuf> {
        match read::within(self.folders, folder, path) {
            Ok(real) => Ok(real.exists().then_some(real)),
            Err(Astray::LeadsOut(target)) => Err(target),
            Err(Astray::Io(_)) => Ok(None),
        }
    }

    /// The packages that a pattern of a workspace may mean.
    fn members(&mut self, folder: &Path, pattern: &Path) -> Result<BTreeSet<PathBuf>, PathBuf> {
        let mut parts = pattern.components().peekable();
        let is_pattern = |part: &Component| {
            let name = part.as_os_str().as_encoded_bytes();
            name.iter().any(|byte| b"*?[]".contains(byte))
        };
        let mut plain = PathBuf::new();
        while let Some(part) = parts.next_if(|part| !is_pattern(part)) {
            plain.push(part);
        }
        let mut found: BTreeSet<PathBuf> = self.real(folder, &plain)?.into_iter().collect();
        for part in parts {
            let name = part.as_os_str().to_string_lossy();
            let mut next = BTreeSet::new();
            for folder in found {
                match &*name {
                    // Out of a folder that anything may be.
                    ".." => return Err(folder.join(part)),
                    "**" => next.extend(self.all_below(folder)?),
                    _ if is_pattern(&part) => next.extend(self.fitting(&folder, &name)?),
                    _ => next.extend(self.real(&folder, Path::new(&part))?),
                }
                if next.len() > PARTS_MAX {
                    return Err(next.pop_last().unwrap_or_default());
                }
            }
            found = next;
        }
        // A manifest that is a link is one, wherever that leads.
        found.retain(|path| fs::symlink_metadata(path.join(super::MANIFEST)).is_ok());
        Ok(found)
    }

    /// The folders in a folder with names that fit.
    fn fitting(&mut self, folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, PathBuf> {
        let mut found = Vec::new();
        for (name, is_link) in self.entries(folder)? {
            if fits(&name.to_string_lossy(), pattern) {
                match is_link {
                    true => found.extend(self.real(folder, &name)?.filter(|real| real.is_dir())),
                    false => found.push(folder.join(name)),
                }
            }
        }
        Ok(found)
    }

    /// A folder and all below it. Links are not followed.
    fn all_below(&mut self, folder: PathBuf) -> Result<Vec<PathBuf>, PathBuf> {
        let (mut found, mut next) = (vec![folder], 0);
        while let Some(folder) = found.get(next).cloned() {
            if found.len() > PARTS_MAX {
                return Err(folder);
            }
            let below = self.entries(&folder)?.into_iter().filter(|(_, is_link)| !is_link);
            found.extend(below.map(|(name, _)| folder.join(name)));
            next += 1;
        }
        Ok(found)
    }

    /// The names of folders in a folder, and of links, with whether they are.
    fn entries(&mut self, folder: &Path) -> Result<Vec<(PathBuf, bool)>, PathBuf> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let left = self.entries_left.checked_sub(1);
            self.entries_left = left.ok_or_else(|| folder.to_owned())?;
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() || kind.is_symlink() {
                found.push((PathBuf::from(entry.file_name()), kind.is_symlink()));
            }
        }
        Ok(found)
    }
}

/// Tells whether a name may fit a pattern. What stands from a `[` on may be anything.
fn fits(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) =
        (name.chars().collect(), pattern.chars().collect());
    let (mut at, mut of) = (0, 0);
    // Where the last `*` stands, and up to where it has taken the name: only that is tried again.
    let mut star: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(of), name.get(at)) {
            (Some('['), _) => return true,
            (Some('*'), _) => {
                star = Some((of, at));
                of += 1;
            }
            (None, None) => return true,
            (Some(one), Some(other)) if *one == '?' || one == other => (at, of) = (at + 1, of + 1),
            (_, None) => return false,
            _ => match &mut star {
                Some((star, taken)) => {
                    *taken += 1;
                    (at, of) = (*taken, *star + 1);
                }
                None => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        for (name, pattern) in [
            ("", ""),
            ("", "*"),
            ("theirs", "th*s"),
            ("theirs", "*e*r*"),
            ("theirs", "t?eirs"),
            ("thérs", "th?rs"),
            ("aab", "*ab"),
            ("abcabd", "*ab?"),
            ("theirs", "th[a-f]"),
            ("theirs", "*"),
        ] {
            assert!(fits(name, pattern), "{name} {pattern}");
        }
        for (name, pattern) in
            [("a", ""), ("", "?"), ("theirs", "th*x"), ("ab", "a"), ("a", "ab"), ("x", "y[")]
        {
            assert!(!fits(name, pattern), "{name} {pattern}");
        }
    }

    #[test]
    fn comparing_names_takes_little_time() {
        let name = "a".repeat(255);
        assert!(!fits(&name, &format!("{}z", "*".repeat(200))));
        assert!(!fits(&name, &format!("{}z", "a*".repeat(500_000))));
    }
}
