//! Work that goes on where it was at home, whoever asks for it: what a guest begins on a thread of
//! low priority would otherwise stay there, and others would wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

/// Does what may take a while and waits for nothing, so that other tasks of this thread go on
/// elsewhere, where there is an elsewhere.
pub fn at_length<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Tells work that nobody wants it any more. Its copies are one.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Stops the work.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Tells whether the work is to be stopped.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What is left of the memory of all guests together, and of what checks their values.
#[derive(Debug)]
pub struct MemoryBudget {
    total: u64,
    used: AtomicU64,
}

impl MemoryBudget {
    /// With so many bytes in all.
    pub fn new(total: u64) -> MemoryBudget {
        MemoryBudget { total, used: AtomicU64::new(0) }
    }

    /// Takes `bytes` if so much is left.
    pub fn take(&self, bytes: u64) -> bool {
        let taken = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
            used.checked_add(bytes).filter(|used| *used <= self.total)
        });
        taken.is_ok()
    }

    /// What is taken.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// What there is in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Takes `bytes` for as long as what it returns lives, if so much is left.
    pub fn reserve(self: &Arc<MemoryBudget>, bytes: u64) -> Option<Reserved> {
        self.take(bytes).then(|| Reserved { budget: Arc::clone(self), bytes })
    }

    /// Gives back what was taken.
    pub fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// Bytes of a budget; they go back when this is dropped.
#[derive(Debug)]
#[must_use = "what is reserved goes back when it is dropped"]
pub struct Reserved {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

/// How long this thread has had a CPU.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The runtime of whoever made this; none if there was none.
#[derive(Clone, Debug)]
pub struct HomeRuntime(Option<Handle>);

impl HomeRuntime {
    /// The runtime that this is called in.
    pub fn here() -> HomeRuntime {
        HomeRuntime(Handle::try_current().ok())
    }

    /// Runs a future at home; where that is here, as a part of the caller.
    ///
    /// # Errors
    /// If the future panics, or its runtime has ended.
    ///
    /// # Cancel safety
    /// As that of the future.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, JoinError> {
        match &self.0 {
            Some(home) if Handle::current().id() != home.id() => {
                AbortOnDropHandle::new(home.spawn(work)).await
            }
            _ => Ok(work.await),
        }
    }
}
