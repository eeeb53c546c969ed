//! The messages of one connection: read, counted, and answered where they are none.
//!
//! Every request gets an answer, also one that is broken, too long or one too many, by its id
//! where that can be read. Reading never waits for the client to read, so its cancellations are
//! heard and its end is seen whatever else it does. The end of input is the client's way to
//! leave, but also how a script ends that asks a few things in one go; so what is under way has
//! a moment to be answered before everything is dropped.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolResult, ClientJsonRpcMessage, ClientNotification, ClientRequest, ContentBlock,
    ErrorCode, ErrorData, GetMeta, JsonRpcMessage, ProtocolVersion, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::lines::{Line, Lines};
use super::scan::Seen;
use super::traffic::{Era, Refusal, Stage, Traffic, busy, error_line};
use crate::json;
use crate::limits::Limits;
use crate::text;
use crate::tool::{CallError, Code};

/// How long requests may go on when no more will come.
const GRACE: Duration = Duration::from_secs(1);
/// Memory that a value takes besides its text, about.
const VALUE_BYTES: u64 = 40;
/// Characters of a broken request's method that are echoed.
const METHOD_CHARS_MAX: usize = 60;
/// Characters of a broken message's cause that are said.
const CAUSE_CHARS_MAX: usize = 200;

/// One connection.
pub(super) struct Wire<R> {
    lines: Lines<R>,
    line_bytes_max: usize,
    traffic: Arc<Traffic>,
    /// When the host is to stop, whatever the client does.
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// When no more messages came.
    ended: Option<Instant>,
    /// Writes; it ends with this.
    _writer: AbortOnDropHandle<()>,
}

/// A message that is no request, as far as it is looked at to say why.
#[derive(Deserialize)]
struct Broken {
    jsonrpc: Option<Value>,
    method: Option<Value>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

impl<R: AsyncRead + Send + Unpin> Wire<R> {
    /// Must be called within a tokio runtime.
    pub(super) fn new(
        input: R,
        output: impl AsyncWrite + Send + Unpin + 'static,
        stop: impl Future<Output = ()> + Send + 'static,
        limits: &Limits,
    ) -> Wire<R> {
        let traffic = Arc::new(Traffic::new(limits));
        let writer = tokio::spawn(Arc::clone(&traffic).deliver(output));
        Wire {
            lines: Lines::new(input, limits.message_bytes_max()),
            line_bytes_max: limits.message_bytes_max(),
            traffic,
            stop: Box::pin(stop),
            ended: None,
            _writer: AbortOnDropHandle::new(writer),
        }
    }

    /// What is under way.
    pub(super) fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// The message of a line, if there is one to be handled.
    fn message(&self, line: Line) -> Option<ClientJsonRpcMessage> {
        let Line { bytes, messages, values } = line;
        let first = messages.first().cloned().unwrap_or_default();
        let Some(bytes) = bytes else {
            let allowed = self.line_bytes_max;
            let why = format!("a message of more than {allowed} bytes is not read");
            self.refuse(&first, ErrorCode::INVALID_REQUEST, why);
            return None;
        };
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes);
        if bytes.trim_ascii().is_empty() {
            return None;
        }
        if messages.len() > 1 {
            for seen in &messages {
                let why =
                    format!("{} messages stand on one line; each takes a line", messages.len());
                self.refuse(seen, ErrorCode::PARSE_ERROR, why);
            }
            return None;
        }
        // Before it is read: as a value it takes many times the memory.
        let cost = bytes.len() as u64 + values * VALUE_BYTES;
        let request = match &first {
            Seen { id: Some(id), method: Some(method), .. } => {
                let cost = usize::try_from(cost).unwrap_or(usize::MAX);
                if let Err(refusal) = self.traffic.admit(id, cost) {
                    self.refuse_whole(id, method, refusal);
                    return None;
                }
                Some(id)
            }
            _ => None,
        };
        // One reader decides what JSON is, in arguments as in what guests answer.
        let unread = std::str::from_utf8(bytes).ok().and_then(|text| json::measure(text).err());
        match serde_json::from_slice::<ClientJsonRpcMessage>(bytes) {
            // What has an id and is read as something else is broken.
            Ok(message) if is_request(&message) == first.is_request() && unread.is_none() => {
                self.note(message)
            }
            _ => {
                if let Some(id) = request {
                    self.traffic.release(id);
                }
                if let Some((code, why)) = broken(bytes, &first) {
                    let why = match unread {
                        Some(error) if code == ErrorCode::INVALID_PARAMS => {
                            let error = text::cut(&error.to_string(), CAUSE_CHARS_MAX);
                            format!("`params` is no JSON for every reader: {error}")
                        }
                        _ => why,
                    };
                    self.refuse(&first, code, why);
                }
                None
            }
        }
    }

    /// Notes what a message means for the connection, and passes it on unless it comes too early.
    fn note(&self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        match &message {
            JsonRpcMessage::Request(request) => {
                if let Some(era) = era(&request.request) {
                    self.traffic.settle(era);
                }
                return Some(message);
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.traffic.cancel(id);
                }
            }
            _ => {}
        }
        // Before the client has said in which way it will talk, the library takes requests and
        // nothing else.
        if self.traffic.era().is_some() {
            return Some(message);
        }
        tracing::debug!("too early, and ignored: {message:?}");
        None
    }

    fn refuse(&self, seen: &Seen, code: ErrorCode, why: String) {
        let error = ErrorData::new(code, text::one_line(&why), None);
        self.traffic.refuse(error_line(seen.id.as_ref(), error));
    }

    /// Refuses a request that is in order itself.
    fn refuse_whole(&self, id: &RequestId, method: &str, refusal: Refusal) {
        let error = match refusal {
            Refusal::Reused => ErrorData::invalid_request(
                "another request with this id is open, or was cancelled a moment ago; each takes an id of its own",
                None,
            ),
            Refusal::TooLarge(why) => ErrorData::invalid_request(why, None),
            Refusal::Busy(why) => {
                let why = format!("busy: {why}; wait for answers, then try again");
                if method == "tools/call" {
                    return self.traffic.refuse(self.busy_call(id, why));
                }
                busy(why)
            }
        };
        self.traffic.refuse(error_line(Some(id), error));
    }

    /// Clients show models results, and not errors of the protocol.
    fn busy_call(&self, id: &RequestId, why: String) -> Vec<u8> {
        let error = CallError::new(Code::Busy, why).to_json().to_string();
        let mut result = CallToolResult::error(vec![ContentBlock::text(error)]);
        if self.traffic.era() != Some(Era::Modern) {
            result.result_type = None;
        }
        let answer =
            ServerJsonRpcMessage::response(ServerResult::CallToolResult(result), id.clone());
        super::traffic::line(&answer, Some(id))
    }
}

/// Tells in which way a client talks that begins with a request.
fn era(request: &ClientRequest) -> Option<Era> {
    match request {
        ClientRequest::InitializeRequest(_) => Some(Era::Legacy),
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => None,
        request => {
            let meta = request.get_meta();
            let is_whole = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty();
            let version = meta.protocol_version();
            let is_known =
                version.is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version));
            (is_whole && is_known).then_some(Era::Modern)
        }
    }
}

fn is_request(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Request(_))
}

/// Why a line is no message that can be handled; none if nobody waits for an answer.
fn broken(line: &[u8], seen: &Seen) -> Option<(ErrorCode, String)> {
    let cause = |error: serde_json::Error| text::cut(&error.to_string(), CAUSE_CHARS_MAX);
    let broken = match serde_json::from_slice::<Broken>(line) {
        Ok(broken) => broken,
        Err(error) if error.is_data() => {
            return Some((ErrorCode::INVALID_REQUEST, format!("{SHAPE}: {}", cause(error))));
        }
        Err(error) => {
            return Some((
                ErrorCode::PARSE_ERROR,
                format!("the line is no JSON: {}", cause(error)),
            ));
        }
    };
    match (&broken.method, seen.has_id) {
        (Some(Value::String(_)), false) => {
            tracing::debug!("a notification that is not understood is ignored");
            None
        }
        // There are no requests that it could answer.
        (None, _) if broken.result.is_some() || broken.error.is_some() => None,
        (Some(Value::String(method)), true)
            if seen.id.is_some()
                && broken.jsonrpc.as_ref().is_some_and(|version| version == "2.0") =>
        {
            let method = text::cut(method, METHOD_CHARS_MAX);
            let why = format!("`params` of `{method}` is an object, and so is its `_meta`");
            Some((ErrorCode::INVALID_PARAMS, why))
        }
        _ => Some((ErrorCode::INVALID_REQUEST, SHAPE.to_owned())),
    }
}

/// What a message is.
const SHAPE: &str = "a message is an object with `jsonrpc`, which is \"2.0\", a `method`, and for a request an `id`, a whole number or a text";

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for Wire<R> {
    type Error = Infallible;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        let answers = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        // Who notifies waits until that is heard; an answer holds nobody up.
        let is_waited_for = answers.is_none();
        let written = self.traffic.write(&message, answers);
        async move {
            if is_waited_for {
                written.await;
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
            let line = tokio::select! {
                () = self.traffic.gone() => return None,
                () = &mut self.stop => None,
                line = self.lines.next() => line,
            };
            match line.map(|line| self.message(line)) {
                Some(None) => {}
                Some(message) => return message,
                None => {
                    self.ended = Some(Instant::now());
                    self.traffic.enter(Stage::Closing);
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        self.traffic.enter(Stage::Gone);
        Ok(())
    }
}
