//! What follows from failures, as functions of their times alone.
//!
//! Times are the wall clock's, which may jump: what lies in the future is not believed, and no
//! quarantine lasts longer than the longest that there is.

use std::time::Duration;

use super::QuarantineEvent;
use toolhost_core::limits::Limits;
use toolhost_state::failures::{FailedBuild, FailureLog, FailureRecord};

/// A trial's lease is so much longer than its call may take.
const LEASE_MORE: Duration = Duration::from_secs(1);

/// The operator's numbers, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) failures_max: usize,
    pub(super) window: u64,
    pub(super) time: u64,
    pub(super) time_max: u64,
    /// How long a trial may take.
    pub(super) lease: u64,
}

/// How a build stands at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuildStanding {
    /// Its calls run.
    Free,
    /// Its calls are refused.
    Closed {
        /// For how long.
        left: Duration,
    },
    /// One call is to be let through.
    Due,
}

impl Rules {
    pub(super) fn new(limits: &Limits) -> Rules {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Rules {
            failures_max: limits.quarantine_failures_max.0,
            window: milliseconds(limits.quarantine_window.0),
            time: milliseconds(limits.quarantine_time.0),
            time_max: milliseconds(limits.quarantine_time_max.0.max(limits.quarantine_time.0)),
            lease: milliseconds(limits.wall_time_max + LEASE_MORE),
        }
    }

    pub(super) fn standing(&self, page: &FailureRecord, now: u64) -> BuildStanding {
        let Some(until) = page.until else { return BuildStanding::Free };
        let until = until.min(now + self.time_max.max(self.lease));
        if until > now {
            BuildStanding::Closed { left: Duration::from_millis(until - now) }
        } else if until + self.time_max <= now {
            // So long ago that it is forgotten.
            BuildStanding::Free
        } else {
            BuildStanding::Due
        }
    }

    /// Takes an event into the book.
    ///
    /// # Errors
    /// If there is to be a trial, and the book says that there is not.
    pub(super) fn apply(
        &self,
        book: &mut FailureLog,
        build: &FailedBuild,
        event: &QuarantineEvent,
    ) -> Result<(), Box<FailureRecord>> {
        match event {
            QuarantineEvent::Failed { at, reason, is_trial } => {
                self.forget(book, *at);
                let page = book.open(build);
                reason.clone_into(&mut page.reason);
                self.failed(page, *at, *is_trial);
                self.failed_for_several(book, build, *at, reason);
            }
            QuarantineEvent::Trial { at, until } => {
                // Without a page, a trial succeeded elsewhere.
                if let Some(page) = book.page(build) {
                    if let BuildStanding::Closed { .. } = self.standing(page, *at) {
                        return Err(Box::new(page.clone()));
                    }
                    page.until = Some(*until);
                }
            }
            QuarantineEvent::Given { at, until } => {
                if let Some(page) = book.page(build).filter(|page| page.until == Some(*until)) {
                    page.until = Some(*at);
                }
            }
            QuarantineEvent::Succeeded => book.remove(build),
        }
        Ok(())
    }

    fn failed(&self, page: &mut FailureRecord, at: u64, is_trial: bool) {
        if page.until.is_some() && !is_trial {
            // It began before the quarantine did.
            return;
        }
        if is_trial {
            page.times = page.times.saturating_add(1);
        } else {
            page.failures.push(at);
            if page.failures.len() < self.failures_max {
                return;
            }
            page.times = 1;
        }
        page.until = Some(at + self.length(page.times));
    }

    /// Failures of several callers count for all: then it is not what one of them sends.
    fn failed_for_several(
        &self,
        book: &mut FailureLog,
        build: &FailedBuild,
        at: u64,
        reason: &str,
    ) {
        let of_callers = book
            .plugins
            .iter()
            .filter(|page| page.build.caller.is_some() && page.build.is_same(build));
        let counts: Vec<usize> =
            of_callers.map(|page| page.failures.len()).filter(|count| *count > 0).collect();
        if counts.len() < 2 || counts.iter().sum::<usize>() < self.failures_max {
            return;
        }
        let page = book.open(&build.for_all());
        if page.until.is_none() {
            reason.clone_into(&mut page.reason);
            (page.times, page.until) = (1, Some(at + self.length(1)));
        }
    }

    /// How long the quarantine lasts that is the `times`th in a row.
    fn length(&self, times: u32) -> u64 {
        let doubled = 1_u64.checked_shl(times.saturating_sub(1)).unwrap_or(u64::MAX);
        self.time.saturating_mul(doubled).min(self.time_max)
    }

    /// Forgets what was long ago, or is yet to come.
    fn forget(&self, book: &mut FailureLog, now: u64) {
        for page in &mut book.plugins {
            page.failures.retain(|at| *at <= now && now - *at < self.window);
            if self.standing(page, now) == BuildStanding::Free {
                (page.until, page.times) = (None, 0);
            }
        }
        book.plugins.retain(|page| page.until.is_some() || !page.failures.is_empty());
    }
}
