//! A server that does to each connection what a test says, and the client under test.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use toolhost_core::limits::Limits;
use toolhost_egress::{Body, Client, Egress, EgressSettings, Resolver, SendError};

/// What the other side of a connection can do.
pub struct Peer {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
    /// The how manieth connection of its server this is, from 1.
    pub number: usize,
    seen: Arc<ServerSeen>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// What a server has seen so far.
struct ServerSeen {
    connections: AtomicUsize,
    requests: Mutex<Vec<String>>,
    requested: Semaphore,
    closed: Semaphore,
}

impl Peer {
    /// Reads the head of a request, and nothing of its body.
    pub async fn head(&mut self) {
        self.read_until(b"\r\n\r\n", 0).await.expect("a head");
    }

    /// Reads one request with a body of a known length or in chunks; `None` at the end.
    pub async fn request(&mut self) -> Option<String> {
        let head = self.read_until(b"\r\n\r\n", 0).await?;
        let text = String::from_utf8_lossy(&self.buffer[..head]).into_owned();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let end = if text.contains("transfer-encoding: chunked") {
            self.read_until(b"0\r\n\r\n", head).await?
        } else {
            let end = head + length.map_or(0, |length| length.parse().expect("a length"));
            while self.buffer.len() < end {
                self.read().await?;
            }
            end
        };
        let whole: Vec<u8> = self.buffer.drain(..end).collect();
        let whole = String::from_utf8(whole).expect("text");
        self.seen.requests.lock().expect("alive").push(whole.clone());
        self.seen.requested.add_permits(1);
        Some(whole)
    }

    /// Writes; a client that is gone does not matter.
    pub async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
        let _ = self.stream.flush().await;
    }

    /// Waits until the client has closed the connection, and counts it.
    pub async fn closed(mut self) {
        while self.read().await.is_some() {}
        self.seen.closed.add_permits(1);
    }

    async fn read_until(&mut self, end: &[u8], start: usize) -> Option<usize> {
        loop {
            let unread = self.buffer.get(start..).unwrap_or_default();
            if let Some(place) = unread.windows(end.len()).position(|window| window == end) {
                return Some(start + place + end.len());
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Option<()> {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(()),
        }
    }
}

/// A server on a port of its own; it ends with its value.
pub struct TestServer {
    /// Its port.
    pub port: u16,
    seen: Arc<ServerSeen>,
    _tasks: JoinSet<()>,
}

impl TestServer {
    /// A server of plain HTTP on 127.0.0.1.
    pub async fn new<F>(serve: impl Fn(Peer) -> F + Send + 'static) -> TestServer
    where
        F: Future<Output = ()> + Send + 'static,
    {
        TestServer::on("127.0.0.1:0", None, serve).await
    }

    /// A server that gives this answer to every request.
    pub async fn answering(answer: &'static str) -> TestServer {
        TestServer::new(move |mut peer| async move {
            while peer.request().await.is_some() {
                peer.say(answer).await;
            }
        })
        .await
    }

    /// A server at an address, with TLS if there is a configuration.
    pub async fn on<F>(
        address: &str,
        tls: Option<ServerConfig>,
        serve: impl Fn(Peer) -> F + Send + 'static,
    ) -> TestServer
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(ServerSeen {
            connections: AtomicUsize::new(0),
            requests: Mutex::default(),
            requested: Semaphore::new(0),
            closed: Semaphore::new(0),
        });
        let (shared, tls) = (Arc::clone(&seen), tls.map(|tls| TlsAcceptor::from(Arc::new(tls))));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut peers = JoinSet::new();
            loop {
                let (tcp, _) = listener.accept().await.expect("a connection");
                let number = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
                let stream: Box<dyn Stream> = match &tls {
                    None => Box::new(tcp),
                    // A client that does not agree is gone.
                    Some(tls) => match tls.accept(tcp).await {
                        Ok(stream) => Box::new(stream),
                        Err(_) => continue,
                    },
                };
                let seen = Arc::clone(&shared);
                peers.spawn(serve(Peer { stream, buffer: Vec::new(), number, seen }));
            }
        });
        TestServer { port, seen, _tasks: tasks }
    }

    /// How many connections it has had.
    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// The requests it has had.
    pub fn requests(&self) -> Vec<String> {
        self.seen.requests.lock().expect("alive").clone()
    }

    /// Waits for one more request.
    pub async fn requested(&self) {
        self.seen.requested.acquire().await.expect("open").forget();
    }

    /// Waits until one more client has closed its connection.
    pub async fn closed(&self) {
        self.seen.closed.acquire().await.expect("open").forget();
    }

    /// A URI of this server, as a text with its port in it.
    pub fn uri(&self, uri: &str) -> String {
        uri.replace("PORT", &self.port.to_string())
    }
}

/// A certificate authority that only these tests know.
static AUTHORITY: LazyLock<CertifiedIssuer<'static, KeyPair>> = LazyLock::new(|| {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
});

/// The authority's certificate.
pub fn root() -> Vec<u8> {
    AUTHORITY.as_ref().der().to_vec()
}

/// What a server needs to speak TLS with a certificate for `name`, valid until the end of `year`.
pub fn tls(name: &str, year: i32) -> ServerConfig {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    params.not_after = rcgen::date_time_ymd(year, 12, 31);
    let certificate = params.signed_by(&key, &AUTHORITY).expect("a certificate");
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            key.serialize_der().try_into().expect("a key"),
        )
        .expect("a configuration")
}

/// Names with their answers, one after the other; the last one stays. What has no answer gets
/// none.
#[derive(Default)]
pub struct FixedNames {
    answers: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    asked: AtomicUsize,
}

impl FixedNames {
    /// From lines such as `name: 10.0.0.1 10.0.0.2, 10.0.0.3`.
    pub fn new(lines: &[&str]) -> Arc<FixedNames> {
        let answer = |answer: &str| {
            answer.split_whitespace().map(|ip| ip.parse().expect("an address")).collect()
        };
        let entries = lines.iter().map(|line| {
            let (name, answers) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
            (name.to_owned(), answers.split(", ").map(answer).collect())
        });
        Arc::new(FixedNames { answers: Mutex::new(entries.collect()), asked: AtomicUsize::new(0) })
    }

    /// How many questions there were.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Resolver for FixedNames {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if host == "never.test" {
                std::future::pending::<()>().await;
            }
            let mut answers = self.answers.lock().expect("alive");
            let unknown = || io::Error::other("no such name\nin the zone");
            let answers = answers.get_mut(host).ok_or_else(unknown)?;
            Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
        })
    }
}

/// A host's part of outgoing HTTP that trusts the tests' authority, with limits as in
/// `toolhost.toml`.
pub fn egress(names: &Arc<FixedNames>, limits: &[(&str, &str)]) -> Egress {
    let mut set = Limits::default();
    for (name, value) in limits {
        set.set(name, value).expect("a limit");
    }
    let resolver: Arc<dyn Resolver> = Arc::<FixedNames>::clone(names);
    let settings = EgressSettings { resolver: Some(resolver), roots: vec![root()] };
    Egress::new(settings, &set).expect("roots")
}

/// A client for addresses alone.
pub fn client(limits: &[(&str, &str)]) -> Client {
    egress(&FixedNames::new(&[]), limits).client()
}

/// A body of known length.
pub fn whole(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body that never comes.
pub fn endless() -> Body {
    StreamBody::new(stream::pending::<Result<Frame<Bytes>, SendError>>()).boxed_unsync()
}

/// A GET without a body.
pub fn get(uri: &str) -> http::Request<Body> {
    http::Request::get(uri).body(whole("")).expect("a request")
}

/// A response as text: its status and its body, or what went wrong.
pub async fn shown(response: Result<http::Response<Body>, SendError>) -> String {
    let response = match response {
        Ok(response) => response,
        Err(error) => return format!("error: {error}"),
    };
    let status = response.status().as_u16();
    match response.into_body().collect().await {
        Ok(body) => format!("{status} {}", String::from_utf8_lossy(&body.to_bytes())),
        Err(error) => format!("{status}, then error: {error}"),
    }
}

/// The address of a server as the client sees it.
pub fn at(server: &TestServer, path: &str) -> String {
    let address = SocketAddr::from(([127, 0, 0, 1], server.port));
    format!("http://{address}{path}")
}
