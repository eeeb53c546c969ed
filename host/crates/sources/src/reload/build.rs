//! A build in memory, with what is worked out of it once.

use std::sync::{Arc, OnceLock};

use super::trust_policy;
use toolhost_policy::diff::Surface;
use toolhost_wasm::Loaded;

/// A build that was loaded, or is published from its record.
#[derive(Clone)]
pub(super) struct Build {
    pub(super) loaded: Loaded,
    /// What it declares.
    pub(super) surface: Arc<Surface>,
    suspect: Arc<OnceLock<Vec<String>>>,
}

impl Build {
    pub(super) fn new(loaded: Loaded) -> Build {
        let surface = Arc::new(trust_policy::surface(&loaded));
        Build { loaded, surface, suspect: Arc::default() }
    }

    /// The same, of a build whose texts were looked at when it was recorded.
    pub(super) fn recorded(loaded: Loaded, suspect: Vec<String>) -> Build {
        Build { suspect: Arc::new(OnceLock::from(suspect)), ..Build::new(loaded) }
    }

    /// The suspect texts for which it waits, a line each.
    pub(super) fn suspect(&self) -> &[String] {
        self.suspect.get_or_init(|| trust_policy::suspect(&self.loaded))
    }

    pub(super) fn digest(&self) -> &Arc<str> {
        &self.loaded.facts.digest
    }
}
