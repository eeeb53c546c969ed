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

use super::engine::TICK;
use crate::tool::Meter;

/// How long a guest may have a CPU before it counts as long.
const SHORT_MAX: Duration = Duration::from_millis(2);

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
        let mut used: Option<Duration> = None;
        let short = poll_fn(|context| {
            // Most calls end with the first poll, and asking the kernel would cost them more than
            // they gain. They yield after a tick, and may have lost their core meanwhile.
            let (polled, took) = match used {
                None => {
                    let start = Instant::now();
                    (guest.as_mut().poll(context), start.elapsed().min(TICK))
                }
                Some(_) => {
                    let start = thread_time();
                    (guest.as_mut().poll(context), thread_time().saturating_sub(start))
                }
            };
            let used = *used.insert(used.unwrap_or_default() + took);
            match polled {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending if used >= SHORT_MAX => Poll::Ready(None),
                Poll::Pending => {
                    if took >= TICK / 2 {
                        std::thread::yield_now();
                    }
                    Poll::Pending
                }
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

/// How long this thread has had a CPU.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// On Linux the priority is of the thread; elsewhere it would be of the whole process.
fn be_nicer() {
    #[cfg(target_os = "linux")]
    if let Err(error) = priority::be_nicer() {
        tracing::warn!(%error, "long calls have the priority of short ones");
    }
}

#[cfg(target_os = "linux")]
mod priority {
    use std::io::{Error, Result};
    use std::time::Duration;

    use rustix::process::{getpriority_process, setpriority_process};

    /// By how much the threads of long guests are nicer than others: a tenth of the weight.
    const NICER_BY: i32 = 10;
    /// For how long such a thread keeps its core though another has woken: the least there is. The
    /// kernel otherwise protects it for some milliseconds, also against threads of higher priority.
    const SLICE: Duration = Duration::from_micros(100);

    pub(super) fn be_nicer() -> Result<()> {
        let nice = (getpriority_process(None)? + NICER_BY).min(19);
        // Kernels before 3.14 do not know it, and those before 6.12 no slices.
        with_slice(nice).or_else(|_| Ok(setpriority_process(None, nice)?))
    }

    #[expect(unsafe_code, reason = "no crate has this system call with a slice")]
    fn with_slice(nice: i32) -> Result<()> {
        /// `struct sched_attr` of the kernel, in its first version.
        #[repr(C)]
        struct Attributes {
            size: u32,
            policy: u32,
            flags: u64,
            nice: i32,
            priority: u32,
            runtime: u64,
            deadline: u64,
            period: u64,
        }
        let attributes = Attributes {
            size: size_of::<Attributes>() as u32,
            policy: libc::SCHED_OTHER.cast_unsigned(),
            flags: 0,
            nice,
            priority: 0,
            runtime: SLICE.as_nanos() as u64,
            deadline: 0,
            period: 0,
        };
        // SAFETY: the kernel reads as many bytes as `size` says, which is all of the structure.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
        if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
    }
}

/// Runs a guest, and lets other threads go first whenever it has yielded. Some kernels give a core to
/// a thread that has woken only when the one that has it comes by, which a guest does not: that would
/// be at the next tick of the kernel, some milliseconds later.
async fn stepping_back<T>(guest: impl Future<Output = T>) -> T {
    let mut guest = std::pin::pin!(guest);
    poll_fn(|context| {
        let polled = guest.as_mut().poll(context);
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
