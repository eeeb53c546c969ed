//! Digests of the plugins that `make` built.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{LockError, read, rewrite};
use crate::atomic_file;

/// Digests remembered for one plugin: the newest ones. Checkouts side by side each have one.
const DIGESTS_MAX: usize = 16;
/// The name of the file with the digests of bundled plugins.
pub const BUNDLED: &str = "bundled.json";

/// The file as it is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bundled {
    /// For each plugin id the digests of its builds, the newest last.
    plugins: BTreeMap<String, Vec<String>>,
}

/// Returns the digests of all bundled plugins, each with its age: how many builds of the same
/// plugin are newer. They stand in the state folder, and in `built`, which `make` wrote beside the
/// program; that comes first, and counts in every home, if this user or root alone can write there.
/// Without the files there are none.
///
/// # Errors
/// If a file exists and cannot be read, or is damaged.
pub fn bundled_digests(
    state: &Path,
    built: Option<&Path>,
) -> Result<BTreeMap<(String, String), usize>, LockError> {
    let built = built.filter(|folder| counts(folder));
    let mut found: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut ages: BTreeMap<String, usize> = BTreeMap::new();
    for folder in built.into_iter().chain([state]) {
        let bundled: Bundled = read(&folder.join(BUNDLED))?;
        for (id, digests) in bundled.plugins {
            for digest in digests.into_iter().rev() {
                let age = ages.entry(id.clone()).or_default();
                found.entry((id.clone(), digest)).or_insert_with(|| {
                    *age += 1;
                    *age - 1
                });
            }
        }
    }
    Ok(found)
}

/// Tells whether what was recorded beside the program is there and counts.
pub fn counts(built: &Path) -> bool {
    check_built(built).unwrap_or_else(|problem| {
        tracing::warn!("what was recorded beside the program does not count: {problem}");
        false
    })
}

/// Tells whether there is a record beside the program, of this user or root alone.
fn check_built(folder: &Path) -> Result<bool, String> {
    for path in [folder, &folder.join(BUNDLED)] {
        match std::fs::symlink_metadata(path) {
            Ok(metadata) => atomic_file::check_owner(path, &metadata)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Ok(true)
}

/// Remembers that these plugins, by id and digest, were built here.
///
/// # Errors
/// If the file cannot be read or written, or is damaged.
pub fn record_bundled(state: &Path, built: &[(String, String)]) -> Result<(), LockError> {
    rewrite(state, BUNDLED, |bundled: &mut Bundled| {
        for (id, digest) in built {
            let digests = bundled.plugins.entry(id.clone()).or_default();
            digests.retain(|known| known != digest);
            digests.push(digest.clone());
            let over = digests.len().saturating_sub(DIGESTS_MAX);
            digests.drain(..over);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_remembered_and_bounded() {
        let home = tempfile::tempdir().expect("a folder");
        let state = home.path().join("state");
        assert!(bundled_digests(&state, None).expect("no file").is_empty());
        for build in 0..20 {
            record_bundled(&state, &[("json".into(), format!("d{build}"))]).expect("recorded");
        }
        let digests = bundled_digests(&state, None).expect("a file");
        assert_eq!(digests.len(), DIGESTS_MAX);
        let age = |digest: &str| digests.get(&("json".to_owned(), digest.to_owned()));
        assert_eq!((age("d19"), age("d18"), age("d3")), (Some(&0), Some(&1), None));
    }

    #[test]
    fn what_was_built_here_comes_before_what_this_home_has_built() {
        use std::fs::{Permissions, set_permissions};
        use std::os::unix::fs::PermissionsExt;

        let home = tempfile::tempdir().expect("a folder");
        let (state, built) = (home.path().join("state"), home.path().join("built"));
        let record = |folder: &Path, digest: &str| {
            record_bundled(folder, &[("json".into(), digest.into())]).expect("recorded");
        };
        record(&state, "old");
        record(&state, "both");
        record(&built, "both");
        record(&built, "new");
        let digests = || -> Vec<(String, usize)> {
            let found = bundled_digests(&state, Some(&built)).expect("files");
            found.into_iter().map(|((_, digest), age)| (digest, age)).collect()
        };
        let all = |ages: &[(&str, usize)]| -> Vec<(String, usize)> {
            ages.iter().map(|(digest, age)| ((*digest).to_owned(), *age)).collect()
        };
        assert_eq!(digests(), all(&[("both", 1), ("new", 0), ("old", 2)]));
        // Where others could write, it is theirs.
        for place in [built.clone(), built.join(BUNDLED)] {
            let mode = |mode: u32| set_permissions(&place, Permissions::from_mode(mode));
            mode(0o722).expect("changed");
            assert_eq!(digests(), all(&[("both", 0), ("old", 1)]));
            mode(0o700).expect("changed");
        }
        assert_eq!(digests().len(), 3);
    }

    #[test]
    fn writers_do_not_lose_each_other() {
        let home = tempfile::tempdir().expect("a folder");
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let state = home.path();
                scope.spawn(move || {
                    record_bundled(state, &[(format!("p{writer}"), format!("d{writer}"))])
                        .expect("recorded");
                });
            }
        });
        assert_eq!(bundled_digests(home.path(), None).expect("a file").len(), 8);
    }
}
