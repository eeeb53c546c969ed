"""A small store of the plugin's own, which outlives its calls.

A plugin asks for it with `need.kv()`. Every function is atomic, also between processes, and what
it has written is on disk when it returns. Outside of a host the store is in memory.
"""

from __future__ import annotations

import json
import typing

from . import host
from .errors import ToolError
from .writing import sendable, to_json, unicode


class Error(Exception):
    """Why an operation was not done. Nothing has changed then."""


class NotGranted(Error, ToolError):
    """The store was not granted; the text says how that is done, and goes to the model as it is."""


class Invalid(Error):
    """A key or a value is too large, or a key is empty."""


class Full(Error):
    """There is no room; the text says which limit it is."""


class Unavailable(Error):
    """The store cannot be read or written at present."""


class Malformed(Error):
    """A value is not of the kind that was asked for."""


def get(key: str) -> bytes | None:
    """Returns the value of a key, or None if it has none. A key is 1 to 512 bytes."""
    return host.current.kv_get(sendable(key))


def get_text(key: str) -> str | None:
    """Returns the value of a key as text."""
    value = get(key)
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        raise Malformed(f"the value of `{key}` is no text") from None


def get_json(key: str, default=None):
    """Returns the value of a key, read as JSON, or `default` if it has none."""
    value = get(key)
    try:
        return default if value is None else json.loads(value)
    except ValueError as error:
        raise Malformed(f"the value of `{key}` is no JSON: {error}") from None


def set(key: str, value: bytes | str) -> None:
    """Sets the value of a key, at most 1 MiB by default; a text is written as UTF-8."""
    host.current.kv_set(sendable(key), _bytes(value))


def set_json(key: str, value) -> None:
    """Sets the value of a key to JSON."""
    set(key, to_json(value))


def delete(key: str) -> bool:
    """Removes a key, and says whether it was there."""
    return host.current.kv_delete(sendable(key))


def swap(key: str, expected: bytes | str | None, value: bytes | str | None) -> bool:
    """Sets the value of a key, or removes it if `value` is None, only if its present value is
    `expected` (None: it has no value), and says whether it was.
    """
    expected, value = (None if item is None else _bytes(item) for item in (expected, value))
    return host.current.kv_swap(sendable(key), expected, value)


def update(key: str, change: typing.Callable, default=None):
    """Replaces the JSON value of a key by `change(value)`, and returns the new value.

    Another call may be faster: then `change` is called again, with what that one wrote.
    """
    while True:
        before = get(key)
        after = change(default if before is None else json.loads(before))
        if swap(key, before, to_json(after)):
            return after


def keys(prefix: str = "") -> typing.Iterator[str]:
    """Returns every key that begins with `prefix`, in the order of their bytes.

    They are fetched a thousand at a time. One that is set or deleted meanwhile is among them or
    not; all others are.
    """
    after = None
    while True:
        page = host.current.kv_keys(sendable(prefix), after)
        yield from page
        if len(page) < host.PAGE:
            return
        after = page[-1]


def _bytes(value: bytes | str) -> bytes:
    if isinstance(value, str):
        return unicode(value, "the value").encode()
    if not isinstance(value, (bytes, bytearray, memoryview)):
        # `bytes(5)` would be five zeros.
        raise TypeError(f"the store takes text or bytes, and was given {value!r}; for other values there is `kv.set_json`")
    return bytes(value)
