//! Responses without secrets in them: head, body and trailers, the body as it comes.

use std::borrow::Cow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body::Frame;
use http_body_util::BodyExt;
use wasmtime_wasi_http::{Error, WasiBody};

use super::{SendSlot, wasi_error};
use toolhost_core::runtime::at_length;
use toolhost_egress::Body;
use toolhost_state::secret::{RedactStream, Redactor};

/// A response as a guest reads it. `turn` ends with its body.
pub(super) fn response(
    response: http::Response<Body>,
    redactor: &Redactor,
    turn: SendSlot,
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

/// Stands in place of a name that has a value in it.
const NAME: &str = "redacted";

/// Takes the values out of fields, also out of their names, and where several fields share one.
fn redact_fields(fields: &mut HeaderMap, redactor: &Redactor) {
    if redactor.is_empty() {
        return;
    }
    let names: Vec<HeaderName> = fields.iter().map(|(name, _)| name.clone()).collect();
    let before: Vec<Vec<u8>> = fields.values().map(|value| value.as_bytes().to_vec()).collect();
    let mut values = before.clone();
    redactor.parts(&mut values);
    let mut hidden = redactor.in_names(&names.iter().map(HeaderName::as_str).collect::<Vec<_>>());
    // One that begins in a name or a value, and ends in one that comes later.
    let texts: Vec<Cow<'_, str>> = names
        .iter()
        .zip(&values)
        .flat_map(|(name, value)| [name.as_str().into(), String::from_utf8_lossy(value)])
        .collect();
    let spanned = redactor.spanned(&texts.iter().map(Cow::as_ref).collect::<Vec<_>>());
    let (of_fields, _) = spanned.as_chunks::<2>();
    for (place, [in_name, in_value]) in of_fields.iter().enumerate() {
        hidden[place] |= in_name;
        if *in_value {
            values[place] = NAME.into();
        }
    }
    if values == before && !hidden.contains(&true) {
        return;
    }
    // No part of a value may be this text either.
    let name = if redactor.in_names(&[NAME])[0] { "x" } else { NAME };
    *fields = names
        .into_iter()
        .zip(values)
        .zip(hidden)
        .map(|((field, value), hidden)| {
            let value = HeaderValue::from_bytes(&value)
                .unwrap_or_else(|_| HeaderValue::from_static("[REDACTED]"));
            (if hidden { HeaderName::from_static(name) } else { field }, value)
        })
        .fold(HeaderMap::new(), |mut fields, (name, value)| {
            fields.append(name, value);
            fields
        });
}

/// So many bytes may take longer than it takes to go elsewhere.
const LONG_BYTES: usize = 16 << 10;

/// Searches a chunk; other tasks of this thread go on meanwhile if it is a long one.
fn push(stream: &mut RedactStream, chunk: Bytes) -> Bytes {
    if chunk.len() < LONG_BYTES {
        return stream.push(chunk);
    }
    at_length(|| stream.push(chunk))
}

/// A body that is searched as it comes.
struct Redacted {
    body: Body,
    /// None at the end.
    stream: Option<RedactStream>,
    redactor: Redactor,
    /// What comes after what was held back.
    after: Option<HeaderMap>,
    _turn: SendSlot,
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
                    let text = self.redactor.text(&error.to_string()).into_owned();
                    return Poll::Ready(Some(Err(wasi_error(error, text))));
                }
                None => None,
            };
            let ready = match frame.map(Frame::into_data) {
                Some(Ok(data)) => match &mut self.stream {
                    Some(stream) => push(stream, data),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use toolhost_state::secret::SecretValue;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn others_go_on_while_a_chunk_is_searched() {
        let value = SecretValue::new("s3cr3t-key".to_owned()).expect("a value");
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&turns);
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        });
        // On the one thread of the runtime, and never awaiting anything.
        let searching = tokio::spawn(async move {
            let mut stream = Redactor::new(&[("KEY", &value)]).stream();
            let before = turns.load(Ordering::SeqCst);
            (0..1_000).any(|_| {
                let chunk = Bytes::from("%41".repeat(LONG_BYTES));
                assert!(!push(&mut stream, chunk).is_empty());
                turns.load(Ordering::SeqCst) > before
            })
        });
        assert!(searching.await.expect("an end"), "nobody else had a turn");
        other.abort();
    }
}
