//! Requests by the bare interface: scheme, authority and path as they are given.

use serde::Deserialize;
use serde_json::{Value, json};
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, IncomingBody, Method, OutgoingBody, OutgoingRequest,
    RequestOptions, Scheme,
};
use wasip2::io::poll::poll;
use wasip2::io::streams::StreamError;

/// A request.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    #[serde(default = "get")]
    method: String,
    #[serde(default = "https")]
    scheme: String,
    authority: Option<String>,
    path: Option<String>,
    #[serde(default)]
    headers: Vec<(String, String)>,
    body: Option<String>,
    /// Bytes of the body to send, in place of `body`.
    #[serde(default)]
    body_bytes: usize,
    /// Milliseconds until the first byte, and between bytes.
    wait: Option<u64>,
    /// Bytes of the response to keep; the rest is counted.
    #[serde(default = "many")]
    keep: usize,
}

fn get() -> String {
    "GET".to_owned()
}

fn https() -> String {
    "https".to_owned()
}

fn many() -> usize {
    100_000
}

/// Sends it, reads the response whole.
pub(crate) fn send(request: &Request) -> Result<Value, String> {
    answer(begin(request)?, request.keep)
}

/// Begins all of them, then reads the responses as they come.
pub(crate) fn send_at_once(requests: &[Request]) -> Result<Value, String> {
    let begun = requests.iter().map(|request| Ok((begin(request)?, request.keep)));
    let mut begun = begun.collect::<Result<Vec<_>, String>>()?;
    let mut answers = Vec::new();
    while !begun.is_empty() {
        let pollables: Vec<_> = begun.iter().map(|(response, _)| response.subscribe()).collect();
        let ready = poll(&pollables.iter().collect::<Vec<_>>())[0];
        drop(pollables);
        let (response, keep) = begun.remove(ready as usize);
        answers.push(answer(response, keep)?);
    }
    Ok(Value::Array(answers))
}

fn begin(request: &Request) -> Result<FutureIncomingResponse, String> {
    let fields = Fields::new();
    for (name, value) in &request.headers {
        fields
            .append(name, value.as_bytes())
            .map_err(|error| format!("header {name}: {error:?}"))?;
    }
    let outgoing = OutgoingRequest::new(fields);
    let method = match request.method.as_str() {
        "GET" => Method::Get,
        "POST" => Method::Post,
        "CONNECT" => Method::Connect,
        "TRACE" => Method::Trace,
        other => Method::Other(other.to_owned()),
    };
    let scheme = match request.scheme.as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    };
    outgoing.set_method(&method).map_err(|()| "the method is refused")?;
    outgoing.set_scheme(Some(&scheme)).map_err(|()| "the scheme is refused")?;
    outgoing
        .set_authority(request.authority.as_deref())
        .map_err(|()| "the authority is refused")?;
    outgoing.set_path_with_query(request.path.as_deref()).map_err(|()| "the path is refused")?;
    let body = match (&request.body, request.body_bytes) {
        (None, 0) => None,
        (Some(body), _) => Some(body.clone().into_bytes()),
        (None, bytes) => Some(vec![b'x'; bytes]),
    };
    let options = RequestOptions::new();
    if let Some(wait) = request.wait {
        let _ = options.set_first_byte_timeout(Some(wait * 1_000_000));
        let _ = options.set_between_bytes_timeout(Some(wait * 1_000_000));
    }
    let outgoing_body = match &body {
        Some(_) => Some(outgoing.body().map_err(|()| "there is no body")?),
        None => None,
    };
    let response = outgoing_handler::handle(outgoing, Some(options)).map_err(shown)?;
    if let (Some(bytes), Some(outgoing_body)) = (body, outgoing_body) {
        let stream = outgoing_body.write().map_err(|()| "there is no stream")?;
        for chunk in bytes.chunks(4_096) {
            if stream.blocking_write_and_flush(chunk).is_err() {
                break;
            }
        }
        drop(stream);
        let _ = OutgoingBody::finish(outgoing_body, None);
    }
    Ok(response)
}

fn answer(response: FutureIncomingResponse, keep: usize) -> Result<Value, String> {
    response.subscribe().block();
    let response = response.get().ok_or("it is not ready")?.map_err(|()| "it was taken")?;
    let response = response.map_err(shown)?;
    let status = response.status();
    let headers: Vec<(String, String)> = response
        .headers()
        .entries()
        .into_iter()
        .map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned()))
        .collect();
    let (bytes, count, error) = read(response.consume().map_err(|()| "the body was taken")?, keep);
    let body = String::from_utf8_lossy(&bytes).into_owned();
    Ok(
        json!({ "status": status, "headers": headers, "body": body, "bytes": count, "body_error": error }),
    )
}

fn read(body: IncomingBody, keep: usize) -> (Vec<u8>, usize, Option<String>) {
    let (mut bytes, mut count) = (Vec::new(), 0);
    let Ok(stream) = body.stream() else {
        return (bytes, 0, Some("there is no stream".to_owned()));
    };
    loop {
        match stream.blocking_read(65_536) {
            Ok(chunk) => {
                count += chunk.len();
                let room = keep.saturating_sub(bytes.len()).min(chunk.len());
                bytes.extend_from_slice(&chunk[..room]);
            }
            Err(StreamError::Closed) => return (bytes, count, None),
            Err(StreamError::LastOperationFailed(error)) => {
                let code = wasip2::http::types::http_error_code(&error);
                let text = code.map_or_else(|| error.to_debug_string(), shown);
                return (bytes, count, Some(text));
            }
        }
    }
}

fn shown(code: ErrorCode) -> String {
    match code {
        ErrorCode::InternalError(Some(text)) => text,
        code => format!("{code:?}"),
    }
}
