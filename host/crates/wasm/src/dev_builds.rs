//! Builds that are the user's own and last until the next one: compiled quickly. And scripts that the
//! user works at where they serve.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A script in a plugins folder that whoever uses a host works at: what is saved there while the host
/// runs is their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnSource {
    /// Its file or folder, without links.
    pub path: PathBuf,
    /// The digest of what lay there before, which nobody has agreed to; see
    /// [`Loader::digest`](super::Loader::digest). It is judged like anybody's.
    pub before: Option<Arc<str>>,
}

impl OwnSource {
    pub(super) fn is(&self, path: &Path, digest: &str) -> bool {
        self.path == path && self.before.as_deref() != Some(digest)
    }
}

/// The digests of such builds.
#[derive(Default)]
pub(super) struct OwnBuilds {
    digests: Mutex<HashSet<String>>,
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
}
