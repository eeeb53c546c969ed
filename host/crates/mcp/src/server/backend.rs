//! What a server needs of the host that it serves. The host is wired above this crate, so it comes
//! in through this trait.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use toolhost_core::tool::{Call, Outcome};
use toolhost_kernel::availability::Unavailable;
use toolhost_kernel::definitions::Listed;
use toolhost_kernel::registry::Catalog;
use toolhost_kernel::session::{Session, SessionError, SessionSettings};
use toolhost_schema::schema::Format;
use toolhost_sources::reload::Shown;

/// A running host, as [`serve`](super::serve) uses it. Every future may be dropped.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// The catalog of this moment.
    fn catalog(&self) -> Arc<Catalog>;

    /// Tells of every new generation of the catalog.
    fn subscribe(&self) -> watch::Receiver<u64>;

    /// What became of every source so far, whenever that changes.
    fn sources(&self) -> watch::Receiver<Shown>;

    /// Counts how often a check answered otherwise than before.
    fn checks_changed(&self) -> watch::Receiver<u64>;

    /// Whether a turn of a session has a budget, unless the session says otherwise.
    fn turn_is_bounded(&self) -> bool;

    /// The directories that plugins were granted, in a sentence or two for a model.
    fn granted(&self) -> String;

    /// Makes a session: the calls of one caller, with the toolsets it has.
    ///
    /// # Errors
    /// If the settings cannot be used.
    fn session(&self, settings: SessionSettings) -> Result<Arc<Session>, SessionError>;

    /// Waits until every source has loaded or failed once.
    async fn loaded(&self);

    /// The same, but for scripts whose runner is still being compiled.
    async fn started(&self);

    /// Waits until a call of this tool can be made, or it is known that it cannot.
    async fn ready_for(&self, tool: &str);

    /// Waits until the source of a tool that is listed from the record has loaded or failed.
    async fn arrived(&self, tool: &str);

    /// Asks every tool that can tell whether it can work at present; returns those that cannot.
    async fn unavailable(&self) -> BTreeMap<String, Unavailable>;

    /// The definitions of the tools that a session has, by what their checks said last.
    async fn known_definitions(&self, session: &Session, format: Format) -> Arc<Listed>;

    /// Runs one call of a session. It never fails: whatever happens is in the outcome.
    async fn call_in(&self, session: &Session, call: Call) -> Outcome;

    /// Stops the host, once nobody is served.
    async fn stop(self)
    where
        Self: Sized;
}
