//! `progress`: reports of how far a call has come, passed on at a bounded rate.
//!
//! A report that comes too soon after another waits, and makes way for a newer one; so reports
//! come evenly, and the last is always passed on: when its time has come, or when the call ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use wasmtime::component::{HasSelf, Linker};

use super::Guest;
use bindings::toolhost::plugin::progress::{self, Host};
use toolhost_core::limits::Limits;
use toolhost_core::text;
use toolhost_core::tool::{Progress, ProgressSink};

mod bindings {
    wasmtime::component::bindgen!({
        interfaces: "import toolhost:plugin/progress@0.1.0;",
        path: "../../../wit",
        imports: { default: trappable },
    });
}

/// Characters of one message; what is longer is cut.
const MESSAGE_CHARS_MAX: usize = 512;

/// Links the interface.
pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    progress::add_to_linker::<Guest, HasSelf<Guest>>(linker, |guest| guest)
}

/// The reports of one call. Dropping it passes on the last.
pub(super) struct GuestProgress {
    /// None if nobody hears of them.
    paced: Option<Arc<Paced>>,
    /// The runtime of the call; a guest that runs long is on another.
    home: Option<Handle>,
    timer: Option<AbortOnDropHandle<()>>,
}

/// Reports on their way to who hears of them.
struct Paced {
    sink: ProgressSink,
    /// Between two reports.
    interval: Duration,
    state: Mutex<ProgressState>,
}

struct ProgressState {
    waiting: Option<Progress>,
    /// When the next may be passed on.
    next: Instant,
}

impl GuestProgress {
    pub(super) fn new(sink: Option<ProgressSink>, limits: &Limits) -> GuestProgress {
        let per_second_max = u32::try_from(limits.progress_per_second_max.0).unwrap_or(u32::MAX);
        let interval = Duration::from_secs(1).checked_div(per_second_max);
        let state = Mutex::new(ProgressState { waiting: None, next: Instant::now() });
        let paced = sink.zip(interval);
        let paced = paced.map(|(sink, interval)| Arc::new(Paced { sink, interval, state }));
        GuestProgress { paced, home: Handle::try_current().ok(), timer: None }
    }

    fn report(&mut self, progress: Progress) {
        let Some(paced) = &self.paced else { return };
        let Some(due) = paced.report(progress) else { return };
        // Without a runtime, the end of the call tells.
        if let Some(home) = &self.home {
            let paced = Arc::clone(paced);
            let timer = home.spawn(async move {
                tokio::time::sleep_until(due).await;
                paced.flush();
            });
            self.timer = Some(AbortOnDropHandle::new(timer));
        }
    }
}

impl Drop for GuestProgress {
    fn drop(&mut self) {
        if let Some(paced) = &self.paced {
            paced.flush();
        }
    }
}

impl Paced {
    /// Passes a report on, or tells when it is due, if it is the first that waits.
    fn report(&self, progress: Progress) -> Option<Instant> {
        let mut state = self.state();
        let now = Instant::now();
        if now >= state.next {
            state.next = now + self.interval;
            state.waiting = None;
            // Within the lock, so that none overtakes another.
            self.sink.report(progress);
            return None;
        }
        state.waiting.replace(progress).is_none().then_some(state.next)
    }

    fn flush(&self) {
        let mut state = self.state();
        if let Some(progress) = state.waiting.take() {
            state.next = Instant::now() + self.interval;
            self.sink.report(progress);
        }
    }

    fn state(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        let call = self.call();
        let message = message.map(|mut message| {
            call.call_log.redaction().redact(&mut message);
            text::cut(&message, MESSAGE_CHARS_MAX)
        });
        let redaction = call.call_log.redaction();
        let is_hidden = [Some(done), total].into_iter().flatten().any(|it| redaction.hides(it));
        let (done, total) = if is_hidden { (0.0, None) } else { (done, total) };
        call.progress.report(Progress { done, total, message });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports, and what is heard of them.
    fn progress(limits: &Limits) -> (GuestProgress, Arc<Mutex<Vec<f64>>>) {
        let heard: Arc<Mutex<Vec<f64>>> = Arc::default();
        let ear = Arc::clone(&heard);
        let sink = ProgressSink::new(move |report| ear.lock().expect("heard").push(report.done));
        (GuestProgress::new(Some(sink), limits), heard)
    }

    fn report(progress: &mut GuestProgress, done: f64) {
        progress.report(Progress { done, total: None, message: None });
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_is_bounded_per_second() {
        let (mut progress, heard) = progress(&Limits::default());
        // 300 steps in 3 seconds, evenly.
        for done in 0..300 {
            report(&mut progress, f64::from(done));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let steps = heard.lock().expect("heard").clone();
        assert!((55..=61).contains(&steps.len()), "{steps:?}");
        assert!(steps.windows(2).all(|pair| pair[1] - pair[0] <= 6.0), "{steps:?}");
        drop(progress);
        assert_eq!(heard.lock().expect("heard").last(), Some(&299.0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_report_is_passed_on() {
        let (mut progress, heard) = progress(&Limits::default());
        (0..500).for_each(|done| report(&mut progress, f64::from(done)));
        assert_eq!(*heard.lock().expect("heard"), [0.0]);
        // The guest computes, and says nothing more.
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert_eq!(*heard.lock().expect("heard"), [0.0, 499.0]);
        report(&mut progress, 500.0);
        drop(progress);
        assert_eq!(*heard.lock().expect("heard"), [0.0, 499.0, 500.0]);
    }

    #[tokio::test]
    async fn a_rate_of_nothing_passes_nothing_on() {
        let mut limits = Limits::default();
        limits.set("progress_per_second_max", "0").expect("allowed");
        let (mut progress, heard) = progress(&limits);
        report(&mut progress, 1.0);
        drop(progress);
        assert!(heard.lock().expect("heard").is_empty());
    }
}
