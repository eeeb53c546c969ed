"""Docstrings in three manners."""

import unittest

from toolhost.docstring import parse


class Docstrings(unittest.TestCase):
    def test_google(self):
        text = """Counts words.

        More about it.

        Args:
            text: The text,
                which goes on.
            top (int, optional): How many: at least 1.
            *rest: Others.

        Returns:
            Numbers.
        """
        self.assertEqual(parse(text), ("Counts words.\n\nMore about it.", {
            "text": "The text, which goes on.", "top": "How many: at least 1.", "rest": "Others."}))

    def test_sphinx(self):
        text = """Counts words.

        :param text: The text,
            which goes on.
        :param int top: How many.
        :type text: str
        :returns: Numbers.
        """
        self.assertEqual(parse(text), ("Counts words.", {"text": "The text, which goes on.", "top": "How many."}))

    def test_numpy(self):
        text = """Counts words.

        Parameters
        ----------
        text : str
            The text,
            which goes on.
        a, b : int
            Two.

        Returns
        -------
        int
            A number.
        """
        self.assertEqual(parse(text), ("Counts words.", {"text": "The text, which goes on.", "a": "Two.", "b": "Two."}))

    def test_none_and_plain(self):
        self.assertEqual(parse(None), ("", {}))
        self.assertEqual(parse("One: two.\n\n    - a: b"), ("One: two.\n\n- a: b", {}))
        self.assertEqual(parse("Does it.\n\nRaises:\n    ToolError: never\n"), ("Does it.", {}))


if __name__ == "__main__":
    unittest.main()
