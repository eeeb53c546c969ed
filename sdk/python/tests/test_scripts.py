"""Scripts: which files they are, how their modules find each other, and what is said of mistakes."""

import marshal
import pathlib
import re
import tempfile
import textwrap
import unittest
from unittest import mock

from toolhost import ToolError, compiled, runtime, testing
from toolhost.loader import LoadError, Script
from toolhost.sources import read_script
from toolhost.tools import Context

TOOL = "from toolhost import tool\n@tool\ndef one(text: str) -> str:\n    'One.'\n    return "


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, **files):
        for name, text in files.items():
            path = self.folder / (name.replace("__slash__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), "utf-8")
        return self.folder

    def mistake(self, **files):
        self.write(**files)
        path = self.folder if "plugin" in files else self.folder / (next(iter(files)) + ".py")
        with self.assertRaises(LoadError) as caught, testing.Plugin(path) as loaded:
            loaded.registration()
        return str(caught.exception)

    def test_one_file(self):
        self.write(words=TOOL + "text.upper()")
        with testing.Plugin(self.folder / "words.py") as loaded:
            self.assertEqual(loaded.registration()["name"], "words")
            self.assertEqual(loaded.call("one", {"text": "a"}).text, "A")

    def test_a_folder_with_modules_and_packages(self):
        self.write(
            plugin="import sibling\nfrom lib import count\nfrom pack import deep\n" + TOOL + "sibling.x + count.x + deep.x",
            sibling="x = 's'", lib__slash__count="x = 'c'", pack____slash____init__="from . import deep\ny = 'p'",
            pack__slash__deep="from . import y0\nfrom .y0 import z\nx = z", pack__slash__y0="z = 'd'",
        )
        (self.folder / "pack").mkdir(exist_ok=True)
        (self.folder / "pack" / "__init__.py").write_text("y = 'p'")
        with testing.Plugin(self.folder) as loaded:
            self.assertEqual(loaded.registration()["name"], "plugin")
            self.assertEqual(loaded.call("one", {"text": ""}).text, "scd")
        import sys

        self.assertFalse({"sibling", "lib", "pack", "pack.deep"} & set(sys.modules))

    @unittest.skipUnless(hasattr(re, "_compiler"), "Python 3.11; a runner has 3.14")
    def test_what_one_instance_compiled_the_next_need_not(self):
        self.write(
            plugin="import collections, dataclasses, re\nimport part\nfrom toolhost import tool\n"
                   "Pair = collections.namedtuple('Pair', 'a b')\nWORD = re.compile(r'(?P<first>[a-z]+)\\b', re.I)\n"
                   "@dataclasses.dataclass\nclass P:\n    x: int = 1\n"
                   "@tool\ndef one(text: str, p: P = P(2)) -> str:\n"
                   "    'One.'\n    import late\n"
                   "    return f'{WORD.match(text)[\"first\"]} {Pair(1, b=p.x)} {part.x} {late.y}'\n"
                   "@tool\ndef two() -> str:\n    'Two.'\n    return part.fail()\n",
            part="x = 'p'\n\ndef fail():\n    raise KeyError('k')\n", late="y = 'l'", broken="def (",
        )
        self.addCleanup(compiled.install())
        self.addCleanup(setattr, compiled, "current", None)
        script = Script(read_script(self.folder))
        first = compiled.current = script.compiled
        runtime.registration(script.load())
        script.unload()
        kept = first.dumps(script.texts)
        self.assertEqual([len(first.modules), len(first.patterns), len(first.snippets) > 1], [3, 1, True])

        ready = compiled.current = compiled.Compiled.loads(kept)
        texts = mock.Mock(return_value=[("plugin.py", ""), ("part.py", "\n\n\nFAILS\n")])
        script = Script(texts, ready)
        re.purge()
        with mock.patch("builtins.compile", side_effect=AssertionError("compiled")):
            plugin = script.load()
            self.addCleanup(script.unload)
            self.assertEqual(runtime.call(plugin, "one", '{"text": "ab cd"}', Context()).text, "ab Pair(a=1, b=2) p l")
        texts.assert_not_called()
        with self.assertRaises(runtime.Failure) as caught:
            runtime.call(plugin, "two", "{}", Context())
        self.assertEqual(caught.exception.message, "KeyError: 'k' (part.py:4)")

    def test_what_another_interpreter_kept_is_nothing(self):
        kept = marshal.dumps(((b"other", 1, 1), ["plugin.py"], {}, {}, {}))
        for data in (None, b"", b"x", kept, kept[:-3]):
            self.assertIsNone(compiled.Compiled.loads(data))

    def test_what_does_not_belong_to_a_script(self):
        self.write(plugin="", a="", test_a="", a_test="", conftest="", tests__slash__b="", lib__slash__c="")
        (self.folder / ".hidden.py").write_text("")
        with testing.Plugin(self.folder) as loaded:
            self.assertEqual(sorted(loaded.script.texts), ["a.py", "lib/c.py", "plugin.py"])
            self.assertEqual(loaded.script.main, "plugin.py")

    def test_links_do_not_belong_to_a_script(self):
        other = tempfile.TemporaryDirectory()
        self.addCleanup(other.cleanup)
        (pathlib.Path(other.name) / "b.py").write_text("x = 1")
        self.write(plugin="", a="")
        (self.folder / "linked.py").symlink_to(self.folder / "a.py")
        (self.folder / "lib").symlink_to(other.name)
        self.assertEqual([name for name, _ in read_script(self.folder)], ["plugin.py", "a.py"])
        (self.folder / "plugin.py").rename(self.folder / "main.py")
        (self.folder / "plugin.py").symlink_to(self.folder / "main.py")
        with self.assertRaisesRegex(LoadError, "plugin.py is a link"):
            read_script(self.folder)

    def test_a_plugin_may_be_called_like_a_module_of_python(self):
        self.write(json=TOOL + "text")
        with testing.Plugin(self.folder / "json.py") as loaded:
            self.assertEqual(loaded.call("one", {"text": "a"}).text, "a")
        self.assertIn("Python has a module `json` already", self.mistake(plugin="", json="x = 1"))

    def test_mistakes_say_file_and_line(self):
        for files, text in [
            ({"words": "x = (\n"}, "words.py:1: SyntaxError: '(' was never closed"),
            ({"words": "def f():\nx = 1\n"}, "words.py:2: IndentationError: expected an indented block after function definition on line 1"),
            ({"words": "\n\nimport numpy_is_not_here\n"}, "words.py:3: no module named 'numpy_is_not_here': "),
            ({"words": "x = 1\ny = x / 0\n"}, "words.py:2: ZeroDivisionError: division by zero"),
            ({"plugin": "import a", "a": "\nraise ValueError('no')"}, "a.py:2: ValueError: no"),
            ({"words": TOOL.replace("str)", "bytes)") + "1"}, "words.py:2: one: parameter `text: bytes` has no JSON Schema; allowed are str, int, "),
            ({"words": TOOL + "1\n" + TOOL + "2"}, "words.py:7: one: there are two tools of this name; the other is at words.py:2"),
            ({"words": "from toolhost import need\n\nneed.http()\n"}, "words.py:3: need.http takes at least one name"),
            ({"words": "import sys\nsys.exit(3)"}, "words.py:2: SystemExit: 3"),
            ({"words": "import json\n"}, "words.py: the plugin defines nothing; make a function a tool with `@tool`"),
            ({"plugin": "import a", "a": ""}, "plugin.py: the plugin defines nothing;"),
            ({"words": "from toolhost import plugin\n\nplugin('words', 1.0)\n" + TOOL + "text"}, "words.py:3: plugin: the version is 1.0; "),
            ({"words": "from toolhost import tool\nclass Words:\n    @tool\n    def count(self, text: str): ...\n"},
             "words.py:3: count: @tool is for functions, and `Words.count` is a method: write a function outside of the class"),
            ({"words": "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: 'Nowhere'\n" + TOOL.replace("str)", "P)") + "1"},
             "words.py:6: one: parameter `text: P`: the type `Nowhere` is not known where `P` is declared: "),
            ({"words": "from toolhost import tool\n@tool(name=3)\ndef one(): ..."}, "words.py:2: one: `name` is 3; it takes a text"),
        ]:
            message = self.mistake(**files)
            self.assertTrue(message.startswith(text), f"{message!r} does not begin with {text!r}")
            self.assertEqual(len(message.splitlines()), 1)

    def test_errors_of_calls_say_file_and_line(self):
        self.write(plugin="import a\n" + TOOL + "a.fail()", a="def fail():\n    return {}['x']")
        with testing.Plugin(self.folder) as loaded, testing.fresh() as memory:
            with self.assertRaisesRegex(ToolError, r"^KeyError: 'x' \(a\.py:2\)$"):
                loaded.call("one", {"text": ""})
        self.assertIn("return {}['x']", memory.logged[0][1])

    def test_errors_of_calls_look_for_no_file(self):
        self.write(plugin="import json\n" + TOOL + "json.loads(text)")
        with testing.Plugin(self.folder) as loaded, testing.fresh() as memory:
            with mock.patch("os.stat", side_effect=AssertionError), mock.patch("tokenize.open", side_effect=AssertionError):
                with self.assertRaisesRegex(ToolError, r"^JSONDecodeError: .* \(plugin\.py:6\)$"):
                    loaded.call("one", {"text": "{"})
        self.assertIn("json.loads(text)\n", memory.logged[0][1])

    def test_what_is_no_script(self):
        with self.assertRaisesRegex(LoadError, "is no plugin"):
            testing.Plugin(self.folder)
        (self.folder / "words.py").write_bytes(b"x = '\xff'")
        with self.assertRaisesRegex(LoadError, "words.py: not UTF-8"):
            testing.Plugin(self.folder / "words.py")


if __name__ == "__main__":
    unittest.main()
