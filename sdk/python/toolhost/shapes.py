"""Shapes of values: each writes its JSON Schema and reads JSON values of it.

Schemas are written inline, in the form models read best; only a type that contains itself becomes
an entry of `$defs`. Which shape a type hint has says `hints`.
"""

from __future__ import annotations

import dataclasses
import decimal
import functools
import json
import re
import typing

from . import docstring
from .errors import BadArguments
from .writing import to_json

@dataclasses.dataclass(frozen=True)
class Field:
    """What an argument means and what is allowed: `Annotated[int, Field("How many.", ge=1)]`.

    `ge`, `gt`, `le`, `lt` and `multiple_of` are for numbers, `Decimal` included; `min_length` and
    `max_length` for texts, lists, sets and dictionaries; `pattern` and `format` for texts. A limit
    on a type that it is not for is an error when the plugin is loaded. `examples` and `schema` (keys
    of JSON Schema, added as they are) are for the model only.
    """

    description: str | None = None
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None
    examples: list | None = None
    schema: dict | None = None


class Shape:
    """Any JSON value."""

    #: What an error says was expected.
    noun = "a value"

    def schema(self, defs: Defs) -> dict:
        """Returns the JSON Schema."""
        return {}

    def read(self, value, path: str):
        """Returns the Python value of a JSON value, or raises `BadArguments`."""
        return value


class Defs:
    """The schemas of types that contain themselves."""

    def __init__(self):
        self.entries: dict[str, dict] = {}
        self.open: dict[type, str | None] = {}

    def inline(self, record: Record | Named) -> dict:
        """Writes a record where it stands, or refers to it if it is being written already."""
        owner = record.owner
        if owner in self.open:
            self.open[owner] = name = self.open[owner] or owner.__name__
            return {"$ref": f"#/$defs/{name}"}
        for name, (known, _) in self.entries.items():
            if known is owner:
                return {"$ref": f"#/$defs/{name}"}
        self.open[owner] = None
        schema = record.body(self)
        name = self.open.pop(owner)
        if name is None:
            return schema
        self.entries[name] = (owner, schema)
        return {"$ref": f"#/$defs/{name}"}

    def close(self, schema: dict) -> dict:
        """Returns the whole schema, with what it refers to."""
        if self.entries:
            schema = {**schema, "$defs": {name: entry for name, (_, entry) in self.entries.items()}}
        return schema


def _wrong(shape: Shape, value, path: str) -> BadArguments:
    return BadArguments(f"expected {shape.noun}, got {_shown(value)}", path)


def _shown(value) -> str:
    text = to_json(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Text(Shape):
    noun = "a string"

    def schema(self, defs):
        return {"type": "string"}

    def read(self, value, path):
        if not isinstance(value, str):
            raise _wrong(self, value, path)
        return value


class Integer(Shape):
    noun = "an integer"

    def schema(self, defs):
        return {"type": "integer"}

    def read(self, value, path):
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong(self, value, path)
        return value


class Number(Shape):
    noun = "a number"

    def schema(self, defs):
        return {"type": "number"}

    def read(self, value, path):
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise _wrong(self, value, path)
        return float(value)


class Boolean(Shape):
    noun = "true or false"

    def schema(self, defs):
        return {"type": "boolean"}

    def read(self, value, path):
        if not isinstance(value, bool):
            raise _wrong(self, value, path)
        return value


class Null(Shape):
    noun = "null"

    def schema(self, defs):
        return {"type": "null"}

    def read(self, value, path):
        if value is not None:
            raise _wrong(self, value, path)
        return None


class Parsed(Shape):
    """A text that a constructor reads, such as a date; `is_number` if what it gives is one."""

    def __init__(self, noun: str, parse, keys: dict, is_number: bool = False):
        self.noun, self.parse, self.keys, self.is_number = noun, parse, keys, is_number

    def schema(self, defs):
        return {"type": "string", **self.keys}

    def read(self, value, path):
        if not isinstance(value, str):
            raise _wrong(self, value, path)
        try:
            return self.parse(value)
        except (ValueError, ArithmeticError):
            raise _wrong(self, value, path) from None


class Array(Shape):
    noun = "a list"

    def __init__(self, items: Shape, make=list):
        self.items, self.make = items, make

    def schema(self, defs):
        schema = {"type": "array"}
        if items := self.items.schema(defs):
            schema["items"] = items
        if self.make in (set, frozenset):
            schema["uniqueItems"] = True
        return schema

    def read(self, value, path):
        if not isinstance(value, list):
            raise _wrong(self, value, path)
        items = [self.items.read(item, f"{path}/{number}") for number, item in enumerate(value)]
        try:
            return items if self.make is list else self.make(items)
        except TypeError as error:
            raise BadArguments(str(error), path) from None


class Tuple(Shape):
    def __init__(self, items: list[Shape]):
        self.items = items
        self.noun = f"a list of {len(items)} values"

    def schema(self, defs):
        count = len(self.items)
        schema = {"type": "array", "prefixItems": [item.schema(defs) for item in self.items]}
        return {**schema, "minItems": count, "maxItems": count} if count else {"type": "array", "maxItems": 0}

    def read(self, value, path):
        if not isinstance(value, list) or len(value) != len(self.items):
            raise _wrong(self, value, path)
        pairs = enumerate(zip(self.items, value))
        return tuple(shape.read(item, f"{path}/{number}") for number, (shape, item) in pairs)


class Map(Shape):
    noun = "an object"

    def __init__(self, keys: Shape, values: Shape):
        self.keys, self.values = keys, values
        #: What the keys are in JSON, where they are all texts, if there are only some.
        self.texts: dict[str, object] = {}
        if isinstance(keys, Choice):
            self.texts = {value if isinstance(value, str) else to_json(value): member
                          for value, member in keys.values.items()}

    def schema(self, defs):
        schema = {"type": "object"}
        if isinstance(self.keys, Integer):
            schema["propertyNames"] = {"pattern": "^-?[0-9]+$"}
        elif isinstance(self.keys, Choice):
            schema["propertyNames"] = {"enum": list(self.texts)}
        if values := self.values.schema(defs):
            schema["additionalProperties"] = values
        return schema

    def read(self, value, path):
        if not isinstance(value, dict):
            raise _wrong(self, value, path)
        return {self._key(key, path): self.values.read(item, path + pointer(key)) for key, item in value.items()}

    def _key(self, key, path):
        if isinstance(self.keys, Choice):
            if key not in self.texts:
                allowed = ", ".join(map(to_json, self.texts))
                raise BadArguments(f"expected one of {allowed} as a key, got {_shown(key)}", path + pointer(key))
            return self.texts[key]
        if isinstance(self.keys, Integer) and re.fullmatch("-?[0-9]+", key):
            key = int(key)
        return self.keys.read(key, path + pointer(key))


class Choice(Shape):
    """One of several values: an `Enum`, which gives its members, or a `Literal`."""

    def __init__(self, values: dict):
        self.values = {}
        for value, member in values.items():
            self.values[value] = member
        self.noun = "one of " + ", ".join(to_json(value) for value in self.values)

    def schema(self, defs):
        names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
        kinds = list(dict.fromkeys(names[type(value)] for value in self.values))
        return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(self.values)}

    def read(self, value, path):
        for known, member in self.values.items():
            if known == value and isinstance(known, bool) == isinstance(value, bool):
                return member
        raise _wrong(self, value, path)


class Record(Shape):
    """An object with named fields: the parameters of a function, a dataclass, or a TypedDict."""

    noun = "an object"

    def __init__(self, owner, make):
        self.owner, self.make = owner, make
        self.fields: dict[str, Shape] = {}
        self.required: list[str] = []
        self.defaults: dict[str, object] = {}

    def add(self, name: str, shape: Shape, required: bool, default=dataclasses.MISSING) -> None:
        """Adds a field; a default that is None or no JSON is not shown to the model."""
        self.fields[name] = shape
        if required:
            self.required.append(name)
        if default is not dataclasses.MISSING and default is not None:
            self.defaults[name] = default

    def schema(self, defs):
        return defs.inline(self)

    def body(self, defs: Defs) -> dict:
        """The schema itself."""
        properties = {name: shape.schema(defs) for name, shape in self.fields.items()}
        for name, default in self.defaults.items():
            try:
                properties[name] = {**properties[name], "default": _plain(default)}
            except (TypeError, ValueError):
                pass
        schema = {"type": "object", "properties": properties}
        if self.required:
            schema["required"] = list(self.required)
        return {**schema, "additionalProperties": False}

    def read(self, value, path):
        if not isinstance(value, dict):
            raise _wrong(self, value, path)
        known = ", ".join(self.fields) or "none"
        for name in value:
            if name not in self.fields:
                raise BadArguments(f"unknown field `{name}`; known are {known}", path + pointer(name))
        for name in self.required:
            if name not in value:
                raise BadArguments(f"the field `{name}` is missing", path + pointer(name))
        fields = {name: self.fields[name].read(item, path + pointer(name)) for name, item in value.items()}
        try:
            return self.make(**fields)
        except (ValueError, TypeError) as error:
            if isinstance(error, BadArguments):
                raise
            raise BadArguments(str(error), path) from error


class Named(Shape):
    """What the name of a `type` statement stands for, which may have that name in it."""

    def __init__(self, owner):
        self.owner = owner
        self.inner: Shape | None = None

    @property
    def noun(self) -> str:
        return self.inner.noun if self.inner else self.owner.__name__

    def schema(self, defs):
        return defs.inline(self)

    def body(self, defs: Defs) -> dict:
        """The schema itself."""
        return self.inner.schema(defs)

    def read(self, value, path):
        return self.inner.read(value, path)


class Union(Shape):
    def __init__(self, members: list[Shape]):
        self.members = members
        # `float | int`: an integer stays one.
        self.by_exactness = sorted(members, key=lambda member: isinstance(member, Number))
        self.noun = " or ".join(dict.fromkeys(member.noun for member in members))

    def schema(self, defs):
        schemas = []
        for member in self.members:
            schema = member.schema(defs)
            if schema not in schemas:
                schemas.append(schema)
        if {} in schemas:
            return {}
        if len(schemas) == 1:
            return schemas[0]
        # The short form, where all but null is one simple type.
        others = [schema for schema in schemas if schema != {"type": "null"}]
        simple = all(isinstance(schema.get("type"), str) for schema in schemas)
        if simple and (all(list(schema) == ["type"] for schema in schemas)
                       or len(others) == 1 and not {"enum", "const"} & set(others[0])):
            kinds = [schema["type"] for schema in others] + ["null"] * (len(others) < len(schemas))
            return {**others[0], "type": kinds}
        return {"anyOf": schemas}

    def read(self, value, path):
        errors = []
        for member in self.by_exactness:
            try:
                return member.read(value, path)
            except BadArguments as error:
                errors.append((member, error))
        # The one whose kind fits tells most about what is wrong inside.
        inner = [error for _, error in errors if (error.path or "") != path]
        choices = [member for member, _ in errors if not isinstance(member, Null)]
        if len(inner) == 1:
            raise inner[0]
        if len(choices) == 1 and value is not None:
            raise next(error for member, error in errors if member is choices[0])
        raise _wrong(self, value, path)


class Limits(str):
    """A description that says no more than the limits of a number in a text."""

    def __new__(cls, words: str):
        made = super().__new__(cls, f"A number, {words}.")
        made.words = words
        return made


class Constrained(Shape):
    """A shape with a description or limits."""

    NUMBERS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum",
               "multiple_of": "multipleOf"}
    WORDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than",
             "multiple_of": "a multiple of"}

    def __init__(self, inner: Shape, field: Field):
        self.inner, self.field, self.noun = inner, field, inner.noun

    def schema(self, defs):
        schema, field = dict(self.inner.schema(defs)), self.field
        limits = {name: getattr(field, name) for name in self.NUMBERS if getattr(field, name) is not None}
        description = field.description
        if limits and schema.get("type") in ("string", ["string", "null"]):
            # JSON Schema compares numbers only: what is a number in a text is told in words.
            words = ", ".join(f"{self.WORDS[name]} {limit}" for name, limit in limits.items())
            description = f"{description} ({words})" if description else Limits(words)
        else:
            for name, limit in limits.items():
                schema[self.NUMBERS[name]] = float(limit) if isinstance(limit, decimal.Decimal) else limit
        what = schema.get("type")
        what = [kind for kind in what if kind != "null"][0] if isinstance(what, list) else what
        lengths = {"array": ("minItems", "maxItems"), "object": ("minProperties", "maxProperties")}
        least, most = lengths.get(what, ("minLength", "maxLength"))
        for key, value in ((least, field.min_length), (most, field.max_length), ("pattern", field.pattern),
                           ("format", field.format), ("examples", field.examples),
                           ("description", description)):
            if value is not None:
                schema[key] = value
        return {**schema, **(field.schema or {})}

    def read(self, value, path):
        read = self.inner.read(value, path)
        number = read if isinstance(read, decimal.Decimal) else value
        if problem := self._number_problem(number) or self._problem(value):
            raise BadArguments(f"expected {problem}, got {_shown(value)}", path)
        return read

    def _number_problem(self, value) -> str | None:
        if not isinstance(value, (int, float, decimal.Decimal)) or isinstance(value, bool):
            return None
        for name, words in self.WORDS.items():
            limit = getattr(self.field, name)
            if limit is not None and not self._holds(name, value, limit):
                return f"{words} {limit}"
        return None

    @staticmethod
    def _holds(name: str, value, limit) -> bool:
        if isinstance(value, decimal.Decimal) or isinstance(limit, decimal.Decimal):
            # 0.1 is meant as it is written, not as the float next to it.
            value, limit = decimal.Decimal(str(value)), decimal.Decimal(str(limit))
            if not value.is_finite():
                return False
        return {"ge": lambda: value >= limit, "gt": lambda: value > limit, "le": lambda: value <= limit,
                "lt": lambda: value < limit, "multiple_of": lambda: value % limit == 0}[name]()

    def _problem(self, value) -> str | None:
        field = self.field
        if isinstance(value, (str, list, dict)):
            unit = "characters" if isinstance(value, str) else "entries"
            if field.min_length is not None and len(value) < field.min_length:
                return f"at least {field.min_length} {unit}"
            if field.max_length is not None and len(value) > field.max_length:
                return f"at most {field.max_length} {unit}"
        if isinstance(value, str) and field.pattern is not None and not re.search(field.pattern, value):
            return f"a text that matches {field.pattern}"
        return None


def pointer(name) -> str:
    """Returns one step of a JSON Pointer."""
    return "/" + str(name).replace("~", "~0").replace("/", "~1")


def _plain(value):
    return json.loads(to_json(value))


class Described(Shape):
    """A shape with a description in a docstring, which counts if it has none of its own."""

    def __init__(self, inner: Shape, docs: docstring.Docs, name: str):
        self.inner, self.docs, self.name = inner, docs, name
        self.read = inner.read

    @property
    def noun(self) -> str:
        return self.inner.noun

    def schema(self, defs):
        schema = self.inner.schema(defs)
        text, own = self.docs.of(self.name), schema.get("description")
        if text and isinstance(own, Limits):
            text = f"{text} ({own.words})"
        elif own is not None:
            return schema
        return {**schema, "description": text} if text else schema


class Later(Shape):
    """A shape that is made when it is asked for first: most calls give few of the arguments they could."""

    def __init__(self, make: typing.Callable[[], Shape]):
        self._make = make

    @functools.cached_property
    def _inner(self) -> Shape:
        return self._make()

    @property
    def noun(self) -> str:
        return self._inner.noun

    def schema(self, defs):
        return self._inner.schema(defs)

    def read(self, value, path):
        return self._inner.read(value, path)
