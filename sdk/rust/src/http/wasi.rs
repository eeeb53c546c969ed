//! From a request to `wasi:http` and back.

use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    DnsErrorPayload, ErrorCode, Fields, HeaderError, IncomingBody, IncomingResponse,
    Method as WasiMethod, OutgoingBody, OutgoingRequest, RequestOptions, Scheme, http_error_code,
};
use wasip2::io::streams::{InputStream, StreamError};

use super::request::Outgoing;
use super::{Error, Method, Response};

/// How much of a body is handed over in one go: the most that WASI promises to take.
const WRITE_BYTES_MAX: usize = 4_096;
/// How much of a body is asked for in one go.
const READ_BYTES_MAX: u64 = 64 << 10;

/// Sends a request and waits until its answer begins.
pub(super) fn send(outgoing: Outgoing) -> Result<Response, Error> {
    let authority = outgoing.url.authority.clone();
    let fail = |code: ErrorCode| error(code, &authority);
    let (request, options) = prepare(&outgoing)?;
    let unusable = || Error::BadRequest("the request has no body to write to".to_owned());
    let body = request.body().map_err(|()| unusable())?;
    let answer = outgoing_handler::handle(request, Some(options)).map_err(fail)?;
    // If the host stops reading, its answer says why.
    if write(&body, &outgoing.body).is_ok() {
        OutgoingBody::finish(body, None).map_err(fail)?;
    }
    let response = loop {
        match answer.get() {
            Some(Ok(response)) => break response.map_err(fail)?,
            Some(Err(())) => return Err(fail(ErrorCode::InternalError(None))),
            None => answer.subscribe().block(),
        }
    };
    let headers = response.headers().entries().into_iter();
    let headers = headers.map(|(name, value)| (name, String::from_utf8_lossy(&value).into_owned()));
    let headers = headers.collect();
    let status = response.status();
    let body = Incoming::new(response).ok_or_else(|| fail(ErrorCode::InternalError(None)))?;
    Ok(Response::new(status, headers, body, authority, outgoing.body_bytes_max))
}

fn prepare(outgoing: &Outgoing) -> Result<(OutgoingRequest, RequestOptions), Error> {
    let headers = Fields::new();
    for (name, value) in &outgoing.headers {
        headers.append(name, value.as_bytes()).map_err(|error| {
            Error::BadRequest(match error {
                HeaderError::Forbidden => format!("the header `{name}` is set by the host alone"),
                _ => format!("the header `{name}` has a name or a value that cannot be sent"),
            })
        })?;
    }
    let request = OutgoingRequest::new(headers);
    let scheme = if outgoing.url.is_https { Scheme::Https } else { Scheme::Http };
    request
        .set_method(&method(outgoing.method))
        .and_then(|()| request.set_scheme(Some(&scheme)))
        .and_then(|()| request.set_authority(Some(&outgoing.url.authority)))
        .and_then(|()| request.set_path_with_query(Some(&outgoing.url.path_with_query)))
        .map_err(|()| {
            let authority = &outgoing.url.authority;
            Error::BadRequest(format!("`{authority}` is no host, or its path cannot be sent"))
        })?;
    let options = RequestOptions::new();
    let wait = u64::try_from(outgoing.timeout.as_nanos()).ok();
    // A host that cannot wait in this way waits in its own.
    let _ = options.set_connect_timeout(wait);
    let _ = options.set_first_byte_timeout(wait);
    let _ = options.set_between_bytes_timeout(wait);
    Ok((request, options))
}

fn method(method: Method) -> WasiMethod {
    match method {
        Method::Get => WasiMethod::Get,
        Method::Head => WasiMethod::Head,
        Method::Post => WasiMethod::Post,
        Method::Put => WasiMethod::Put,
        Method::Patch => WasiMethod::Patch,
        Method::Delete => WasiMethod::Delete,
        Method::Options => WasiMethod::Options,
    }
}

fn write(to: &OutgoingBody, body: &[u8]) -> Result<(), StreamError> {
    let Ok(stream) = to.write() else { return Err(StreamError::Closed) };
    body.chunks(WRITE_BYTES_MAX).try_for_each(|chunk| stream.blocking_write_and_flush(chunk))
}

/// The body of an answer.
// In this order: a stream goes before the body it is of.
#[derive(Debug)]
pub(super) struct Incoming {
    stream: InputStream,
    _body: IncomingBody,
}

impl Incoming {
    fn new(response: IncomingResponse) -> Option<Incoming> {
        let body = response.consume().ok()?;
        Some(Incoming { stream: body.stream().ok()?, _body: body })
    }

    /// Waits for the next piece; none at the end.
    pub(super) fn next(&mut self, authority: &str) -> Result<Option<Vec<u8>>, Error> {
        loop {
            match self.stream.blocking_read(READ_BYTES_MAX) {
                Ok(chunk) if chunk.is_empty() => {}
                Ok(chunk) => return Ok(Some(chunk)),
                Err(StreamError::Closed) => return Ok(None),
                Err(StreamError::LastOperationFailed(cause)) => {
                    let code = http_error_code(&cause);
                    return Err(error(code.unwrap_or(ErrorCode::InternalError(None)), authority));
                }
            }
        }
    }
}

/// What the host says, in words, with the one whose move it is.
fn error(code: ErrorCode, authority: &str) -> Error {
    use ErrorCode as Code;

    let network = |what: &str| Error::Network(format!("no answer of {authority}: {what}"));
    match code {
        // The host's own words: what is not granted, and how it is.
        Code::InternalError(Some(text)) => Error::Refused(text),
        Code::HttpRequestDenied | Code::DestinationIpProhibited => Error::Refused(format!(
            "requests to {authority} are not granted: run `toolhost grant ID --http URL` with the id of this plugin"
        )),
        Code::HttpResponseBodySize(_)
        | Code::HttpResponseHeaderSectionSize(_)
        | Code::HttpResponseHeaderSize(_) => {
            Error::TooLarge(format!("the answer of {authority} is larger than the host allows"))
        }
        Code::HttpRequestMethodInvalid
        | Code::HttpRequestUriInvalid
        | Code::HttpRequestUriTooLong
        | Code::HttpRequestLengthRequired
        | Code::HttpRequestBodySize(_)
        | Code::HttpRequestHeaderSectionSize(_)
        | Code::HttpRequestHeaderSize(_) => Error::BadRequest(format!(
            "the host cannot send this request to {authority}: a part of it is malformed or too large"
        )),
        // So are these.
        Code::DnsError(DnsErrorPayload { rcode: Some(text), .. }) => Error::Network(text),
        Code::DnsTimeout | Code::DnsError(_) | Code::DestinationNotFound => {
            network("there is no address of this name")
        }
        Code::ConnectionRefused => network("it refuses connections"),
        Code::ConnectionTimeout
        | Code::ConnectionReadTimeout
        | Code::ConnectionWriteTimeout
        | Code::HttpResponseTimeout => network("it takes too long"),
        Code::ConnectionTerminated | Code::HttpResponseIncomplete => {
            network("the connection broke off")
        }
        Code::ConnectionLimitReached => network("there are too many connections at present"),
        Code::DestinationUnavailable | Code::DestinationIpUnroutable => {
            network("it cannot be reached")
        }
        Code::TlsCertificateError => network("its certificate is not trusted"),
        Code::TlsProtocolError | Code::TlsAlertReceived(_) => {
            network("no encrypted connection could be made")
        }
        Code::HttpResponseContentCoding(_) => {
            network("the body is packed in a way that cannot be read")
        }
        _ => network("the exchange failed, and the host does not say how"),
    }
}
