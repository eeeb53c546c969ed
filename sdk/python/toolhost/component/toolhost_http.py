"""From a request to `wasi:http` and back."""

from componentize_py_types import Err, Ok
from wit_world.imports import outgoing_handler
from wit_world.imports import streams
from wit_world.imports import wasi_http_types as wasi

from toolhost import http

WRITE_BYTES_MAX = 4_096
READ_BYTES_MAX = 64 << 10

METHODS = {"GET": wasi.Method_Get, "HEAD": wasi.Method_Head, "POST": wasi.Method_Post, "PUT": wasi.Method_Put,
           "PATCH": wasi.Method_Patch, "DELETE": wasi.Method_Delete, "OPTIONS": wasi.Method_Options}


def send(request):
    """Sends a request, waits for its answer and reads the body."""
    authority = http.split_url(request.url)[1]
    try:
        outgoing, options = _prepare(request)
        body = outgoing.body()
        pending = outgoing_handler.handle(outgoing, options)
        # If the host stops reading, its answer says why.
        if _write(body, request.body):
            wasi.OutgoingBody.finish(body, None)
        return _answer(_wait(pending), authority, request.body_bytes_max)
    except Err as error:
        raise _error(error.value, authority) from None


def _prepare(request):
    scheme, authority, path = http.split_url(request.url)
    fields = wasi.Fields()
    for name, value in request.headers:
        try:
            fields.append(name, value.encode())
        except Err as error:
            if isinstance(error.value, wasi.HeaderError_Forbidden):
                raise http.BadRequest(f"the header `{name}` is set by the host alone") from None
            raise http.BadRequest(f"the header `{name}` has a name or a value that cannot be sent") from None
    outgoing = wasi.OutgoingRequest(fields)
    try:
        outgoing.set_method(METHODS[request.method]())
        outgoing.set_scheme(wasi.Scheme_Https() if scheme == "https" else wasi.Scheme_Http())
        outgoing.set_authority(authority)
        outgoing.set_path_with_query(path)
    except Err:
        raise http.BadRequest(f"`{authority}` is no host, or its path cannot be sent") from None
    options = wasi.RequestOptions()
    wait = int(request.timeout * 1e9)
    for set_timeout in (options.set_connect_timeout, options.set_first_byte_timeout,
                        options.set_between_bytes_timeout):
        try:
            set_timeout(wait)
        except Err:
            # A host that cannot wait in this way waits in its own.
            pass
    return outgoing, options


def _write(body, data):
    with body.write() as stream:
        try:
            for at in range(0, len(data), WRITE_BYTES_MAX):
                stream.blocking_write_and_flush(data[at : at + WRITE_BYTES_MAX])
        except Err:
            return False
    return True


def _wait(pending):
    while True:
        answer = pending.get()
        if answer is None:
            with pending.subscribe() as ready:
                ready.block()
        elif isinstance(answer, Ok) and isinstance(answer.value, Ok):
            return answer.value.value
        else:
            failed = answer.value if isinstance(answer, Ok) else answer
            raise Err(failed.value)


def _answer(incoming, authority, body_bytes_max):
    status = incoming.status()
    with incoming.headers() as fields:
        headers = [(name, value.decode("utf-8", "replace")) for name, value in fields.entries()]
    with incoming.consume() as body:
        with body.stream() as stream:
            data = _read(stream, authority, body_bytes_max)
    return http.Response(status, headers, data, authority)


def _read(stream, authority, body_bytes_max):
    pieces, size = [], 0
    while True:
        try:
            piece = stream.blocking_read(READ_BYTES_MAX)
        except Err as error:
            if isinstance(error.value, streams.StreamError_Closed):
                return b"".join(pieces)
            raise Err(wasi.http_error_code(error.value.value)) from None
        size += len(piece)
        if size > body_bytes_max:
            raise http.TooLarge(f"the answer of {authority} is larger than the {body_bytes_max} bytes that this "
                                "tool reads")
        pieces.append(piece)


# What the host says, in words, by who can do something about it.
TOO_LARGE = ("HttpResponseBodySize", "HttpResponseHeaderSectionSize", "HttpResponseHeaderSize")
BAD_REQUEST = ("HttpRequestMethodInvalid", "HttpRequestUriInvalid", "HttpRequestUriTooLong",
               "HttpRequestLengthRequired", "HttpRequestBodySize", "HttpRequestHeaderSectionSize",
               "HttpRequestHeaderSize")
NETWORK = {
    "DnsTimeout": "there is no address of this name",
    "DnsError": "there is no address of this name",
    "DestinationNotFound": "there is no address of this name",
    "ConnectionRefused": "it refuses connections",
    "ConnectionTimeout": "it takes too long",
    "ConnectionReadTimeout": "it takes too long",
    "ConnectionWriteTimeout": "it takes too long",
    "HttpResponseTimeout": "it takes too long",
    "ConnectionTerminated": "the connection broke off",
    "HttpResponseIncomplete": "the connection broke off",
    "ConnectionLimitReached": "there are too many connections at present",
    "DestinationUnavailable": "it cannot be reached",
    "DestinationIpUnroutable": "it cannot be reached",
    "TlsCertificateError": "its certificate is not trusted",
    "TlsProtocolError": "no encrypted connection could be made",
    "TlsAlertReceived": "no encrypted connection could be made",
    "HttpResponseContentCoding": "the body is packed in a way that cannot be read",
}


def _error(code, authority):
    kind = type(code).__name__.removeprefix("ErrorCode_")
    value = getattr(code, "value", None)
    if kind == "InternalError" and value:
        # The host's own words: what is not granted, and how it is.
        return http.Refused(value)
    if kind in ("HttpRequestDenied", "DestinationIpProhibited"):
        return http.Refused(f"requests to {authority} are not granted: run `toolhost grant ID --http URL` with the id "
                            "of this plugin")
    if kind in TOO_LARGE:
        return http.TooLarge(f"the answer of {authority} is larger than the host allows")
    if kind in BAD_REQUEST:
        return http.BadRequest(f"the host cannot send this request to {authority}: a part of it is malformed or too "
                               "large")
    if kind == "DnsError" and getattr(value, "rcode", None):
        # So are these.
        return http.NetworkError(value.rcode)
    what = NETWORK.get(kind, "the exchange failed, and the host does not say how")
    return http.NetworkError(f"no answer of {authority}: {what}")
