"""Which shape a type hint has."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import pathlib
import types
import typing
import uuid

from . import docstring
from .errors import DefinitionError
from .shapes import (Array, Boolean, Choice, Constrained, Described, Field, Integer, Map, Named, Null, Number, Parsed,
                     Record, Shape, Text, Tuple, Union)

ALLOWED = (
    "str, int, float, bool, None, list, tuple, set, dict, dataclasses, TypedDict, Enum, Literal, "
    "Optional, Union, Any, Annotated, date, datetime, time, Decimal, UUID and Path"
)


def _simple() -> dict:
    def time(text):
        return datetime.time.fromisoformat(text.replace("Z", "+00:00"))

    def moment(text):
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))

    sequence, mapping = (lambda: Array(Shape())), (lambda: Map(Text(), Shape()))
    return {
        str: Text, int: Integer, float: Number, bool: Boolean, None: Null, type(None): Null,
        typing.Any: Shape, object: Shape, list: sequence, dict: mapping,
        tuple: lambda: Array(Shape(), tuple), set: lambda: Array(Shape(), set),
        frozenset: lambda: Array(Shape(), frozenset),
        datetime.date: lambda: Parsed("a date such as 2026-01-31", datetime.date.fromisoformat, {"format": "date"}),
        datetime.datetime: lambda: Parsed("a time such as 2026-01-31T12:00:00Z", moment, {"format": "date-time"}),
        datetime.time: lambda: Parsed("a time of day such as 12:00:00", time, {"format": "time"}),
        decimal.Decimal: lambda: Parsed("a decimal number as a string", decimal.Decimal,
                                        {"pattern": r"^-?[0-9]+(\.[0-9]+)?$"}, is_number=True),
        uuid.UUID: lambda: Parsed("a UUID", uuid.UUID, {"format": "uuid"}),
        pathlib.Path: lambda: Parsed("a path", pathlib.Path, {}),
        pathlib.PurePath: lambda: Parsed("a path", pathlib.PurePath, {}),
        pathlib.PurePosixPath: lambda: Parsed("a path", pathlib.PurePosixPath, {}),
    }


_SIMPLE = _simple()
_LISTS = {list: list, tuple: tuple, set: set, frozenset: frozenset, collections.abc.Sequence: list,
          collections.abc.MutableSequence: list, collections.abc.Iterable: list, collections.abc.Collection: list,
          collections.abc.Set: frozenset, collections.abc.MutableSet: set}
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


class NoSchema(Exception):
    """A type has no JSON Schema; the argument is the type."""


def shape_of(hint, open_records: dict | None = None) -> Shape:
    """Returns the shape of a type hint, or raises `NoSchema`."""
    records = {} if open_records is None else open_records
    try:
        if hint in _SIMPLE:
            return _SIMPLE[hint]()
    except TypeError:
        pass
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(origin, type) and not hasattr(hint, "__args__"):
        # `List`, `Dict` and so on, without saying of what; `tuple[()]` says it.
        return shape_of(origin, records)
    if origin is typing.Annotated:
        return _annotated(shape_of(arguments[0], records), arguments[1:])
    if origin is typing.Union or origin is types.UnionType:
        return Union([shape_of(member, records) for member in arguments])
    if origin is typing.Literal:
        return _choice({value: value for value in arguments}, hint)
    if getattr(origin, "_name", None) in ("Required", "NotRequired", "ReadOnly", "Final"):
        return shape_of(arguments[0], records)
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        return Tuple([shape_of(item, records) for item in arguments if item != ()])
    if origin in _LISTS:
        return Array(shape_of(arguments[0], records), _LISTS[origin])
    if origin in _MAPS:
        return _map(hint, arguments, records)
    if hint in _LISTS:
        return Array(Shape(), _LISTS[hint])
    if hint in _MAPS:
        return Map(Text(), Shape())
    if hasattr(hint, "__supertype__"):
        return shape_of(hint.__supertype__, records)
    if type(hint).__name__ == "TypeAliasType" and origin is None:
        return _alias(hint, records)
    if isinstance(hint, type):
        return _of_class(hint, records)
    raise NoSchema(hint)


def _alias(hint, records: dict) -> Named:
    """`type Json = str | list[Json]`: its value may have the alias in it."""
    if hint not in records:
        named = records[hint] = Named(hint)
        named.inner = shape_of(hint.__value__, records)
    return records[hint]


def _of_class(hint: type, records: dict) -> Shape:
    if hint in records:
        return records[hint]
    if issubclass(hint, enum.Enum):
        return _choice({member.value: member for member in hint}, hint)
    if dataclasses.is_dataclass(hint):
        return _dataclass(hint, records)
    if typing.is_typeddict(hint):
        return _typed_dict(hint, records)
    raise NoSchema(hint)


def _choice(values: dict, hint) -> Choice:
    if not all(type(value) in (str, int, float, bool, type(None)) for value in values) or not values:
        raise NoSchema(hint)
    return Choice(values)


def _map(hint, arguments, records) -> Map:
    keys = shape_of(arguments[0], records)
    if not isinstance(keys, (Text, Integer, Choice)) and type(keys) is not Shape:
        raise NoSchema(hint)
    return Map(keys, shape_of(arguments[1], records))


def _annotated(shape: Shape, extras) -> Shape:
    """Understands `Field`, a text, and whatever has the attributes of `Field` by other names."""
    found: dict[str, object] = {}
    for extra in extras:
        if isinstance(extra, str):
            found.setdefault("description", extra)
        elif isinstance(extra, dict):
            found["schema"] = {**found.get("schema", {}), **extra}
        else:
            for name in Field.__dataclass_fields__:
                value = getattr(extra, name, None)
                if value is not None and not callable(value):
                    found[name] = value
            text = getattr(extra, "documentation", None)
            if isinstance(text, str):
                found.setdefault("description", text)
    field = Field(**found)
    _check_limits(shape, field)
    return Constrained(shape, field) if found else shape


_LIMITS = {**dict.fromkeys(Constrained.NUMBERS, "numbers"),
           **dict.fromkeys(("min_length", "max_length"), "strings, lists, sets and dictionaries"),
           **dict.fromkeys(("pattern", "format"), "strings")}


def _check_limits(shape: Shape, field: Field) -> None:
    """Refuses limits that would hold for no value of the type."""
    kinds = _kinds(shape)
    for name, meant in _LIMITS.items():
        if getattr(field, name) is not None and kinds is not None and not kinds & set(meant.replace(" and", ",").split(", ")):
            raise DefinitionError(f"`Field({name}=...)` applies to {meant}, not to {shape.noun}; remove it, or check the "
                                  "value in the function")


def _kinds(shape: Shape) -> set[str] | None:
    """The kinds of values of a type, as limits name them; None if that is not known."""
    match shape:
        case Union():
            members = [_kinds(member) for member in shape.members]
            return None if None in members else set().union(*members)
        case Constrained() | Described():
            return _kinds(shape.inner)
        case Parsed():
            return {"strings", "numbers"} if shape.is_number else {"strings"}
        case Text():
            return {"strings"}
        case Integer() | Number():
            return {"numbers"}
        case Array() | Tuple():
            return {"lists", "sets"}
        case Map() | Record():
            return {"dictionaries"}
        case Boolean() | Null():
            return set()
    return None


def hints_of(owner) -> dict:
    """Returns the type hints of a function or class, with what `Annotated` adds.

    Raises `DefinitionError`, which says what is wrong, and of a class which one it is.
    """
    try:
        return typing.get_type_hints(owner, include_extras=True)
    except NameError as error:
        name = getattr(error, "name", None) or "?"
        where = f"where `{owner.__qualname__}` is declared" if isinstance(owner, type) else "where the tool is declared"
        raise DefinitionError(
            f"the type `{name}` is not known {where}: import it at the top of the module "
            "(not under TYPE_CHECKING), or declare it above", owner if callable(owner) else None
        ) from None
    except Exception as error:
        of = f" of `{owner.__qualname__}`" if isinstance(owner, type) else ""
        raise DefinitionError(f"the types{of} cannot be read: {type(error).__name__}: {error}; allowed are {ALLOWED}",
                              owner if callable(owner) else None) from None


def _dataclass(owner, records) -> Record:
    record = records[owner] = Record(owner, owner)
    hints = hints_of(owner)
    docs = docstring.Docs(owner)
    for field in dataclasses.fields(owner):
        if not field.init:
            continue
        shape = shape_of(hints[field.name], records)
        text = field.metadata.get("description")
        shape = Constrained(shape, Field(description=text)) if text else Described(shape, docs, field.name)
        has_factory = field.default_factory is not dataclasses.MISSING
        default = field.default_factory() if has_factory else field.default
        record.add(field.name, shape, default is dataclasses.MISSING, default)
    return record


def _typed_dict(owner, records) -> Record:
    record = records[owner] = Record(owner, dict)
    docs = docstring.Docs(owner)
    for name, hint in hints_of(owner).items():
        said, required = hint, name in owner.__required_keys__
        while typing.get_origin(said) is not None:
            mark = getattr(typing.get_origin(said), "_name", None)
            if mark in ("Required", "NotRequired"):
                required = mark == "Required"
            elif mark != "ReadOnly" and typing.get_origin(said) is not typing.Annotated:
                break
            said = typing.get_args(said)[0]
        record.add(name, Described(shape_of(hint, records), docs, name), required)
    return record


def name_of(hint) -> str:
    """Returns a type hint as its author would write it."""
    name = None if typing.get_args(hint) else getattr(hint, "__qualname__", None)
    return name or str(hint).replace("typing.", "")
