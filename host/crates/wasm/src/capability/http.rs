//! Requests of guests: decided, given their secrets, sent by the host's own client, and what
//! comes back redacted before the guest reads it.
//!
//! What is decided is the final request: scheme, authority and path put together and read as one
//! URL, which is then sent as it was read. A refusal reaches the guest as `internal-error`, the
//! one error of WASI that has a text: it names what was refused and what to do.

mod redacted;
mod words;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use wasmtime::component::Linker;
use wasmtime_wasi_http::{
    DEFAULT_FORBIDDEN_HEADERS, Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtx,
    WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

use super::secrets::{SecretRight, inject};
use super::{Asker, Given, HostMeans, KindRights, Provider, Share};
use crate::call_log::CallLog;
use crate::instance::Guest;
use crate::instance::call::{CallBasics, CallPart};
use crate::memory::{
    BODY_BYTES, BODY_PIECE_BYTES, Charge, GuestMemory, MemoryRefused, fields_bytes,
};
use crate::rights::Right;
use toolhost_core::tool::{Held, Refusal};
use toolhost_egress::{Body, Client, SendError, Times};
use toolhost_policy::capability::{HttpRefusal, HttpRights, Kind, Reach, Target, address};

/// What a request takes while it is under way, beside its own words: a task, and what it waits for.
const REQUEST_BYTES: u64 = 16 << 10;
/// What TLS keeps for a connection.
const TLS_BYTES: u64 = 64 << 10;

/// Provides requests.
pub(super) struct HttpProvider;

/// The requests that one tool may send.
#[derive(Default)]
struct HttpRight {
    rights: HttpRights,
    /// The plugin's own connections, so that it never uses one that another's rights opened.
    client: Option<Arc<Client>>,
}

impl Provider for HttpProvider {
    fn kind(&self) -> Kind {
        Kind::HTTP
    }

    /// All of it is linked, since stock components import it; without a grant it refuses.
    fn link(&self, linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
        words::add_to_linker(linker)
    }

    fn share(&self, means: &HostMeans<'_>) -> Option<Share> {
        Some(Arc::new(means.egress.client()))
    }

    fn grant(&self, askers: &[Asker<'_>], given: &Given<'_>) -> KindRights {
        let client = given.shares.get::<Client>();
        KindRights::new(askers, |asker| HttpRight {
            rights: HttpRights::new(asker.needs, asker.tool, given.grants.of()),
            client: client.clone(),
        })
    }
}

impl Right for HttpRight {
    fn kind(&self) -> Kind {
        Kind::HTTP
    }

    fn is_held(&self) -> bool {
        !self.rights.is_empty()
    }

    fn tell(&self, held: &mut Held) {
        held.http = self.is_held();
    }
}

impl fmt::Debug for HttpRight {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HttpRight").field("rights", &self.rights).finish_non_exhaustive()
    }
}

/// What one call keeps of its requests.
struct HttpPart {
    ctx: WasiHttpCtx,
    requests: GuestHttp,
    head_bytes_max: usize,
}

impl CallPart for HttpPart {
    fn new(call: &CallBasics<'_>) -> HttpPart {
        let head_bytes_max = call.limits.http_head_bytes_max.as_usize();
        let mut ctx = WasiHttpCtx::new();
        ctx.set_field_size_limit(head_bytes_max);
        HttpPart { ctx, requests: GuestHttp::new(call), head_bytes_max }
    }
}

impl WasiHttpView for Guest {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        self.expect_handle();
        let view = self.part::<HttpPart>();
        let HttpPart { ctx, requests, .. } = view.part;
        WasiHttpCtxView { hooks: requests, table: view.table, ctx }
    }
}

/// What a guest sends requests by.
struct GuestHttp {
    call_log: Arc<CallLog>,
    right: Arc<HttpRight>,
    secrets: Arc<SecretRight>,
    sent: AtomicUsize,
    sent_max: usize,
    at_once: Arc<Semaphore>,
    memory: Arc<GuestMemory>,
    /// What one exchange takes: what is read and what is written, the head of the response, and TLS.
    exchange_bytes: u64,
}

/// One exchange at once, and what it holds. It ends with the response's body.
struct SendSlot {
    _turn: Result<OwnedSemaphorePermit, AcquireError>,
    _held: [Charge; 2],
}

type HttpFuture<T> = Box<dyn Future<Output = Result<T, Error>> + Send>;

/// A request that may be sent.
struct Decided {
    request: http::Request<Body>,
    target: Target,
    reach: Reach,
    times: Times,
}

impl GuestHttp {
    fn new(call: &CallBasics<'_>) -> GuestHttp {
        let CallBasics { call_log, memory, limits, .. } = call;
        GuestHttp {
            call_log: Arc::clone(call_log),
            right: call_log.rights.get(),
            secrets: call_log.rights.get(),
            sent: AtomicUsize::new(0),
            sent_max: limits.http_requests_max.0,
            at_once: Arc::new(Semaphore::new(limits.http_requests_at_once_max.0)),
            memory: Arc::clone(memory),
            exchange_bytes: 4 * limits.http_head_bytes_max.0 + TLS_BYTES,
        }
    }

    fn decide(
        &self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
    ) -> Result<Decided, Error> {
        let refused = |text: String| Error::InternalError(Some(text));
        let (mut parts, body) = request.into_parts();
        let mut target = Target::new(parts.method.as_str(), &parts.uri.to_string())
            .map_err(|problem| refused(format!("the request cannot be sent: {problem}")))?;
        let what = target.to_string();
        let reach = self.right.rights.decide(&target).map_err(|why| {
            refused(match why {
                HttpRefusal::NotGranted => {
                    let grant = self.right.rights.suggestion(&target);
                    self.call_log.not_granted(Kind::HTTP, &grant, &what)
                }
                HttpRefusal::NotAsked => {
                    self.call_log.not_asked(Kind::HTTP, &target.grant(), &what)
                }
            })
        })?;
        if let Some(closed) = self.call_log.closed(Kind::HTTP, &what) {
            return Err(refused(closed));
        }
        if self.sent.fetch_add(1, Ordering::Relaxed) >= self.sent_max {
            let allowed = self.sent_max;
            return Err(refused(format!(
                "{what} is refused: a call sends at most `http_requests_max` of {allowed} requests"
            )));
        }
        inject::inject(&self.call_log, &self.secrets, &mut target, &mut parts.headers)
            .map_err(refused)?;
        if !self.call_log.redaction().redactor().is_empty() {
            never_encoded(&mut parts.headers);
        }
        // The very URL that was decided about, normalised.
        parts.uri = target
            .url()
            .as_str()
            .parse()
            .map_err(|_| refused(format!("{what} cannot be sent: its URL is none")))?;
        self.call_log.touch(Kind::HTTP);
        // The path is the plugin's own business, and may hold what is nobody's.
        self.call_log.used(Kind::HTTP, &format!("{} {}", parts.method, target.grant()));
        let body = body.map_err(|error| SendError::RequestBody { reason: error.to_string() });
        Ok(Decided {
            request: http::Request::from_parts(parts, body.boxed_unsync()),
            target,
            reach,
            times: times(options),
        })
    }
}

/// To a plugin with secrets, answers come whole and as they are: in a part of one, or packed, a
/// secret could not be found; not even in an answer to a later request without it.
fn never_encoded(headers: &mut HeaderMap) {
    headers.remove(header::RANGE);
    headers.remove(header::IF_RANGE);
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

/// Refuses an answer that is a part of one, or packed, though nobody asked for that.
fn whole_and_unpacked(response: &http::Response<Body>) -> Result<(), Error> {
    let all = |name, usual: &str| {
        let mut said = response.headers().get_all(name).iter();
        said.all(|said| said.as_bytes().eq_ignore_ascii_case(usual.as_bytes()))
    };
    if !all(header::CONTENT_ENCODING, "identity") {
        return Err(Error::HttpResponseContentCoding(None));
    }
    if !all(header::TRANSFER_ENCODING, "chunked") {
        return Err(Error::HttpResponseTransferCoding(None));
    }
    if response.status() == StatusCode::PARTIAL_CONTENT {
        let text = "the server answered with a part (206), which was not asked for: to a plugin \
                    with secrets, answers come whole";
        return Err(Error::InternalError(Some(text.to_owned())));
    }
    Ok(())
}

fn times(options: Option<RequestOptions>) -> Times {
    let options = options.unwrap_or_default();
    Times {
        connect: options.connect_timeout,
        first_byte: options.first_byte_timeout,
        between_bytes: options.between_bytes_timeout,
    }
}

impl WasiHttpHooks for GuestHttp {
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(|name| {
            DEFAULT_FORBIDDEN_HEADERS.contains(name)
                || [header::TE, header::TRAILER, header::EXPECT].contains(name)
        })
    }

    // What a body holds before it is sent is memory of the host, and takes no right to have.
    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_PIECE_BYTES
    }

    // The client sets it from the URL.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn send_request(
        &mut self,
        request: http::Request<WasiBody>,
        options: Option<RequestOptions>,
        _sent: HttpFuture<()>,
    ) -> HttpFuture<(http::Response<WasiBody>, HttpFuture<()>)> {
        // It leaves the table of handles, so from here on it holds its memory itself.
        let words = fields_bytes(request.headers()) + request.uri().to_string().len() as u64;
        let held = charge(&self.memory, words + BODY_BYTES + REQUEST_BYTES);
        let decided = self.decide(request, options);
        let (right, call_log) = (Arc::clone(&self.right), Arc::clone(&self.call_log));
        let at_once = Arc::clone(&self.at_once);
        let (memory, exchange_bytes) = (Arc::clone(&self.memory), self.exchange_bytes);
        Box::new(async move {
            let held = held?;
            let Decided { request, target, reach, times } = decided?;
            // The semaphore is never closed. The turn ends with the response's body.
            let turn = at_once.acquire_owned().await;
            let held = [held, charge(&memory, exchange_bytes)?];
            // Whoever may send anything has one.
            let client = right.client.as_ref().ok_or(Error::InternalError(None))?;
            let sent = client.send(request, reach, times).await;
            let response =
                sent.map_err(|error| failed(error, &target, &call_log, &right.rights))?;
            let redactor = call_log.redaction().redactor();
            if !redactor.is_empty() {
                whole_and_unpacked(&response)?;
            }
            let held = SendSlot { _turn: turn, _held: held };
            let response = redacted::response(response, redactor, held);
            let nothing: HttpFuture<()> = Box::new(async { Ok(()) });
            Ok((response, nothing))
        })
    }
}

/// Takes memory for a request that goes on beside the guest.
fn charge(memory: &Arc<GuestMemory>, bytes: u64) -> Result<Charge, Error> {
    memory.charge(bytes).map_err(|MemoryRefused| {
        let why = memory.denied().map_or_else(|| MemoryRefused.to_string(), |why| why.message());
        Error::InternalError(Some(format!("the request is refused: {why}")))
    })
}

/// Why a request has no response, as WASI says it.
fn failed(error: SendError, target: &Target, call_log: &CallLog, rights: &HttpRights) -> Error {
    let mut text = error.to_string();
    call_log.redaction().redact(&mut text);
    match error {
        SendError::AddressRefused { address, kind, .. } => {
            tracing::info!("{text}");
            let is_name = matches!(target.host(), url::Host::Domain(_));
            let grant = match address::least(address) {
                Some(Reach::Public | Reach::Private) if is_name => {
                    Some(format!("{} private", rights.suggestion(target)))
                }
                Some(_) if !is_name => Some(rights.suggestion(target)),
                _ => None,
            };
            let repair = match &grant {
                Some(grant) => format!(
                    "if that is meant, run `toolhost grant {} {}`",
                    call_log.words(),
                    Kind::HTTP.flag_for(grant)
                ),
                None => "no grant of this name reaches it".to_owned(),
            };
            Error::InternalError(Some(call_log.refuse(Refusal {
                what: target.to_string(),
                // Which address it is, is for the log: names of a network are its own business.
                why: format!("is refused, since its host has an address that is {kind}"),
                repair,
                grant: grant.map(|grant| (Kind::HTTP.key().to_owned(), grant)),
            })))
        }
        error => wasi_error(error, text),
    }
}

/// The nearest error of WASI; its text goes along where there is room for one.
fn wasi_error(error: SendError, text: String) -> Error {
    tracing::debug!("a request failed: {text}");
    match error {
        SendError::NameNotFound { .. } => Error::DnsError { rcode: Some(text), info_code: None },
        SendError::ConnectFailed { .. } => Error::ConnectionRefused,
        SendError::ConnectTimeout { .. } => Error::ConnectionTimeout,
        SendError::Tls { .. } => {
            Error::TlsAlertReceived { alert_id: None, alert_message: Some(text) }
        }
        SendError::Protocol { .. } => Error::HttpProtocolError,
        SendError::FirstByteTimeout { .. } => Error::ConnectionReadTimeout,
        SendError::BetweenBytesTimeout { .. } => Error::HttpResponseTimeout,
        SendError::ResponseTooLarge { bytes_max } => Error::HttpResponseBodySize(Some(bytes_max)),
        SendError::RequestTooLarge { bytes_max } => Error::HttpRequestBodySize(Some(bytes_max)),
        SendError::HeadTooLarge { bytes_max } => {
            Error::HttpResponseHeaderSectionSize(u32::try_from(bytes_max).ok())
        }
        _ => Error::InternalError(Some(text)),
    }
}
