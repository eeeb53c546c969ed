//! Responses without secrets in them: head, body and trailers, the body as it comes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use http_body::Frame;
use http_body_util::BodyExt;
use tokio::sync::{AcquireError, OwnedSemaphorePermit};
use wasmtime_wasi_http::{Error, WasiBody};

use super::wasi_error;
use crate::egress::Body;
use crate::secret::{RedactStream, Redactor};

/// A response as a guest reads it. `turn` ends with its body.
pub(super) fn response(
    response: http::Response<Body>,
    redactor: &Redactor,
    turn: Result<OwnedSemaphorePermit, AcquireError>,
) -> http::Response<WasiBody> {
    let (mut head, body) = response.into_parts();
    redact_fields(&mut head.headers, redactor);
    if !redactor.is_empty() {
        // It may not be true any more.
        head.headers.remove(header::CONTENT_LENGTH);
    }
    let body = Redacted {
        body,
        stream: Some(redactor.stream()),
        redactor: redactor.clone(),
        after: None,
        _turn: turn,
    };
    http::Response::from_parts(head, body.boxed_unsync())
}

fn redact_fields(fields: &mut HeaderMap, redactor: &Redactor) {
    if redactor.is_empty() {
        return;
    }
    for value in fields.values_mut() {
        let redacted = redactor.bytes(value.as_bytes());
        if let std::borrow::Cow::Owned(bytes) = redacted {
            *value = HeaderValue::from_bytes(&bytes)
                .unwrap_or_else(|_| HeaderValue::from_static("[REDACTED]"));
        }
    }
}

/// A body that is searched as it comes.
struct Redacted {
    body: Body,
    /// None at the end.
    stream: Option<RedactStream>,
    redactor: Redactor,
    /// What comes after what was held back.
    after: Option<HeaderMap>,
    _turn: Result<OwnedSemaphorePermit, AcquireError>,
}

impl http_body::Body for Redacted {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Some(trailers) = self.after.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        while self.stream.is_some() {
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => Some(frame),
                Some(Err(error)) => {
                    self.stream = None;
                    let text = error.to_string();
                    return Poll::Ready(Some(Err(wasi_error(error, text))));
                }
                None => None,
            };
            let ready = match frame.map(Frame::into_data) {
                Some(Ok(data)) => match &mut self.stream {
                    Some(stream) => stream.push(data),
                    None => data,
                },
                Some(Err(frame)) => {
                    if let Ok(mut trailers) = frame.into_trailers() {
                        redact_fields(&mut trailers, &self.redactor);
                        self.after = Some(trailers);
                    }
                    self.stream.take().map(RedactStream::finish).unwrap_or_default()
                }
                None => self.stream.take().map(RedactStream::finish).unwrap_or_default(),
            };
            if !ready.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(ready))));
            }
        }
        Poll::Ready(self.after.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }
}
