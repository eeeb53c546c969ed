//! The messages of one connection: read, counted, and answered where they are none.
//!
//! Every request gets an answer, also one that is broken, too long or one too many, by its id
//! where that can be read. Reading never waits for the client to read, so its cancellations are
//! heard and its end is seen whatever else it does. The end of input is the client's way to
//! leave, but also how a script ends that asks a few things in one go; so what is under way has
//! a moment to be answered before everything is dropped.

use std::collections::VecDeque;
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

use super::batch;
use super::lines::{InputLine, InputLines};
use super::scan::{Member, MessageHead, TOKEN_BYTES_MAX};
use super::traffic::{ConnectionStage, Era, RequestRefusal, Traffic, busy, error_line};
use toolhost_core::json;
use toolhost_core::limits::Limits;
use toolhost_core::text;
use toolhost_core::tool::{CallError, Code};

/// How long requests may go on when no more will come.
const GRACE: Duration = Duration::from_secs(1);
/// Memory that a value takes besides its text, about.
const VALUE_BYTES: u64 = 40;
/// Characters of a broken request's method that are echoed.
const METHOD_CHARS_MAX: usize = 60;
/// Characters of a broken message's cause that are said.
const CAUSE_CHARS_MAX: usize = 200;
/// Bytes of an id that is too long, and still is echoed.
const LONG_ID_BYTES_MAX: usize = 64 << 10;

/// One connection.
pub(super) struct ServerTransport<R> {
    lines: InputLines<R>,
    /// Messages of a batch that are not handled yet.
    batch: VecDeque<InputLine>,
    /// Whether the client's revision has batches.
    has_batches: bool,
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

/// A message, as far as it is looked at for its id alone.
#[derive(Deserialize)]
struct Identified {
    id: RequestId,
}

/// A `tools/list`, as far as it is looked at for its cursor.
#[derive(Deserialize)]
struct ListRequest {
    params: Option<ListCursor>,
}

/// Which page is asked for.
#[derive(Deserialize)]
struct ListCursor {
    cursor: Option<IgnoredAny>,
}

impl<R: AsyncRead + Send + Unpin> ServerTransport<R> {
    /// Must be called within a tokio runtime.
    pub(super) fn new(
        input: R,
        output: impl AsyncWrite + Send + Unpin + 'static,
        stop: impl Future<Output = ()> + Send + 'static,
        limits: &Limits,
    ) -> ServerTransport<R> {
        let traffic = Arc::new(Traffic::new(limits));
        let writer = tokio::spawn(Arc::clone(&traffic).deliver(output));
        ServerTransport {
            lines: InputLines::new(input, limits.message_bytes_max()),
            batch: VecDeque::new(),
            has_batches: false,
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
    fn message(&mut self, line: InputLine) -> Option<ClientJsonRpcMessage> {
        let InputLine { bytes, messages, count, values } = line;
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
        if count > 1 {
            let why = format!("{count} messages stand on one line; each takes a line");
            for seen in &messages {
                self.refuse(seen, ErrorCode::PARSE_ERROR, why.clone());
            }
            let others = count - messages.len();
            if others > 0 {
                let why = format!("{why}; this answers the last {others} of them");
                self.refuse(&MessageHead::default(), ErrorCode::PARSE_ERROR, why);
            }
            return None;
        }
        if batch::is_batch(bytes) {
            self.split(bytes);
            return None;
        }
        if first.is_request()
            && let Some((member, given)) = first.too_long
        {
            self.refuse_long(bytes, first, member, given);
            return None;
        }
        // Before it is read: as a value it takes many times the memory.
        let cost = bytes.len() as u64 + values * VALUE_BYTES;
        let request = match &first {
            MessageHead { id: Some(id), method: Some(method), .. } => {
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
            Ok(message)
                if is_request(&message) == first.is_request()
                    // What was not admitted is not handled.
                    && id(&message) == request
                    && unread.is_none() =>
            {
                if !has_cursor_in_order(&message, bytes) {
                    if let Some(id) = request {
                        self.traffic.release(id);
                    }
                    let why = format!("`tools/list` takes {}", super::LIST_PARAMETERS);
                    self.refuse(&first, ErrorCode::INVALID_PARAMS, why);
                    return None;
                }
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
    fn note(&mut self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        match &message {
            JsonRpcMessage::Request(request) => {
                if let ClientRequest::InitializeRequest(request) = &request.request
                    && self.traffic.era().is_none()
                {
                    self.has_batches = batch::are_of(&request.params.protocol_version);
                }
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

    /// Takes the messages of a batch in, or refuses each.
    fn split(&mut self, bytes: &[u8]) {
        if let Err(error) = serde_json::from_slice::<IgnoredAny>(bytes) {
            return self.refuse(&MessageHead::default(), ErrorCode::PARSE_ERROR, no_json(&error));
        }
        if batch::elements(bytes).next().is_none() {
            return self.refuse(
                &MessageHead::default(),
                ErrorCode::INVALID_REQUEST,
                SHAPE.to_owned(),
            );
        }
        for element in batch::elements(bytes) {
            if batch::is_batch(element) {
                let why = "a batch within a batch is not read".to_owned();
                self.refuse(&MessageHead::default(), ErrorCode::INVALID_REQUEST, why);
                continue;
            }
            let why = if !self.has_batches {
                "only MCP 2024-11-05 and 2025-03-26 have batches, once `initialize` has agreed on one of them; send each message on a line of its own".to_owned()
            } else if self.batch.len() == batch::MESSAGES_MAX {
                format!(
                    "a batch has at most {} messages, and this is one too many",
                    batch::MESSAGES_MAX
                )
            } else {
                self.batch.push_back(InputLine::of(element));
                continue;
            };
            let seen = InputLine::of(element).messages.pop().unwrap_or_default();
            // Nobody waits for an answer to a notification or an answer.
            if seen.is_request() || !element.starts_with(b"{") {
                self.refuse(&seen, ErrorCode::INVALID_REQUEST, why);
            }
        }
    }

    /// Refuses a request of which a member is longer than can be kept.
    fn refuse_long(&self, bytes: &[u8], mut seen: MessageHead, member: Member, given: usize) {
        let name = match member {
            Member::Method => "method",
            Member::Id => {
                let read = || serde_json::from_slice::<Identified>(bytes).ok();
                seen.id = (given <= LONG_ID_BYTES_MAX).then(read).flatten().map(|read| read.id);
                "id"
            }
        };
        let why =
            format!("`{name}` takes {given} bytes, and at most {TOKEN_BYTES_MAX} are allowed");
        self.refuse(&seen, ErrorCode::INVALID_REQUEST, why);
    }

    fn refuse(&self, seen: &MessageHead, code: ErrorCode, why: String) {
        let error = ErrorData::new(code, text::one_line(&why), None);
        self.traffic.refuse(error_line(seen.id.as_ref(), error));
    }

    /// Refuses a request that is in order itself.
    fn refuse_whole(&self, id: &RequestId, method: &str, refusal: RequestRefusal) {
        let error = match refusal {
            RequestRefusal::Reused => ErrorData::invalid_request(
                "another request with this id is open, or was cancelled a moment ago; each takes an id of its own",
                None,
            ),
            RequestRefusal::TooLarge(why) => ErrorData::invalid_request(why, None),
            RequestRefusal::Busy(why) => {
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

/// The id of a request.
fn id(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    }
}

/// Tells of a `tools/list` whether its cursor is a string or left out. To the library it is left out
/// if it is anything else.
fn has_cursor_in_order(message: &ClientJsonRpcMessage, bytes: &[u8]) -> bool {
    let JsonRpcMessage::Request(request) = message else { return true };
    let ClientRequest::ListToolsRequest(list) = &request.request else { return true };
    if list.params.as_ref().is_some_and(|params| params.cursor.is_some()) {
        return true;
    }
    let read = serde_json::from_slice::<ListRequest>(bytes).ok().and_then(|listing| listing.params);
    read.is_none_or(|page| page.cursor.is_none())
}

fn is_request(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Request(_))
}

/// Why a line is no message that can be handled; none if nobody waits for an answer.
fn broken(line: &[u8], seen: &MessageHead) -> Option<(ErrorCode, String)> {
    if let Err(error) = std::str::from_utf8(line) {
        let why = format!(
            "the line is not UTF-8, from its byte {} on; JSON is sent as UTF-8",
            error.valid_up_to()
        );
        return Some((ErrorCode::PARSE_ERROR, why));
    }
    let broken = match serde_json::from_slice::<Broken>(line) {
        Ok(broken) => broken,
        // The cause would tell of types of this program.
        Err(error) if error.is_data() && !line.trim_ascii_start().starts_with(b"{") => {
            return Some((ErrorCode::INVALID_REQUEST, SHAPE.to_owned()));
        }
        Err(error) if error.is_data() => {
            return Some((
                ErrorCode::INVALID_REQUEST,
                format!("{SHAPE}: {}", text::cut(&error.to_string(), CAUSE_CHARS_MAX)),
            ));
        }
        Err(error) => return Some((ErrorCode::PARSE_ERROR, no_json(&error))),
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

fn no_json(error: &serde_json::Error) -> String {
    format!("the line is no JSON: {}", text::cut(&error.to_string(), CAUSE_CHARS_MAX))
}

/// What a message is.
const SHAPE: &str = "a message is an object with `jsonrpc`, which is \"2.0\", a `method`, and for a request an `id`, a whole number or a text";

impl<R: AsyncRead + Send + Unpin> Transport<RoleServer> for ServerTransport<R> {
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
            let line = match self.batch.pop_front() {
                Some(line) => Some(line),
                None => tokio::select! {
                    () = self.traffic.gone() => return None,
                    () = &mut self.stop => None,
                    line = self.lines.next() => line,
                },
            };
            match line.map(|line| self.message(line)) {
                Some(None) => {}
                Some(message) => return message,
                None => {
                    self.ended = Some(Instant::now());
                    self.traffic.enter(ConnectionStage::Closing);
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        self.traffic.enter(ConnectionStage::Gone);
        Ok(())
    }
}
