"""Type hints as JSON Schema, and JSON as the types of the hints."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import typing
import unittest
import uuid
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict, Union

from toolhost import BadArguments, DefinitionError, Field, testing, tool
from toolhost.hints import NoSchema, shape_of
from toolhost.shapes import Defs


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    """A place.

    Attributes:
        x: To the right.
    """

    x: int
    y: Annotated[int, "Upwards."] = 0
    label: str = dataclasses.field(default="", metadata={"description": "What is there."})
    hidden: int = dataclasses.field(default=1, init=False)


@dataclasses.dataclass
class Tree:
    name: str
    children: list[Tree] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Even:
    n: int

    def __post_init__(self):
        if self.n % 2:
            raise ValueError(f"{self.n} is odd")


class Options(TypedDict, total=False):
    """Some options.

    :param depth: How deep.
    """

    depth: int
    name: Annotated[str, "A name."]


if hasattr(typing, "Required"):

    class Marked(TypedDict):
        a: int
        b: typing.NotRequired[Annotated[int, "B."]]


@dataclasses.dataclass
class Circle:
    kind: Literal["circle"]
    radius: float


@dataclasses.dataclass
class Square:
    kind: Literal["square"]
    side: float


UserId = NewType("UserId", int)
TEXT, INT, NUMBER, NULL = ({"type": kind} for kind in ("string", "integer", "number", "null"))


def schema(hint):
    defs = Defs()
    return defs.close(shape_of(hint).schema(defs))


def read(hint, value):
    return shape_of(hint).read(json.loads(json.dumps(value)), "")


class Schemas(unittest.TestCase):
    def test_every_type(self):
        for hint, expected in [
            (str, TEXT), (int, INT), (float, NUMBER), (bool, {"type": "boolean"}), (None, NULL), (Any, {}), (object, {}),
            (list, {"type": "array"}), (list[int], {"type": "array", "items": INT}),
            (typing.Sequence[str], {"type": "array", "items": TEXT}),
            (set[int], {"type": "array", "items": INT, "uniqueItems": True}),
            (tuple[int, ...], {"type": "array", "items": INT}),
            (tuple[int, str], {"type": "array", "prefixItems": [INT, TEXT], "minItems": 2, "maxItems": 2}),
            (dict, {"type": "object"}), (dict[str, Any], {"type": "object"}),
            (dict[str, int], {"type": "object", "additionalProperties": INT}),
            (dict[int, str], {"type": "object", "propertyNames": {"pattern": "^-?[0-9]+$"}, "additionalProperties": TEXT}),
            (dict[Color, int], {"type": "object", "propertyNames": {"enum": ["red", "blue"]}, "additionalProperties": INT}),
            (dict[Level, int], {"type": "object", "propertyNames": {"enum": ["1", "2"]}, "additionalProperties": INT}),
            (dict[Literal[1, "a", None], Any], {"type": "object", "propertyNames": {"enum": ["1", "a", "null"]}}),
            (typing.List, {"type": "array"}), (typing.Sequence, {"type": "array"}), (typing.Tuple, {"type": "array"}),
            (typing.Set, {"type": "array", "uniqueItems": True}), (typing.Dict, {"type": "object"}),
            (typing.Mapping, {"type": "object"}), (Optional[typing.Dict], {"type": ["object", "null"]}),
            (typing.Tuple[()], {"type": "array", "maxItems": 0}), (tuple[()], {"type": "array", "maxItems": 0}),
            (Color, {"type": "string", "enum": ["red", "blue"]}), (Level, {"type": "integer", "enum": [1, 2]}),
            (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
            (Literal["a", 1, None], {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}),
            (Optional[str], {"type": ["string", "null"]}), (str | None, {"type": ["string", "null"]}),
            (Union[int, str], {"type": ["integer", "string"]}), (Union[int, Any], {}),
            (Optional[list[int]], {"type": ["array", "null"], "items": INT}),
            (Optional[Color], {"anyOf": [{"type": "string", "enum": ["red", "blue"]}, NULL]}),
            (UserId, INT), (datetime.date, {"type": "string", "format": "date"}),
            (datetime.datetime, {"type": "string", "format": "date-time"}), (pathlib.Path, TEXT),
            (uuid.UUID, {"type": "string", "format": "uuid"}),
            (Annotated[int, "How many."], {**INT, "description": "How many."}),
            (Annotated[int, Field("N.", ge=1, lt=9, multiple_of=2)],
             {**INT, "minimum": 1, "exclusiveMaximum": 9, "multipleOf": 2, "description": "N."}),
            (Annotated[str, Field(min_length=1, max_length=3, pattern="^a", format="email", examples=["a"])],
             {**TEXT, "minLength": 1, "maxLength": 3, "pattern": "^a", "format": "email", "examples": ["a"]}),
            (Annotated[decimal.Decimal, Field("The price.", ge=0, lt=9)],
             {**TEXT, "pattern": r"^-?[0-9]+(\.[0-9]+)?$", "description": "The price. (at least 0, less than 9)"}),
            (Annotated[Optional[decimal.Decimal], Field(gt=0)],
             {"type": ["string", "null"], "pattern": r"^-?[0-9]+(\.[0-9]+)?$", "description": "A number, more than 0."}),
            (Annotated[float, Field(ge=decimal.Decimal("0.5"))], {**NUMBER, "minimum": 0.5}),
            (Annotated[list[str], Field(min_length=1)], {"type": "array", "items": TEXT, "minItems": 1}),
            (Annotated[Optional[str], Field(min_length=1)], {"type": ["string", "null"], "minLength": 1}),
            (Annotated[str, {"contentMediaType": "text/html"}], {**TEXT, "contentMediaType": "text/html"}),
        ]:
            self.assertEqual(schema(hint), expected, hint)

    def test_limits_of_a_number_in_a_text_stand_beside_its_docstring(self):
        def pay(a: Annotated[decimal.Decimal, Field(ge=0, le=10)],
                b: Optional[Annotated[decimal.Decimal, Field(ge=0)]] = None,
                c: Annotated[decimal.Decimal, Field("Of its own.", ge=0)] = decimal.Decimal(0),
                d: Annotated[decimal.Decimal, Field(ge=0)] = decimal.Decimal(0)) -> str:
            """Pays.

            Args:
                a: How much to pay.
                b: How much to give back.
                c: Another text.
            """

        found = tool(pay).__toolhost__.parameters()["properties"]
        self.assertEqual({name: schema["description"] for name, schema in found.items()}, {
            "a": "How much to pay. (at least 0, at most 10)",
            "b": "How much to give back. (at least 0)",
            "c": "Of its own. (at least 0)",
            "d": "A number, at least 0.",
        })

    def test_records(self):
        self.assertEqual(schema(Point), {
            "type": "object",
            "properties": {
                "x": {**INT, "description": "To the right."},
                "y": {**INT, "description": "Upwards.", "default": 0},
                "label": {**TEXT, "description": "What is there.", "default": ""},
            },
            "required": ["x"],
            "additionalProperties": False,
        })
        self.assertEqual(schema(Options), {
            "type": "object",
            "properties": {"depth": {**INT, "description": "How deep."}, "name": {**TEXT, "description": "A name."}},
            "additionalProperties": False,
        })
        if hasattr(typing, "Required"):
            self.assertEqual(schema(Marked)["required"], ["a"])
            self.assertEqual(schema(Marked)["properties"]["b"], {**INT, "description": "B."})

    def test_a_type_that_contains_itself_is_an_entry_of_defs(self):
        tree = schema(list[Tree])
        self.assertEqual(tree["items"], {"$ref": "#/$defs/Tree"})
        self.assertEqual(tree["$defs"]["Tree"]["properties"]["children"]["items"], {"$ref": "#/$defs/Tree"})

    def test_constraints_of_other_packages_are_understood(self):
        class Ge:
            ge = 3

        class Doc:
            documentation = "From elsewhere."

        self.assertEqual(schema(Annotated[int, Ge(), Doc()]), {**INT, "minimum": 3, "description": "From elsewhere."})

    def test_types_without_a_schema(self):
        for hint in (bytes, complex, typing.Callable, type, dict[float, int], enum.Enum, list[bytes], BadArguments):
            with self.assertRaises(NoSchema, msg=hint):
                shape_of(hint)

    @unittest.skipUnless(hasattr(typing, "TypeAliasType"), "Python 3.12")
    def test_type_aliases(self):
        names = {}
        exec("type Names = list[str]", names)
        self.assertEqual(schema(names["Names"]), {"type": "array", "items": TEXT})

    @unittest.skipUnless(hasattr(typing, "TypeAliasType"), "Python 3.12")
    def test_type_aliases_that_contain_themselves(self):
        names = {}
        exec("type Json = None | bool | float | str | list[Json] | dict[str, Json]", names)
        found = schema(list[names["Json"]])
        self.assertEqual(found["items"], {"$ref": "#/$defs/Json"})
        self.assertEqual(found["$defs"]["Json"]["anyOf"][4:], [
            {"type": "array", "items": {"$ref": "#/$defs/Json"}},
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/Json"}}])
        self.assertEqual(read(names["Json"], {"a": [1, {"b": None}]}), {"a": [1.0, {"b": None}]})
        self.assertEqual(schema(names["Json"])["$ref"], "#/$defs/Json")


class Reading(unittest.TestCase):
    def test_values_become_the_types_of_the_hints(self):
        for hint, value, expected in [
            (int, 3.0, 3), (float, 3, 3.0), (Color, "red", Color.RED), (Level, 2, Level.HIGH), (set[int], [1, 1], {1}),
            (tuple[int, str], [1, "a"], (1, "a")), (tuple[int, ...], [1, 2], (1, 2)), (dict[int, str], {"1": "a"}, {1: "a"}),
            (dict[Color, int], {"red": 1}, {Color.RED: 1}), (dict[Level, int], {"2": 1}, {Level.HIGH: 1}),
            (dict[Literal[1, 2], str], {"1": "a"}, {1: "a"}), (typing.List, [1], [1]), (typing.Tuple, [1, 2], (1, 2)),
            (typing.Mapping, {"a": 1}, {"a": 1}), (Point, {"x": 1, "y": 2}, Point(1, 2)),
            (Tree, {"name": "a", "children": [{"name": "b"}]}, Tree("a", [Tree("b")])), (Options, {"depth": 1}, {"depth": 1}),
            (Union[int, float], 3, 3), (Union[float, int], 3, 3), (Optional[Color], None, None),
            (Union[Circle, Square], {"kind": "square", "side": 2}, Square("square", 2.0)),
            (datetime.date, "2026-01-31", datetime.date(2026, 1, 31)),
            (datetime.datetime, "2026-01-31T12:00:00Z", datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.timezone.utc)),
            (decimal.Decimal, "1.10", decimal.Decimal("1.10")),
            (Annotated[decimal.Decimal, Field(ge=0, multiple_of=0.1)], "0.3", decimal.Decimal("0.3")), (pathlib.Path, "a/b", pathlib.Path("a/b")), (Any, [1], [1]),
        ]:
            found = read(hint, value)
            self.assertEqual(found, expected, hint)
            self.assertIs(type(found), type(expected), hint)

    def test_wrong_values_are_named_with_their_place(self):
        for hint, value, message, path in [
            (str, 1, "expected a string, got 1", ""), (int, True, "expected an integer, got true", ""),
            (int, 1.5, "expected an integer, got 1.5", ""), (float, "x", 'expected a number, got "x"', ""),
            (list[int], [1, "x"], 'expected an integer, got "x"', "/1"),
            (dict[str, int], {"a/b~": "x"}, 'expected an integer, got "x"', "/a~1b~0"),
            (dict[Literal[1, 2], int], {"3": 1}, 'expected one of "1", "2" as a key, got "3"', "/3"),
            (Color, "green", 'expected one of "red", "blue", got "green"', ""),
            (Literal[1], True, "expected one of 1, got true", ""), (tuple[int, str], [1], "expected a list of 2 values, got [1]", ""),
            (Point, {}, "the field `x` is missing", "/x"), (Point, {"x": 1, "z": 2}, "unknown field `z`; known are x, y, label", "/z"),
            (Point, {"x": 1, "hidden": 2}, "unknown field `hidden`; known are x, y, label", "/hidden"),
            (Tree, {"name": "a", "children": [{"name": 1}]}, "expected a string, got 1", "/children/0/name"),
            (Optional[Point], {"x": "a"}, 'expected an integer, got "a"', "/x"), (Optional[int], "a", 'expected an integer, got "a"', ""),
            (Even, {"n": 3}, "3 is odd", ""), (datetime.date, "x", 'expected a date such as 2026-01-31, got "x"', ""),
            (Annotated[int, Field(ge=1)], 0, "expected at least 1, got 0", ""),
            (Annotated[decimal.Decimal, Field(ge=0)], "-0.01", 'expected at least 0, got "-0.01"', ""),
            (Annotated[Optional[decimal.Decimal], Field(gt=0)], "0", 'expected more than 0, got "0"', ""),
            (Annotated[decimal.Decimal, Field(le=9)], "NaN", 'expected at most 9, got "NaN"', ""),
            (Annotated[decimal.Decimal, Field(multiple_of=0.1)], "0.25", 'expected a multiple of 0.1, got "0.25"', ""),
            (Annotated[str, Field(max_length=2)], "abc", 'expected at most 2 characters, got "abc"', ""),
            (Annotated[str, Field(pattern="^a")], "b", 'expected a text that matches ^a, got "b"', ""),
            (Annotated[list[int], Field(min_length=1)], [], "expected at least 1 entries, got []", ""),
        ]:
            with self.assertRaises(BadArguments, msg=hint) as caught:
                read(hint, value)
            self.assertEqual((caught.exception.message, caught.exception.path), (message, path or None), hint)


class Mistakes(unittest.TestCase):
    def test_limits_are_for_types_that_they_hold_for(self):
        from toolhost import tool

        for hint, message in [
            (Annotated[str, Field(ge=0)], r"`Field\(ge=...\)` applies to numbers, not to a string; remove it"),
            (Annotated[datetime.date, Field(lt=9)], r"`Field\(lt=...\)` applies to numbers, not to a date"),
            (Annotated[bool, Field(multiple_of=2)], r"`Field\(multiple_of=...\)` applies to numbers, not to true or false"),
            (Annotated[int, Field(max_length=2)], r"`Field\(max_length=...\)` applies to strings, lists, sets and dictionaries, not to an integer"),
            (Annotated[Optional[int], Field(pattern="a")], r"`Field\(pattern=...\)` applies to strings, not to an integer or null"),
        ]:
            def limited(x):
                """Takes what is limited."""

            limited.__annotations__["x"] = hint
            with self.assertRaisesRegex(DefinitionError, message, msg=hint):
                testing.parameters(tool(limited))

    def test_a_name_that_is_not_known_is_said(self):
        from toolhost import tool

        @tool
        def broken(x: Nowhere):  # noqa: F821
            """Breaks."""

        with self.assertRaisesRegex(DefinitionError, "broken: the type `Nowhere` is not known"):
            testing.parameters(broken)


if __name__ == "__main__":
    unittest.main()
