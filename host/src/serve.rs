//! A host as an MCP server serves it.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use toolhost_core::tool::{Call, Outcome};
use toolhost_kernel::availability::Unavailable;
use toolhost_kernel::definitions::Listed;
use toolhost_kernel::registry::Catalog;
use toolhost_kernel::session::{Session, SessionError, SessionSettings};
use toolhost_mcp::server::Backend;
use toolhost_schema::schema::Format;
use toolhost_sources::reload::Shown;

use crate::Host;

#[async_trait]
impl Backend for Host {
    fn catalog(&self) -> Arc<Catalog> {
        Host::catalog(self)
    }

    fn subscribe(&self) -> watch::Receiver<u64> {
        Host::subscribe(self)
    }

    fn sources(&self) -> watch::Receiver<Shown> {
        Host::sources(self)
    }

    fn checks_changed(&self) -> watch::Receiver<u64> {
        Host::checks_changed(self)
    }

    fn turn_is_bounded(&self) -> bool {
        self.config().turn_is_bounded
    }

    fn granted(&self) -> String {
        Host::granted(self).to_string()
    }

    fn session(&self, settings: SessionSettings) -> Result<Arc<Session>, SessionError> {
        Host::session(self, settings)
    }

    async fn loaded(&self) {
        Host::loaded(self).await;
    }

    async fn started(&self) {
        Host::started(self).await;
    }

    async fn ready_for(&self, tool: &str) {
        Host::ready_for(self, tool).await;
    }

    async fn arrived(&self, tool: &str) {
        Host::arrived(self, tool).await;
    }

    async fn unavailable(&self) -> BTreeMap<String, Unavailable> {
        Host::unavailable(self).await
    }

    async fn known_definitions(&self, session: &Session, format: Format) -> Arc<Listed> {
        Host::known_definitions(self, session, format).await
    }

    async fn call_in(&self, session: &Session, call: Call) -> Outcome {
        Host::call_in(self, session, call).await
    }

    async fn stop(self) {
        Host::stop(self).await;
    }
}
