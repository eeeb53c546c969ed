"""HTTP requests over what the host lets through.

A plugin asks for hosts with `need.http`, the operator grants them, and what is both asked for and
granted gets through. Everything else is `Refused` with the command that would grant it; that text
goes on to whoever called the tool, word for word, if the tool does not catch it.

An answer with any status is an answer: 404 and 500 are no errors here. **Redirects are not
followed**: the operator granted hosts, and a redirect may lead to any other. An answer 301 to 308
comes back as it is; a tool that wants to follow sends another request, which is checked like the
first.

**Secrets** never stand in a request that a tool writes: the host puts them in on the way out and
takes them out of what comes back. See `toolhost.secrets`.
"""

from __future__ import annotations

import dataclasses
import json as _json
import urllib.parse

from . import host
from .errors import ToolError
from .writing import sendable, to_json

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
TIMEOUT = 30.0
TIMEOUT_MAX = 86_400
BODY_BYTES_MAX = 4 << 20


class HttpError(Exception):
    """Why a request got no answer, or why an answer cannot be used."""


class Refused(HttpError, ToolError):
    """The host does not let the request through, and says so in its own words: what is not
    granted, and the command that grants it. The move is the operator's.
    """


class NetworkError(HttpError):
    """The server cannot be reached, or the exchange broke off, or took too long."""


class TooLarge(HttpError):
    """The body of the answer is larger than `body_bytes_max`, or than the host allows."""


class BadRequest(HttpError):
    """The URL, a header or the body cannot be sent: the move is the plugin author's."""


class BadBody(HttpError):
    """The body of the answer is not what was asked for, such as JSON."""


@dataclasses.dataclass
class Request:
    """A request as it leaves. What the host does to it on the way has not been done."""

    method: str
    #: The whole URL, with its query.
    url: str
    #: Names in lower case.
    headers: list[tuple[str, str]]
    body: bytes
    timeout: float = TIMEOUT
    body_bytes_max: int = BODY_BYTES_MAX

    def header(self, name: str) -> str | None:
        """The value of a header, the first if there are several."""
        return next((value for known, value in self.headers if known == name.lower()), None)

    def json(self):
        """The body, read as JSON."""
        return _json.loads(self.body)


@dataclasses.dataclass
class Response:
    """The answer to a request."""

    status: int
    #: In the order in which the host gives them.
    headers: list[tuple[str, str]]
    body: bytes
    #: Whose answer it is, for errors.
    authority: str = ""

    @property
    def ok(self) -> bool:
        """Whether the status is 200 to 299."""
        return 200 <= self.status < 300

    def header(self, name: str) -> str | None:
        """The value of a header, the first if there are several; case does not matter."""
        return next((value for known, value in self.headers if known.lower() == name.lower()), None)

    @property
    def text(self) -> str:
        """The body as text: in the character set that `content-type` names, else UTF-8; what
        cannot be read becomes U+FFFD.
        """
        kind = self.header("content-type") or ""
        named = [part.split("=", 1)[1].strip(" \"'") for part in kind.split(";")[1:] if "charset=" in part.lower()]
        try:
            return self.body.decode(named[0] if named else "utf-8", "replace")
        except LookupError:
            return self.body.decode("utf-8", "replace")

    def json(self):
        """The body, read as JSON. Raises `BadBody` if it is none."""
        try:
            return _json.loads(self.body)
        except ValueError as error:
            raise BadBody(f"the answer of {self.authority} is not the expected JSON: {error}") from None


def fetch(
    url: str,
    method: str = "GET",
    *,
    query: dict | None = None,
    headers: dict | list | None = None,
    body: bytes | str | None = None,
    json=None,
    timeout: float = TIMEOUT,
    body_bytes_max: int = BODY_BYTES_MAX,
) -> Response:
    """Sends a request, waits for the answer and reads its body.

    `query` is added to the URL, encoded as it has to be; a value that is a list gives several
    parameters, and one that is None none. `json` is a value that becomes the body, with its
    `content-type`. `timeout` is in seconds: for a connection, for the answer to begin, and for
    each next piece of its body; the host may allow less.

    Raises `Refused` if the host does not let it through, `NetworkError` if there is no answer in
    time, `TooLarge` if the answer's body exceeds `body_bytes_max`, and `BadRequest` if the URL or
    a header cannot be sent.
    """
    return host.current.send(request(url, method, query=query, headers=headers, body=body, json=json,
                                     timeout=timeout, body_bytes_max=body_bytes_max))


def request(url, method="GET", *, query=None, headers=None, body=None, json=None, timeout=TIMEOUT,
            body_bytes_max=BODY_BYTES_MAX) -> Request:
    """Builds the request that `fetch` sends."""
    method = method.upper()
    if method not in METHODS:
        raise BadRequest(f"`{method}` is no method; allowed are {', '.join(METHODS)}")
    if not isinstance(timeout, (int, float)) or not 0 < timeout <= TIMEOUT_MAX:
        raise BadRequest(f"`timeout` is {timeout!r}; it takes seconds, more than 0 and at most {TIMEOUT_MAX}")
    url = str(url).split("#")[0]
    if query:
        pairs = [(name, value) for name, value in query.items() if value is not None]
        text = urllib.parse.urlencode(pairs, doseq=True, quote_via=urllib.parse.quote, safe="")
        url += ("&" if "?" in url else "?") + text if text else ""
    items = headers.items() if isinstance(headers, dict) else headers or []
    sent = [(sendable(str(name)).lower(), sendable(str(value))) for name, value in items]
    if json is not None:
        if body is not None:
            raise BadRequest("a request has a `body` or `json`, not both")
        try:
            body = to_json(json)
        except (TypeError, ValueError) as error:
            raise BadRequest(f"the body cannot be written as JSON: {error}") from None
        if not any(name == "content-type" for name, _ in sent):
            sent.append(("content-type", "application/json"))
    body = sendable(body).encode() if isinstance(body, str) else bytes(body or b"")
    scheme, authority, path = split_url(url)
    if not any(name == "content-length" for name, _ in sent) and (body or method in ("POST", "PUT", "PATCH")):
        # Without it the body is sent in chunks, which not every server understands.
        sent.append(("content-length", str(len(body))))
    return Request(method, f"{scheme}://{authority}{path}", sent, body, timeout, body_bytes_max)


def response(status: int = 200, body: bytes | str | dict | list = b"", headers: dict | None = None) -> Response:
    """Makes up an answer, for tests; a dictionary or list becomes JSON."""
    if isinstance(body, (dict, list)):
        body = to_json(body)
        headers = {"content-type": "application/json", **(headers or {})}
    body = body.encode() if isinstance(body, str) else body
    return Response(status, list((headers or {}).items()), body)


def split_url(url: str) -> tuple[str, str, str]:
    """Returns scheme, host with port, and path with query.

    The host reads the URL again, strictly, and decides on what it reads.
    """

    def bad(problem):
        raise BadRequest(
            f"`{url}` cannot be requested: {problem}; a URL is written https://HOST[:PORT][/PATH][?QUERY]"
        )

    scheme, mark, rest = url.partition("://")
    if not mark:
        bad("it has no scheme")
    scheme = scheme.lower()
    if scheme not in ("http", "https"):
        bad("its scheme is neither https nor http")
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in rest):
        bad("it contains a control character")
    end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    authority, path = rest[:end], rest[end:]
    if "@" in authority:
        bad("it contains a user name; credentials go into a header")
    if not authority or not all(33 <= ord(letter) < 127 for letter in authority):
        bad("its host is not written in ASCII letters")
    if not path.startswith("/"):
        path = "/" + path
    return scheme, authority, urllib.parse.quote(path, safe="!#$%&'()*+,-./:;=?@[]_~", errors="replace")
