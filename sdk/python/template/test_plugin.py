"""Tests of {{name}}, without a host: `python3 -m unittest` in this folder."""

import unittest

from plugin import {{ident}}_count
from toolhost import BadArguments, testing


class Count(unittest.TestCase):
    def test_words_are_counted(self):
        # A tool stays a function...
        self.assertEqual({{ident}}_count("b a b"), {"b": 2, "a": 1})
        # ... and can be called as the host calls it, with arguments as JSON would have them.
        self.assertEqual(testing.call({{ident}}_count, text="b a b", top=1).text, '{"b":2}')

    def test_wrong_arguments_are_refused(self):
        for arguments in ({}, {"text": " "}, {"text": "a", "top": 0}, {"text": "a", "tops": 1}):
            with self.assertRaises(BadArguments):
                testing.call({{ident}}_count, arguments)


class Registration(unittest.TestCase):
    def test_it_registers(self):
        with testing.Plugin(".") as loaded:
            self.assertEqual([tool["name"] for tool in loaded.registration()["tools"]], ["{{ident}}_count"])


if __name__ == "__main__":
    unittest.main()
