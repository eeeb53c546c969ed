"""Calls tools natively, in the author's own tests: same arguments, no host, no sandbox.

    from toolhost import testing

    assert testing.call(count_words, text="a b").text == "2"

What it does not do: apply the limits of a host, or grant anything. Arguments are read as the
host's schema would have them.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import sys

from . import declarations, host, http, runtime
from .errors import BadArguments, DefinitionError, NotAvailable, ToolError
from .loader import Script, sentence
from .output import Output
from .sources import read_script
from .tools import Context
from .writing import to_json

__all__ = ["Plugin", "call", "context", "fresh", "parameters", "responding", "response"]

response = http.response


def call(function, arguments: dict | None = None, /, *, context: Context | None = None, **named) -> Output:
    """Calls a tool as the host would, with arguments as JSON would have them.

    Raises the tool's own `ToolError`, `BadArguments` or `NotAvailable`, and `ToolError` with the
    text that the model would read for any other exception, which is its cause.
    """
    tool = function.__toolhost__
    text = to_json({**(arguments or {}), **named})
    try:
        return tool.call(json.loads(text), context or Context()).finish()
    except (ToolError, KeyboardInterrupt):
        raise
    except BaseException as error:
        text = sentence(error) if isinstance(error, DefinitionError) else runtime.told(error)
        raise ToolError(text) from error


def parameters(function) -> dict:
    """Returns the JSON Schema of a tool's arguments, as it is registered."""
    return function.__toolhost__.parameters()


def context(**fields) -> Context:
    """Makes up the host's word about a call."""
    return Context(**fields)


@contextlib.contextmanager
def fresh(*, kv: dict | None = None, secrets=()):
    """Runs a block with a host of its own, and gives it: what is logged, stored, reported.

    Its attributes are `logged` (pairs of level and text), `store` (keys and bytes),
    `progress_reports`, `secrets` (names that are present) and `responder`.
    """
    before, host.current = host.current, host.Memory(is_quiet=True)
    host.current.store.update({key: value if isinstance(value, bytes) else str(value).encode()
                               for key, value in (kv or {}).items()})
    host.current.secrets.update(secrets)
    try:
        yield host.current
    finally:
        host.current = before


@contextlib.contextmanager
def responding(answer):
    """Runs a block in which `answer` answers every `fetch`, and gives the list of what was sent.

    `answer` is a function of the `Request` which returns a `response(...)` or raises an
    `HttpError`; or a response; or a dictionary of URLs without their query and responses.
    """
    sent: list[http.Request] = []

    def respond(request):
        sent.append(request)
        if callable(answer):
            return answer(request)
        if isinstance(answer, dict):
            known = answer.get(request.url, answer.get(request.url.split("?")[0]))
            return response(404, "") if known is None else known
        return answer

    before, host.current.responder = host.current.responder, respond
    try:
        yield sent
    finally:
        host.current.responder = before


class Plugin:
    """A plugin folder or file, loaded as the host would load it. Use it in a `with`."""

    def __init__(self, path):
        self.path = pathlib.Path(path).resolve()
        self.script = Script(read_script(self.path))
        self.plugin: declarations.Plugin | None = None
        self._put_aside: dict[str, object] = {}

    def __enter__(self) -> Plugin:
        # What a test has imported of the plugin itself is loaded once more, as the host would.
        folder = self.path if self.path.is_dir() else self.path.parent
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file and name != "__main__" and folder in pathlib.Path(file).resolve().parents:
                self._put_aside[name] = sys.modules.pop(name)
        self._before = declarations.current
        try:
            self.plugin = self.script.load()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.script.unload()
        sys.modules.update(self._put_aside)
        declarations.current = self._before

    def registration(self) -> dict:
        """Returns what is registered. Raises `LoadError` with the text that the operator reads."""
        return runtime.registration(self.plugin)

    def call(self, tool: str, arguments: dict | None = None, context: Context | None = None) -> Output:
        """Calls a tool by its name; raises what the model would read, as `call` does."""
        try:
            return runtime.call(self.plugin, tool, to_json(arguments or {}), context or Context())
        except runtime.Failure as failure:
            if failure.kind == "bad-arguments":
                raise BadArguments(failure.message, failure.path) from None
            raise (NotAvailable if failure.kind == "not-available" else ToolError)(failure.message) from None
