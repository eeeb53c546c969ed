//! From a host to a connection: resolve, check every address, reach one of them, agree on TLS.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, client::Resumption, crypto::ring};
use tokio_util::task::AbortOnDropHandle;

use super::error::{self, RootError, SendError};
use super::pool::Connection;
use super::request::{RequestTarget, TargetHost};
use super::resolve::Resolver;
use toolhost_policy::capability::address::{self, Reach};

/// Addresses of one name that are tried; all are checked.
const ADDRESSES_TRIED_MAX: usize = 8;
/// Names that one client looks up at once, so that it cannot take all turns of the resolver.
const LOOKUPS_MAX: usize = 8;
/// How long a lookup goes on that nobody waits for any longer.
const LOOKUP_TIME_MAX: Duration = Duration::from_secs(60);

/// Whom a client trusts, as Mozilla does, and `roots` besides.
///
/// Without session tickets: with them, servers could tell that two plugins have one host.
pub(super) fn tls(roots: Vec<Vec<u8>>) -> Result<ClientConfig, RootError> {
    let mut store = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for (place, root) in roots.into_iter().enumerate() {
        let added = store.add(CertificateDer::from(root));
        added.map_err(|error| RootError::new(place + 1, &error))?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has the default versions")
        .with_root_certificates(store)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Opens the connections of one client.
pub(super) struct Connector {
    resolver: Arc<dyn Resolver>,
    tls: TlsConnector,
    lookups: Arc<Semaphore>,
    head_bytes_max: usize,
}

impl Connector {
    pub(super) fn new(
        resolver: Arc<dyn Resolver>,
        tls: Arc<ClientConfig>,
        head_bytes_max: usize,
    ) -> Connector {
        let lookups = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Connector { resolver, tls: TlsConnector::from(tls), lookups, head_bytes_max }
    }

    /// Opens a connection, with everything that takes within `time`.
    pub(super) async fn connect(
        &self,
        target: &RequestTarget,
        reach: Reach,
        time: Duration,
    ) -> Result<Connection, SendError> {
        let deadline = Instant::now() + time;
        let connecting = async {
            let addresses = self.addresses(target, reach).await?;
            let tcp = reach_one(target, &addresses, deadline).await?;
            if !target.is_https {
                return self.speak(tcp).await;
            }
            let name = match &target.host {
                TargetHost::Address(ip) => ServerName::from(*ip),
                TargetHost::Name(name) => {
                    ServerName::try_from(name.clone()).map_err(|_| SendError::BadRequest {
                        problem: format!("no certificate can be for the host `{name}`"),
                    })?
                }
            };
            match self.tls.connect(name, tcp).await {
                Ok(stream) => self.speak(stream).await,
                Err(error) => Err(error::of_tls(&target.host, &error)),
            }
        };
        let timed_out = || SendError::ConnectTimeout { host: target.host.to_string(), time };
        timeout_at(deadline, connecting).await.unwrap_or_else(|_| Err(timed_out()))
    }

    /// The addresses of a host, all of which may be reached.
    async fn addresses(
        &self,
        target: &RequestTarget,
        reach: Reach,
    ) -> Result<Vec<IpAddr>, SendError> {
        let refused = |address, kind| SendError::AddressRefused {
            host: target.host.to_string(),
            address,
            kind,
        };
        let (name, is_local) = match &target.host {
            TargetHost::Address(ip) => {
                address::check(*ip, reach).map_err(|kind| refused(*ip, kind))?;
                return Ok(vec![*ip]);
            }
            TargetHost::Name(name) => (name, name == "localhost" || name.ends_with(".localhost")),
        };
        // Whoever names a name has not named what it stands for; `localhost` apart.
        let reach = if is_local || reach != Reach::Named { reach } else { Reach::Public };
        let found = self.look_up(name).await?;
        for address in &found {
            let address = *address;
            address::check(address, reach).map_err(|kind| refused(address, kind))?;
            if is_local && !address.to_canonical().is_loopback() {
                return Err(SendError::LocalhostElsewhere { host: name.clone(), address });
            }
        }
        Ok(found)
    }

    /// Asks for the addresses of a name, once.
    ///
    /// In a task of its own, since a question cannot be taken back: whoever asks and gives up in
    /// a loop has at most so many questions under way.
    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, SendError> {
        let not_found = |reason: &str| SendError::NameNotFound {
            host: name.to_owned(),
            reason: error::words(reason),
        };
        let turn = Arc::clone(&self.lookups).acquire_owned().await;
        let (resolver, asked) = (Arc::clone(&self.resolver), name.to_owned());
        let asking = tokio::spawn(async move {
            let _turn = turn;
            timeout(LOOKUP_TIME_MAX, resolver.resolve(&asked)).await
        });
        let found = match asking.await {
            Ok(Ok(found)) => found.map_err(|error| not_found(&error.to_string()))?,
            Ok(Err(_)) | Err(_) => return Err(not_found("the resolver gave no answer")),
        };
        if found.is_empty() {
            return Err(not_found("it has no address"));
        }
        Ok(found)
    }

    /// Makes a stream of bytes a connection for requests.
    async fn speak(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Connection, SendError> {
        let (sender, exchange) = http1::Builder::new()
            .max_buf_size(self.head_bytes_max)
            .max_header_size(self.head_bytes_max)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error::of_exchange(&error, self.head_bytes_max))?;
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            if let Err(error) = exchange.await {
                // Whoever waits for the response hears of it by the response.
                tracing::debug!(%error, "an HTTP connection broke");
            }
        }));
        Ok(Connection { sender, _task: task })
    }
}

/// Connects to the first of the addresses that answers.
///
/// Each gets a fair share of the time that is left, so that one that never answers does not use
/// up what another needs.
async fn reach_one(
    target: &RequestTarget,
    addresses: &[IpAddr],
    deadline: Instant,
) -> Result<TcpStream, SendError> {
    let tried = &addresses[..addresses.len().min(ADDRESSES_TRIED_MAX)];
    let mut reason = String::new();
    for (place, address) in tried.iter().enumerate() {
        let left = u32::try_from(tried.len() - place).unwrap_or(1);
        let share = deadline.saturating_duration_since(Instant::now()) / left;
        // IPv4 in its mapped form is reached without any IPv6.
        let reached = SocketAddr::new(address.to_canonical(), target.port);
        let connecting = TcpStream::connect(reached);
        let connected = match left {
            // The last one has until the deadline, which tells a timeout from a refusal.
            1 => Ok(connecting.await),
            _ => timeout(share, connecting).await,
        };
        match connected {
            Ok(Ok(stream)) => {
                // Small requests go at once; without this they only go a little later.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => reason = error::words(&error.to_string()),
            Err(_) => reason = "no answer".to_owned(),
        }
    }
    Err(SendError::ConnectFailed { host: target.host.to_string(), port: target.port, reason })
}
