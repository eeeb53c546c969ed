//! Runners: the components that run scripts, one for each language, compiled when the first
//! script wants one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::{Mutex, MutexGuard};

use super::loader::Linked;
use crate::script::{self, Language, Stamp};

/// Where the components may lie that run scripts; the first that is there counts.
pub type RunnerPlaces = BTreeMap<Language, Vec<PathBuf>>;

/// What the runner of a language is called while it is compiled.
pub fn runner_name(language: Language) -> String {
    format!("{} runner", language.name())
}

/// Why a script has no runner.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RunnerError {
    /// There is none where it is looked for.
    #[error(
        "a {} script, and this host has no runner for it; `make install` builds one (looked for {looked_for})",
        language.name()
    )]
    None {
        /// What the script is written in.
        language: Language,
        /// Where it was looked for.
        looked_for: String,
    },
}

/// A runner, and the state of its file.
type Known = Option<(Stamp, Arc<Linked>)>;

/// The runners of one host.
#[derive(Default)]
pub(super) struct Runners {
    places: RunnerPlaces,
    known: BTreeMap<Language, Mutex<Known>>,
}

impl Runners {
    pub(super) fn new(places: RunnerPlaces) -> Runners {
        let known = Language::ALL.map(|language| (language, Mutex::default()));
        Runners { places, known: known.into() }
    }

    /// The state of the files of all runners.
    pub(super) fn stamp(&self) -> Vec<Stamp> {
        self.places.values().flatten().map(|path| script::stamp(path)).collect()
    }

    /// Those that are known.
    pub(super) async fn known(&self) -> Vec<Arc<Linked>> {
        let mut found = Vec::new();
        for known in self.known.values() {
            found.extend(known.lock().await.iter().map(|(_, runner)| Arc::clone(runner)));
        }
        found
    }

    /// The runner's file, its state, and what is known of it, for whoever makes it known. Only
    /// one caller has that at a time.
    pub(super) async fn find(
        &self,
        language: Language,
    ) -> Result<(PathBuf, Stamp, MutexGuard<'_, Known>), RunnerError> {
        let places = self.places.get(&language).map(Vec::as_slice).unwrap_or_default();
        let none = || {
            let shown: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
            let looked_for =
                if shown.is_empty() { "nowhere".to_owned() } else { shown.join(" and ") };
            RunnerError::None { language, looked_for }
        };
        let known = self.known.get(&language).ok_or_else(none)?;
        let known = known.lock().await;
        let path = places.iter().find(|path| path.is_file()).ok_or_else(none)?;
        Ok((path.clone(), script::stamp(path), known))
    }
}
