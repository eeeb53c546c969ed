"""Hooks: seeing, changing, stopping and rewriting the calls of other plugins' tools.

Hooks are authority: a plugin asks for events and tools, and the operator grants them
(`toolhost grant ID --hook EVENT:TOOL`). The decorator `hook` does the asking.
"""

from __future__ import annotations

import dataclasses
import json
import typing

from . import declarations, need
from .errors import DefinitionError

EVENTS = ("request", "pre-call", "post-call", "transform")


@dataclasses.dataclass(frozen=True)
class HookedCall:
    """The call that a hook is asked about."""

    tool: str
    #: Where the tool comes from, such as `plugin:files`.
    source: str
    #: The arguments as they are at this point.
    arguments: dict
    session_id: str | None = None
    task_id: str | None = None
    tool_call_id: str | None = None


@dataclasses.dataclass(frozen=True)
class HookedOutcome:
    """What became of the call."""

    #: None if the tool answered; otherwise the error's code, such as `failed`, `denied` or `deadline`.
    code: str | None
    #: What the model reads: JSON text.
    result: str
    duration_ms: int

    def json(self):
        """The result, read as JSON."""
        return json.loads(self.result)


@dataclasses.dataclass(frozen=True)
class Block:
    """Decides that a call is refused; the text is for the model."""

    reason: str

    def __post_init__(self):
        _check_text("Block", "reason", self.reason)


@dataclasses.dataclass(frozen=True)
class Ask:
    """Decides that a human is asked. What a "yes, for this session" is remembered for is
    `rule_key`, or else this tool and this message.
    """

    message: str
    rule_key: str | None = None

    def __post_init__(self):
        _check_text("Ask", "message", self.message)
        if self.rule_key is not None:
            _check_text("Ask", "rule_key", self.rule_key)


def _check_text(kind: str, name: str, value) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{kind}: `{name}` is a {type(value).__name__}, {value!r}; it takes a str, as in `str(error)`")


@dataclasses.dataclass(frozen=True)
class Hook:
    """One function and what it listens to."""

    event: str
    tools: tuple[str, ...]
    function: typing.Callable

    def hears(self, tool: str) -> bool:
        """Whether it listens to calls of this tool."""
        return any(tool.startswith(name[:-1]) if name.endswith("*") else tool == name for name in self.tools)


def hook(event: str, *tools: str, reason: str = "") -> typing.Callable:
    """Makes a function a hook for an event and tools (`*` for all), and asks for that authority.

    - `request` takes a `HookedCall`; it returns other arguments, or None to leave them.
    - `pre-call` takes a `HookedCall`; it returns `Block(text)`, `Ask(message)`, or None to allow.
    - `post-call` takes a `HookedCall` and a `HookedOutcome`.
    - `transform` takes both; it returns a text in place of the answer, or None to leave it.

    An exception refuses the call (`request`, `pre-call`) or is logged.
    """
    if event not in EVENTS:
        raise DefinitionError(f"`{event}` is no event of a hook; events are {', '.join(EVENTS)}")
    tools = tuple(declarations.names_of("hook", tools)) if tools else ("*",)

    def declare(function):
        if not callable(function):
            raise DefinitionError(f"@hook is for functions, and {function!r} is none")
        declarations.current.hooks.append(Hook(event, tools, function))
        need.hooks([event], tools, reason=reason)
        return function

    return declare
