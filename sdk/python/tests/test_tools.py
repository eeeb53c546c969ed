"""Tools: what they register, what they answer, and how they fail."""

import asyncio
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import unittest
from typing import Annotated, Optional, TypedDict

import toolhost
from toolhost import (Audio, BadArguments, Context, DefinitionError, Image, Json, NotAvailable, Output, Resource,
                      Structured, Text, ToolError, declarations, kv, need, runtime, testing, tool)


@dataclasses.dataclass
class Weather:
    city: str
    degrees: float


class Color(enum.Enum):
    RED = "red"


class Case(unittest.TestCase):
    def setUp(self):
        declarations.current = declarations.Plugin("words")

    def registered(self):
        return runtime.registration(declarations.current)

    def definition(self):
        return self.registered()["tools"][0]


class Registration(Case):
    def test_a_plain_tool(self):
        @tool
        def count(text: str, top: int = 3):
            """Counts."""

        self.assertEqual(self.registered(), {
            "name": "words", "version": "0.0.0", "needs": [], "extensions": [],
            "tools": [{
                "name": "count", "toolset": "words", "description": "Counts.",
                "parameters": '{"type":"object","properties":{"text":{"type":"string"},"top":{"type":"integer","default":3}},'
                              '"required":["text"],"additionalProperties":false}',
                "output": None, "emoji": None, "requires_env": [], "max_result_size_chars": None, "overrides": False,
                "has_check": False, "has_dynamic_schema": False,
                "annotations": {"read_only": None, "destructive": None, "idempotent": None, "open_world": None},
                "examples": [], "extensions": [],
            }],
        })
        self.assertEqual(count("a"), None)

    def test_everything_that_can_be_said(self):
        toolhost.plugin("Words!", "1.2.3", extensions={"x-vendor": {"a": 1}})

        def ready():
            return None

        @tool(name="counted", toolset="text", description="Other.", emoji="🔢", read_only=True, destructive=False,
              idempotent=True, open_world=False, requires_env=["LANG"], max_result_size_chars=9, overrides=True,
              check=ready, describe=lambda available: None, extensions={"y": 1},
              examples=[{"text": "é"}, ({"text": "a"}, "x"), ({"text": "a"}, {"n": 1}), '{"text": "b"}'])
        def count(text: str, context: Context):
            """Counts."""

        found = self.registered()
        self.assertEqual((found["name"], found["version"], found["extensions"]), ("Words!", "1.2.3", [("x-vendor", '{"a":1}')]))
        found = found["tools"][0]
        self.assertEqual((found["name"], found["toolset"], found["description"]), ("counted", "text", "Other."))
        self.assertEqual(found["annotations"], {"read_only": True, "destructive": False, "idempotent": True, "open_world": False})
        self.assertEqual(found["examples"], [
            {"arguments": '{"text":"é"}', "expected": None}, {"arguments": '{"text":"a"}', "expected": "x"},
            {"arguments": '{"text":"a"}', "expected": '{"n":1}'}, {"arguments": '{"text":"b"}', "expected": None}])
        self.assertEqual((found["has_check"], found["has_dynamic_schema"], found["overrides"]), (True, True, True))
        self.assertEqual([name for name, _ in found["extensions"]], ["y", "check"])
        self.assertNotIn("context", found["parameters"])

    def test_default_toolsets_are_valid(self):
        for name, toolset in [("My Words!", "my-words"), ("mcp-x", "plugin"), ("", "plugin"), ("a_b", "a_b")]:
            self.assertEqual(toolhost.tools.toolset_of(name), toolset)

    def test_needs(self):
        @tool
        def first(text: str):
            """One."""

        need.read_directory(reason="to read")
        need.write_directory("/out", tools=[first])
        need.http("a.example", "b.example")
        need.env("LANG", tools="first")
        need.secret("KEY", "a.example", header="authorization")
        need.secret("ID", ["a.example"], query="id")
        need.kv()
        need.hooks(["pre-call"], ["*"])
        need.other("later", {"x": 1}, reason="why")
        self.assertEqual([(item["kind"], item["value"], item["tools"], item["reason"]) for item in self.registered()["needs"]], [
            ("dirs", '{"path":"*","access":"ro"}', [], "to read"),
            ("dirs", '{"path":"/out","access":"rw"}', ["first"], ""),
            ("http", '{"hosts":["a.example","b.example"]}', [], ""),
            ("env", '{"names":["LANG"]}', ["first"], ""),
            ("secrets", '{"name":"KEY","hosts":["a.example"],"header":"authorization"}', [], ""),
            ("secrets", '{"name":"ID","hosts":["a.example"],"query":"id"}', [], ""),
            ("kv", "{}", [], ""), ("hooks", '{"events":["pre-call"],"tools":["*"]}', [], ""),
            ("later", '{"x":1}', [], "why")])

    def test_structured_output_has_a_schema(self):
        @tool
        def weather(city: str) -> Structured[Weather]:
            """Tells."""
            return Structured(Weather(city, 3), f"{city}: 3")

        self.assertEqual(json.loads(self.definition()["output"])["required"], ["city", "degrees"])
        output = testing.call(weather, city="Bern")
        self.assertEqual((output.text, output.structured), ("Bern: 3", '{"city":"Bern","degrees":3}'))

    def test_output_by_argument(self):
        class Answer(TypedDict):
            n: int

        @tool(output=Answer)
        def count(text: str):
            """Counts."""
            return {"n": len(text)}

        self.assertEqual(json.loads(self.definition()["output"])["properties"], {"n": {"type": "integer"}})
        output = testing.call(count, text="ab")
        self.assertEqual((output.text, output.structured), ('{"n":2}', '{"n":2}'))

    def test_mistakes(self):
        def declare(function, **said):
            self.setUp()
            tool(**said)(function)
            with self.assertRaises(toolhost.loader.LoadError) as caught:
                self.registered()
            return str(caught.exception)

        def with_bytes(x: bytes): ...
        def with_list_of_bytes(x: list[bytes]): ...
        def without_type(x): ...
        def with_rest(*rest: str): ...
        def with_more(**more: str): ...
        def with_int(n: int): ...

        class Methods:
            def count(self, text: str): ...

        @dataclasses.dataclass
        class Point:
            x: "Nowhere"

        class Options(TypedDict):
            x: "Nowhere"

        def with_unknown(point: Point): ...
        def with_unknown_dict(options: Options): ...
        def with_unreadable(x: "json.Nowhere"): ...
        def with_half_a_dict(x: dict[str]): ...

        for function, said, text in [
            (with_bytes, {}, "with_bytes: parameter `x: bytes` has no JSON Schema; allowed are str, int,"),
            (with_list_of_bytes, {}, "has no JSON Schema (in it, `bytes`); allowed"),
            (without_type, {}, "without_type: parameter `x` has no type; write `x: str`"),
            (with_rest, {}, "with_rest: parameter `*rest: str` has no name of its own"),
            (with_more, {}, "with_more: parameter `**more: str` has no name of its own"),
            (with_int, {"examples": [{"n": "x"}]}, 'with_int: example 1 does not fit the parameters: /n: expected an integer, got "x"'),
            (with_int, {"examples": ["{"]}, "with_int: example 1 is no JSON"),
            (with_int, {"examples": [3]}, "with_int: example 1 is 3; write a dictionary"),
            (with_int, {"output": list[int]}, "with_int: structured output is an object"),
            (with_int, {"output": bytes}, "with_int: output `bytes` has no JSON Schema"),
            (Methods.count, {}, "count: @tool is for functions, and `Registration.test_mistakes.<locals>.Methods.count` is a method"),
            (with_unknown, {}, "with_unknown: parameter `point: Registration.test_mistakes.<locals>.Point`: the type `Nowhere` is not known"),
            (with_unknown_dict, {}, "with_unknown_dict: parameter `options: Registration.test_mistakes.<locals>.Options`: the type `Nowhere`"),
            (with_unreadable, {}, "with_unreadable: the types cannot be read: AttributeError: "),
            (with_half_a_dict, {}, "with_half_a_dict: parameter `x: dict[str]` cannot be read: IndexError"),
            (with_int, {"output": Point}, "with_int: output `Registration.test_mistakes.<locals>.Point`: the type `Nowhere`"),
            (with_int, {"extensions": {"x": object()}}, "with_int: TypeError: a object cannot be written as JSON"),
        ]:
            message = declare(function, **said)
            self.assertRegex(message, r"^test_tools\.py:\d+: ")
            self.assertIn(text, message)

    def test_two_tools_of_one_name(self):
        @tool(name="same")
        def one(text: str): ...

        @tool(name="same")
        def two(text: str): ...

        with self.assertRaisesRegex(toolhost.loader.LoadError, r"same: there are two tools of this name; the other is at test_tools\.py:\d+$"):
            self.registered()

    def test_a_need_for_an_unknown_tool(self):
        tool(lambda: None, name="somebody")
        need.kv(tools=["nobody"])
        with self.assertRaisesRegex(toolhost.loader.LoadError, "'nobody'"):
            self.registered()

    def test_only_functions_are_tools(self):
        with self.assertRaises(DefinitionError):
            tool(3)
        with self.assertRaises(DefinitionError):
            need.secret("K", "a.example")
        with self.assertRaises(DefinitionError):
            need.http()
        with self.assertRaisesRegex(DefinitionError, "need.http takes names, and 5 is none"):
            need.http(5)
        with self.assertRaisesRegex(DefinitionError, "`reason` is 3; it takes a text"):
            need.kv(reason=3)

    def test_what_is_said_of_a_tool_has_the_right_type(self):
        def count(text: str): ...

        for said, text in [
            ({"name": 3}, r"count: `name` is 3; it takes a text"),
            ({"max_result_size_chars": -1}, "it takes a whole number"),
            ({"read_only": "yes"}, "`read_only` is 'yes'; it takes True or False"),
            ({"check": "ready"}, "`check` is 'ready'; it takes a function"),
            ({"requires_env": [3]}, "`requires_env` takes names, and 3 is none"),
        ]:
            with self.assertRaisesRegex(DefinitionError, text):
                tool(**said)(count)

    def test_one_variable_is_no_list_of_letters(self):
        tool(requires_env="TOKEN")(lambda: None)
        need.hooks("pre-call", "terminal")
        found = self.registered()
        self.assertEqual(found["tools"][0]["requires_env"], ["TOKEN"])
        self.assertEqual(found["needs"][0]["value"], '{"events":["pre-call"],"tools":["terminal"]}')

    def test_name_and_version_are_texts(self):
        for given, text in [(("words", 1.0), "plugin: the version is 1.0; it takes .* as texts"), ((3,), "the name is 3")]:
            with self.assertRaisesRegex(DefinitionError, text):
                toolhost.plugin(*given)

    def test_a_context_is_no_argument(self):
        def plain(context: Context): ...
        def optional(context: Optional[Context] = None): ...
        def either(context: "Context | None" = None): ...
        def noted(context: Annotated[Context, "The call."]): ...

        for function in (plain, optional, either, noted):
            self.setUp()
            tool(function)
            self.assertEqual(json.loads(self.definition()["parameters"])["properties"], {}, function)
            self.assertEqual(function.__toolhost__.signature.context, "context")

    def test_a_plugin_that_defines_nothing(self):
        with self.assertRaisesRegex(toolhost.loader.LoadError, "^words: the plugin defines nothing; .*`@tool`"):
            self.registered()
        toolhost.hook("pre-call")(lambda call: None)
        self.assertEqual(self.registered()["tools"], [])


class Answers(Case):
    def answer(self, value):
        @tool
        def give():
            """Gives."""
            return value

        return testing.call(give)

    def test_plain_values(self):
        for value, block in [
            ("a", Text("a")), (3, Json(3)), (1.5, Json(1.5)), (True, Json(True)), ({"a": 1}, Json({"a": 1})), ([1], Json([1])),
            (Weather("x", 1), Json(Weather("x", 1))), (Color.RED, Text("red")),
        ]:
            self.assertEqual(self.answer(value).blocks, [block])
        self.assertEqual(self.answer(None).blocks, [])

    def test_json_of_other_values(self):
        for value, text in [
            ({"é": Color.RED, "w": Weather("x", 1)}, '{"é":"red","w":{"city":"x","degrees":1}}'), ([{3, 1}], "[[1,3]]"),
            (datetime.date(2026, 1, 31), '"2026-01-31"'), (decimal.Decimal("1.10"), '"1.10"'), ({1: "a", Color.RED: 2}, '{"1":"a","red":2}'),
            ({datetime.date(2026, 1, 1): 1}, '{"2026-01-01":1}'), ((n for n in range(2)), "[0,1]"),
        ]:
            output = self.answer(Json(value) if not isinstance(value, dict) else value)
            self.assertEqual((output.blocks[0].__class__, output.text), (Json, text))

    def test_generators_are_read_once(self):
        @tool
        def count(n: int):
            """Counts."""
            yield from range(n)

        @tool
        def nested(n: int):
            """Counts, within."""
            return Structured({"numbers": (number for number in range(n))})

        output = testing.call(count, n=2)
        self.assertEqual((output.blocks, output.text, output.text), ([Json([0, 1])], "[0,1]", "[0,1]"))
        output = testing.call(nested, n=2)
        self.assertEqual((output.text, output.structured, output.text), ('{"numbers":[0,1]}',) * 3)
        self.assertEqual(Output((n for n in "ab"), Json(n for n in "c")).blocks, [Json(["a", "b"]), Json(["c"])])

    def test_blocks(self):
        output = self.answer([Text("see"), Image(b"png"), "more"])
        self.assertEqual(output.blocks, [Text("see"), Image(b"png"), Text("more")])
        output = self.answer(Output("a", {"b": 1}, Audio(b"x"), Resource("file:///x", text="t"), structured={"c": 2}))
        self.assertEqual((output.text, output.structured), ('a\n{"b":1}', '{"c":2}'))

    def test_values_that_are_no_answer(self):
        for value, text in [(object(), "object cannot be written as JSON"), (float("nan"), "not JSON compliant"), (b"x", "Image")]:
            with self.assertRaisesRegex(ToolError, text):
                self.answer(value)

    def test_what_is_lost_is_refused_and_its_place_named(self):
        loop = []
        loop.append(loop)
        for value, text in [
            ({"a": [1, 2, 3, object()]}, r"^TypeError: result\['a'\]\[3\]: a object cannot be written as JSON; return"),
            ([Weather("a", float("nan"))], r"^ValueError: result\[0\]\.degrees: Out of range"),
            ({"a": ["x\ud800"]}, r"^ValueError: result\['a'\]\[0\]: text has half of a surrogate pair \(U\+D800\)"),
            ("\ud800", r"^ValueError: result: text has half of a surrogate pair"),
            (Output(Resource("file:///\ud800")), r"^ValueError: Resource: `uri`: text has half of a surrogate pair"),
            ({1: {"a": {2: lambda: 1}}}, r"^TypeError: result\[1\]\['a'\]\[2\]: a function cannot"),
            ({"a": loop}, r"^ValueError: result\['a'\]: Circular reference"),
        ]:
            with self.assertRaisesRegex(ToolError, text):
                self.answer(value)
        with self.assertRaisesRegex(ValueError, "half of a surrogate pair"):
            kv.set("a", "\ud800")

    def test_blocks_take_what_a_host_can_be_given(self):
        for make, text in [
            (lambda: Image("aGVsbG8="), r"Image: `data` is a str, 'aGVsbG8='; it takes bytes; .*`Image\(base64.b64decode\(text\)\)`"),
            (lambda: Image(b"x", None), 'Image: `media_type` is a NoneType, None; it takes a str such as "image/png"'),
            (lambda: Audio([1]), "Audio: `data` is a list"),
            (lambda: Resource(pathlib.PurePosixPath("/x")), r"Resource: `uri` is a PurePosixPath, .*`path.as_uri\(\)`"),
            (lambda: Resource("file:///x", 3), "Resource: `media_type` is a int"),
            (lambda: Text(3), r"Text: `text` is a int, 3; it takes a str; write `Text\(str\(value\)\)`"),
            (lambda: Structured({}, 3), "Structured: `text` is a int, 3"),
        ]:
            self.setUp()

            @tool
            def give():
                """Gives."""
                return make()

            with self.assertRaises(runtime.Failure) as caught, testing.fresh():
                runtime.call(declarations.current, "give", "{}", Context())
            self.assertRegex(caught.exception.message, r"^TypeError: " + text)
            self.assertRegex(caught.exception.message, r" \(test_tools\.py:\d+\)$")

    def test_async_tools(self):
        @tool
        async def slow(n: int) -> list[int]:
            """Waits."""

            async def one(number):
                await asyncio.sleep(0)
                return number

            return await asyncio.gather(*[one(number) for number in range(n)])

        self.assertEqual(testing.call(slow, n=3).text, "[0,1,2]")

    def test_the_context_is_given(self):
        @tool
        def who(context: Context) -> str:
            """Says."""
            return context.session_id

        self.assertEqual(testing.call(who, context=testing.context(session_id="s")).text, "s")

    def test_positional_only_and_keyword_only(self):
        @tool
        def both(a: int, /, b: int = 2, *, c: int = 3) -> list:
            """Both."""
            return [a, b, c]

        self.assertEqual(testing.call(both, a=1, c=4).text, "[1,2,4]")

    def test_positional_only_arguments_keep_their_places(self):
        @tool
        def place(a: int = 1, b: Optional[int] = None, c: int = 3, /) -> list:
            """Places."""
            return [a, b, c]

        for given, text in [({}, "[1,null,3]"), ({"b": 5}, "[1,5,3]"), ({"c": 7}, "[1,null,7]"), ({"a": 0, "c": 7}, "[0,null,7]")]:
            self.assertEqual(testing.call(place, given).text, text)


class Failures(Case):
    def failed(self, error):
        @tool
        def fail(how: str = ""):
            """Fails."""
            raise error

        with self.assertRaises(runtime.Failure) as caught, testing.fresh():
            runtime.call(declarations.current, "fail", "{}", Context())
        failure = caught.exception
        declarations.current.tools.clear()
        return failure.kind, failure.message, failure.path

    def test_exceptions_become_failures(self):
        kind, message, _ = self.failed(ValueError("no"))
        self.assertEqual(kind, "failed")
        self.assertRegex(message, r"^ValueError: no \(test_tools\.py:\d+\)$")
        self.assertRegex(self.failed(KeyError())[1], r"^KeyError \(test_tools\.py:\d+\)$")
        self.assertRegex(self.failed(SystemExit("bye"))[1], r"^SystemExit: bye")
        self.assertEqual(self.failed(ToolError("no such city")), ("failed", "no such city", None))
        self.assertEqual(self.failed(BadArguments("no", "how")), ("bad-arguments", "no", "/how"))
        self.assertEqual(self.failed(NotAvailable("no key")), ("not-available", "no key", None))
        self.assertEqual(self.failed(kv.NotGranted("run `toolhost grant`"))[1], "run `toolhost grant`")
        self.assertEqual(self.failed(ToolError("a\ud800"))[1], "a?")
        self.assertEqual(len(self.failed(ToolError("x" * 9_000))[1]), 4_000)

    def test_errors_made_of_errors(self):
        self.assertEqual(self.failed(BadArguments(ValueError("no date"), "when")), ("bad-arguments", "no date", "/when"))
        self.assertEqual(self.failed(BadArguments("no", 3)), ("bad-arguments", "no", "/3"))
        self.assertEqual(self.failed(BadArguments("no", "\ud800"))[2], "/?")
        self.assertEqual(self.failed(ToolError(ValueError("no date")))[1], "no date")

        class Mute(Exception):
            def __str__(self):
                raise KeyError("x")

        class MuteToo(ToolError, Mute):
            __str__ = Mute.__str__

        self.assertRegex(self.failed(Mute())[1], r"Mute: \(its text cannot be made: KeyError\) \(test_tools\.py:\d+\)$")
        self.assertEqual(self.failed(MuteToo())[1], "(its text cannot be made: KeyError)")

    def test_testing_says_what_the_component_says(self):
        @tool
        def leave():
            """Leaves."""
            raise SystemExit(3)

        with self.assertRaisesRegex(ToolError, r"^SystemExit: 3 \(test_tools\.py:\d+\)$"):
            testing.call(leave)

    def test_arguments_and_names(self):
        with self.assertRaises(runtime.Failure) as caught:
            runtime.call(declarations.current, "nobody", "{}", Context())
        self.assertEqual(caught.exception.message, "this plugin has no tool `nobody`")

    def test_checks(self):
        def check(answer):
            self.setUp()

            def ready():
                if isinstance(answer, BaseException):
                    raise answer
                return answer

            @tool(check=ready)
            def one():
                """One."""

            return runtime.check(declarations.current, "one")

        async def later(answer):
            await asyncio.sleep(0)
            return answer

        self.assertIsNone(check(None))
        self.assertIsNone(check(True))
        self.assertIsNone(check(later(None)))
        self.assertEqual(check(later("no key")), "no key")
        self.assertEqual(check("no key"), "no key")
        self.assertEqual(check(NotAvailable("no key")), "no key")
        self.assertIn("cannot work", check(False))
        self.assertRegex(check(ValueError("x")), r"^ValueError: x \(test_tools\.py:\d+\)$")

    def test_describe(self):
        @tool(describe=lambda available: {"description": "with " + ", ".join(available)})
        def one():
            """One."""

        self.assertEqual(runtime.describe(declarations.current, "one", ["a", "b"]), '{"description":"with a, b"}')
        self.assertIsNone(runtime.describe(declarations.current, "other", []))

        async def later(available):
            return {"description": f"beside {len(available)}"}

        self.setUp()
        tool(describe=later)(one)
        self.assertEqual(runtime.describe(declarations.current, "one", ["a", "b"]), '{"description":"beside 2"}')


if __name__ == "__main__":
    unittest.main()
