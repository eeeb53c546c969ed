//! Guests that run long get out of the way of those that do not.
//!
//! A guest begins on the thread of whoever called it. Once it has had a CPU for a while, it goes
//! on upon threads of its own that run where no other wants to: as many as there are cores, so it
//! loses nothing where these are idle. Where they are not, it would wait for ever; so as soon as
//! anything is starved there, all of them go on upon threads that get their share, if a small one.

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use super::clock::TICK;
use super::priority::{be_idle, be_nicer};
use toolhost_core::runtime::thread_time;
use toolhost_core::tool::Meter;

/// How long a guest may have a CPU before it counts as long.
const SHORT_MAX: Duration = Duration::from_millis(2);

/// For how long a guest must have waited for a CPU on an idle thread to count as starved there...
const STARVED_MIN: Duration = Duration::from_millis(100);
/// ... if that is so many times what it had. The nicer threads get more than that.
const STARVED_RATIO: u32 = 10;
/// For how long a task that has nothing to do may wait for an idle thread.
const SERVED_MAX: Duration = Duration::from_millis(150);
/// How often whoever waits for a guest looks whether it is served.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// For how long no guest is given to the idle threads after one was starved there.
const AVOIDED_TIME: Duration = Duration::from_secs(5);

/// Where long guests go on.
#[derive(Debug, Default)]
pub(super) struct CpuIsolation(Arc<IsolationShared>);

#[derive(Debug)]
struct IsolationShared {
    idle: Threads,
    /// There are none: see [`CpuIsolation::end_soon`].
    no_idle: AtomicBool,
    nicer: Threads,
    /// When a guest was last starved.
    starved: Mutex<Option<Instant>>,
    /// Somebody looks whether the idle threads do anything.
    looking: AtomicBool,
}

impl Default for IsolationShared {
    fn default() -> IsolationShared {
        IsolationShared {
            idle: Threads::new("toolhost-idle", be_idle),
            no_idle: AtomicBool::default(),
            nicer: Threads::new("toolhost-nice", be_nicer),
            starved: Mutex::default(),
            looking: AtomicBool::default(),
        }
    }
}

impl CpuIsolation {
    /// From now on no guest is given to idle threads. A process has not ended before the last of its
    /// threads has had a core to end on, and where others keep all of them busy an idle one waits for
    /// that for seconds.
    pub(super) fn end_soon(&self) {
        self.0.no_idle.store(true, Ordering::Release);
    }

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
        let mut guest = CountedThread { guest, meter, habit, used: Duration::ZERO };
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
        let guest = match self.0.try_idle(guest).await {
            Ok(answer) => return answer,
            Err(guest) => guest,
        };
        match self.0.nicer() {
            None => guest.await,
            Some(threads) => {
                ended(AbortOnDropHandle::new(threads.spawn(stepping_back(guest))).await)
            }
        }
    }
}

impl IsolationShared {
    fn nicer(&self) -> Option<&Runtime> {
        self.nicer.get()
    }

    /// Runs a guest on the idle threads, and gives it back if these are not served.
    async fn try_idle<F>(
        self: &Arc<Self>,
        guest: CountedThread<F>,
    ) -> Result<F::Output, CountedThread<F>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let Some(threads) = self.idle_threads() else { return Err(guest) };
        self.look();
        let guest = Arc::new(Lent { guest: Mutex::new(Some(guest)), cancelled: false.into() });
        let task = threads.spawn(until_starved(Arc::clone(self), Arc::clone(&guest)));
        let mut lent =
            Lending { shared: Arc::clone(self), guest, task: AbortOnDropHandle::new(task) };
        loop {
            tokio::select! {
                biased;
                joined = &mut lent.task => match ended(joined) {
                    Some(answer) => return Ok(answer),
                    None => break,
                },
                () = tokio::time::sleep(LOOK_EVERY) => {
                    self.look();
                    // It may have waited since it came, without having been looked at once.
                    if self.is_avoided() && let Some(guest) = lent.guest.take_if_not_running() {
                        return Err(guest);
                    }
                }
            }
        }
        // It is not running any more: it was what ended.
        Err(lock(&lent.guest.guest).take().expect("nobody else takes it"))
    }

    fn idle(&self) -> Option<&Runtime> {
        if self.no_idle.load(Ordering::Acquire) { None } else { self.idle.get() }
    }

    /// None while others take all cores.
    fn idle_threads(self: &Arc<Self>) -> Option<&Runtime> {
        let starved = *lock(&self.starved);
        match starved.map(|last| last.elapsed()) {
            None => self.idle(),
            Some(ago) => {
                if ago >= AVOIDED_TIME {
                    // Not with a guest: they stay away until this was seen to go well.
                    self.look();
                }
                None
            }
        }
    }

    /// Has a task without any work run on the idle threads, and sees whether it does in time. Not by
    /// the guest's own caller, which may have less patience.
    fn look(self: &Arc<Self>) {
        let Some(threads) = self.idle() else { return };
        if self.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (looking, task) = (Looking(Arc::downgrade(self)), threads.spawn(async {}));
        tokio::spawn(async move {
            let was_served = tokio::time::timeout(SERVED_MAX, task).await.is_ok();
            let Some(shared) = looking.0.upgrade() else { return };
            let mut starved = lock(&shared.starved);
            if !was_served {
                *starved = Some(Instant::now());
            } else if starved.is_some_and(|last| last.elapsed() >= AVOIDED_TIME) {
                *starved = None;
            }
        });
    }

    fn is_avoided(&self) -> bool {
        lock(&self.starved).is_some()
    }

    fn saw_starved(&self) {
        *lock(&self.starved) = Some(Instant::now());
    }

    /// Drops a guest where that takes no long time of threads that others wait for: what it holds may
    /// be hundreds of megabytes.
    fn drop_elsewhere<F: Send + 'static>(&self, guest: CountedThread<F>) {
        match self.nicer() {
            Some(threads) => drop(threads.spawn(async move { drop(guest) })),
            None => drop(guest),
        }
    }
}

/// That somebody looks whether the idle threads do anything: until it has seen it, or is gone with the
/// runtime of the caller that began it.
struct Looking(Weak<IsolationShared>);

impl Drop for Looking {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.looking.store(false, Ordering::Release);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A guest that panicked is dropped, and the rest has no state in between.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guest that the idle threads run, and that its owner can take back between two of its steps.
struct Lent<F> {
    guest: Mutex<Option<CountedThread<F>>>,
    cancelled: AtomicBool,
}

impl<F> Lent<F> {
    fn take_if_not_running(&self) -> Option<CountedThread<F>> {
        self.guest.try_lock().ok()?.take()
    }
}

/// Stops the guest when it is dropped.
struct Lending<F: Future<Output: Send> + Send + 'static> {
    shared: Arc<IsolationShared>,
    guest: Arc<Lent<F>>,
    task: AbortOnDropHandle<Option<F::Output>>,
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Lending<F> {
    fn drop(&mut self) {
        // What runs at this moment sees it when it yields.
        self.guest.cancelled.store(true, Ordering::Release);
        if let Some(guest) = self.guest.take_if_not_running() {
            self.shared.drop_elsewhere(guest);
        }
    }
}

/// Threads of one priority. They are started when there is the first guest for them; none if they
/// cannot be had.
#[derive(Debug)]
struct Threads {
    name: &'static str,
    on_start: fn(),
    runtime: OnceLock<Option<Runtime>>,
}

impl Threads {
    fn new(name: &'static str, on_start: fn()) -> Threads {
        Threads { name, on_start, runtime: OnceLock::new() }
    }

    fn get(&self) -> Option<&Runtime> {
        let start = || {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            Builder::new_multi_thread()
                .worker_threads(cores)
                .thread_name(self.name)
                .on_thread_start(self.on_start)
                .enable_all()
                .build()
                .inspect_err(|error| {
                    tracing::warn!(%error, "no threads for long calls; short ones wait for them");
                })
                .ok()
        };
        self.runtime.get_or_init(start).as_ref()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Whoever waited for the guests is gone, and so are they.
        if let Some(Some(runtime)) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs a guest on a thread that has a CPU only where no other wants it; ends without an answer if
/// that is hardly ever, or if the guest was taken away.
async fn until_starved<F>(shared: Arc<IsolationShared>, lent: Arc<Lent<F>>) -> Option<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let (mut waited, mut had) = (Duration::ZERO, Duration::ZERO);
    poll_fn(|context| {
        let mut place = lock(&lent.guest);
        let Some(guest) = place.as_mut() else { return Poll::Ready(None) };
        let (start, used) = (Instant::now(), guest.used);
        if let Poll::Ready(answer) = Pin::new(&mut *guest).poll(context) {
            *place = None;
            return Poll::Ready(Some(answer));
        }
        let took = guest.used.saturating_sub(used);
        had += took;
        waited += start.elapsed().saturating_sub(took);
        if waited >= STARVED_MIN && waited >= had.saturating_mul(STARVED_RATIO) {
            shared.saw_starved();
        }
        if lent.cancelled.load(Ordering::Acquire) {
            place.take().into_iter().for_each(|guest| shared.drop_elsewhere(guest));
            return Poll::Ready(None);
        }
        if shared.is_avoided() { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

/// Runs a guest, and lets other threads go first whenever it has yielded. Some kernels give a core to
/// a thread that has woken only when the one that has it comes by, which a guest does not: that would
/// be at the next tick of the kernel, some milliseconds later.
async fn stepping_back<F: Future>(mut guest: CountedThread<F>) -> F::Output {
    poll_fn(|context| {
        let polled = Pin::new(&mut guest).poll(context);
        if polled.is_pending() {
            std::thread::yield_now();
        }
        polled
    })
    .await
}

/// What became of a guest on another thread; a panic of it goes on here.
fn ended<T>(joined: Result<T, JoinError>) -> T {
    joined.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
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
struct CountedThread<F> {
    guest: Pin<Box<F>>,
    meter: Arc<Meter>,
    habit: Arc<Habit>,
    used: Duration,
}

impl<F: Future> Future for CountedThread<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<F::Output> {
        let (start, before) = (Instant::now(), thread_time());
        let polled = self.guest.as_mut().poll(context);
        let elapsed = start.elapsed();
        // Most calls end soon, and asking the kernel again would cost them more than they gain. In
        // a long time it may have lost its core.
        let took = if elapsed < TICK / 2 { elapsed } else { thread_time().saturating_sub(before) };
        self.meter.guest_ran(took);
        self.used += took;
        polled
    }
}

impl<F> Drop for CountedThread<F> {
    fn drop(&mut self) {
        self.habit.saw(self.used);
    }
}
