//! Folders of plugins: what lies in them, loaded and published, and again whenever it changes.
//!
//! Starting up is reloading everything from nothing. A file that is broken, or waits for a
//! person, takes no working tool away: the build that was last in order is kept, also across
//! restarts, and serves in its place. What is published is a function of what lies there, of what
//! is remembered and of what the operator configured; a change of any of them is one look, and
//! loads what is new alone.

mod arriving;
mod audit;
mod build;
mod fail_closed;
mod files;
mod first;
mod gate;
mod persist;
mod reconcile;
mod recorded;
mod reread;
mod rescan;
mod rollback;
mod scan;
mod source;
mod starting;
mod status;
mod supervisor;
mod trust_policy;
mod whose;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use toolhost_core::tool::{Need, Origin, PluginId, SourceId};
use toolhost_kernel::registry::Owners;
use toolhost_policy::capability::Grants;
use toolhost_policy::diff::Outline;
use toolhost_state::read::Place;
use toolhost_state::trust_store::{self, Known, Lock, LockError, Owner};
use toolhost_wasm::{Facts, script};

pub use arriving::Arriving;
pub use audit::note;
pub use gate::Gate;
pub use persist::{Trusted, prune, trust};
pub use reconcile::kept;
pub use recorded::record_definitions;
pub use rollback::{RollbackError, RolledBack, roll_back};
pub use scan::{find, ids, stem};
pub use status::{Failed, Location, Shown, SourceStatus, Status};
pub use supervisor::{Parts, ReloadSettings, Renewed, Reread, Supervisor};
pub use trust_policy::{Rule, surface, suspect};
pub use whose::{directories, is_bundled, is_the_only_one, may, recorded, said, shares, typed};

/// A folder of plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// How far what lies there is trusted with names, unless it is bundled.
    pub origin: Origin,
}

/// What a path names as a plugin: the folder of a script, where this is the main file of one and does not
/// lie in one of these folders itself.
pub fn whole(folders: &[Folder], path: &Path) -> PathBuf {
    let real = |folder: &Path| {
        let folder = if folder == Path::new("") { Path::new(".") } else { folder };
        std::fs::canonicalize(folder).ok()
    };
    let above = path.parent().and_then(real);
    match above.is_some() && folders.iter().any(|folder| real(&folder.path) == above) {
        true => path.to_owned(),
        false => script::whole(path),
    }
}

impl Folder {
    /// From where the plugins of the folder are read.
    ///
    /// # Errors
    /// If it is a project's, and leads out of the project.
    pub fn place(&self) -> Result<Place, String> {
        if self.origin != Origin::Project {
            return Ok(Place::Own);
        }
        let unknown = |error: std::io::Error| error.to_string();
        let place = match Place::of_links(&[], &self.path).map_err(unknown)? {
            Some(place) => place,
            None => Place::of_plugins(&self.path).map_err(unknown)?,
        };
        place.real(&self.path).map_err(|error| {
            let real = std::fs::canonicalize(&self.path).unwrap_or_default();
            format!(
                "{}; if that folder is meant, name it: `--plugins {}`",
                error.problem,
                real.display()
            )
        })?;
        Ok(place)
    }
}

/// From where a file is read that is named on the command line: as a plugin of the folder it lies
/// in, if that is one of `folders`; else as one of a stranger's project. No link on the way to it leads
/// out of a project.
///
/// # Errors
/// If its folder cannot be found.
pub fn place_of(folders: &[Folder], path: &Path) -> std::io::Result<Place> {
    let own = folders.iter().filter(|known| known.origin != Origin::Project);
    let own: Vec<PathBuf> =
        own.filter_map(|known| std::fs::canonicalize(&known.path).ok()).collect();
    if let Some(place) = Place::of_links(&own, path)? {
        return Ok(place);
    }
    let path = std::path::absolute(path)?;
    let folder = std::fs::canonicalize(path.parent().unwrap_or(Path::new("/")))?;
    match own.contains(&folder) {
        true => Ok(Place::Own),
        false => Place::of_plugins(&folder),
    }
}

/// A build that loaded. Its tools are in the catalog's report on its source, unless it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// How far it is trusted with names.
    pub origin: Origin,
    /// A person has vouched for it: it is bundled, or its bytes or its project were trusted.
    pub trusted: bool,
    /// The rule that has trusted it just now, if no person has.
    pub trusted_by: Option<Rule>,
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
    /// It is not counted: this other one has the same bytes, or is a newer build of the same
    /// bundled plugin.
    pub same_as: Option<Location>,
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
    /// What to do, where nobody's trust would help.
    pub repair: Option<String>,
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
    lock: Lock,
    /// Where the plugins of an id stand in the lock, as soon as somebody asks.
    by_id: OnceLock<HashMap<String, Vec<usize>>>,
    /// Where it is remembered, and where builds are kept.
    pub state: Option<PathBuf>,
    /// What `make` recorded beside the program.
    pub built: Option<PathBuf>,
}

impl Remembered {
    /// What was seen and what was trusted.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// What is known of a plugin.
    pub(crate) fn plugin(&self, folder: &Path, id: &str) -> Option<&Known> {
        self.of_id(id).find(|known| known.folder == folder)
    }

    /// What is known of the plugins of an id.
    pub(crate) fn of_id(&self, id: &str) -> impl Iterator<Item = &Known> {
        let index = || {
            let mut by_id: HashMap<String, Vec<usize>> = HashMap::new();
            for (index, known) in self.lock.plugins.iter().enumerate() {
                by_id.entry(known.id.clone()).or_default().push(index);
            }
            by_id
        };
        let of_id = self.by_id.get_or_init(index).get(id);
        of_id.into_iter().flatten().map(|index| &self.lock.plugins[*index])
    }

    /// The same, with what was seen and trusted by now.
    pub fn with_lock(self, lock: Lock) -> Remembered {
        Remembered { lock, by_id: OnceLock::new(), ..self }
    }

    /// What was seen and what was trusted, to be changed.
    pub fn lock_mut(&mut self) -> &mut Lock {
        self.by_id.take();
        &mut self.lock
    }

    /// The digests of the bundled plugins of an id.
    pub(crate) fn bundled_digests(&self, id: &PluginId) -> impl Iterator<Item = &str> {
        let of_id = self.bundled.keys().filter(|(known, _)| *known == *id.as_str());
        of_id.map(|(_, digest)| digest.as_str())
    }

    /// Reads what is remembered in a state folder, and what was recorded in `built` when the program
    /// was built. A damaged lock trusts nobody, and is left as it
    /// is.
    ///
    /// # Errors
    /// If something cannot be read.
    pub fn read(state: &Path, built: Option<&Path>) -> Result<Remembered, LockError> {
        let built = built.filter(|folder| trust_store::counts(folder)).map(Path::to_owned);
        let bundled = trust_store::bundled_digests(state, built.as_deref())?;
        match trust_store::load(state) {
            Ok(lock) => {
                let state = Some(state.to_owned());
                let remembered = Remembered { bundled, state, built, ..Remembered::default() };
                Ok(remembered.with_lock(lock))
            }
            Err(error @ LockError::Damaged { .. }) => {
                tracing::error!(
                    "{error}; until then no plugin is trusted, and nothing is remembered"
                );
                Ok(Remembered { bundled, built, ..Remembered::default() })
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
