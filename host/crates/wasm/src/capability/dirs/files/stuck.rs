//! Opens of files that never come back, as on a dead network disk: each holds a thread of the
//! host, so a plugin may have few.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An open that takes longer than this when its call ends is taken to be stuck.
const OPEN_TIME_MAX: Duration = Duration::from_secs(1);
/// How long one counts: a thread that is still stuck then is one of few.
const STUCK_TIME_MAX: Duration = Duration::from_secs(600);

/// When opens of one plugin were given up, as far as it is not long ago.
#[derive(Debug, Default)]
pub(crate) struct StuckOpens(Mutex<Vec<Instant>>);

impl StuckOpens {
    /// Tells whether fewer than `most` are stuck.
    pub(super) fn lets_open(&self, most: usize) -> bool {
        let mut given_up = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        given_up.retain(|since| since.elapsed() < STUCK_TIME_MAX);
        given_up.len() < most
    }
}

/// An open under way. Dropped before its end, it may hold a thread of the host.
pub(super) struct Opening<'a> {
    stuck: Option<&'a StuckOpens>,
    since: Instant,
}

impl<'a> Opening<'a> {
    pub(super) fn new(stuck: &'a StuckOpens) -> Opening<'a> {
        Opening { stuck: Some(stuck), since: Instant::now() }
    }

    /// It has ended, so it holds nothing.
    pub(super) fn came_back(&mut self) {
        self.stuck = None;
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if let Some(stuck) = self.stuck
            && self.since.elapsed() >= OPEN_TIME_MAX
        {
            stuck.0.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stuck_opens_max() {
        let stuck = StuckOpens::default();
        let long_ago =
            Instant::now().checked_sub(OPEN_TIME_MAX).expect("a machine up for a second");
        // Quick ones, and those that came back, do not count.
        drop(Opening { stuck: Some(&stuck), since: Instant::now() });
        drop(Opening { stuck: None, since: long_ago });
        drop(Opening { stuck: Some(&stuck), since: long_ago });
        assert!(stuck.lets_open(2));
        drop(Opening { stuck: Some(&stuck), since: long_ago });
        assert!(!stuck.lets_open(2));
    }
}
