"""The authority a plugin asks for; its operator decides whether it gets it.

Each function is one piece. `reason` says why, in one sentence for the person who decides; `tools`
narrows it to some of the plugin's tools, by name or as the functions themselves.
"""

from __future__ import annotations

from . import declarations
from .declarations import names_of
from .errors import DefinitionError
from .writing import to_json


def read_directory(path: str = "*", *, reason: str = "", tools=()) -> None:
    """Asks to read a directory and everything below it: at `path` as the plugin sees it, or `*`
    for whichever the operator grants. The functions of Python (`open`, `os`, `pathlib`) do it.
    """
    other("dirs", {"path": path, "access": "ro"}, reason=reason, tools=tools)


def write_directory(path: str = "*", *, reason: str = "", tools=()) -> None:
    """Asks to read and change a directory and everything below it; `path` as above."""
    other("dirs", {"path": path, "access": "rw"}, reason=reason, tools=tools)


def http(*hosts: str, reason: str = "", tools=()) -> None:
    """Asks to send HTTP requests to these hosts: `api.example.com`, `GET https://api.example.com/v1/`,
    `*.example.com`; see `toolhost.fetch`.
    """
    other("http", {"hosts": names_of("need.http", hosts)}, reason=reason, tools=tools)


def env(*names: str, reason: str = "", tools=()) -> None:
    """Asks for these environment variables; `os.environ` has those that were granted."""
    other("env", {"names": names_of("need.env", names)}, reason=reason, tools=tools)


def secret(name: str, hosts, *, header: str | None = None, query: str | None = None, reason: str = "",
           tools=()) -> None:
    """Asks for a secret that the host puts into requests to these hosts, in this slot: a header
    or a query parameter. See `toolhost.secrets`.
    """
    if (header is None) == (query is None):
        raise DefinitionError("need.secret takes either `header` or `query`")
    slot = {"header": header} if header is not None else {"query": query}
    hosts = [hosts] if isinstance(hosts, str) else list(hosts)
    other("secrets", {"name": name, "hosts": hosts, **slot}, reason=reason, tools=tools)


def kv(*, reason: str = "", tools=()) -> None:
    """Asks for a store of the plugin's own; see `toolhost.kv`."""
    other("kv", {}, reason=reason, tools=tools)


def hooks(events, tools, *, reason: str = "") -> None:
    """Asks to hear of calls of other plugins' tools. `toolhost.hook` asks for what it needs by
    itself; this one is for hooks that are declared in other ways.
    """
    other("hooks", {"events": names_of("need.hooks", [events]), "tools": names_of("need.hooks", [tools])}, reason=reason)


def other(kind: str, value, *, reason: str = "", tools=()) -> None:
    """Asks for a kind of authority by its name, with its value as the contract defines it."""
    for what, text in (("kind", kind), ("reason", reason)):
        if not isinstance(text, str):
            raise DefinitionError(f"need: `{what}` is {text!r}; it takes a text")
    tools = [tools] if isinstance(tools, str) or callable(tools) else tools
    declarations.current.needs.append({
        "kind": kind,
        "value": to_json(value),
        # The names of tools are known when all of them are declared.
        "tools": list(tools),
        "reason": reason,
    })
