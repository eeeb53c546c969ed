//! Guests that run long get out of the way of those that do not.
//!
//! A guest begins on the thread of whoever called it. Once it has had a CPU for a while, it goes
//! on upon threads of its own: as many as there are cores, so it loses nothing where these are
//! idle, and of a lower priority, so that a short call waits for no long one.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::tool::Meter;

/// How long a guest may have a CPU before it counts as long.
const SHORT_MAX: Duration = Duration::from_millis(3);
/// By how much the threads of long guests are nicer than others: a third of the weight, and the
/// kernel lets a thread that wakes go before them.
#[cfg(target_os = "linux")]
const NICER_BY: i32 = 5;

/// Where long guests go on.
#[derive(Debug, Default)]
pub(super) struct LongGuests {
    /// Made when there is the first one; none if threads cannot be had.
    runtime: OnceLock<Option<Runtime>>,
}

impl LongGuests {
    /// Runs a guest, and counts the time in which it has a CPU: not that in which it waits for a
    /// request, or for its turn.
    ///
    /// # Cancel safety
    /// Dropping the future stops the guest: at once, or when it next yields.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        meter: Arc<Meter>,
        guest: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let mut guest = Box::pin(timed(meter, guest));
        let mut used = Duration::ZERO;
        let short = poll_fn(|context| {
            let start = Instant::now();
            let polled = guest.as_mut().poll(context);
            used += start.elapsed();
            match polled {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending if used >= SHORT_MAX => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        if let Some(answer) = short.await {
            return answer;
        }
        match self.runtime.get_or_init(start) {
            Some(runtime) => Stopped(runtime.spawn(stepping_back(guest))).await,
            None => guest.await,
        }
    }
}

impl Drop for LongGuests {
    fn drop(&mut self) {
        // Whoever waited for them is gone, and so are they.
        if let Some(Some(runtime)) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn start() -> Option<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread()
        .worker_threads(cores)
        .thread_name("toolhost-long")
        .on_thread_start(be_nicer)
        .enable_all()
        .build()
        .inspect_err(
            |error| tracing::warn!(%error, "no threads for long calls; short ones wait for them"),
        )
        .ok()
}

/// On Linux the priority is of the thread; elsewhere it would be of the whole process.
fn be_nicer() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        let nicer = getpriority_process(None)
            .and_then(|priority| setpriority_process(None, (priority + NICER_BY).min(19)));
        if let Err(error) = nicer {
            tracing::warn!(%error, "long calls have the priority of short ones");
        }
    }
}

/// A guest on another thread; it is stopped when this is dropped.
struct Stopped<T>(JoinHandle<T>);

impl<T> Future for Stopped<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(context).map(|joined| match joined {
            Ok(answer) => answer,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        })
    }
}

impl<T> Drop for Stopped<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Lets whatever waits for the core go before each part of a guest's run. The kernel otherwise gives
/// a thread its whole slice, up to a tick of some milliseconds, though another of higher priority
/// has woken.
async fn stepping_back<T>(guest: impl Future<Output = T>) -> T {
    let mut guest = std::pin::pin!(guest);
    poll_fn(|context| {
        std::thread::yield_now();
        guest.as_mut().poll(context)
    })
    .await
}

async fn timed<T>(meter: Arc<Meter>, guest: impl Future<Output = T>) -> T {
    let mut guest = std::pin::pin!(guest);
    poll_fn(|context| {
        let start = Instant::now();
        let polled = guest.as_mut().poll(context);
        meter.guest_ran(start.elapsed());
        polled
    })
    .await
}
