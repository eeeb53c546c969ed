//! One source over time: what it is now, and what it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::build::Build;
use super::reconcile::GivenAuthority;
use super::recorded::Recalled;
use super::trust_policy::{Case, Judged, TrustVerdict};
use crate::driver::{Driver, Failed, Fingerprint, Found};
use toolhost_core::tool::Usage;
use toolhost_wasm::LoadAs;

/// After so long, a kept build that was of no use is tried again.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// One source, and what became of it.
pub(super) struct Source {
    /// Tells it from others of the same id, before it and after it.
    pub(super) number: u64,
    /// What finds it and loads it.
    pub(super) driver: Arc<dyn Driver>,
    pub(super) found: Found,
    /// What it looks like now.
    pub(super) now: Fingerprint,
    /// The same at the look before.
    pub(super) before: Option<Fingerprint>,
    /// What it looked like when it was loaded last.
    pub(super) read: Option<Fingerprint>,
    /// The digest of the definition it had when it looked as it did when it was found.
    pub(super) looks_like: Option<Arc<str>>,
    /// As whose it is loaded.
    pub(super) load_as: LoadAs,
    /// It is being loaded, or its examples run. There is one at a time.
    pub(super) busy: Option<AbortHandle>,
    /// Its definition waits, and the one that stands in for it is being read.
    pub(super) is_awaited: bool,
    /// What became of its present definition, once that is known.
    pub(super) file: Option<Result<Build, Failed>>,
    pub(super) usage: Usage,
    /// Definitions in memory, by digest: the present one, and those that may stand in for it.
    pub(super) builds: BTreeMap<Arc<str>, Build>,
    /// How many loads in a row have failed.
    failures: u32,
    /// When the load is tried again though nothing has changed.
    pub(super) retry_at: Option<Instant>,
    /// Digests of kept builds that cannot serve; since when.
    unusable: BTreeMap<String, Instant>,
    /// Why they could not, as far as it was told.
    told: BTreeSet<String>,
    /// The digest of the build that serves.
    pub(super) serving: Option<Arc<str>>,
    /// The digest of its definition that was last in order.
    pub(super) last: Option<Arc<str>>,
    /// What has changed since the build that served before.
    pub(super) changes: Mutex<Vec<String>>,
    /// What it registers until it is loaded, as far as that is known.
    pub(super) recalled: Option<Recalled>,
    /// The digest of the build whose registration is recorded.
    pub(super) recorded: Option<Arc<str>>,
    /// What has its authority.
    pub(super) given: Mutex<Option<GivenAuthority>>,
}

impl Source {
    pub(super) fn new(
        number: u64,
        driver: Arc<dyn Driver>,
        found: Found,
        now: Fingerprint,
    ) -> Source {
        Source {
            number,
            driver,
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
            failures: 0,
            retry_at: None,
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
            && self.found.problem.is_none()
    }

    /// What is recorded of it is not enough: it is to be loaded.
    pub(super) fn load_again(&mut self) {
        (self.read, self.looks_like) = (None, None);
    }

    /// Tells whether it has to be loaded.
    pub(super) fn is_stale(&self) -> bool {
        self.busy.is_none() && self.read.as_ref() != Some(&self.now)
    }

    /// Its load has failed. `retries` tells whether that is tried again by itself.
    pub(super) fn failed(&mut self, failed: Failed, retries: bool) {
        self.failures = self.failures.saturating_add(1);
        let backoff = self.driver.retries().filter(|_| retries);
        self.retry_at = backoff.map(|backoff| Instant::now() + backoff.after(self.failures));
        self.file = Some(Err(failed));
    }

    /// Its load is tried again, if it is time for that. Tells whether it is.
    pub(super) fn is_retried(&mut self, now: Instant) -> bool {
        let is_time = self.retry_at.is_some_and(|at| at <= now);
        if is_time {
            self.retry_at = None;
            self.load_again();
        }
        is_time
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

    /// It has this definition from now on.
    pub(super) fn accept(&mut self, build: Build) {
        (self.failures, self.retry_at) = (0, None);
        self.builds.insert(Arc::clone(build.digest()), build.clone());
        self.file = Some(Ok(build));
    }

    /// Judges its present definition.
    pub(super) fn judged(&self, case: &Case<'_>) -> Option<Result<Judged, Failed>> {
        let file = self.file.as_ref()?;
        Some(file.as_ref().map(|build| case.judge(build)).map_err(Clone::clone))
    }

    /// The definition that stands in for the present one; or, where that has to be loaded first, the
    /// digest of the one that is to be loaded. One that is in memory already serves until then.
    pub(super) fn stand_in(&self, case: &Case<'_>) -> (Option<Judged>, Option<String>) {
        let mut wanted = None;
        let last = self.last.as_deref().filter(|last| !case.is_refused(last));
        for digest in case.stand_ins().into_iter().chain(last) {
            // One from a record reads its file when it is needed, which has changed by now.
            let in_memory = self.builds.get(digest).filter(|build| !build.loaded.is_recorded());
            if let Some(build) = in_memory {
                let judged = case.judge(build);
                if matches!(judged.verdict, TrustVerdict::Trusted { by: None } | TrustVerdict::Free)
                {
                    return (Some(judged), wanted);
                }
            } else if wanted.is_none()
                && !self.unusable.contains_key(digest)
                && self.driver.keeps(digest)
            {
                wanted = Some(digest.to_owned());
            }
        }
        (None, wanted)
    }

    /// Forgets definitions that nobody needs any more. Of those in `stand_ins`, the ones in memory
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
