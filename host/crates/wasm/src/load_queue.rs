//! Who loads when. Each step of a load has slots of its own, so that what is quick waits for nothing
//! that is slow; and what nobody has trusted has its own of each, so that it keeps nobody else
//! waiting. Waiting is no error.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::account::Standing;
use super::compile::LARGE_BYTES;
use super::load_error::LoadError;
use toolhost_core::scheduler::{Bounds, Scheduler, Slot, SourceKey};

/// The slots of all loads of a host.
pub(super) struct LoadQueue {
    /// Of reading, since what is read is held meanwhile: this user's, and strangers'.
    reading: [Semaphore; 2],
    /// How many read at once.
    readers: u32,
    /// Compiling fills a core, so this user's plugins have as many permits as there are cores.
    compiling: Semaphore,
    /// What takes seconds is compiled one at a time, so that the rest need not wait for it.
    compiling_large: Semaphore,
    /// Runners keep no plugin waiting that needs none.
    compiling_runners: Semaphore,
    /// Of all projects that were trusted, one component at a time; and so of all others.
    compiling_of_projects: [Semaphore; 2],
    /// Of `register`: this user's, and strangers'. A free slot goes to the folders round and round.
    registering: [Scheduler; 2],
}

/// What a component is compiled for.
#[derive(Clone, Copy)]
pub(super) enum Use {
    /// As a plugin.
    Plugin,
    /// As what runs scripts.
    Runner,
}

impl LoadQueue {
    pub(super) fn new(cores: usize) -> LoadQueue {
        let all = Bounds {
            running_of_one: cores,
            running: cores,
            waiting_of_one: usize::MAX,
            waiting: usize::MAX,
        };
        let readers = u32::try_from(cores).unwrap_or(u32::MAX);
        LoadQueue {
            reading: [0, 1].map(|_| Semaphore::new(readers as usize)),
            readers,
            compiling: Semaphore::new(cores),
            compiling_large: Semaphore::new(1),
            compiling_runners: Semaphore::new(1),
            compiling_of_projects: [0, 1].map(|_| Semaphore::new(1)),
            registering: [0, 1].map(|_| Scheduler::new(all)),
        }
    }

    pub(super) async fn read(&self, standing: Standing) -> Result<SemaphorePermit<'_>, LoadError> {
        permit(&self.reading[usize::from(standing == Standing::Untrusted)]).await
    }

    /// Waits until whoever waited to read has read by now, and mapped what is kept of it.
    pub(super) async fn others_have_read(&self, standing: Standing) -> Result<(), LoadError> {
        let slots = &self.reading[usize::from(standing == Standing::Untrusted)];
        let all = slots.acquire_many(self.readers).await;
        all.map(drop).map_err(|error| LoadError::Internal(error.to_string()))
    }

    pub(super) async fn compile(
        &self,
        used_as: Use,
        standing: Standing,
        bytes: u64,
    ) -> Result<SemaphorePermit<'_>, LoadError> {
        let [of_trusted, of_untrusted] = &self.compiling_of_projects;
        permit(match (used_as, standing) {
            (Use::Runner, _) => &self.compiling_runners,
            (Use::Plugin, Standing::User) if bytes > LARGE_BYTES as u64 => &self.compiling_large,
            (Use::Plugin, Standing::User) => &self.compiling,
            (Use::Plugin, Standing::Project) => of_trusted,
            (Use::Plugin, Standing::Untrusted) => of_untrusted,
        })
        .await
    }

    pub(super) async fn register(
        &self,
        standing: Standing,
        key: SourceKey,
    ) -> Result<Slot<'_>, LoadError> {
        let slots = &self.registering[usize::from(standing == Standing::Untrusted)];
        let slot = slots.take(key).await;
        slot.map_err(|_| LoadError::Internal("no slot to register".to_owned()))
    }
}

async fn permit(permits: &Semaphore) -> Result<SemaphorePermit<'_>, LoadError> {
    permits.acquire().await.map_err(|error| LoadError::Internal(error.to_string()))
}
