"""Tests of csv-query, without a host: `python3 -m unittest` in this folder."""

import os
import tempfile
import unittest

from plugin import SCORES, csv_query
from toolhost import BadArguments, ToolError, testing

CITIES = "city,country,people\nParis,FR,2100000\nLyon,FR,520000\nBern,CH,134000\nGhost,,\n"


def rows(**arguments):
    return testing.call(csv_query, arguments).blocks[0].value["rows"]


def refused(**arguments):
    try:
        testing.call(csv_query, arguments)
    except ToolError as error:
        return str(error)
    raise AssertionError("nothing was refused")


class Queries(unittest.TestCase):
    def test_columns_rows_and_numbers(self):
        answer = testing.call(csv_query, text=CITIES, select=["people", "city"], limit=2).blocks[0].value
        self.assertEqual(answer, {"columns": ["people", "city"], "rows": [[2100000, "Paris"], [520000, "Lyon"]],
                                  "rows_matched": 4, "rows_total": 4, "next_offset": 2})
        self.assertEqual(rows(text="id,zip\n1,007\n", select=["zip"]), [["007"]])

    def test_conditions(self):
        for column, op, value, names in [
            ("people", ">", 520000, ["Paris"]), ("people", ">=", "520000", ["Paris", "Lyon"]),
            ("country", "=", "FR", ["Paris", "Lyon"]), ("country", "!=", "FR", ["Bern", "Ghost"]),
            ("city", "contains", "ER", ["Bern"]), ("city", "starts_with", "p", ["Paris"]),
            ("city", "<", "C", ["Bern"]), ("people", "<", 1e6, ["Lyon", "Bern"]),
            ("country", "empty", None, ["Ghost"]), ("country", "not_empty", None, ["Paris", "Lyon", "Bern"]),
            ("city", "in", ["Bern", "Lyon"], ["Lyon", "Bern"]), ("people", "not_in", [134000.0], ["Paris", "Lyon", "Ghost"]),
        ]:
            where = [{"column": column, "op": op, "value": value}]
            self.assertEqual(rows(text=CITIES, where=where, select=["city"]), [[name] for name in names], (op, value))

    def test_groups(self):
        functions = ["count", "count_distinct", "sum", "mean", "median", "min", "max"]
        aggregate = [{"function": function, "column": "people"} for function in functions]
        self.assertEqual(rows(text=CITIES, group_by=["country"], aggregate=aggregate + [{"function": "count"}])[0],
                         ["FR", 2, 2, 2620000, 1310000, 1310000, 520000, 2100000, 2])
        self.assertEqual(rows(text=CITIES, aggregate=[{"function": "sum", "column": "people", "name": "all"}]), [[2754000]])
        self.assertEqual(rows(text=CITIES, group_by=["country"], sort=[{"column": "country"}]), [["CH"], ["FR"], [""]])

    def test_sorting_puts_numbers_first_and_empty_cells_last(self):
        text = "x\n10\n9\nb\n\"\"\na\n"
        self.assertEqual(rows(text=text, header=True, sort=[{"column": "x"}]), [[9], [10], ["a"], ["b"], [""]])

    def test_delimiters_headers_and_quotes(self):
        self.assertEqual(rows(text=SCORES, limit=1), [["Ada", "red", 7]])
        self.assertEqual(rows(text="a\tb\n\"x\ny\"\t2\n"), [["x\ny", 2]])
        for mark in ("\u2028", "\x85", "\f", "\v", "\x1c"):
            self.assertEqual(rows(text=f"a,b\n1{mark}x,2\n", select=["b"]), [[2]], repr(mark))
        self.assertEqual(rows(text="a,b\r1,2\r\n3,4\n", select=["b"]), [[2], [4]])
        self.assertEqual(rows(text="1,2\n3,4\n", select=["column2"]), [[2], [4]])
        self.assertEqual(rows(text="a,a\n1,2\n", header=True, select=["a_2"]), [[2]])
        self.assertEqual(rows(text="x\n1\n2\n", select=["x"]), [[1], [2]])

    def test_ragged_rows_are_named(self):
        text = "a,b\n1,2\n3\n4,5,6\n"
        self.assertIn("line 3 has 1 cells, but there are 2 columns (a, b)", refused(text=text))
        self.assertEqual(rows(text=text, ragged="fill"), [[1, 2], [3, ""], [4, 5]])

    def test_mistakes_say_what_there_is(self):
        self.assertEqual(refused(text=CITIES, select=["town"]), "there is no column `town`; there are city, country, people")
        self.assertIn("either `path` or `text`", refused())
        self.assertIn("no rows", refused(text=" \n"))
        self.assertIn("takes a list", refused(text=CITIES, where=[{"column": "city", "op": "in", "value": "x"}]))
        with self.assertRaises(BadArguments) as caught:
            testing.call(csv_query, text=CITIES, where=[{"column": "city", "op": "~"}])
        self.assertEqual(caught.exception.path, "/where/0/op")

    def test_the_answer_is_bounded(self):
        text = "a,b\n" + ("x" * 2_000 + ",y\n") * 200
        answer = testing.call(csv_query, text=text, limit=1_000).blocks[0].value
        self.assertLess(len(str(answer)), 60_000)
        self.assertEqual(answer["next_offset"], len(answer["rows"]))
        self.assertIn("hint", answer)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def test_encodings(self):
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            path = self.write("a.csv", "name,é\nZoë,1\n".encode(encoding))
            self.assertEqual(rows(path=path, select=["name", "é"]), [["Zoë", 1]])
        path = self.write("a.csv", "name,x\nZoë,1\n".encode("cp1252"))
        self.assertIn("pass another `encoding`", refused(path=path))
        self.assertEqual(rows(path=path, encoding="cp1252", select=["name"]), [["Zoë"]])
        self.assertIn("no known encoding", refused(path=path, encoding="klingon"))

    def test_files_that_are_not_there(self):
        self.write("sales.csv", b"a\n1\n")
        self.assertIn("it has sales.csv", refused(path=os.path.join(self.folder, "sale.csv")))
        self.assertIn("toolhost grant csv-query --dir /nowhere:ro", refused(path="/nowhere/x.csv"))
        self.assertIn("is a directory", refused(path=self.folder))


if __name__ == "__main__":
    unittest.main()
