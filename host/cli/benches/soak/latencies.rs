//! Times of any number of calls in memory of one size: counts in buckets that are 2 % wide.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of each doubling.
const PER_DOUBLING: f64 = 35.0;
/// From 1 us to half an hour.
const BUCKETS: usize = 31 * PER_DOUBLING as usize;

/// How long calls took.
pub(crate) struct Latencies(Vec<AtomicU64>);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Latencies {
    pub(crate) fn add(&self, time: Duration) {
        let micros = (time.as_secs_f64() * 1e6).max(1.0);
        let bucket = (micros.log2() * PER_DOUBLING) as usize;
        self.0[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// The time that this share of the calls did not exceed; zero if there were none.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (place, bucket) in self.0.iter().enumerate() {
            seen += bucket.load(Ordering::Relaxed);
            if wanted > 0 && seen >= wanted {
                // The upper end, so as not to flatter.
                return Duration::from_secs_f64(((place + 1) as f64 / PER_DOUBLING).exp2() / 1e6);
            }
        }
        Duration::ZERO
    }
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
