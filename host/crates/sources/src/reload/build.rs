//! A definition in memory, with what is worked out of it once.

use std::sync::{Arc, OnceLock};

use crate::driver::LoadedSource;
use toolhost_policy::diff::Surface;

/// A definition that was loaded, or is published from its record.
#[derive(Clone)]
pub(super) struct Build {
    pub(super) loaded: LoadedSource,
    /// What it declares.
    pub(super) surface: Arc<Surface>,
    suspect: Arc<OnceLock<Vec<String>>>,
}

impl Build {
    pub(super) fn new(loaded: LoadedSource) -> Build {
        let surface = Arc::new(loaded.surface());
        Build { loaded, surface, suspect: Arc::default() }
    }

    /// The same, of a definition whose texts were looked at when it was recorded.
    pub(super) fn recorded(loaded: LoadedSource, suspect: Vec<String>) -> Build {
        Build { suspect: Arc::new(OnceLock::from(suspect)), ..Build::new(loaded) }
    }

    /// The suspect texts for which it waits, a line each.
    pub(super) fn suspect(&self) -> &[String] {
        self.suspect.get_or_init(|| self.loaded.suspect())
    }

    pub(super) fn digest(&self) -> &Arc<str> {
        self.loaded.digest()
    }
}
