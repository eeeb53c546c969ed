//! Bodies on their way, counted: what goes up, and what comes down.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

use super::error;
use super::pool::{Connection, Pool, PoolKey};
use super::{Body, SendError, Times};

/// How long the end of a response waits until its connection is ready for the next request.
/// Mostly that is a matter of microseconds; a server that does not read the rest of the request
/// gets no second one.
const SETTLE_TIME_MAX: Duration = Duration::from_millis(100);

/// What is known of a request's body while it is being sent.
#[derive(Default)]
pub(super) struct UploadProgress {
    is_over: AtomicBool,
    failure: OnceLock<SendError>,
}

impl UploadProgress {
    /// Why the body could not be sent whole, if it could not.
    pub(super) fn failure(&self) -> Option<SendError> {
        self.failure.get().cloned()
    }
}

/// The body of a request, which must not grow over a bound, nor differ from its length.
pub(super) struct Upload {
    body: Body,
    /// What `content-length` promises and has not been sent.
    promised: Option<u64>,
    left: u64,
    bytes_max: u64,
    progress: Arc<UploadProgress>,
}

impl Upload {
    pub(super) fn new(
        body: Body,
        promised: Option<u64>,
        bytes_max: u64,
    ) -> (Upload, Arc<UploadProgress>) {
        let progress = Arc::<UploadProgress>::default();
        let upload =
            Upload { body, promised, left: bytes_max, bytes_max, progress: Arc::clone(&progress) };
        (upload, progress)
    }

    fn fail(&self, error: SendError) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        // What went wrong first is why the rest did.
        let _ = self.progress.failure.set(error.clone());
        Poll::Ready(Some(Err(error)))
    }
}

impl http_body::Body for Upload {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        let untrue = |how| SendError::BadRequest {
            problem: format!("its body is {how} than its `content-length` says"),
        };
        let frame = match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
            None if self.promised.is_some_and(|promised| promised > 0) => {
                return self.fail(untrue("shorter"));
            }
            None => return Poll::Ready(None),
            Some(Err(error)) => return self.fail(error),
            Some(Ok(frame)) => frame,
        };
        let length = frame.data_ref().map_or(0, |data| data.len() as u64);
        let Some(left) = self.left.checked_sub(length) else {
            return self.fail(SendError::RequestTooLarge { bytes_max: self.bytes_max });
        };
        self.left = left;
        if let Some(promised) = self.promised {
            let Some(promised) = promised.checked_sub(length) else {
                return self.fail(untrue("longer"));
            };
            self.promised = Some(promised);
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.promised.is_none_or(|promised| promised == 0) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.promised.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.progress.is_over.store(true, Ordering::Release);
    }
}

/// One request on one connection.
pub(super) struct Exchange {
    pub(super) connection: Connection,
    pub(super) key: PoolKey,
    pub(super) progress: Arc<UploadProgress>,
}

/// The body of a response, which must not grow over a bound, nor pause for too long.
///
/// At its end the connection is kept for the next request; anything else closes it.
pub(super) struct Received {
    body: Incoming,
    /// `None` once the connection is kept or closed.
    exchange: Option<Exchange>,
    /// Keeps no connection for a client that is gone.
    pool: Weak<Pool>,
    left: u64,
    bytes_max: u64,
    between_bytes: Option<Duration>,
    /// Runs while somebody waits: for the next bytes, or at the end for the connection.
    clock: Option<Pin<Box<Sleep>>>,
    at_end: bool,
}

impl Received {
    pub(super) fn new(
        body: Incoming,
        exchange: Exchange,
        pool: &Arc<Pool>,
        bytes_max: u64,
        times: Times,
    ) -> Received {
        Received {
            body,
            exchange: Some(exchange),
            pool: Arc::downgrade(pool),
            left: bytes_max,
            bytes_max,
            between_bytes: times.between_bytes,
            clock: None,
            at_end: false,
        }
    }

    fn fail(&mut self, error: SendError) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        self.at_end = true;
        self.exchange = None;
        Poll::Ready(Some(Err(error)))
    }

    /// Tells whether somebody has waited for `time`, counted from the first question.
    fn is_late(&mut self, time: Duration, context: &mut Context<'_>) -> bool {
        let clock = self.clock.get_or_insert_with(|| Box::pin(sleep(time)));
        clock.as_mut().poll(context).is_ready()
    }

    /// Keeps the connection as soon as it is ready.
    fn settle(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(exchange) = &mut self.exchange else { return Poll::Ready(()) };
        let keep = match exchange.connection.sender.poll_ready(context) {
            // Who still sends, sends what nobody asked for any longer.
            _ if !exchange.progress.is_over.load(Ordering::Acquire) => false,
            Poll::Ready(ready) => ready.is_ok(),
            Poll::Pending if self.is_late(SETTLE_TIME_MAX, context) => false,
            Poll::Pending => return Poll::Pending,
        };
        if let (Some(exchange), Some(pool), true) =
            (self.exchange.take(), self.pool.upgrade(), keep)
        {
            pool.put(exchange.key, exchange.connection);
        }
        Poll::Ready(())
    }
}

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        let this = self.get_mut();
        if this.at_end {
            return this.settle(context).map(|()| None);
        }
        let frame = match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Pending => {
                let Some(time) = this.between_bytes else { return Poll::Pending };
                return match this.is_late(time, context) {
                    true => this.fail(SendError::BetweenBytesTimeout { time }),
                    false => Poll::Pending,
                };
            }
            Poll::Ready(frame) => frame,
        };
        this.clock = None;
        match frame {
            None => {
                this.at_end = true;
                this.settle(context).map(|()| None)
            }
            Some(Err(error)) => {
                let upload =
                    this.exchange.as_ref().and_then(|exchange| exchange.progress.failure());
                this.fail(upload.unwrap_or_else(|| error::of_body(&error)))
            }
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                let Some(left) = this.left.checked_sub(length) else {
                    return this.fail(SendError::ResponseTooLarge { bytes_max: this.bytes_max });
                };
                this.left = left;
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // Not as soon as all bytes are there: whoever stops then would lose the connection.
        self.at_end && self.exchange.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
