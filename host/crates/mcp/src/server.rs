//! A connection for MCP clients: the tools of a host over one connection, such as stdin and stdout.
//!
//! Clients of both eras are served: those that begin with `initialize`, and those that ask
//! `server/discover` or nothing and say with every request who they are. The hard part is time.
//! Both are answered before any plugin has loaded; listings and calls of tools that are not
//! there yet wait, though not for long; no listing waits for a tool's check, which is asked beside
//! it; and whoever was given a listing hears when tools come or go. A call ends with its client's patience: a cancelled one is dropped, and so are
//! all when the client has gone.
//!
//! One connection is one session. What this module does not do: find, check or run tools, or ask
//! a human: over MCP, hooks that ask get a no.

#![expect(deprecated, reason = "clients of the older era hear of failures as log messages alone")]

mod answer;
mod backend;
mod batch;
mod binding;
mod front;
mod lines;
mod listing;
mod notifications;
mod progress;
mod scan;
mod traffic;
mod transport;

use std::collections::hash_map::RandomState;
use std::convert::Infallible;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorData,
    Implementation, ListToolsResult, LoggingLevel, PaginatedRequestParams, RequestId,
    ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscriptionFilter,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{Peer, RoleServer, ServerHandler, ServiceExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, watch};

use answer::answer;
pub use backend::Backend;
use binding::Binding;
use front::{Front, no_method};
use listing::{Listing, Listings};
use notifications::Notifications;
use progress::Reports;
use toolhost_core::limits::Limits;
use toolhost_core::tool::{Call, Caller};
use toolhost_kernel::session::SessionError;
use toolhost_policy::toolset::{Platform, Selection};
use toolhost_schema::schema::Format;
use traffic::{ConnectionStage, Traffic};
use transport::ServerTransport;

/// What the log leaves out unless it is asked for: the protocol library warns of each request
/// that was refused, and its client was told that anyway.
pub const LOG_DIRECTIVE: &str = "rmcp=error";

/// What a client is told of this server, as a model may read it.
const INSTRUCTIONS: &str = "Tools that run in a sandbox; an error says whose move is next.";
/// Changes that come so close upon one another are told as one.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// What a client is offered.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The tools it has.
    pub offer: Offer,
    /// In whose form the schemas of arguments are listed; everything else is as MCP has it.
    pub format: Format,
    /// How long requests wait for plugins, and how large they may be.
    pub limits: Limits,
}

/// The tools a client has.
#[derive(Clone, Debug)]
pub enum Offer {
    /// Those of the toolsets that are enabled.
    Toolsets(Selection),
    /// Those of the toolsets that a platform has.
    Platform {
        /// The platform's name, such as `cli`.
        name: String,
        /// What is saved about it.
        saved: Platform,
        /// Toolsets taken away, whatever the platform has.
        disabled: Vec<String>,
    },
}

/// The standard streams as [`serve`] takes them. Where they are pipes, they are read and written
/// without threads.
///
/// It must be called within a tokio runtime.
pub fn standard_streams() -> (impl AsyncRead + Unpin, impl AsyncWrite + Unpin) {
    rmcp::transport::stdio_pipes()
}

/// Serves one client until it goes away: until `input` ends, or `output` cannot be written; or
/// until `stop` is done. Then it stops the host; calls under way get a second to end, and are
/// dropped, whether the client reads or not.
///
/// Whatever the client sends, it ends in no other way, as long as it reads refusals: what is no
/// message is answered with an error or ignored.
///
/// # Errors
/// If no session can be made.
pub async fn serve(
    host: impl Backend,
    settings: ServerSettings,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), SessionError> {
    let host = Arc::new(host);
    let wire = ServerTransport::new(input, output, stop, &settings.limits);
    let connection = Arc::new(ClientConnection::new(
        Arc::clone(&host) as Arc<dyn Backend>,
        settings,
        wire.traffic(),
    )?);
    match Front::new(Arc::clone(&connection), wire.traffic()).serve(wire).await {
        Ok(running) => {
            let peer = running.peer().clone();
            tokio::select! {
                _ = running.waiting() => {}
                never = connection.attend(&peer) => match never {},
            }
        }
        Err(error) => tracing::debug!("the client went away before it said what it wants: {error}"),
    }
    drop(connection);
    if let Some(host) = Arc::into_inner(host) {
        host.stop().await;
    }
    Ok(())
}

/// What the requests of one connection come to.
struct ClientConnection {
    host: Arc<dyn Backend>,
    binding: Binding,
    listings: Listings,
    /// What the session is called towards tools. It means nothing.
    session: String,
    list_wait_max: Duration,
    /// How long a call waits for a plugin that is listed before it is compiled.
    arrival_wait_max: Duration,
    /// The listing that the client knows, or was told to fetch; by its digest.
    known: watch::Sender<Option<u64>>,
    /// Counts how often it was told to fetch another.
    changes: watch::Sender<u64>,
    /// Asks for what the checks say now.
    listed: Notify,
    /// How severe news must be for the client to hear of it.
    level: watch::Sender<LoggingLevel>,
    traffic: Arc<Traffic>,
}

impl ClientConnection {
    fn new(
        host: Arc<dyn Backend>,
        settings: ServerSettings,
        traffic: Arc<Traffic>,
    ) -> Result<ClientConnection, SessionError> {
        let ServerSettings { offer, format, limits } = settings;
        let session = format!("mcp-{:016x}", RandomState::new().hash_one(0));
        Ok(ClientConnection {
            binding: Binding::new(Arc::clone(&host), offer, session.clone())?,
            host,
            listings: Listings::new(format),
            session,
            list_wait_max: limits.list_wait_max,
            arrival_wait_max: limits.compile_time_max,
            known: watch::Sender::new(None),
            changes: watch::Sender::new(0),
            listed: Notify::new(),
            level: watch::Sender::new(LoggingLevel::Debug),
            traffic,
        })
    }

    /// Waits for plugins, but not for long: late is answered with what there is.
    async fn wait<T>(&self, plugins: impl Future<Output = T>) {
        let _ = tokio::time::timeout(self.list_wait_max, plugins).await;
    }

    /// What a client would be given now; nothing if it has gone.
    async fn listing(&self) -> Option<Arc<Listing>> {
        let session = self.binding.session();
        self.listings.make(&*self.host, &session, &|| self.traffic.is_gone()).await
    }

    async fn page(
        &self,
        id: &RequestId,
        cursor: Option<String>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.traffic.has_room().await;
        if let Some(cursor) = cursor {
            let (page, bytes) = self.listings.page(&cursor).ok_or_else(|| {
                let message = "`cursor` is none that this server gave for its present tools; list from the start";
                ErrorData::invalid_params(message, None)
            })?;
            self.traffic.promise(id, bytes).await;
            return Ok(page);
        }
        // Scripts whose runner is compiled come later, and the client is told.
        self.wait(self.host.started()).await;
        let listing = self.listing().await.ok_or_else(dropped)?;
        self.traffic.promise(id, listing.first_bytes()).await;
        self.known.send_replace(Some(listing.digest));
        self.listed.notify_one();
        Ok(self.listings.first_page(listing))
    }

    /// Runs a request unless its client takes it back, or goes away.
    async fn unless_dropped<T>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        tokio::select! {
            done = work => done,
            () = context.ct.cancelled() => Err(dropped()),
            () = self.traffic.gone() => Err(dropped()),
        }
    }

    /// Looks after what happens between requests.
    async fn attend(&self, peer: &Peer<RoleServer>) -> Infallible {
        let report = async {
            self.host.loaded().await;
            self.binding.report();
            std::future::pending().await
        };
        tokio::select! {
            never = report => never,
            never = self.tell_changes(peer) => never,
            never = self.tell_news(peer) => never,
            never = self.ask_checks() => never,
        }
    }

    /// Asks the checks of tools beside each listing, which counted on what they said last.
    async fn ask_checks(&self) -> Infallible {
        loop {
            self.listed.notified().await;
            self.host.unavailable().await;
        }
    }

    /// Tells a client why plugins do not load, and that they do again.
    async fn tell_news(&self, peer: &Peer<RoleServer>) -> Infallible {
        let (mut sources, mut news) = (self.host.sources(), Notifications::default());
        loop {
            let shown = sources.borrow_and_update().clone();
            for line in news.of(&shown) {
                let least = *self.level.borrow();
                notifications::tell(peer, least, line).await;
            }
            if sources.changed().await.is_err() {
                // Loading was stopped.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Tells a client that knows a listing when there is another.
    async fn tell_changes(&self, peer: &Peer<RoleServer>) -> Infallible {
        let mut generations = self.host.subscribe();
        let mut known = self.known.subscribe();
        let mut checks = self.host.checks_changed();
        loop {
            // What is known counts too: a listing may be old when it is handed out.
            tokio::select! {
                Ok(()) = generations.changed() => {}
                Ok(()) = known.changed() => {}
                Ok(()) = checks.changed() => {}
                else => std::future::pending().await,
            }
            tokio::time::sleep(SETTLE_TIME).await;
            generations.mark_unchanged();
            checks.mark_unchanged();
            let Some(digest) = *known.borrow_and_update() else { continue };
            let Some(now) = self.listing().await.map(|listing| listing.digest) else { continue };
            if now == digest {
                continue;
            }
            self.known.send_replace(Some(now));
            self.changes.send_modify(|count| *count += 1);
            // Clients of the newer era, which have told nothing of themselves for good, hear
            // only what they subscribe to.
            if peer.peer_info().is_some() {
                // A client that cannot be told has gone.
                let _ = peer.notify_tool_list_changed().await;
            }
        }
    }

    async fn follow(&self, subscription: &SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        if self.known.borrow().is_none()
            && let Some(digest) = self.listing().await.map(|listing| listing.digest)
        {
            self.known.send_if_modified(|known| known.replace(digest).is_none());
        }
        while changes.changed().await.is_ok() {
            if subscription.sink().notify_tool_list_changed().await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// What a request for the list of tools takes.
const LIST_PARAMETERS: &str = "`cursor`, a string, or nothing";

impl ServerHandler for ClientConnection {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("toolhost", env!("CARGO_PKG_VERSION")))
            .with_instructions(format!("{INSTRUCTIONS} {}", self.host.granted()))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.level.send_replace(request.level);
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        self.unless_dropped(&context, self.page(&context.id, cursor)).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let mut call = Call::new(request.name, serde_json::Value::Object(arguments).to_string());
        call.caller = Caller {
            session: Some(self.session.clone()),
            task: None,
            tool_call: Some(context.id.to_string()),
        };
        let reports = context
            .meta
            .get_progress_token()
            .map(|token| Reports::new(token, context.peer.clone()));
        call.progress = reports.as_ref().map(Reports::sink);
        let work = async {
            self.traffic.has_room().await;
            self.wait(self.host.ready_for(&call.tool)).await;
            let arrived = self.host.arrived(&call.tool);
            // Late is answered with why.
            let _ = tokio::time::timeout(self.arrival_wait_max, arrived).await;
            let session = self.binding.session();
            let running = self.host.call_in(&session, call);
            let outcome = match reports {
                Some(reports) => reports.tell_during(running).await,
                None => running.await,
            };
            answer(outcome).map(CallToolResponse::from)
        };
        self.unless_dropped(&context, work).await
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let mut stage = self.traffic.stage();
        tokio::select! {
            ended = self.follow(&subscription) => ended,
            () = subscription.cancelled() => Ok(()),
            _ = stage.wait_for(|stage| *stage != ConnectionStage::Open) => Ok(()),
        }
    }

    /// Requests that the protocol has not, and such as have not the parameters they must have.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let parameters = match &*request.method {
            "tools/call" => "`name`, a string, and `arguments`, an object",
            "tools/list" => LIST_PARAMETERS,
            "initialize" => "`protocolVersion`, `capabilities` and `clientInfo`",
            "subscriptions/listen" => "`notifications`, an object",
            "logging/setLevel" => {
                "`level`, one of debug, info, notice, warning, error, critical, alert and emergency"
            }
            "ping" | "server/discover" => "an object or nothing",
            method => return Err(no_method(method)),
        };
        let message = format!("{} takes {parameters}", request.method);
        Err(ErrorData::invalid_params(message, None))
    }
}

/// Nobody reads this: the client has taken back its request, or has gone.
fn dropped() -> ErrorData {
    ErrorData::internal_error("the request was cancelled", None)
}
