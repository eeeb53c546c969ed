"""From the functions of the contract to the author's, and back; in plain values, so that it runs
natively as well as in a component.
"""

from __future__ import annotations

import json

from . import declarations, host, loader
from .errors import BadArguments, DefinitionError, NotAvailable, ToolError
from .hooks import Ask, Block
from .loop import finished
from .output import Output
from .tools import Context, Tool, toolset_of
from .writing import sendable, to_json

TEXT_CHARS_MAX = 4_000


def progress(done: float, total: float | None = None, message: str | None = None) -> None:
    """Reports progress to whoever waits for the call: `done` of `total`, in units of your choice."""
    host.current.progress(float(done), None if total is None else float(total),
                          None if message is None else sendable(str(message)))


class Failure(Exception):
    """What a call answers instead of an output: `kind` is `failed`, `bad-arguments` or `not-available`."""

    def __init__(self, kind: str, message: str, path: str | None = None):
        super().__init__(message)
        self.kind, self.path = kind, None if path is None else sendable(str(path))
        self.message = sendable(str(message)[:TEXT_CHARS_MAX])


def registration(plugin: declarations.Plugin) -> dict:
    """Returns the fields of the record `registration` of the contract. Raises `LoadError`."""
    try:
        if not plugin.tools and not plugin.hooks:
            raise loader.LoadError(f"{loader.main_of(plugin)}: the plugin defines nothing; make a function a tool with "
                                   "`@tool` above it, or a hook with `@hook(...)`")
        default = toolset_of(plugin.name)
        tools, places = [], {}
        for tool in plugin.tools:
            if tool.name in places:
                other = loader.sentence(DefinitionError("", places[tool.name].function)).removesuffix(": ")
                raise tool.mistake(f"there are two tools of this name; the other is at {other}")
            places[tool.name] = tool
            tools.append(_definition(tool, default))
        return {
            "name": plugin.name,
            "version": plugin.version,
            "tools": tools,
            "needs": [{**need, "tools": [_tool_name(item, places) for item in need["tools"]]} for need in plugin.needs],
            "extensions": plugin.extensions,
        }
    except Exception as error:
        raise loader.LoadError(loader.sentence(error)) from error


def _definition(tool: Tool, default_toolset: str) -> dict:
    try:
        return tool.definition(default_toolset)
    except DefinitionError:
        raise
    except Exception as error:
        raise tool.mistake(f"{loader.name_of(error)}: {error}") from error


def _tool_name(item, tools: dict) -> str:
    made = getattr(item, "__toolhost__", None)
    name = made.name if made else item
    if name not in tools:
        raise DefinitionError(f"a need is for the tool {name!r}, but this plugin has no such tool; it has "
                              + (", ".join(tools) or "none"))
    return name


def call(plugin: declarations.Plugin, name: str, arguments: str, context: Context) -> Output:
    """Runs one call; arguments are JSON text. Raises `Failure`, whatever happens."""
    tool = _find(plugin, name)
    if tool is None:
        raise Failure("failed", f"this plugin has no tool `{name}`")
    try:
        return tool.call(json.loads(arguments), context).finish()
    except BaseException as error:
        raise failure(error) from None


def failure(error: BaseException) -> Failure:
    """Returns what a model reads of an exception."""
    if isinstance(error, BadArguments):
        return Failure("bad-arguments", error.message, error.path)
    if isinstance(error, NotAvailable):
        return Failure("not-available", loader.text_of(error))
    if isinstance(error, ToolError):
        return Failure("failed", loader.text_of(error) or loader.name_of(error))
    if isinstance(error, DefinitionError):
        return Failure("failed", loader.sentence(error))
    host.current.log("info", sendable(loader.trace(error)))
    return Failure("failed", told(error))


def told(error: BaseException) -> str:
    """Returns `TypeName: message (words.py:12)`."""
    place = loader.where(error)
    text = loader.text_of(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        text = f"{text}: {loader.importable()}"
    text = f"{loader.name_of(error)}: {text}" if text else loader.name_of(error)
    return f"{text} ({place})" if place else text


def check(plugin: declarations.Plugin, name: str) -> str | None:
    """Returns why a tool cannot work at present, or None if it can."""
    tool = _find(plugin, name)
    if tool is None or tool.said["check"] is None:
        return None
    try:
        answer = finished(tool.said["check"]())
        if answer is None or answer is True:
            return None
        return "its check says that it cannot work" if answer is False else sendable(str(answer))
    except ToolError as error:
        return sendable(loader.text_of(error))
    except BaseException as error:
        return sendable(told(error))


def describe(plugin: declarations.Plugin, name: str, available: list[str]) -> str | None:
    """Returns what changes in a tool's definition, as JSON text; None if nothing does."""
    tool = _find(plugin, name)
    if tool is None or tool.said["describe"] is None:
        return None
    try:
        answer = finished(tool.said["describe"](list(available)))
        return answer if answer is None else sendable(to_json(answer))
    except BaseException as error:
        host.current.log("error", sendable(f"describe of {name}: {told(error)}"))
        return None


def request(plugin: declarations.Plugin, call) -> str | None:
    """Runs the hooks of `request`; each sees the arguments that the one before returned."""
    from dataclasses import replace

    changed = None
    for hook in _hooks(plugin, "request", call):
        answer = finished(hook.function(call))
        if answer is not None:
            changed = answer if isinstance(answer, str) else to_json(answer)
            call = replace(call, arguments=json.loads(changed))
    return None if changed is None else sendable(changed)


def pre_call(plugin: declarations.Plugin, call) -> Ask | Block | None:
    """Runs the hooks of `pre-call`; a block counts more than a question, and that more than nothing."""
    question = None
    for hook in _hooks(plugin, "pre-call", call):
        answer = finished(hook.function(call))
        if isinstance(answer, Block):
            return answer
        if isinstance(answer, Ask):
            question = question or answer
        elif answer is not None:
            raise TypeError(f"a pre-call hook returns Block(...), Ask(...) or None, and not {answer!r}")
    return question


def post_call(plugin: declarations.Plugin, call, outcome) -> None:
    """Runs the hooks of `post-call`."""
    for hook in _hooks(plugin, "post-call", call):
        finished(hook.function(call, outcome))


def transform(plugin: declarations.Plugin, call, outcome) -> str | None:
    """Runs the hooks of `transform`; the first text counts."""
    for hook in _hooks(plugin, "transform", call):
        answer = finished(hook.function(call, outcome))
        if answer is not None:
            return sendable(answer if isinstance(answer, str) else to_json(answer))
    return None


def _hooks(plugin, event: str, call):
    return [hook for hook in plugin.hooks if hook.event == event and hook.hears(call.tool)]


def _find(plugin: declarations.Plugin, name: str) -> Tool | None:
    return next((tool for tool in plugin.tools if tool.name == name), None)
