"""Hooks: who hears what, and what becomes of it."""

import unittest

from toolhost import Ask, Block, DefinitionError, HookedCall, HookedOutcome, declarations, hook, runtime

CALL = HookedCall("read_file", "plugin:files", {"path": "/etc/x"})
OUTCOME = HookedOutcome(None, '{"a":1}', 3)


class Hooks(unittest.TestCase):
    def setUp(self):
        self.plugin = declarations.current = declarations.Plugin()

    def test_a_hook_asks_for_its_authority(self):
        @hook("pre-call", "read_*", reason="to look")
        def look(call):
            return None

        self.assertEqual(self.plugin.needs, [{"kind": "hooks", "value": '{"events":["pre-call"],"tools":["read_*"]}',
                                              "tools": [], "reason": "to look"}])
        with self.assertRaisesRegex(DefinitionError, "no event"):
            hook("before")

    def test_request_hooks_see_what_the_one_before_returned(self):
        hook("request")(lambda call: {**call.arguments, "n": 1})
        hook("request")(lambda call: {**call.arguments, "n": call.arguments["n"] + 1})
        hook("request", "other")(lambda call: {})
        self.assertEqual(runtime.request(self.plugin, CALL), '{"path":"/etc/x","n":2}')

    def test_a_block_counts_more_than_a_question(self):
        self.assertIsNone(runtime.pre_call(self.plugin, CALL))
        hook("pre-call", "read_*")(lambda call: Ask("sure?"))
        self.assertEqual(runtime.pre_call(self.plugin, CALL), Ask("sure?"))
        hook("pre-call", "read_file")(lambda call: Block("no") if "/etc/" in call.arguments["path"] else None)
        self.assertEqual(runtime.pre_call(self.plugin, CALL), Block("no"))
        hook("pre-call")(lambda call: False)
        self.plugin.hooks = self.plugin.hooks[-1:]
        with self.assertRaisesRegex(TypeError, "returns Block"):
            runtime.pre_call(self.plugin, CALL)

    def test_what_comes_after_a_call(self):
        heard = []
        hook("post-call")(lambda call, outcome: heard.append((call.tool, outcome.code, outcome.duration_ms)))
        hook("transform")(lambda call, outcome: None)
        hook("transform")(lambda call, outcome: {"was": outcome.json()})
        runtime.post_call(self.plugin, CALL, OUTCOME)
        self.assertEqual(heard, [("read_file", None, 3)])
        self.assertEqual(runtime.transform(self.plugin, CALL, OUTCOME), '{"was":{"a":1}}')

    def test_hooks_may_be_asynchronous(self):
        async def more(call):
            return {"n": 1}

        async def refuse(call):
            return Block("no")

        heard = []

        async def hear(call, outcome):
            heard.append(call.tool)
            return "other"

        hook("request")(more)
        hook("pre-call")(refuse)
        hook("post-call")(hear)
        hook("transform")(hear)
        self.assertEqual(runtime.request(self.plugin, CALL), '{"n":1}')
        self.assertEqual(runtime.pre_call(self.plugin, CALL), Block("no"))
        self.assertEqual(runtime.transform(self.plugin, CALL, OUTCOME), "other")
        runtime.post_call(self.plugin, CALL, OUTCOME)
        self.assertEqual(heard, ["read_file", "read_file"])

    def test_decisions_are_texts(self):
        for make, text in [(lambda: Block(ValueError("x")), r"Block: `reason` is a ValueError, .*as in `str\(error\)`"),
                           (lambda: Ask(3), "Ask: `message` is a int, 3"), (lambda: Ask("a", 3), "Ask: `rule_key`")]:
            with self.assertRaisesRegex(TypeError, text):
                make()

    def test_tools_of_a_hook_may_be_a_list(self):
        hook("pre-call", ["read_*", "write_*"])(lambda call: None)
        self.assertEqual(self.plugin.hooks[0].tools, ("read_*", "write_*"))
        with self.assertRaisesRegex(DefinitionError, "hook takes names, and 3 is none"):
            hook("pre-call", 3)


if __name__ == "__main__":
    unittest.main()
