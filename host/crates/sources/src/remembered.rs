//! What this user's host remembers of sources, read once, and found by what it is about.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use toolhost_core::tool::SourceId;
use toolhost_kernel::registry::Owners;
use toolhost_state::trust_store::{self, Known, Lock, LockError, Owner};

/// What this user's host remembers about plugins.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// Ids and digests of bundled plugins, with their ages.
    pub bundled: BTreeMap<(String, String), usize>,
    /// What was seen and what was trusted.
    pub(crate) lock: Lock,
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

    /// What is known of a source.
    pub(crate) fn source(&self, source: &SourceId) -> Option<&Known> {
        let (folder, id) = trust_store::entry(source);
        self.plugin(folder, &id)
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

    /// The digests of the bundled plugins of a source's id.
    pub(crate) fn bundled_digests(&self, source: &SourceId) -> impl Iterator<Item = &str> {
        let id = source.plugin().map(|(id, _)| id.to_string());
        let of_id = self.bundled.keys().filter(move |(known, _)| id.as_ref() == Some(known));
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
        let source = |owner: &Owner| trust_store::source(&owner.folder, &owner.id);
        let of_name = |(name, owners): (&String, &Vec<Owner>)| {
            (name.clone(), owners.iter().filter_map(source).collect())
        };
        self.lock.names.iter().map(of_name).collect()
    }
}
