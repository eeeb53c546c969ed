"""Writes Python values as JSON, and texts so that they can leave the interpreter."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import types
import uuid


def to_json(value, what: str = "the value") -> str:
    """Returns the JSON text of a value.

    Besides what JSON has: dataclasses (objects), enumerations (their values), sets (lists, sorted
    where that is possible), dates and times (ISO 8601), decimals, UUIDs and paths (strings).

    Raises `TypeError` for other values, and `ValueError` for NaN, infinities and text that is not
    Unicode. Both say where in the value it is; the value itself is called `what`.
    """
    try:
        return _written(value)
    except (TypeError, ValueError) as error:
        place, found = _culprit(value, what, error)
        raise type(error)(f"{place}: {found}" if place != what else str(found)) from None


def _written(value) -> str:
    try:
        text = json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except TypeError as error:
        if "keys must be" not in str(error):
            raise
        text = json.dumps(_with_text_keys(value), default=_plain, ensure_ascii=False, allow_nan=False,
                          separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(_not_unicode(error)) from None
    return text


def _culprit(value, place: str, error: Exception) -> tuple[str, Exception]:
    """Returns the innermost place that cannot be written, and why."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [(f"{place}.{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value)]
    elif isinstance(value, dict):
        parts = [(f"{place}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        parts = [(f"{place}[{index}]", item) for index, item in enumerate(value)]
    else:
        parts = []
    for inner, part in parts:
        try:
            _written(part)
        except (TypeError, ValueError) as found:
            # What contains itself has no innermost place.
            is_round = isinstance(found, ValueError) and "Circular" in str(found)
            return (inner, found) if is_round else _culprit(part, inner, found)
    return place, error


def unicode(text: str, what: str) -> str:
    """Returns a text as it is. Raises `ValueError` if it has half of a surrogate pair, which cannot leave."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what}: {_not_unicode(error)}") from None
    return text


def _not_unicode(error: UnicodeEncodeError) -> str:
    half = ord(error.object[error.start])
    return (f"text has half of a surrogate pair (U+{half:04X}), which is not valid Unicode; "
            'return text.encode("utf-8", "replace").decode()')


def _plain(value):
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        try:
            return sorted(value)
        except TypeError:
            return list(value)
    if isinstance(value, (datetime.date, datetime.datetime, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID, pathlib.PurePath)):
        return str(value)
    if isinstance(value, (types.GeneratorType, type({}.keys()), type({}.values()), range)) or hasattr(value, "popleft"):
        return list(value)
    if isinstance(value, types.MappingProxyType):
        return dict(value)
    raise TypeError(
        f"a {type(value).__name__} cannot be written as JSON; return str, int, float, bool, None, lists, "
        "dictionaries, dataclasses, enumerations or dates"
    )


def _with_text_keys(value):
    if isinstance(value, dict):
        return {_key(key): _with_text_keys(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_text_keys(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _with_text_keys(_plain(value))
    return value


def _key(key):
    if isinstance(key, (str, int, float, bool, type(None))) and not isinstance(key, enum.Enum):
        return key
    plain = _plain(key)
    return plain if isinstance(plain, (str, int, float, bool, type(None))) else to_json(plain)


def sendable(text: str) -> str:
    """Returns a text that is valid Unicode: halves of surrogate pairs become `?`."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
