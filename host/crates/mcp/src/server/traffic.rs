//! What is under way on one connection: requests that are open, messages that wait to be
//! written, and how far the connection has come.
//!
//! The client's side is never waited for while reading, so whatever it says is heard also when
//! it does not read. Then things pile up here, and everything that can is bounded: what does not
//! fit is refused, and a client that does not even read refusals is gone.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rmcp::model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use serde_json::json;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use toolhost_core::limits::Limits;

/// Refusals that wait to be read, in bytes: thousands of them.
const REFUSALS_BYTES_MAX: usize = 4 << 20;
/// Ids of requests that were taken back, whose handlers may not have ended yet.
const CANCELLED_MAX: usize = 256;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionStage {
    /// Messages come and go.
    Open,
    /// No more will come.
    Closing,
    /// Nobody is there.
    Gone,
}

/// In which way a client talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    /// It began with `initialize`.
    Legacy,
    /// It says with every request who it is.
    Modern,
}

/// Why a request is not handled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestRefusal {
    /// Another request with the same id is open, or was taken back a moment ago.
    Reused,
    /// There is no room for it at present.
    Busy(String),
    /// There never will be.
    TooLarge(String),
}

/// Everything under way.
pub(super) struct Traffic {
    requests_max: usize,
    requests_bytes_max: usize,
    answers_bytes_max: usize,
    stage: watch::Sender<ConnectionStage>,
    era: OnceLock<Era>,
    state: Mutex<TrafficState>,
    /// How much is under way, for who waits until it is less.
    load: watch::Sender<TrafficLoad>,
    /// Tells that there is something to write.
    more: Notify,
}

#[derive(Default)]
struct TrafficState {
    /// Requests that are not answered, with their memory in bytes.
    open: HashMap<RequestId, usize>,
    /// Bytes of answers that are made now, by the request.
    promised: HashMap<RequestId, usize>,
    cancelled: VecDeque<RequestId>,
    queue: VecDeque<Outgoing>,
    load: TrafficLoad,
    refusals_bytes: usize,
}

/// How much is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TrafficLoad {
    requests: usize,
    requests_bytes: usize,
    answers_bytes: usize,
    /// Of answers that are made now and not queued yet.
    promised_bytes: usize,
}

/// One message to write.
struct Outgoing {
    line: Vec<u8>,
    is_refusal: bool,
    /// Dropped when it is written.
    written: Option<oneshot::Sender<()>>,
}

impl Traffic {
    pub(super) fn new(limits: &Limits) -> Traffic {
        Traffic {
            requests_max: limits.requests_max.0,
            requests_bytes_max: limits.requests_bytes_max.as_usize(),
            answers_bytes_max: limits.answers_bytes_max.as_usize(),
            stage: watch::Sender::new(ConnectionStage::Open),
            era: OnceLock::new(),
            state: Mutex::default(),
            load: watch::Sender::default(),
            more: Notify::new(),
        }
    }

    /// Tells how far the connection has come.
    pub(super) fn stage(&self) -> watch::Receiver<ConnectionStage> {
        self.stage.subscribe()
    }

    pub(super) fn enter(&self, stage: ConnectionStage) {
        self.stage.send_replace(stage);
    }

    pub(super) fn is_gone(&self) -> bool {
        *self.stage.borrow() == ConnectionStage::Gone
    }

    pub(super) async fn gone(&self) {
        // The sender is here, so it cannot fail.
        let _ = self.stage.subscribe().wait_for(|stage| *stage == ConnectionStage::Gone).await;
    }

    /// In which way the client talks, once it has said so.
    pub(super) fn era(&self) -> Option<Era> {
        self.era.get().copied()
    }

    pub(super) fn settle(&self, era: Era) {
        // The first counts.
        let _ = self.era.set(era);
    }

    /// Takes a request in, that takes so many bytes of memory.
    pub(super) fn admit(&self, id: &RequestId, bytes: usize) -> Result<(), RequestRefusal> {
        let mut state = self.state();
        if state.open.contains_key(id) || state.cancelled.contains(id) {
            return Err(RequestRefusal::Reused);
        }
        let TrafficLoad { requests, requests_bytes, .. } = state.load;
        let allowed = self.requests_bytes_max;
        if bytes > allowed {
            let why = format!(
                "the request takes {bytes} bytes of memory, and `requests_bytes_max` is {allowed}"
            );
            return Err(RequestRefusal::TooLarge(why));
        }
        if requests >= self.requests_max {
            let why = format!("{requests} requests wait, and `requests_max` is {requests}");
            return Err(RequestRefusal::Busy(why));
        }
        if requests_bytes + bytes > allowed {
            let why = format!(
                "the requests that wait take {requests_bytes} bytes of memory, this one takes {bytes}, and `requests_bytes_max` is {allowed}"
            );
            return Err(RequestRefusal::Busy(why));
        }
        state.open.insert(id.clone(), bytes);
        state.load.requests += 1;
        state.load.requests_bytes += bytes;
        self.tell(&state);
        Ok(())
    }

    /// A request was taken back; it will not be answered.
    pub(super) fn cancel(&self, id: &RequestId) {
        let mut state = self.state();
        if !state.close(id) {
            return;
        }
        // Whoever handles it may still answer, and that must not become the answer of another.
        state.cancelled.push_back(id.clone());
        if state.cancelled.len() > CANCELLED_MAX {
            state.cancelled.pop_front();
        }
        self.tell(&state);
    }

    /// A request turned out to be none.
    pub(super) fn release(&self, id: &RequestId) {
        let mut state = self.state();
        state.close(id);
        self.tell(&state);
    }

    /// Queues a message. Without room for an answer, it becomes an error; the returned future
    /// tells when the message is written, or nobody is there.
    pub(super) fn write(
        self: &Arc<Traffic>,
        message: &ServerJsonRpcMessage,
        answers: Option<RequestId>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let line = line(message, answers.as_ref());
        let (sender, written) = oneshot::channel();
        let traffic = Arc::clone(self);
        if !self.is_gone() {
            let mut state = self.state();
            let (waiting, allowed) = (state.load.answers_bytes, self.answers_bytes_max);
            let has_room = waiting == 0 || waiting + line.len() <= allowed;
            if let Some(id) = &answers {
                // Before it is read: who has read it may use the id again.
                state.close(id);
            }
            match &answers {
                Some(id) if !has_room => {
                    drop(state);
                    let why = format!(
                        "busy: {waiting} bytes of answers wait to be read, the answer to this request would be {} more, and `answers_bytes_max` is {allowed}; read them, then try again",
                        line.len()
                    );
                    self.refuse(error_line(Some(id), busy(why)));
                }
                _ => {
                    let message = Outgoing { line, is_refusal: false, written: Some(sender) };
                    self.push(&mut state, message);
                }
            }
        }
        async move {
            tokio::select! {
                // Dropped is how it ends.
                _ = written => {}
                () = traffic.gone() => {}
            }
        }
    }

    /// Queues the answer to what is not handled. A client that leaves too many of them is gone.
    pub(super) fn refuse(&self, line: Vec<u8>) {
        if self.is_gone() {
            return;
        }
        let mut state = self.state();
        state.refusals_bytes += line.len();
        if state.refusals_bytes > REFUSALS_BYTES_MAX {
            drop(state);
            tracing::warn!(
                "the client does not read that its requests are refused; the connection is ended"
            );
            return self.enter(ConnectionStage::Gone);
        }
        self.push(&mut state, Outgoing { line, is_refusal: true, written: None });
    }

    fn push(&self, state: &mut TrafficState, message: Outgoing) {
        state.load.answers_bytes += message.line.len();
        state.queue.push_back(message);
        self.tell(state);
        self.more.notify_one();
    }

    /// Writes what is queued, until nobody is there.
    pub(super) async fn deliver(self: Arc<Traffic>, mut output: impl AsyncWrite + Unpin) {
        loop {
            let next = self.state().queue.pop_front();
            let Some(message) = next else {
                tokio::select! {
                    () = self.more.notified() => continue,
                    () = self.gone() => return,
                }
            };
            let write = async {
                output.write_all(&message.line).await?;
                output.flush().await
            };
            let written = tokio::select! {
                written = write => written,
                () = self.gone() => return,
            };
            if let Err(error) = written {
                tracing::debug!("the client has gone: {error}");
                return self.enter(ConnectionStage::Gone);
            }
            let mut state = self.state();
            state.load.answers_bytes -= message.line.len();
            if message.is_refusal {
                state.refusals_bytes -= message.line.len();
            }
            self.tell(&state);
            drop(state);
            drop(message.written);
        }
    }

    /// Waits until the client has read most of what was answered: no work is begun for one that
    /// does not read.
    pub(super) async fn has_room(&self) {
        let most = self.answers_bytes_max / 2;
        // The sender is here, so it cannot fail.
        let _ = self.load.subscribe().wait_for(|load| load.answers_bytes <= most).await;
    }

    /// Waits until an answer of so many bytes has room beside those that wait and those that were
    /// promised; alone, it may be larger. The room is taken until the request is answered or
    /// cancelled.
    pub(super) async fn promise(&self, id: &RequestId, bytes: usize) {
        let most = self.answers_bytes_max / 2;
        let has_room = |load: &TrafficLoad| {
            let taken = load.answers_bytes + load.promised_bytes;
            taken == 0 || taken + bytes <= most
        };
        let mut load = self.load.subscribe();
        while load.wait_for(has_room).await.is_ok() {
            let mut state = self.state();
            if !state.open.contains_key(id) {
                return;
            }
            // Another may have been faster.
            if has_room(&state.load) {
                state.promised.insert(id.clone(), bytes);
                state.load.promised_bytes += bytes;
                return self.tell(&state);
            }
        }
    }

    /// Waits until all is answered, or it is time to go; then nobody is there.
    pub(super) async fn finish(&self, deadline: Instant) {
        let mut load = self.load.subscribe();
        tokio::select! {
            _ = load.wait_for(|load| load.requests == 0 && load.answers_bytes == 0) => {}
            () = self.gone() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
        self.enter(ConnectionStage::Gone);
    }

    /// Within the lock, so that the last one told is the last.
    fn tell(&self, state: &TrafficState) {
        self.load.send_replace(state.load);
    }

    fn state(&self) -> MutexGuard<'_, TrafficState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrafficState {
    fn close(&mut self, id: &RequestId) -> bool {
        let Some(bytes) = self.open.remove(id) else { return false };
        self.load.requests -= 1;
        self.load.requests_bytes -= bytes;
        self.load.promised_bytes -= self.promised.remove(id).unwrap_or_default();
        true
    }
}

/// There is no room at present.
pub(super) fn busy(why: String) -> ErrorData {
    let data = json!({ "code": "busy" });
    ErrorData::new(ErrorCode::INTERNAL_ERROR, why, Some(data))
}

/// An error as a line; without an id if none can be read.
pub(super) fn error_line(id: Option<&RequestId>, error: ErrorData) -> Vec<u8> {
    let error = ServerJsonRpcMessage::error(error, id.cloned());
    line(&error, None)
}

pub(super) fn line(message: &ServerJsonRpcMessage, answers: Option<&RequestId>) -> Vec<u8> {
    match serde_json::to_vec(message) {
        Ok(mut line) => {
            line.push(b'\n');
            line
        }
        Err(error) => {
            tracing::error!("a message cannot be written as JSON: {error}");
            let error = ErrorData::internal_error("the answer cannot be written as JSON", None);
            error_line(answers, error)
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{EmptyResult, ServerResult};
    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;

    fn answer(text: &str) -> ServerJsonRpcMessage {
        let error = ErrorData::invalid_request(text.to_owned(), None);
        ServerJsonRpcMessage::error(error, Some(RequestId::Number(1)))
    }

    #[tokio::test]
    async fn answers_bytes_max() {
        let mut limits = Limits::default();
        limits.set("answers_bytes_max", "64 KiB").expect("allowed");
        let traffic = Arc::new(Traffic::new(&limits));
        let (output, input) = tokio::io::duplex(16);
        let id = |number| Some(RequestId::Number(number));
        let large = answer(&"x".repeat(100_000));
        // Alone, an answer may be larger; what fits beside it stays as it is.
        drop(traffic.write(&large, id(1)));
        drop(traffic.write(&large, id(2)));
        let writer = tokio::spawn(Arc::clone(&traffic).deliver(output));
        let mut waiting = Box::pin(traffic.has_room());
        assert!(futures_util::poll!(&mut waiting).is_pending(), "no call begins");
        let mut lines = BufReader::new(input).lines();
        let mut next = async || lines.next_line().await.expect("read").expect("a line");
        assert!(next().await.len() > 100_000);
        let refused = next().await;
        assert!(refused.contains("`answers_bytes_max` is 65536"), "{refused}");
        waiting.await;
        let empty = ServerResult::EmptyResult(EmptyResult {});
        let empty = ServerJsonRpcMessage::response(empty, RequestId::Number(3));
        let written = traffic.write(&empty, id(3));
        assert_eq!(next().await, r#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
        written.await;
        traffic.enter(ConnectionStage::Gone);
        writer.await.expect("no panic");
    }

    #[tokio::test]
    async fn promised_answers_take_turns() {
        let mut limits = Limits::default();
        limits.set("answers_bytes_max", "64 KiB").expect("allowed");
        let traffic = Arc::new(Traffic::new(&limits));
        let ids = [1, 2, 3].map(RequestId::Number);
        for id in &ids {
            traffic.admit(id, 100).expect("room");
        }
        // Alone, one may be larger.
        traffic.promise(&ids[0], 100_000).await;
        let mut second = Box::pin(traffic.promise(&ids[1], 10_000));
        let mut third = Box::pin(traffic.promise(&ids[2], 30_000));
        assert!(futures_util::poll!(&mut second).is_pending());
        assert!(futures_util::poll!(&mut third).is_pending());
        traffic.cancel(&ids[0]);
        second.await;
        assert!(futures_util::poll!(&mut third).is_pending(), "both are more than half");
        traffic.release(&ids[1]);
        third.await;
    }

    #[tokio::test]
    async fn who_reads_no_refusals_is_gone() {
        let traffic = Arc::new(Traffic::new(&Limits::default()));
        let line = error_line(None, ErrorData::invalid_request("x".repeat(1_000), None));
        for _ in 0..REFUSALS_BYTES_MAX / line.len() {
            traffic.refuse(line.clone());
        }
        assert!(!traffic.is_gone());
        traffic.refuse(line);
        traffic.gone().await;
    }
}
