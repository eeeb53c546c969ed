//! Calls at once: of each source, and in all. A call that may not run yet waits for a slot; one
//! that finds no place to wait is refused at once, and one that waited too long is refused then.

use std::sync::Arc;
use std::time::Duration;

use crate::registry::Entry;
use toolhost_core::limits::Limits;
use toolhost_core::scheduler::{Bounds, Full, Load, Scheduler, Slot};
use toolhost_core::tool::{CallError, Code};

/// The least time after which a call that was refused may be tried again.
const RETRY_AFTER_MIN: Duration = Duration::from_millis(10);

/// Lets calls run, so many at once; of projects that nobody has trusted half as many.
pub(super) struct Permits {
    calls: Scheduler,
    /// Of strangers' calls, which take one of these first, so that the other half is the user's.
    calls_of_strangers: Scheduler,
    limits: Arc<Limits>,
}

impl Permits {
    /// Lets `calls_max` calls run at once.
    pub(super) fn new(limits: Arc<Limits>, calls_max: usize) -> Permits {
        let bounds = Bounds {
            running_of_one: limits.calls_per_source_max.0,
            running: calls_max,
            waiting_of_one: limits.waiting_per_source_max.0,
            waiting: limits.waiting_max.0,
        };
        let of_strangers = Bounds { running: calls_max.div_ceil(2), ..bounds };
        Permits {
            calls: Scheduler::new(bounds),
            calls_of_strangers: Scheduler::new(of_strangers),
            limits,
        }
    }

    /// Waits until the tool's source may run one more call, no longer than a caller has that gave
    /// its call a time.
    ///
    /// # Errors
    /// If the source or the host is busy.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub(super) async fn take(
        &self,
        entry: &Entry,
        time_max: Option<Duration>,
    ) -> Result<Permit<'_>, CallError> {
        let of_caller = time_max.filter(|time_max| *time_max < self.limits.permit_wait_max);
        let wait_max = of_caller.unwrap_or(self.limits.permit_wait_max);
        let calls = if entry.of_stranger { &self.calls_of_strangers } else { &self.calls };
        let take = async {
            let slot = calls.take(entry.key).await?;
            let of_all = match entry.of_stranger {
                true => Some(self.calls.take(entry.key).await?),
                false => None,
            };
            Ok(Permit { _slot: slot, _of_all: of_all })
        };
        match tokio::time::timeout(wait_max, take).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(Full(load))) => Err(self.busy(entry, load, &self.no_place(load))),
            Err(_) => {
                let waited = humantime::format_duration(wait_max);
                let limit = match of_caller {
                    Some(_) => "the time the caller gave",
                    None => "`permit_wait_max`",
                };
                let why = format!("no slot became free within {limit} of {waited}");
                // What is foreseen has just been proved wrong.
                let load = Load { slot_in: None, ..calls.load(entry.key) };
                Err(self.busy(entry, load, &why))
            }
        }
    }

    fn no_place(&self, load: Load) -> String {
        let Bounds { waiting_of_one, waiting, .. } = self.calls.bounds();
        if load.waiting_of_one >= waiting_of_one {
            let count = load.waiting_of_one;
            format!("{count} wait for it, and `waiting_per_source_max` is {waiting_of_one}")
        } else {
            format!("{} wait in all, and `waiting_max` is {waiting}", load.waiting)
        }
    }

    fn busy(&self, entry: &Entry, load: Load, why: &str) -> CallError {
        let slots = if entry.of_stranger { &self.calls_of_strangers } else { &self.calls };
        let Bounds { running_of_one, running, .. } = slots.bounds();
        let runs = if load.running_of_one >= running_of_one {
            let (source, calls) = (&entry.source, calls(load.running_of_one));
            format!("{source} runs {calls}, and `calls_per_source_max` is {running_of_one}")
        } else if entry.of_stranger {
            let calls = calls(load.running);
            format!(
                "the host runs {calls} of projects that are not trusted, and lets {running} run, \
                 half of what `calls_per_core_max` lets run in all"
            )
        } else {
            let calls = calls(load.running);
            format!("the host runs {calls}, and `calls_per_core_max` lets it run {running}")
        };
        let wait_max = self.limits.permit_wait_max;
        let retry = load.slot_in.unwrap_or(wait_max).max(RETRY_AFTER_MIN).min(wait_max);
        let retry = Duration::from_millis(u64::try_from(retry.as_millis()).unwrap_or(u64::MAX));
        let shown = humantime::format_duration(retry);
        CallError::new(Code::Busy, format!("busy: {runs}; {why}; try again in {shown}"))
            .with("retry_after_ms", u64::try_from(retry.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A call may run, until this is dropped.
pub(super) struct Permit<'a> {
    _slot: Slot<'a>,
    /// Of a stranger's, the slot among all calls.
    _of_all: Option<Slot<'a>>,
}

fn calls(count: usize) -> String {
    if count == 1 { "1 call".to_owned() } else { format!("{count} calls") }
}
