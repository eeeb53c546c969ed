//! From a name to its addresses.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

/// Questions to the machine's resolver at once, of all clients together. Each holds a thread.
const QUESTIONS_MAX: usize = 64;

/// Finds the addresses of a name.
pub trait Resolver: Send + Sync {
    /// Returns the addresses of `host`, a name in lower case without a dot at its end; those to
    /// try first stand first.
    ///
    /// # Errors
    /// If there is no such name, or nobody can be asked.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Asks the resolver of the machine, as its C library does.
///
/// It asks at most 64 questions at once; the next ones wait. A question that nobody waits for any
/// longer goes on until the C library gives up.
pub struct SystemResolver {
    questions: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> SystemResolver {
        SystemResolver { questions: Arc::new(Semaphore::new(QUESTIONS_MAX)) }
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let questions = Arc::clone(&self.questions);
            let turn = questions.acquire_owned().await.map_err(io::Error::other)?;
            let host = host.to_owned();
            let asking = tokio::task::spawn_blocking(move || {
                // Held by the thread, not by the future: dropping that does not end the thread.
                let _turn = turn;
                let found = (host, 0).to_socket_addrs()?;
                Ok(found.map(|address| address.ip()).collect())
            });
            asking.await.map_err(io::Error::other)?
        })
    }
}
