//! Guests that run long get out of the way of those that do not.
//!
//! A guest begins on the thread of whoever called it. Once it has had a CPU for a while, it goes
//! on upon threads of its own that run where no other wants to: as many as there are cores, so it
//! loses nothing where these are idle. Where they are not, it would wait for ever; so one that is
//! starved there, and for a while each after it, goes on upon threads that get their share, if a
//! small one.

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::engine::TICK;
use super::priority::{be_idle, be_nicer};
use crate::tool::Meter;

/// How long a guest may have a CPU before it counts as long.
const SHORT_MAX: Duration = Duration::from_millis(2);

/// For how long a guest may have waited for a CPU among the idle threads, at most...
const STARVED_MIN: Duration = Duration::from_millis(100);
/// ... if that is so many times what it had. The nicer threads get more than that.
const STARVED_RATIO: u32 = 10;
/// For how long no other tries the idle threads after one was starved there.
const AVOIDED_TIME: Duration = Duration::from_secs(5);

/// Where long guests go on.
#[derive(Debug, Default)]
pub(super) struct LongGuests {
    idle: Threads,
    nicer: Threads,
    /// When a guest was last starved.
    starved: Mutex<Option<Instant>>,
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
        habit: &Arc<Habit>,
        guest: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let (guest, habit) = (Box::pin(guest), Arc::clone(habit));
        let begins_long = habit.is_long();
        let mut guest = Counted { guest, meter, habit, used: Duration::ZERO };
        if !begins_long {
            let short = poll_fn(|context| {
                let used = guest.used;
                match Pin::new(&mut guest).poll(context) {
                    Poll::Ready(answer) => Poll::Ready(Some(answer)),
                    Poll::Pending if guest.used >= SHORT_MAX => Poll::Ready(None),
                    Poll::Pending => {
                        if guest.used.saturating_sub(used) >= TICK / 2 {
                            std::thread::yield_now();
                        }
                        Poll::Pending
                    }
                }
            });
            if let Some(answer) = short.await {
                return answer;
            }
        }
        let guest = match self.idle_threads() {
            None => guest,
            Some(threads) => match Stopped(threads.spawn(until_starved(guest))).await {
                Ok(answer) => return answer,
                Err(guest) => {
                    self.saw_starved();
                    guest
                }
            },
        };
        match self.nicer.get("toolhost-nice", be_nicer) {
            None => guest.await,
            Some(threads) => Stopped(threads.spawn(stepping_back(guest))).await,
        }
    }

    /// None while others take all cores.
    fn idle_threads(&self) -> Option<&Runtime> {
        let starved = *self.starved.lock().unwrap_or_else(PoisonError::into_inner);
        let is_avoided = starved.is_some_and(|last| last.elapsed() < AVOIDED_TIME);
        if is_avoided { None } else { self.idle.get("toolhost-idle", be_idle) }
    }

    fn saw_starved(&self) {
        *self.starved.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

/// Threads of one priority. They are started when there is the first guest for them; none if they
/// cannot be had.
#[derive(Debug, Default)]
struct Threads(OnceLock<Option<Runtime>>);

impl Threads {
    fn get(&self, name: &str, on_start: fn()) -> Option<&Runtime> {
        let start = || {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            Builder::new_multi_thread()
                .worker_threads(cores)
                .thread_name(name)
                .on_thread_start(on_start)
                .enable_all()
                .build()
                .inspect_err(|error| {
                    tracing::warn!(%error, "no threads for long calls; short ones wait for them");
                })
                .ok()
        };
        self.0.get_or_init(start).as_ref()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Whoever waited for the guests is gone, and so are they.
        if let Some(Some(runtime)) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// How long this thread has had a CPU.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Runs a guest on a thread that has a CPU only where no other wants it; gives it back if that is
/// hardly ever.
async fn until_starved<F: Future>(guest: Counted<F>) -> Result<F::Output, Counted<F>> {
    let (had, mut guest) = (guest.used, Some(guest));
    let mut waited = Duration::ZERO;
    poll_fn(|context| {
        let Some(running) = &mut guest else { return Poll::Pending };
        let (start, used) = (Instant::now(), running.used);
        if let Poll::Ready(answer) = Pin::new(&mut *running).poll(context) {
            return Poll::Ready(Ok(answer));
        }
        waited += start.elapsed().saturating_sub(running.used.saturating_sub(used));
        let starves = waited >= STARVED_MIN
            && waited >= running.used.saturating_sub(had).saturating_mul(STARVED_RATIO);
        match guest.take_if(|_| starves) {
            Some(guest) => Poll::Ready(Err(guest)),
            None => Poll::Pending,
        }
    })
    .await
}

/// Runs a guest, and lets other threads go first whenever it has yielded. Some kernels give a core to
/// a thread that has woken only when the one that has it comes by, which a guest does not: that would
/// be at the next tick of the kernel, some milliseconds later.
async fn stepping_back<F: Future>(mut guest: Counted<F>) -> F::Output {
    poll_fn(|context| {
        let polled = Pin::new(&mut guest).poll(context);
        if polled.is_pending() {
            std::thread::yield_now();
        }
        polled
    })
    .await
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

/// How long the guests of one tool lately had a CPU, on average: those of a tool that always takes
/// long begin where they would go on, since a guest cannot be moved in the midst of an instruction,
/// and one may take a while: to copy megabytes, say.
#[derive(Debug, Default)]
pub(super) struct Habit {
    micros: AtomicU32,
}

impl Habit {
    /// The average from which guests begin as long ones.
    const LONG: Duration = Duration::from_micros(2_500);
    /// One guest counts as no more than this, so that a tool does not long pay for a single call.
    const ONE_MAX: Duration = Duration::from_millis(16);
    /// Over how many guests the average goes.
    const GUESTS: u32 = 8;

    fn is_long(&self) -> bool {
        u128::from(self.micros.load(Ordering::Relaxed)) >= Habit::LONG.as_micros()
    }

    fn saw(&self, used: Duration) {
        let used = u32::try_from(used.min(Habit::ONE_MAX).as_micros()).unwrap_or(u32::MAX);
        // Where two end at the same time, one of them may not count.
        let before = self.micros.load(Ordering::Relaxed);
        let after = (before * (Habit::GUESTS - 1) + used) / Habit::GUESTS;
        self.micros.store(after, Ordering::Relaxed);
    }
}

/// A guest whose time with a CPU is counted.
struct Counted<F> {
    guest: Pin<Box<F>>,
    meter: Arc<Meter>,
    habit: Arc<Habit>,
    used: Duration,
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<F::Output> {
        let start = Instant::now();
        // Most calls end with the first poll, and asking the kernel twice would cost them more than
        // they gain. They yield after a tick, and may have lost their core meanwhile.
        let before = (!self.used.is_zero()).then(thread_time);
        let polled = self.guest.as_mut().poll(context);
        let took = match before {
            None => start.elapsed().min(TICK),
            Some(before) => thread_time().saturating_sub(before),
        };
        self.meter.guest_ran(took);
        self.used += took;
        polled
    }
}

impl<F> Drop for Counted<F> {
    fn drop(&mut self) {
        self.habit.saw(self.used);
    }
}
