//! New builds that crash at once: the first calls decide.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::registry::Entry;
use toolhost_core::tool::SourceId;

/// So many first calls have to crash, all of them,
const CALLS: usize = 3;
/// within this time.
const WITHIN: Duration = Duration::from_secs(60);

/// A build whose first calls crashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallen {
    /// Whose.
    pub source: SourceId,
    /// Its digest.
    pub digest: Arc<str>,
    /// The digest of the build before, which did not crash.
    pub before: Arc<str>,
}

/// Knows the builds that are new.
#[derive(Default)]
pub(super) struct FreshBuilds {
    state: Mutex<FreshState>,
    /// How many are watched, so that most calls need no lock.
    count: AtomicUsize,
    fell: Notify,
}

#[derive(Default)]
struct FreshState {
    watched: HashMap<SourceId, Fresh>,
    fallen: VecDeque<Fallen>,
}

struct Fresh {
    digest: Arc<str>,
    before: Arc<str>,
    since: Instant,
    crashes: usize,
}

impl FreshBuilds {
    /// Watches a build in place of the one before, or nothing if that was no better.
    pub(super) fn watch(&self, source: SourceId, digest: Arc<str>, before: Option<Arc<str>>) {
        let mut state = self.state();
        match before {
            Some(before) => {
                let fresh = Fresh { digest, before, since: Instant::now(), crashes: 0 };
                state.watched.insert(source, fresh);
            }
            None => {
                state.watched.remove(&source);
            }
        }
        self.count.store(state.watched.len(), Ordering::Release);
    }

    /// A call has ended.
    pub(super) fn saw(&self, entry: &Entry, has_crashed: bool) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = self.state();
        let Some(fresh) = state.watched.get_mut(&entry.source) else { return };
        if entry.digest.as_ref() != Some(&fresh.digest) {
            // It began before the build did.
            return;
        }
        fresh.crashes += usize::from(has_crashed);
        let is_over = !has_crashed || fresh.since.elapsed() > WITHIN;
        if !is_over && fresh.crashes < CALLS {
            return;
        }
        let fresh = state.watched.remove(&entry.source);
        self.count.store(state.watched.len(), Ordering::Release);
        if let Some(Fresh { digest, before, .. }) = fresh.filter(|_| !is_over) {
            state.fallen.push_back(Fallen { source: entry.source.clone(), digest, before });
            self.fell.notify_one();
        }
    }

    /// Waits for the next that fell.
    pub(super) async fn fell(&self) -> Fallen {
        loop {
            let next = self.state().fallen.pop_front();
            match next {
                Some(fallen) => return fallen,
                None => self.fell.notified().await,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, FreshState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
