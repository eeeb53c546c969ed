//! The messages of one connection: bounded, counted, and what the end of it means.
//!
//! Reading stops while too many requests are open, so a client that asks and never reads fills
//! its own pipe and not our memory. The end of input is the client's way to leave, but also how
//! a script ends that asks a few things in one go; so what is under way has a moment to be
//! answered before everything is dropped.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta, JsonRpcMessage,
    ProtocolVersion, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;

/// Requests open at once; further ones are not read.
const OPEN_MAX: usize = 1_024;
/// How long requests may go on when no more will come.
const GRACE: Duration = Duration::from_secs(1);

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Messages come and go.
    Open,
    /// No more will come.
    Closing,
    /// Nobody is there.
    Gone,
}

/// One connection.
pub(super) struct Wire<R: AsyncRead, W: AsyncWrite> {
    lines: AsyncRwTransport<RoleServer, R, W>,
    traffic: Arc<Traffic>,
    /// The client has said in which way it will talk. Before that, the library takes requests
    /// and nothing else.
    is_settled: bool,
    /// When input ended.
    ended: Option<Instant>,
}

struct Traffic {
    stage: watch::Sender<Stage>,
    open: Mutex<HashSet<RequestId>>,
    /// Tells how many are open.
    count: watch::Sender<usize>,
}

impl<R, W> Wire<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// A line of more than `line_bytes_max` is dropped.
    pub(super) fn new(input: R, output: W, line_bytes_max: usize) -> Wire<R, W> {
        let traffic = Traffic {
            stage: watch::Sender::new(Stage::Open),
            open: Mutex::default(),
            count: watch::Sender::new(0),
        };
        Wire {
            lines: AsyncRwTransport::new_server(input, output).with_max_line_length(line_bytes_max),
            traffic: Arc::new(traffic),
            is_settled: false,
            ended: None,
        }
    }

    /// Tells how far the connection has come.
    pub(super) fn stage(&self) -> watch::Receiver<Stage> {
        self.traffic.stage.subscribe()
    }

    /// Notes what a message means for the connection, and tells whether to pass it on.
    fn note(&mut self, message: &ClientJsonRpcMessage) -> bool {
        match message {
            JsonRpcMessage::Request(request) => {
                self.is_settled |= settles(&request.request);
                self.traffic.change(|open| open.insert(request.id.clone()));
            }
            JsonRpcMessage::Notification(notification) => {
                // It will not be answered.
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.traffic.change(|open| open.remove(id));
                }
            }
            _ => {}
        }
        self.is_settled || matches!(message, JsonRpcMessage::Request(_))
    }
}

/// Tells whether a request says in which way its client will talk.
fn settles(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        request => {
            let meta = request.get_meta();
            let version = meta.protocol_version();
            meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
                && version.is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version))
        }
    }
}

impl<R, W> Transport<RoleServer> for Wire<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = Infallible;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let sent = self.lines.send(message);
        let traffic = Arc::clone(&self.traffic);
        async move {
            if let Err(error) = sent.await {
                tracing::debug!("the client has gone: {error}");
                traffic.stage.send_replace(Stage::Gone);
            }
            if let Some(id) = answered {
                traffic.change(|open| open.remove(&id));
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // Kept, because this future is dropped whenever something is to be sent.
            if let Some(ended) = self.ended {
                self.traffic.finish(ended + GRACE).await;
                return None;
            }
            let traffic = Arc::clone(&self.traffic);
            let message = tokio::select! {
                () = traffic.gone() => return None,
                message = async {
                    traffic.fewer_than(OPEN_MAX).await;
                    self.lines.receive().await
                } => message,
            };
            match message {
                Some(message) if self.note(&message) => return Some(message),
                Some(message) => tracing::debug!("too early, and ignored: {message:?}"),
                None => {
                    self.ended = Some(Instant::now());
                    self.traffic.stage.send_replace(Stage::Closing);
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        self.traffic.stage.send_replace(Stage::Gone);
        // An output that cannot be closed is as good as closed.
        let _ = self.lines.close().await;
        Ok(())
    }
}

impl Traffic {
    fn change(&self, change: impl FnOnce(&mut HashSet<RequestId>) -> bool) {
        let mut open: MutexGuard<'_, HashSet<RequestId>> =
            self.open.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut open);
        // Within the lock, so that the last one told is the last.
        self.count.send_replace(open.len());
    }

    async fn fewer_than(&self, count: usize) {
        // The sender is here, so it cannot fail.
        let _ = self.count.subscribe().wait_for(|open| *open < count).await;
    }

    async fn gone(&self) {
        let _ = self.stage.subscribe().wait_for(|stage| *stage == Stage::Gone).await;
    }

    /// Waits until all is answered, or it is time to go; then nobody is there.
    async fn finish(&self, deadline: Instant) {
        tokio::select! {
            () = self.fewer_than(1) => {}
            () = self.gone() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
        self.stage.send_replace(Stage::Gone);
    }
}
