//! One file of a plugins folder, over time: what it is now, and what it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::Failed;
use super::build::Build;
use super::reconcile::Given;
use super::recorded::Recalled;
use super::trust_policy::{Case, Judged, Verdict};
use crate::folder::Found;
use toolhost_core::tool::Usage;
use toolhost_state::read::Place;
use toolhost_state::store::Builds;
use toolhost_wasm::script::Stamp;
use toolhost_wasm::{Candidate, LoadAs};

/// What the file system knows of a file, and of what it takes to run it.
pub(super) type State = (Stamp, Vec<Stamp>);

/// After so long, a kept build that was of no use is tried again.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// One file, and what became of it.
pub(super) struct Source {
    /// Tells it from others of the same path, before it and after it.
    pub(super) number: u64,
    pub(super) found: Found,
    /// Its files as they are now.
    pub(super) now: State,
    /// The same at the look before.
    pub(super) before: Option<State>,
    /// Its files as they were when they were read last.
    pub(super) read: Option<State>,
    /// The digest of what its files held when they looked as they did when it was found.
    pub(super) looks_like: Option<Arc<str>>,
    /// As whose it is loaded.
    pub(super) load_as: LoadAs,
    /// It is being loaded, or its examples run. There is one at a time.
    pub(super) busy: Option<AbortHandle>,
    /// The file's bytes wait, and the build that stands in for them is being read.
    pub(super) is_awaited: bool,
    /// What became of the file, once that is known.
    pub(super) file: Option<Result<Build, Failed>>,
    pub(super) usage: Usage,
    /// Builds in memory, by digest: the file's, and those that may stand in for it.
    pub(super) builds: BTreeMap<Arc<str>, Build>,
    /// Digests of kept builds that cannot serve; since when.
    unusable: BTreeMap<String, Instant>,
    /// Why they could not, as far as it was told.
    told: BTreeSet<String>,
    /// The digest of the build that serves.
    pub(super) serving: Option<Arc<str>>,
    /// The digest of the file's build that was last in order.
    pub(super) last: Option<Arc<str>>,
    /// What has changed since the build that served before.
    pub(super) changes: Mutex<Vec<String>>,
    /// What it registers until it is loaded, as far as that is known.
    pub(super) recalled: Option<Recalled>,
    /// The digest of the build whose registration is recorded.
    pub(super) recorded: Option<Arc<str>>,
    /// What has its authority.
    pub(super) given: Mutex<Option<Given>>,
}

impl Source {
    pub(super) fn new(number: u64, found: Found, now: State) -> Source {
        Source {
            number,
            found,
            now,
            before: None,
            read: None,
            looks_like: None,
            load_as: LoadAs::default(),
            busy: None,
            is_awaited: false,
            file: None,
            usage: Usage::default(),
            builds: BTreeMap::new(),
            unusable: BTreeMap::new(),
            told: BTreeSet::new(),
            serving: None,
            last: None,
            changes: Mutex::default(),
            recalled: None,
            recorded: None,
            given: Mutex::default(),
        }
    }

    /// Tells whether nothing was done about it yet.
    pub(super) fn is_new(&self) -> bool {
        self.file.is_none()
            && self.busy.is_none()
            && self.read.is_none()
            && self.found.twins.is_none()
    }

    /// What is recorded of it is not enough: it is to be loaded.
    pub(super) fn load_again(&mut self) {
        (self.read, self.looks_like) = (None, None);
    }

    /// Tells whether the file has to be read.
    pub(super) fn is_stale(&self) -> bool {
        self.busy.is_none() && self.read.as_ref() != Some(&self.now)
    }

    /// Tells whether nobody writes it any more, as far as two looks can tell, or its age.
    pub(super) fn has_settled(&self, age_min: Duration) -> bool {
        self.before.as_ref() == Some(&self.now) || self.now.0.is_older_than(age_min)
    }

    /// A kept build cannot serve. Tells whether that is news.
    pub(super) fn refuses(&mut self, digest: String, reason: &str) -> bool {
        self.unusable.insert(digest, Instant::now());
        self.told.insert(reason.to_owned())
    }

    /// Forgets that kept builds could not serve, some time ago; tells whether there were such.
    pub(super) fn forgives(&mut self) -> bool {
        let count = self.unusable.len();
        self.unusable.retain(|_, since| since.elapsed() < TRIED_AGAIN_AFTER);
        self.unusable.len() < count
    }

    /// A build is what the file is from now on.
    pub(super) fn accept(&mut self, build: Build) {
        self.builds.insert(Arc::clone(build.digest()), build.clone());
        self.file = Some(Ok(build));
    }

    /// Judges the file's build.
    pub(super) fn judged(&self, case: &Case<'_>) -> Option<Result<Judged, Failed>> {
        let file = self.file.as_ref()?;
        Some(file.as_ref().map(|build| case.judge(build)).map_err(Clone::clone))
    }

    /// The build that stands in for the file; or, where that has to be loaded first, the one that
    /// is to be loaded. One that is in memory already serves until then.
    pub(super) fn stand_in(
        &self,
        case: &Case<'_>,
        builds: Option<&Builds>,
    ) -> (Option<Judged>, Option<(String, Candidate)>) {
        let mut wanted = None;
        let last = self.last.as_deref().filter(|last| !case.is_refused(last));
        for digest in case.stand_ins().into_iter().chain(last) {
            if let Some(build) = self.builds.get(digest) {
                let judged = case.judge(build);
                if matches!(judged.verdict, Verdict::Trusted { by: None } | Verdict::Free) {
                    return (Some(judged), wanted);
                }
            } else if wanted.is_none()
                && !self.unusable.contains_key(digest)
                && let Some(path) = builds.and_then(|builds| builds.find(digest))
            {
                let place = Place::Own;
                let candidate = Candidate { path, place, ..self.found.candidate.clone() };
                wanted = Some((digest.to_owned(), candidate));
            }
        }
        (None, wanted)
    }

    /// Forgets builds that nobody needs any more. Of those in `stand_ins`, the ones in memory
    /// stay: they would be loaded again and again.
    pub(super) fn trim(&mut self, stand_ins: &[String]) {
        let file = self.file.as_ref().and_then(|file| file.as_ref().ok());
        let file = file.map(Build::digest);
        let needed: Vec<&Arc<str>> =
            file.into_iter().chain(&self.serving).chain(&self.last).collect();
        let may_stand_in = |digest: &Arc<str>| stand_ins.iter().any(|of| **of == **digest);
        self.builds.retain(|digest, _| needed.contains(&digest) || may_stand_in(digest));
    }
}
