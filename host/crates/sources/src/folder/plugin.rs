//! A plugin as a loaded source: what the loader made of a file, with its authority and its bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::driver::{Blocked, Failed, LoadedSource, Phase, SourceFacts, SourceHandle};
use toolhost_core::limits::Limits;
use toolhost_core::tool::Reason;
use toolhost_policy::capability::{Exclusive, Grants};
use toolhost_state::store::{Builds, Kept};
use toolhost_wasm::{BuildRecord, Facts, LoadError, Loaded, Loader, RUNNER_REPAIR, digest, script};

/// What all plugins of a driver share.
pub(super) struct Shared {
    pub(super) loader: Arc<Loader>,
    pub(super) limits: Arc<Limits>,
    /// Where builds are kept, if anything is remembered.
    pub(super) state: Option<PathBuf>,
}

impl Shared {
    /// The builds that are kept.
    pub(super) fn builds(&self) -> Option<Builds> {
        self.state.as_deref().map(Builds::new)
    }
}

/// The handle of a plugin.
struct PluginHandle {
    loaded: Loaded,
    /// Its file.
    path: PathBuf,
    shared: Arc<Shared>,
}

/// What a plugin is to the supervisor.
pub(super) fn source(loaded: Loaded, path: &Path, shared: &Arc<Shared>) -> LoadedSource {
    let plain = described(&loaded);
    let (path, shared) = (path.to_owned(), Arc::clone(shared));
    LoadedSource { handle: Arc::new(PluginHandle { loaded, path, shared }), ..plain }
}

/// What a plugin declares that is only looked at.
pub fn described(loaded: &Loaded) -> LoadedSource {
    LoadedSource {
        registration: loaded.registration.clone(),
        facts: facts(&loaded.facts),
        handle: Arc::new(()),
    }
}

/// Where the bytes of a build are, to be kept: those of a script are packed.
pub fn kept(packed: Option<&Arc<[u8]>>, path: PathBuf) -> Kept {
    packed.cloned().map_or(Kept::File(path), Kept::Bytes)
}

fn facts(facts: &Facts) -> SourceFacts {
    SourceFacts {
        name: facts.name.clone(),
        version: facts.version.clone(),
        digest: Arc::clone(&facts.digest),
        plugin: Some(Arc::new(facts.clone())),
    }
}

/// Why a file is no plugin.
pub(super) fn failed(error: &LoadError) -> Failed {
    let Reason { problem: cause, repair } = error.reason();
    Failed { phase: error.phase(), cause, repair }
}

/// What was found of it is gone by now.
pub(super) fn gone() -> Failed {
    let cause = "its folder is not there any more".to_owned();
    Failed { phase: Phase::Find, cause, repair: None }
}

impl PluginHandle {
    fn with(&self, loaded: Loaded) -> LoadedSource {
        source(loaded, &self.path, &self.shared)
    }
}

impl SourceHandle for PluginHandle {
    fn bytes(&self) -> Option<Kept> {
        Some(kept(self.loaded.packed.as_ref(), self.path.clone()))
    }

    fn is_own(&self) -> bool {
        self.loaded.own
    }

    fn is_recorded(&self) -> bool {
        self.loaded.is_recorded()
    }

    fn build_record(&self) -> Option<BuildRecord> {
        BuildRecord::of(&self.loaded)
    }

    fn blocked(&self) -> Option<Blocked> {
        let unrecorded = self.loaded.unrecorded.as_ref()?;
        // Where that runner is, is not said here: this may come before a model.
        let why = "its runner is not the one that was recorded when it was built".to_owned();
        Some(Blocked { why, repair: format!("{unrecorded}; {RUNNER_REPAIR}") })
    }

    /// It is the script that was trusted, run by a runner that came with another version of this host:
    /// one that was recorded when it was built there.
    fn is_rebuilt(&self, trusted: &str) -> bool {
        let (Some(now), Some(builds)) = (&self.loaded.packed, self.shared.builds()) else {
            return false;
        };
        let before = builds.find(trusted).and_then(|path| std::fs::read(path).ok());
        let Some(before) = before.filter(|bytes| *digest(bytes) == *trusted) else { return false };
        let unpacked = |bytes| script::unpack(bytes, &self.shared.limits).ok().flatten();
        match (unpacked(now), unpacked(&before)) {
            (Some(now), Some(before)) => {
                (now.language, now.modules) == (before.language, before.modules)
            }
            _ => false,
        }
    }

    fn is_authorised(&self) -> bool {
        self.loaded.is_granted()
    }

    fn renewed(&self, _: &LoadedSource) -> LoadedSource {
        self.with(self.shared.loader.renew(&self.loaded))
    }

    fn authorised(
        &self,
        _: &LoadedSource,
        words: &str,
        grants: &Grants,
        exclusive: &[Exclusive],
    ) -> (LoadedSource, Vec<String>) {
        let mut loaded = self.loaded.clone();
        let idle = loaded.grant_to(words, grants, exclusive);
        (self.with(loaded), idle)
    }

    fn retire(&self) {
        self.loaded.retire();
    }
}
