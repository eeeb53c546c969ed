//! Connections that wait for the next request of the same client.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::body::Upload;
use super::request::RequestTarget;
use toolhost_policy::capability::address::Reach;

/// How long a connection waits: servers give up sooner or later than this, mostly later.
const IDLE_TIME_MAX: Duration = Duration::from_secs(30);
/// Connections that wait for one server, as many as browsers keep, and some.
const IDLE_PER_TARGET_MAX: usize = 8;
/// Connections of one client that wait.
const IDLE_MAX: usize = 64;

/// An open connection. Dropping it closes the socket at once, whatever goes on.
pub(super) struct Connection {
    pub(super) sender: SendRequest<Upload>,
    /// What moves the bytes.
    pub(super) _task: AbortOnDropHandle<()>,
}

/// For which requests a connection may be used.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PoolKey {
    pub(super) reach: Reach,
    pub(super) target: RequestTarget,
}

/// The connections of one client that wait, the one used last at the end.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    waiting: Vec<IdleConnection>,
    /// Lets go of connections whose time is over; there is one while any waits.
    reaper: Option<AbortOnDropHandle<()>>,
}

struct IdleConnection {
    key: PoolKey,
    connection: Connection,
    until: Instant,
}

impl Pool {
    /// Takes a connection out that can be used for such a request, if there is one.
    pub(super) fn take(&self, key: &PoolKey) -> Option<Connection> {
        let mut idle = self.lock();
        let now = Instant::now();
        idle.waiting.retain(|waiting| waiting.until > now && waiting.connection.sender.is_ready());
        let place = idle.waiting.iter().rposition(|waiting| waiting.key == *key)?;
        Some(idle.waiting.remove(place).connection)
    }

    /// Keeps a connection for the next request. It must be ready for one.
    pub(super) fn put(self: &Arc<Pool>, key: PoolKey, connection: Connection) {
        let mut idle = self.lock();
        let alike = idle.waiting.iter().filter(|waiting| waiting.key == key).count();
        let oldest = if alike >= IDLE_PER_TARGET_MAX {
            idle.waiting.iter().position(|waiting| waiting.key == key)
        } else {
            (idle.waiting.len() >= IDLE_MAX).then_some(0)
        };
        if let Some(place) = oldest {
            idle.waiting.remove(place);
        }
        idle.waiting.push(IdleConnection {
            key,
            connection,
            until: Instant::now() + IDLE_TIME_MAX,
        });
        if idle.reaper.is_none() {
            idle.reaper = Some(AbortOnDropHandle::new(tokio::spawn(reap(Arc::downgrade(self)))));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        // A list of connections has no state in between that somebody could see.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets go of connections when their time is over, until none is left.
async fn reap(pool: Weak<Pool>) {
    loop {
        let next = {
            let Some(pool) = pool.upgrade() else { return };
            let mut idle = pool.lock();
            let now = Instant::now();
            idle.waiting.retain(|waiting| waiting.until > now);
            match idle.waiting.first() {
                Some(first) => first.until,
                None => {
                    idle.reaper = None;
                    return;
                }
            }
        };
        tokio::time::sleep_until(next).await;
    }
}
