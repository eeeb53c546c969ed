"""The component's side of the SDK: exports of the contract, and its imports as the host.

It is importable only while componentize-py builds a component and inside of one.
"""

import functools
import io
import json
import logging
import sys
import traceback

from componentize_py_types import Err
from wit_world import WitWorld as World
from wit_world import exports
from wit_world.exports import hooks as contract_hooks
from wit_world.imports import kv as kv_imports
from wit_world.imports import log as log_imports
from wit_world.imports import progress as progress_imports
from wit_world.imports import secrets as secrets_imports
from wit_world.imports import toolhost_plugin_types as types

import toolhost.loop
from toolhost import hooks, host, kv, loader, runtime
from toolhost.tools import Context
from toolhost.writing import sendable
from toolhost_directory import install
from toolhost_http import send

LEVELS = {
    "debug": log_imports.Level.DEBUG,
    "info": log_imports.Level.INFO,
    "warn": log_imports.Level.WARN,
    "error": log_imports.Level.ERROR,
}
KV_ERRORS = (
    (kv_imports.Error_NotGranted, kv.NotGranted),
    (kv_imports.Error_Invalid, kv.Invalid),
    (kv_imports.Error_Full, kv.Full),
    (kv_imports.Error_Unavailable, kv.Unavailable),
)


def _kv(function):
    @functools.wraps(function)
    def checked(*arguments):
        try:
            return function(*arguments)
        except Err as error:
            for theirs, ours in KV_ERRORS:
                if isinstance(error.value, theirs):
                    raise ours(error.value.value) from None
            raise

    return staticmethod(checked)


class Host:
    """The host that the component runs in."""

    def log(self, level, message):
        log_imports.log(LEVELS[level], message)

    progress = staticmethod(progress_imports.progress)
    secret_present = staticmethod(secrets_imports.present)
    secret_placeholder = staticmethod(secrets_imports.placeholder)
    kv_get = _kv(kv_imports.get)
    kv_set = _kv(kv_imports.set)
    kv_delete = _kv(kv_imports.delete)
    kv_swap = _kv(kv_imports.swap)
    kv_keys = _kv(kv_imports.keys)
    send = staticmethod(send)


class Nowhere(host.Memory):
    """The host while a component is built: there is none, and whoever asks is told so."""

    def log(self, level, message):
        pass

    def _absent(self, *_):
        raise RuntimeError("a baked plugin is imported when it is built, where there is no host: "
                           "do this inside of a function")

    kv_get = kv_set = kv_delete = kv_swap = kv_keys = send = _absent


class LogStream(io.RawIOBase):
    """What is printed, as lines of the host's log."""

    def __init__(self, level):
        self.level, self.rest = level, b""

    def writable(self):
        return True

    def write(self, data):
        *lines, self.rest = (self.rest + bytes(data)).split(b"\n")
        for line in lines:
            self._line(line)
        return len(data)

    def finish(self):
        """Logs what has no end of a line yet."""
        if self.rest:
            self._line(self.rest)
            self.rest = b""

    def _line(self, line):
        host.current.log(self.level, line.decode("utf-8", "replace"))


class LogHandler(logging.Handler):
    """What the standard module `logging` records, as lines of the host's log."""

    def emit(self, record):
        level = {10: "debug", 20: "info", 30: "warn"}.get(record.levelno // 10 * 10, "error")
        try:
            host.current.log(level, sendable(self.format(record)))
        except Exception:
            host.current.log("error", sendable(traceback.format_exc()))


def stream(level):
    """Makes a text stream whose lines are logged."""
    return io.TextIOWrapper(LogStream(level), "utf-8", "backslashreplace", write_through=True)


def set_up():
    """Makes the interpreter's surroundings those of a component; while it is built."""
    sys.stdout = sys.__stdout__ = stream("info")
    sys.stderr = sys.__stderr__ = stream("warn")
    sys.stdin = sys.__stdin__ = io.StringIO()
    logging.getLogger().addHandler(LogHandler())
    logging.getLogger().setLevel(logging.INFO)
    host.current = Nowhere()
    install(lambda: isinstance(host.current, Host))


def seal():
    """The last step of a build: what is there now is never collected, and there is nothing to
    import from but what was imported.
    """
    import gc

    sys.path[:] = []
    sys.path_importer_cache.clear()
    sys.dont_write_bytecode = True
    gc.collect()
    gc.freeze()


class Plugin:
    """Gives the plugin: at once if it was baked, else by loading the host's script first."""

    def __init__(self):
        self.baked = None
        self.registration = None
        self.load = None
        self.keep = None
        self.loaded = None

    def __call__(self):
        if not isinstance(host.current, Host):
            host.current = Host()
        if self.loaded is None:
            self.loaded = self.baked or self.load()
        return self.loaded


plugin = Plugin()


def finished(function):
    """After each call, what was printed last is logged."""

    @functools.wraps(function)
    def run(*arguments):
        try:
            return function(*arguments)
        finally:
            for printed in (sys.__stdout__, sys.__stderr__):
                try:
                    printed.flush()
                    printed.buffer.finish()
                except (AttributeError, ValueError):
                    # The tool has closed or replaced it.
                    pass

    return run


class WitWorld(World):
    @finished
    def register(self):
        try:
            found = plugin()
            registered = contract_registration(plugin.registration or runtime.registration(found))
            if plugin.keep:
                plugin.keep()
            return registered
        except loader.LoadError as error:
            raise Err(sendable(str(error)[:4_000])) from None
        except BaseException as error:
            raise Err(sendable(runtime.told(error)[:4_000])) from None

    @finished
    def call(self, tool, arguments, context):
        try:
            output = runtime.call(plugin(), tool, arguments, contract_context(context))
            return contract_output(output)
        except runtime.Failure as failure:
            raise Err(tool_error(failure)) from None
        except loader.LoadError as error:
            raise Err(types.ToolError_Failed(sendable(str(error)[:4_000]))) from None
        except BaseException as error:
            # What leaves this function unsaid stops the component, and nobody hears why.
            raise Err(tool_error(runtime.failure(error))) from None


class Availability(exports.Availability):
    @finished
    def check(self, tool):
        problem = _or_text(lambda: runtime.check(plugin(), tool))
        if problem is not None:
            raise Err(problem)


class SchemaOverride(exports.SchemaOverride):
    @finished
    def describe(self, tool, available):
        try:
            return runtime.describe(plugin(), tool, available)
        except loader.LoadError:
            return None


class Hooks(exports.Hooks):
    @finished
    def request(self, call):
        return _or_err(lambda: runtime.request(plugin(), hooked_call(call)))

    @finished
    def pre_call(self, call):
        return _or_err(lambda: contract_decision(runtime.pre_call(plugin(), hooked_call(call))))

    @finished
    def post_call(self, call, outcome):
        _or_err(lambda: runtime.post_call(plugin(), hooked_call(call), hooked_outcome(outcome)))

    @finished
    def transform(self, call, outcome):
        return _or_err(lambda: runtime.transform(plugin(), hooked_call(call), hooked_outcome(outcome)))


def _or_text(function):
    try:
        return function()
    except BaseException as error:
        return sendable(str(error) if isinstance(error, loader.LoadError) else runtime.told(error))


def _or_err(function):
    try:
        return function()
    except BaseException as error:
        raise Err(runtime.failure(error).message) from None


def contract_registration(found):
    """Writes a registration in the records of the contract."""
    return types.Registration(
        name=sendable(found["name"]),
        version=sendable(found["version"]),
        tools=[contract_tool(tool) for tool in found["tools"]],
        needs=[types.Need(**need) for need in found["needs"]],
        extensions=list(found["extensions"]),
    )


def contract_tool(tool):
    """Writes a tool in the records of the contract."""
    return types.Tool(**{
        **tool,
        "description": sendable(tool["description"]),
        "annotations": types.Annotations(**tool["annotations"]),
        "examples": [types.Example(**example) for example in tool["examples"]],
    })


def contract_context(context):
    """Reads the context of a call."""
    return Context(context.session_id, context.task_id, context.tool_call_id, context.remaining_ms,
                   dict(context.extensions))


def contract_decision(decision):
    """Writes what a hook decides in the variant of the contract."""
    if isinstance(decision, hooks.Block):
        return contract_hooks.Decision_Block(sendable(decision.reason))
    if isinstance(decision, hooks.Ask):
        rule_key = None if decision.rule_key is None else sendable(decision.rule_key)
        return contract_hooks.Decision_Ask(contract_hooks.Question(sendable(decision.message), rule_key))
    return contract_hooks.Decision_Allow()


def contract_output(output):
    """Writes an output in the records of the contract."""
    structured = output.structured
    return types.ToolOutput([contract_block(output, block) for block in output.blocks],
                            None if structured is None else sendable(structured), [])


def contract_block(output, block):
    """Writes a block of an output in the variant of the contract."""
    from toolhost.output import Audio, Image, Json, Text

    if isinstance(block, Text):
        return types.Content_Text(sendable(block.text))
    if isinstance(block, Json):
        return types.Content_Json(sendable(output.written(block.value)))
    if isinstance(block, Image):
        return types.Content_Image(types.Blob(sendable(block.media_type), bytes(block.data)))
    if isinstance(block, Audio):
        return types.Content_Audio(types.Blob(sendable(block.media_type), bytes(block.data)))
    media_type, text = (None if part is None else sendable(part) for part in (block.media_type, block.text))
    return types.Content_Resource(types.ResourceLink(sendable(block.uri), media_type, text))


def tool_error(failure):
    """Writes a failure in the variant of the contract."""
    if failure.kind == "bad-arguments":
        return types.ToolError_BadArguments(types.BadArguments(failure.message, failure.path))
    if failure.kind == "not-available":
        return types.ToolError_NotAvailable(failure.message)
    return types.ToolError_Failed(failure.message)


def hooked_call(call):
    """Reads the call that a hook is asked about."""
    return hooks.HookedCall(call.tool, call.source, json.loads(call.arguments), call.session_id, call.task_id,
                            call.tool_call_id)


def hooked_outcome(outcome):
    """Reads what became of the call that a hook hears of."""
    return hooks.HookedOutcome(outcome.code, outcome.result, outcome.duration_ms)
