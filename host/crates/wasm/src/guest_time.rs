//! Stopping a guest after its own time: that in which it has a core, and that in which it sleeps.
//! While it waits for a core that others have, its time stands still.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use toolhost_core::runtime::thread_time;

/// Runs a guest for at most `time_max` of its own time. Returns its answer, if it came to one, and
/// how long it took. It must be called within a tokio runtime.
///
/// # Cancel safety
/// Dropping the future stops the guest.
pub(super) async fn within<F: Future>(
    time_max: Duration,
    guest: F,
) -> (Option<F::Output>, Duration) {
    let (mut guest, mut alarm) = (pin!(guest), pin!(tokio::time::sleep(time_max)));
    let woken = Arc::new(Woken::default());
    let (mut used, mut asleep_since) = (Duration::ZERO, None::<Instant>);
    let answer = poll_fn(|context| {
        if let Some(since) = asleep_since {
            let until = woken.at().unwrap_or_else(Instant::now);
            used += until.saturating_duration_since(since);
        }
        woken.expect(context.waker());
        let waker = Waker::from(Arc::clone(&woken));
        let (start, before) = (Instant::now(), thread_time());
        let polled = guest.as_mut().poll(&mut Context::from_waker(&waker));
        used += thread_time().saturating_sub(before).min(start.elapsed());
        if let Poll::Ready(answer) = polled {
            return Poll::Ready(Some(answer));
        }
        let left = time_max.saturating_sub(used);
        if left.is_zero() {
            return Poll::Ready(None);
        }
        asleep_since = Some(Instant::now());
        // For a guest that sleeps; one that does not is back before.
        alarm.as_mut().reset(tokio::time::Instant::now() + left);
        if alarm.as_mut().poll(context).is_ready() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
    (answer, used)
}

/// When a guest was woken that waits for something.
#[derive(Default)]
struct Woken(Mutex<(Option<Instant>, Option<Waker>)>);

impl Woken {
    fn at(&self) -> Option<Instant> {
        self.state().0
    }

    /// It is about to run, and to be woken again.
    fn expect(&self, waker: &Waker) {
        *self.state() = (None, Some(waker.clone()));
    }

    fn state(&self) -> MutexGuard<'_, (Option<Instant>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let waker = {
            let mut state = self.state();
            state.0.get_or_insert_with(Instant::now);
            state.1.clone()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test]
    async fn who_sleeps_or_runs_is_stopped() {
        let short = Duration::from_millis(30);
        let (answer, used) = within(short, tokio::time::sleep(LONG)).await;
        assert!(answer.is_none() && used >= short, "{used:?}");
        let spin = async {
            loop {
                std::hint::black_box(0);
                tokio::task::yield_now().await;
            }
        };
        let (answer, used): (Option<()>, _) = within(short, spin).await;
        assert!(answer.is_none() && used >= short, "{used:?}");
    }

    #[tokio::test]
    async fn who_waits_for_a_core_is_not() {
        // Each turn of this thread is another's for ten times the time it has.
        let others = tokio::spawn(async {
            loop {
                std::thread::sleep(Duration::from_millis(50));
                tokio::task::yield_now().await;
            }
        });
        // As a guest does: it is to run again at once, and others go first.
        let mut left = 10;
        let yields = poll_fn(move |context| {
            left -= 1;
            context.waker().wake_by_ref();
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        });
        let start = Instant::now();
        let (answer, used) = within(Duration::from_millis(400), yields).await;
        others.abort();
        assert!(answer.is_some() && used < start.elapsed() / 2, "{used:?}");
    }
}
