//! What files of plugins looked like when they were loaded last, and the digests of what they held: what
//! looks the same is published from what is recorded of it.
//!
//! That files look the same proves nothing; it only saves work.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::driver::Fingerprint;
use toolhost_state::atomic_file;
use toolhost_state::read::ReadScope;
use toolhost_wasm::script::Stamp;

/// The file, in the state folder, that says what files looked like.
const FILES: &str = "files.json";
/// Bytes of it that are read.
const FILES_BYTES_MAX: u64 = 16 << 20;
/// Files that it speaks of.
const FILES_MAX: usize = 10_000;

/// What the file system knows of a file, and of what it takes to run it.
pub(super) type FileState = (Stamp, Vec<Stamp>);

/// What files of plugins looked like, and the digests of what they held.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Files(BTreeMap<String, Looked>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Looked {
    pub(super) state: FileState,
    pub(super) digest: Arc<str>,
}

impl Files {
    /// What is remembered in a state folder. What cannot be read is as if it were not there.
    pub(super) fn read(state: &Path) -> Files {
        let text = ReadScope::Own.text(&state.join(FILES), FILES_BYTES_MAX);
        text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// The digest of what a file held when it looked like this.
    pub(super) fn digest(&self, path: &Path, now: &Fingerprint) -> Option<Arc<str>> {
        let Looked { state: (stamp, of_runners), digest } = self.0.get(path.to_str()?)?;
        let Fingerprint::Files(now, runners_now) = now else { return None };
        (stamp == now && of_runners == runners_now).then(|| Arc::clone(digest))
    }

    /// Notes what a file looks like. Tells whether that is news.
    pub(super) fn note(&mut self, path: &str, looked: &Looked) -> bool {
        self.0.insert(path.to_owned(), looked.clone()).as_ref() != Some(looked)
    }

    /// Changes what is remembered. It blocks on files.
    fn change(state: &Path, change: impl FnOnce(&mut BTreeMap<String, Looked>)) -> io::Result<()> {
        let locked = atomic_file::lock(state)?;
        let mut files = Files::read(state);
        change(&mut files.0);
        if files.0.len() > FILES_MAX {
            files.0.retain(|path, _| Path::new(path).exists());
        }
        while files.0.len() > FILES_MAX {
            files.0.pop_last();
        }
        atomic_file::replace(&locked, state, FILES, &serde_json::to_vec(&files)?)
    }
}

/// Remembers what files looked like. It blocks on files.
pub(super) fn remember(state: &Path, looked: Vec<(String, Looked)>) {
    if looked.is_empty() {
        return;
    }
    if let Err(error) = Files::change(state, |files| files.extend(looked)) {
        tracing::debug!(%error, "what files look like is not remembered");
    }
}

/// Forgets what a file looked like. It blocks on files.
pub(super) fn forget(state: &Path, path: &str) {
    if let Err(error) = Files::change(state, |files| _ = files.remove(path)) {
        tracing::debug!(%error, "what a file looked like is still remembered");
    }
}
