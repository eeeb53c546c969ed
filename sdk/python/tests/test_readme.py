"""The README says what is so."""

import pathlib
import re
import sys
import unittest

from toolhost import declarations, runtime, testing

HERE = pathlib.Path(__file__).resolve().parent.parent
README = (HERE / "README.md").read_text("utf-8")


class Readme(unittest.TestCase):
    def test_it_lists_the_modules_that_are_preloaded(self):
        sys.path.insert(0, str(HERE / "toolhost" / "component"))
        self.addCleanup(sys.path.pop, 0)
        import toolhost_preload

        listed = README.split("```text\n")[1].split("```")[0].split()
        loaded = [name for name in toolhost_preload.MODULES if not name.startswith("_") or name == "__future__"]
        self.assertEqual(listed, loaded)

    def test_its_first_plugin_works(self):
        declarations.current = declarations.Plugin("words")
        names: dict = {}
        exec(README.split("```python\n")[1].split("```")[0], names)
        self.assertEqual(testing.call(names["tally_words"], text="to be").text, "2")
        self.assertEqual(len(runtime.registration(declarations.current)["tools"]), 1)

    def test_its_needs_and_hooks_are_ones(self):
        declarations.current = declarations.Plugin()
        for block in re.findall(r"```python\n(.*?)```", README, re.S)[2:4]:
            exec(block, {})
        kinds = [need["kind"] for need in runtime.registration(declarations.current)["needs"]]
        self.assertEqual(kinds, ["dirs", "dirs", "http", "secrets", "env", "kv", "hooks"])


if __name__ == "__main__":
    unittest.main()
