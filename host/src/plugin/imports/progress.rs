//! `progress`: reports of how far a call has come, passed on at a bounded rate.

use std::time::{Duration, Instant};

use crate::limits::Limits;
use crate::plugin::bindings::base::toolhost::plugin::progress::Host;
use crate::plugin::store::Guest;
use crate::text;
use crate::tool::{Progress, ProgressSink};

/// Characters of one message; what is longer is cut.
const MESSAGE_CHARS_MAX: usize = 512;

/// Who hears of progress, and how much of it was passed on in the current second.
pub(crate) struct GuestProgress {
    sink: Option<ProgressSink>,
    per_second_max: usize,
    second_began: Instant,
    in_second: usize,
}

impl GuestProgress {
    pub(crate) fn new(sink: Option<ProgressSink>, limits: &Limits, now: Instant) -> GuestProgress {
        let per_second_max = limits.progress_per_second_max.0;
        GuestProgress { sink, per_second_max, second_began: now, in_second: 0 }
    }

    fn report(&mut self, progress: Progress, now: Instant) {
        let Some(sink) = &self.sink else { return };
        if now.duration_since(self.second_began) >= Duration::from_secs(1) {
            self.second_began = now;
            self.in_second = 0;
        }
        if self.in_second < self.per_second_max {
            self.in_second += 1;
            sink.report(progress);
        }
    }
}

impl Host for Guest {
    fn progress(
        &mut self,
        done: f64,
        total: Option<f64>,
        message: Option<String>,
    ) -> wasmtime::Result<()> {
        self.count_host_call()?;
        let message = message.map(|mut message| {
            self.secrets.redact(&mut message);
            text::cut(&message, MESSAGE_CHARS_MAX)
        });
        self.progress.report(Progress { done, total, message }, Instant::now());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_rate_is_bounded_per_second() {
        let heard = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&heard);
        let sink = ProgressSink::new(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let start = Instant::now();
        let mut progress = GuestProgress::new(Some(sink), &Limits::default(), start);
        let report = Progress { done: 1.0, total: None, message: None };
        for _ in 0..100 {
            progress.report(report.clone(), start);
        }
        assert_eq!(heard.load(Ordering::Relaxed), 20);
        progress.report(report, start + Duration::from_secs(1));
        assert_eq!(heard.load(Ordering::Relaxed), 21);
    }
}
