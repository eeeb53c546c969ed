//! Digests of the plugins that `make` built.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{LockError, read, rewrite};

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
}
