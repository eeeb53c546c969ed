//! Builds that are the user's own and last until the next one: compiled quickly.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::engine::Engine;

/// The digests of such builds, and where they run.
#[derive(Default)]
pub(super) struct OwnBuilds {
    digests: Mutex<HashSet<String>>,
    /// Started when there is the first one; none where it does not start.
    engine: OnceLock<Option<Arc<Engine>>>,
}

impl OwnBuilds {
    pub(super) fn add(&self, digest: &str) {
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        digests.insert(digest.to_owned());
    }

    pub(super) fn has(&self, digest: &str) -> bool {
        let digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        digests.contains(digest)
    }

    /// The engine that compiles this component, if it is an own build; beside the one of all others.
    pub(super) fn engine(&self, digest: &str, usual: &Engine) -> Option<Arc<Engine>> {
        if !self.has(digest) {
            return None;
        }
        let start = || {
            let started = usual.start_quick();
            started
                .inspect_err(|error| tracing::debug!(%error, "builds are compiled as all others"))
                .ok()
                .map(Arc::new)
        };
        self.engine.get_or_init(start).clone()
    }
}
