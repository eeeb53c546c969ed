//! What this user's host remembers about plugins, in the home and never in a project.
//!
//! `bundled.json` has the digests of the plugins that `make` built. Only bytes with one of these
//! digests count as bundled, wherever they lie; so a copied name gains nothing. `toolhost.lock`
//! has the digests that grants were given to: other bytes in the same place get nothing.
//! Any number of processes share these files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::record;

/// Digests remembered for one plugin: the newest ones. Checkouts side by side each have one.
const DIGESTS_MAX: usize = 16;
const BUNDLED: &str = "bundled.json";
const LOCK: &str = "toolhost.lock";

/// Why the file cannot be used.
#[derive(Debug, Error)]
pub enum LockError {
    /// It cannot be read or written.
    #[error("{path} cannot be used: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// It is not what this host writes.
    #[error("{path} is damaged ({problem}); remove it, then run `make` or grant again", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// The file as it is written.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bundled {
    /// For each plugin id the digests of its builds, the newest last.
    plugins: BTreeMap<String, Vec<String>>,
}

/// `toolhost.lock` as it is written.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lock {
    plugins: Vec<Pin>,
}

/// The bytes that the grants of a plugin were given to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The folder of the plugin, without links.
    pub folder: PathBuf,
    /// Its id.
    pub id: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub digest: String,
}

/// Returns the digests of all bundled plugins, each with its age: how many builds of the same
/// plugin are newer. Without the file there are none.
///
/// # Errors
/// If the file exists and cannot be read, or is damaged.
pub fn bundled_digests(state: &Path) -> Result<BTreeMap<(String, String), usize>, LockError> {
    let bundled: Bundled = read(&state.join(BUNDLED))?;
    let aged = |(id, digests): (String, Vec<String>)| {
        let digests = digests.into_iter().rev().enumerate();
        digests.map(move |(age, digest)| ((id.clone(), digest), age))
    };
    Ok(bundled.plugins.into_iter().flat_map(aged).collect())
}

/// Remembers that these plugins, by id and digest, were built here.
///
/// # Errors
/// If the file cannot be read or written, or is damaged.
pub fn record_bundled(state: &Path, built: &[(String, String)]) -> Result<(), LockError> {
    change(state, BUNDLED, |bundled: &mut Bundled| {
        for (id, digest) in built {
            let digests = bundled.plugins.entry(id.clone()).or_default();
            digests.retain(|known| known != digest);
            digests.push(digest.clone());
            let over = digests.len().saturating_sub(DIGESTS_MAX);
            digests.drain(..over);
        }
    })
}

/// Returns the pins of all plugins. Without the file there are none.
///
/// # Errors
/// If the file exists and cannot be read, or is damaged.
pub fn pins(state: &Path) -> Result<Vec<Pin>, LockError> {
    read(&state.join(LOCK)).map(|lock: Lock| lock.plugins)
}

/// Pins a plugin, in place of what was pinned for it before.
///
/// # Errors
/// If the file cannot be read or written, or is damaged.
pub fn pin(state: &Path, pin: &Pin) -> Result<(), LockError> {
    change(state, LOCK, |lock: &mut Lock| {
        lock.plugins.retain(|known| (&known.folder, &known.id) != (&pin.folder, &pin.id));
        lock.plugins.push(pin.clone());
    })
}

/// Forgets what is pinned for an id, in every folder.
///
/// # Errors
/// If the file cannot be read or written, or is damaged.
pub fn unpin(state: &Path, id: &str) -> Result<(), LockError> {
    change(state, LOCK, |lock: &mut Lock| lock.plugins.retain(|known| known.id != id))
}

/// Reads, changes and writes a file, while no other process does.
fn change<T: Default + Serialize + DeserializeOwned>(
    state: &Path,
    name: &str,
    change: impl FnOnce(&mut T),
) -> Result<(), LockError> {
    let path = state.join(name);
    let failed = |error| LockError::Io { path: path.clone(), error };
    let locked = record::lock(state).map_err(failed)?;
    let mut value = read(&path)?;
    change(&mut value);
    let text = serde_json::to_string_pretty(&value).map_err(|error| failed(error.into()))?;
    record::replace(&locked, state, name, text.as_bytes()).map_err(failed)
}

fn read<T: Default + DeserializeOwned>(path: &Path) -> Result<T, LockError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(T::default()),
        Err(error) => return Err(LockError::Io { path: path.to_owned(), error }),
    };
    serde_json::from_str(&text)
        .map_err(|error| LockError::Damaged { path: path.to_owned(), problem: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_remembered_and_bounded() {
        let home = tempfile::tempdir().expect("a folder");
        let state = home.path().join("state");
        assert!(bundled_digests(&state).expect("no file").is_empty());
        for build in 0..20 {
            record_bundled(&state, &[("json".into(), format!("d{build}"))]).expect("recorded");
        }
        let digests = bundled_digests(&state).expect("a file");
        assert_eq!(digests.len(), DIGESTS_MAX);
        let age = |digest: &str| digests.get(&("json".to_owned(), digest.to_owned()));
        assert_eq!((age("d19"), age("d18"), age("d3")), (Some(&0), Some(&1), None));
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
        assert_eq!(bundled_digests(home.path()).expect("a file").len(), 8);
    }

    #[test]
    fn a_pin_replaces_the_one_before() {
        let home = tempfile::tempdir().expect("a folder");
        let made = |folder: &str, digest: &str| Pin {
            folder: folder.into(),
            id: "files".to_owned(),
            digest: digest.to_owned(),
        };
        for entry in [made("/a", "1"), made("/b", "1"), made("/a", "2")] {
            pin(home.path(), &entry).expect("pinned");
        }
        assert_eq!(pins(home.path()).expect("pins"), [made("/b", "1"), made("/a", "2")]);
        unpin(home.path(), "files").expect("unpinned");
        assert!(pins(home.path()).expect("pins").is_empty());
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let home = tempfile::tempdir().expect("a folder");
        fs::write(home.path().join(BUNDLED), "{").expect("written");
        let message = bundled_digests(home.path()).expect_err("damaged").to_string();
        assert!(message.contains("run `make` or grant again"), "{message}");
    }
}
