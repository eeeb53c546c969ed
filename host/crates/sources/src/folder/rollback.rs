//! Back to an earlier build: by a person's command, or since a new build crashes at once.

use std::path::Path;
use std::sync::Arc;

use thiserror::Error;

use toolhost_core::tool::PluginId;
use toolhost_state::store::Builds;
use toolhost_state::trust_store::{self, LockError};
use toolhost_wasm::script;

/// Why there is no way back.
#[derive(Debug, Error)]
pub enum RollbackError {
    /// What is remembered cannot be read or written.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// No other build is kept.
    #[error(
        "no earlier build of plugin:{0} is kept; builds are kept from the second that is in order on"
    )]
    None(PluginId),
    /// No kept build is older than the one that serves.
    #[error(
        "plugin:{id} serves the oldest of its builds that are kept; kept are {kept}; name one by its digest to go to that"
    )]
    Oldest {
        /// The plugin.
        id: PluginId,
        /// What there is, the newest first.
        kept: String,
    },
    /// No kept build has this digest.
    #[error("no kept build of plugin:{id} has the digest {given}; kept are {kept}")]
    Unknown {
        /// The plugin.
        id: PluginId,
        /// What was given.
        given: String,
        /// What there is, the newest first.
        kept: String,
    },
    /// Several kept builds have this digest.
    #[error(
        "{given} begins the digests of several kept builds of plugin:{id}: {kept}; give more of it"
    )]
    Ambiguous {
        /// The plugin.
        id: PluginId,
        /// What was given.
        given: String,
        /// Those it begins.
        kept: String,
    },
}

/// What became of a way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// The digest of the build that serves from now on.
    pub to: String,
    /// Digests that do not serve any more.
    pub refused: Vec<String>,
}

/// Goes back from the build `from` of a plugin to the one kept before it, or to the one whose
/// digest begins with `to`. A build that is saved later is tried again. If what is given up was
/// trusted, the build gone back to has what it was granted when somebody trusted it, or nothing.
/// Only builds count that are there and can be run: scripts by one of the `runners`. It blocks on
/// files.
///
/// # Errors
/// If there is no such build, or the lock cannot be read or written.
pub fn roll_back(
    state: &Path,
    folder: &Path,
    id: &PluginId,
    from: Option<&str>,
    to: Option<&str>,
    runners: &[Arc<str>],
) -> Result<RolledBack, RollbackError> {
    let builds = Builds::new(state);
    trust_store::change(state, |lock| {
        let known = lock.plugin_mut(folder, id.as_str());
        let is_candidate = |digest: &&String| {
            let is_other = Some(digest.as_str()) != from && !known.refused.contains(digest);
            (to.is_some() || is_other) && can_run(&builds, digest, runners)
        };
        let kept: Vec<String> = known.kept.iter().rev().filter(is_candidate).cloned().collect();
        let shown = |digests: &[String]| {
            let short = |digest: &String| format!("sha256:{}", digest.get(..12).unwrap_or(digest));
            digests.iter().map(short).collect::<Vec<_>>().join(", ")
        };
        if kept.is_empty() {
            let all = known.kept.iter().rev().filter(|digest| can_run(&builds, digest, runners));
            let all: Vec<String> = all.cloned().collect();
            let others = all.iter().filter(|digest| Some(digest.as_str()) != from).count();
            if to.is_none() && others > 0 {
                return Err(RollbackError::Oldest { id: id.clone(), kept: shown(&all) });
            }
            return Err(RollbackError::None(id.clone()));
        }
        let chosen = match to {
            None => kept[0].clone(),
            Some(given) => {
                let wanted = given.trim_start_matches("sha256:").to_ascii_lowercase();
                let fits: Vec<String> =
                    kept.iter().filter(|digest| digest.starts_with(&wanted)).cloned().collect();
                let given = given.to_owned();
                match fits.as_slice() {
                    [] => {
                        let kept = shown(&kept);
                        return Err(RollbackError::Unknown { id: id.clone(), given, kept });
                    }
                    [one] => one.clone(),
                    several => {
                        let kept = shown(several);
                        return Err(RollbackError::Ambiguous { id: id.clone(), given, kept });
                    }
                }
            }
        };
        // Whatever would come before it does not serve.
        let newer = known.kept.iter().skip_while(|digest| **digest != chosen).skip(1).cloned();
        let mut refused: Vec<String> =
            newer.chain(from.filter(|from| *from != chosen).map(str::to_owned)).collect();
        refused.sort();
        refused.dedup();
        // Who was trusted and given up is trusted still.
        if known.trusted.as_ref().is_none_or(|trusted| refused.contains(trusted)) {
            known.go_back(&chosen);
        }
        if known.build.as_ref().is_some_and(|build| refused.contains(&build.digest)) {
            known.build = None;
        }
        known.refused.clone_from(&refused);
        Ok(RolledBack { to: chosen, refused })
    })?
}

/// Tells whether a kept build is there, and this host can run it.
fn can_run(builds: &Builds, digest: &str, runners: &[Arc<str>]) -> bool {
    let Some(bytes) = builds.find(digest).and_then(|path| std::fs::read(path).ok()) else {
        return false;
    };
    script::runner_of(&bytes).is_none_or(|wanted| runners.iter().any(|runner| **runner == *wanted))
}
