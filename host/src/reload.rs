//! Folders of plugins: what lies in them, loaded and published, and again whenever it changes.
//!
//! Starting up is reloading everything from nothing. A file that is broken, or waits for a
//! person, takes no working tool away: the build that was last in order is kept, also across
//! restarts, and serves in its place. What is published is a function of what lies there, of what
//! is remembered and of what the operator configured; a change of any of them is one look, and
//! loads what is new alone.

mod gate;
mod judge;
mod look;
mod missing;
mod note;
mod reloader;
mod remember;
mod reread;
mod rollback;
mod scan;
mod settle;
mod source;
mod status;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::authority::Grants;
use crate::difference::Outline;
use crate::lock::{self, Lock, LockError, Owner};
use crate::plugin::Facts;
use crate::registry::Owners;
use crate::tool::{Need, Origin, PluginId, SourceId};

pub use gate::Gate;
pub use judge::{surface, suspect};
pub use note::note;
pub use reloader::{Parts, ReloadSettings, Reloader, Renewed, Reread, Shown};
pub use remember::{Trusted, trust};
pub use rollback::{RollbackError, RolledBack, roll_back};
pub use scan::find;
pub use settle::kept;
pub use status::{Failed, SourceStatus, Status};

/// A folder of plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// How far what lies there is trusted with names, unless it is bundled.
    pub origin: Origin,
}

/// A build that loaded. Its tools are in the catalog's report on its source, unless it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// How far it is trusted with names.
    pub origin: Origin,
    /// A person has vouched for it: it is bundled, or its bytes or its project were trusted.
    pub trusted: bool,
    /// The operator's rule (`update`) has trusted it just now.
    pub trusted_by_rule: bool,
    /// What it asks for.
    pub needs: Vec<Need>,
    /// What it declares, in short.
    pub outline: Outline,
    /// What else is known of it.
    pub facts: Facts,
    /// Of a script: its bytes, as they are kept.
    pub packed: Option<Arc<[u8]>>,
    /// What has changed since the build that served before it in this process, if there was one;
    /// a line each, what breaks first.
    pub changes: Vec<String>,
    /// It is not counted: this other file has the same bytes, or is a newer build of the same
    /// bundled plugin.
    pub same_as: Option<PathBuf>,
    /// What it was granted, whether it gives anything or not.
    pub granted: Grants,
    /// Grants that give nothing, each with the reason and what to do.
    pub grants: Vec<String>,
    /// What it waits for, if it does.
    pub pending: Option<Pending>,
}

/// What a build waits for: a person to look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Why.
    pub why: String,
    /// What happens until then.
    pub meanwhile: String,
    /// It serves meanwhile, without what it was granted.
    pub serves: bool,
    /// Texts that a person should look at, with their places.
    pub suspicions: Vec<String>,
    /// How it differs from the build before, a line each; the first ones.
    pub differences: Vec<String>,
    /// How many differences there are.
    pub differences_count: usize,
}

/// What this user's host remembers about plugins.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// Ids and digests of bundled plugins, with their ages.
    pub bundled: BTreeMap<(String, String), usize>,
    /// What was seen and what was trusted.
    pub lock: Lock,
    /// Where it is remembered, and where builds are kept.
    pub state: Option<PathBuf>,
}

impl Remembered {
    /// Reads what is remembered in a state folder. A damaged lock trusts nobody, and is left as it
    /// is.
    ///
    /// # Errors
    /// If something cannot be read.
    pub fn read(state: &Path) -> Result<Remembered, LockError> {
        let bundled = lock::bundled_digests(state)?;
        match lock::load(state) {
            Ok(lock) => Ok(Remembered { bundled, lock, state: Some(state.to_owned()) }),
            Err(error @ LockError::Damaged { .. }) => {
                tracing::error!(
                    "{error}; until then no plugin is trusted, and nothing is remembered"
                );
                Ok(Remembered { bundled, ..Remembered::default() })
            }
            Err(error) => Err(error),
        }
    }

    /// Who had which name, for the registry.
    pub fn owners(&self) -> Owners {
        let source = |owner: &Owner| {
            let id = PluginId::from_stem(&owner.id).ok()?;
            Some(SourceId::Plugin { id, folder: owner.folder.clone() })
        };
        let of_name = |(name, owners): (&String, &Vec<Owner>)| {
            (name.clone(), owners.iter().filter_map(source).collect())
        };
        self.lock.names.iter().map(of_name).collect()
    }
}
