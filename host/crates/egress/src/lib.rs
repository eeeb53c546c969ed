//! The one HTTP client of the host: HTTP/1.1, to addresses that were checked, within bounds.
//!
//! The hard part is that a name is no address. A request for a public name may go to the machine
//! on the same network, because its owner says so in DNS, and says so only the second time he is asked. So
//! a name is resolved once for each connection, every address of the answer is checked, and
//! exactly those addresses are connected to. An answer with a single address that is not allowed
//! is refused as a whole: nobody mixes public and private addresses by accident.
//!
//! Nothing outside of the values given to [`Egress::new`] decides where a request goes or whom it
//! trusts: no proxy, no certificate store of the machine, no variable. Nothing is done that was
//! not asked for either: no redirect is followed, no cookie kept, no body decompressed, and no
//! request that may have reached a server is sent again.
//!
//! Whether somebody may make a request at all is not decided here but by who calls.

mod body;
mod connect;
mod error;
mod pool;
mod request;
mod resolve;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use tokio_rustls::rustls;

use toolhost_core::limits::Limits;
use toolhost_core::runtime::HomeRuntime;
use toolhost_policy::capability::address::Reach;

pub use error::{RootError, SendError};
pub use resolve::{Resolver, SystemResolver};

/// The body of a request or a response.
///
/// A body of another error type becomes one with `map_err` and `boxed_unsync`, which copy no
/// data. What went wrong with a request's body is a [`SendError::RequestBody`].
pub type Body = UnsyncBoxBody<Bytes, SendError>;

/// What the user of the library decides about outgoing requests. By default: the resolver of the
/// machine, and Mozilla's certificate authorities.
#[derive(Clone, Default)]
pub struct EgressSettings {
    /// Finds the addresses of names, in place of the machine's resolver.
    pub resolver: Option<Arc<dyn Resolver>>,
    /// Certificate authorities that are trusted besides Mozilla's, as DER bytes of X.509.
    pub roots: Vec<Vec<u8>>,
}

impl fmt::Debug for EgressSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EgressSettings")
            .field("resolver", &self.resolver.as_ref().map(|_| "given"))
            .field("roots", &self.roots.len())
            .finish()
    }
}

/// How long one request may wait. These only ever shorten what the limits say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// From the connection to the head of the response, with the time it takes to send the
    /// request. The limits do not bound it.
    pub first_byte: Option<Duration>,
    /// From one piece of the response's body to the next, as long as somebody waits for it. The
    /// limits do not bound it.
    pub between_bytes: Option<Duration>,
    /// Finding the address, reaching it and agreeing on TLS; at most `http_connect_time_max`.
    pub connect: Option<Duration>,
}

/// What all clients of one host have in common.
pub struct Egress {
    resolver: Arc<dyn Resolver>,
    tls: Arc<rustls::ClientConfig>,
    bounds: RequestBounds,
}

/// The limits that matter here.
#[derive(Clone, Copy)]
struct RequestBounds {
    request_bytes_max: u64,
    response_bytes_max: u64,
    head_bytes_max: usize,
    connect_time_max: Duration,
}

impl Egress {
    /// Makes what all clients share.
    ///
    /// # Errors
    /// If one of `settings.roots` is no certificate.
    pub fn new(settings: EgressSettings, limits: &Limits) -> Result<Egress, RootError> {
        let EgressSettings { resolver, roots } = settings;
        Ok(Egress {
            resolver: resolver.unwrap_or_else(|| Arc::new(SystemResolver::default())),
            tls: Arc::new(connect::tls(roots)?),
            bounds: RequestBounds {
                request_bytes_max: limits.http_request_bytes_max.0,
                response_bytes_max: limits.http_response_bytes_max.0,
                head_bytes_max: limits.http_head_bytes_max.as_usize(),
                connect_time_max: limits.http_connect_time_max,
            },
        })
    }

    /// Makes a client with connections of its own.
    ///
    /// Each plugin gets one, so that it can never use a connection that was opened with the
    /// rights of another. It costs nothing until it is used.
    pub fn client(&self) -> Client {
        Client {
            connector: Arc::new(connect::Connector::new(
                Arc::clone(&self.resolver),
                Arc::clone(&self.tls),
                self.bounds.head_bytes_max,
            )),
            pool: Arc::default(),
            bounds: self.bounds,
            home: HomeRuntime::here(),
        }
    }
}

/// Sends requests, and keeps connections for the next ones. Clones share their connections.
///
/// Connections that no request uses end with the last clone, after 30 idle seconds, or when there
/// are more than 8 to one server or 64 in all. A connection is used again only for the same
/// scheme, host and port and the same [`Reach`], so none that was opened with more rights.
#[derive(Clone)]
pub struct Client {
    connector: Arc<connect::Connector>,
    pool: Arc<pool::Pool>,
    bounds: RequestBounds,
    /// Where its connections are: they stay for other calls.
    home: HomeRuntime,
}

impl Client {
    async fn connect(
        &self,
        key: &pool::PoolKey,
        time: Duration,
    ) -> Result<pool::Connection, SendError> {
        let (connector, key) = (Arc::clone(&self.connector), key.clone());
        let connecting = async move { connector.connect(&key.target, key.reach, time).await };
        self.home.run(connecting).await.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(SendError::BadRequest { problem: "the host is stopping".to_owned() }),
        })
    }

    /// Sends a request and returns the head of its response, with a body that is read as it
    /// comes.
    ///
    /// The request is sent to the host of its URI, in origin form, and says so in its `host`
    /// field, whatever that was before. Fields that are between two neighbours only
    /// (`connection`, `transfer-encoding`, `upgrade` and the like) and `expect` are taken out.
    /// A `content-length` must be true. A body of unknown length goes in chunks; with GET and
    /// HEAD, which hardly ever have one, it is left out.
    ///
    /// A name is taken to be `reach` of [`Reach::Public`] where `reach` is [`Reach::Named`],
    /// since nobody knows what it stands for; but `localhost` and names below it stand for
    /// loopback, or are refused.
    ///
    /// A request is sent again, over a new connection, only if the kept connection had ended
    /// before a byte of it was written.
    ///
    /// # Errors
    /// As the variants of [`SendError`] say. Those that come up in the middle of the response's
    /// body are the body's last frame.
    ///
    /// # Cancel safety
    /// The whole time is not bounded here: drop the future, or the response's body, when it has
    /// been enough. Either closes the connection at once. The server may have got the request. A
    /// question to the machine's resolver goes on in the background, and counts among the few
    /// that a client may have under way, until it is answered.
    pub async fn send(
        &self,
        request: http::Request<Body>,
        reach: Reach,
        times: Times,
    ) -> Result<http::Response<Body>, SendError> {
        let (target, mut request, progress) = request::prepare(request, &self.bounds)?;
        let connect_time = times
            .connect
            .map_or(self.bounds.connect_time_max, |time| time.min(self.bounds.connect_time_max));
        let key = pool::PoolKey { reach, target };
        let (connection, response) = loop {
            let kept = self.pool.take(&key);
            let is_new = kept.is_none();
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.connect(&key, connect_time).await?,
            };
            let sending = connection.sender.try_send_request(request);
            let sent = match times.first_byte {
                None => sending.await,
                Some(time) => match tokio::time::timeout(time, sending).await {
                    Ok(sent) => sent,
                    Err(_) => return Err(SendError::FirstByteTimeout { time }),
                },
            };
            match sent {
                Ok(response) => break (connection, response),
                Err(mut error) => match error.take_message() {
                    // It is handed back only if not a byte of it was written. There are only so
                    // many kept connections, so this ends.
                    Some(unsent) if !is_new => request = unsent,
                    _ => {
                        let failed =
                            || error::of_exchange(error.error(), self.bounds.head_bytes_max);
                        return Err(progress.failure().unwrap_or_else(failed));
                    }
                },
            }
        };
        self.receive(response, body::Exchange { connection, key, progress }, times).await
    }

    /// Checks the head of a response and puts bounds on its body.
    async fn receive(
        &self,
        response: http::Response<hyper::body::Incoming>,
        exchange: body::Exchange,
        times: Times,
    ) -> Result<http::Response<Body>, SendError> {
        let (mut head, body) = response.into_parts();
        // What hyper keeps there, among it the raw connection, is nobody's business.
        head.extensions.clear();
        if head.status == http::StatusCode::SWITCHING_PROTOCOLS {
            let reason = "it switches to another protocol, which nobody asked for".to_owned();
            return Err(SendError::Protocol { reason });
        }
        let bytes_max = self.bounds.response_bytes_max;
        if http_body::Body::size_hint(&body).lower() > bytes_max {
            return Err(SendError::ResponseTooLarge { bytes_max });
        }
        let is_empty = http_body::Body::is_end_stream(&body);
        let mut body = body::Received::new(body, exchange, &self.pool, bytes_max, times);
        if is_empty {
            // Nobody need read what is empty, but the connection is free only at its end.
            if let Some(Err(error)) = body.frame().await {
                return Err(error);
            }
        }
        Ok(http::Response::from_parts(head, body.boxed_unsync()))
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Egress").finish_non_exhaustive()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}
