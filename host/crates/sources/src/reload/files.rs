//! Sources that are published from the record: their files look as they did when they were loaded last,
//! and what they held then is recorded. They are loaded when something of them is to run, and their
//! bytes are compared with the record before.
//!
//! That files look the same proves nothing; it only saves work. Who may have what is decided on the
//! record as on a build that was loaded, and what cannot be decided so is loaded at once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::arriving;
use super::build::Build;
use super::recorded::{self, Recalled, Recorded, Records};
use super::source::{Source, State};
use super::supervisor::Supervisor;
use super::trust_policy::Case;
use toolhost_core::limits::Limits;
use toolhost_core::tool::SourceId;
use toolhost_state::atomic_file;
use toolhost_state::read::Place;
use toolhost_wasm::{OnMisfit, digest};

/// The file, in the state folder, that says what files looked like.
const FILES: &str = "files.json";
/// Bytes of it that are read.
const FILES_BYTES_MAX: u64 = 16 << 20;
/// Records that one thread reads at least.
const RECORDS_OF_ONE_MIN: usize = 50;
/// Files that it speaks of.
const FILES_MAX: usize = 10_000;
/// A file that was written so shortly before it was read may be written again without looking
/// otherwise.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// What files of plugins looked like, and the digests of what they held.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Files(BTreeMap<String, Looked>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Looked {
    state: State,
    digest: Arc<str>,
}

impl Files {
    /// What is remembered in a state folder. What cannot be read is as if it were not there.
    pub(super) fn read(state: &Path) -> Files {
        let text = Place::Own.text(&state.join(FILES), FILES_BYTES_MAX);
        text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// The digest of what a file held when it looked like this.
    pub(super) fn digest(&self, path: &Path, now: &State) -> Option<Arc<str>> {
        let looked = self.0.get(path.to_str()?)?;
        (looked.state == *now).then(|| Arc::clone(&looked.digest))
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

/// Limits in short: what registered under others is registered again.
pub(super) fn key(limits: &Limits) -> String {
    digest(format!("{limits:?}").as_bytes()).to_string()
}

/// What is recorded of sources by the digests of what they held.
fn read_all(
    wanted: Vec<(SourceId, Arc<str>)>,
    state: &Path,
    limits: &str,
) -> Vec<(SourceId, Recorded)> {
    let places = [Records::new(state), Records::of_strangers(state)];
    let record = |(source, digest): (SourceId, Arc<str>)| {
        let found = places.iter().find_map(|of| of.build(&digest, limits))?;
        Some((source, found))
    };
    wanted.into_iter().filter_map(record).collect()
}

impl Supervisor {
    /// Publishes, of these sources if there are such, those that look as they did when they were loaded
    /// last.
    pub(super) async fn take_recorded(&mut self, only: Option<&BTreeSet<SourceId>>) {
        let Some(state) = self.remembered.state.clone() else { return };
        if self.settings.load_all {
            return;
        }
        let mut wanted = Vec::new();
        for (id, source) in &self.sources {
            let is_wanted = only.is_none_or(|only| only.contains(id));
            if is_wanted
                && source.is_new()
                && let Some(digest) = &source.looks_like
            {
                wanted.push((id.clone(), Arc::clone(digest)));
            }
        }
        // On two threads, since a start waits for it.
        let of_one = wanted.len().div_ceil(2).max(RECORDS_OF_ONE_MIN);
        let reading: Vec<_> = wanted
            .chunks(of_one)
            .map(|wanted| {
                let (wanted, state) = (wanted.to_vec(), state.clone());
                let limits = self.limits_key.clone();
                tokio::task::spawn_blocking(move || read_all(wanted, &state, &limits))
            })
            .collect();
        let mut found = Vec::new();
        for reading in reading {
            found.extend(reading.await.unwrap_or_default());
        }
        for (id, recorded) in found {
            self.publish_recorded(&id, recorded);
        }
    }

    fn publish_recorded(&mut self, id: &SourceId, recorded: Recorded) {
        let Some(source) = self.sources.get(id) else { return };
        let on_misfit = self.on_misfit(id, &source.found.candidate.path);
        let Some(source) = self.sources.get_mut(id) else { return };
        let load_as = arriving::load_as(&source.found, &self.remembered);
        let Recorded { build, suspect, usage, bytes } = recorded;
        let digest = Arc::clone(&build.facts.digest);
        let candidate = &source.found.candidate;
        if !self.parts.loader.needs_no_load(candidate, &build) {
            if recorded::is_own(&load_as, &digest) {
                source.recalled = Some(Recalled::new(digest, build.tools));
            }
            return;
        }
        let loaded = self.parts.loader.recorded(candidate, &load_as, (build, bytes), on_misfit);
        // Whatever is in the way is told when it is loaded.
        let Ok(loaded) = loaded else { return };
        let build = Build::recorded(loaded, suspect);
        let case = Case::new(&source.found, &self.config, &self.remembered);
        if case.judge(&build).is_to_be_loaded() {
            return;
        }
        source.load_as = load_as;
        source.read = Some(source.now.clone());
        source.usage = usage;
        source.recorded = Some(digest);
        source.accept(build);
        self.changed = true;
    }

    /// Whoever finds that the bytes of a file are not those that are recorded says so here.
    fn on_misfit(&self, source: &SourceId, path: &Path) -> OnMisfit {
        let (path, state) = (path.to_str().map(str::to_owned), self.remembered.state.clone());
        let (source, misfits) = (source.clone(), self.misfits.0.clone());
        Arc::new(move || {
            // Who is told already needs not be told again.
            let _ = misfits.try_send(source.clone());
            let (path, state) = (path.clone(), state.clone());
            Box::pin(async move {
                let (Some(state), Some(path)) = (state, path) else { return };
                let forget = move || Files::change(&state, |files| _ = files.remove(&path));
                let forgotten = tokio::task::spawn_blocking(forget).await;
                if let Err(error) = forgotten.unwrap_or_else(|error| Err(io::Error::other(error))) {
                    tracing::debug!(%error, "what a file looked like is still remembered");
                }
            })
        })
    }

    /// The bytes of a source are not those that are recorded, or do not load.
    pub(super) fn load_again(&mut self, source: &SourceId) {
        let Some(source) = self.sources.get_mut(source) else { return };
        source.load_again();
        self.changed = true;
    }

    /// What files looked like whose builds serve, and that was not remembered by this process.
    pub(super) fn looked(&mut self) -> Vec<(String, Looked)> {
        let files = &mut self.files;
        let looked = |source: &Source| {
            let build = source.file.as_ref()?.as_ref().ok()?;
            let state = source.read.as_ref().filter(|read| **read == source.now)?;
            let serves = source.serving.as_ref() == Some(build.digest());
            if build.loaded.is_recorded() || !serves || !state.0.is_older_than(SETTLED_AFTER) {
                return None;
            }
            let path = source.found.candidate.path.to_str()?.to_owned();
            let looked = Looked { state: state.clone(), digest: Arc::clone(build.digest()) };
            let before = files.0.insert(path.clone(), looked.clone());
            (before.as_ref() != Some(&looked)).then_some((path, looked))
        };
        self.sources.values().filter_map(looked).collect()
    }
}
