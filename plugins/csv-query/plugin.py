"""Queries over CSV files: the example of a plugin in Python that reads a granted directory.

`csv_query` is the tool; `table.py` reads files, `query.py` filters, groups and sorts.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import query
import table
from toolhost import BadArguments, Field, need, plugin, tool

plugin("csv-query", "1.0.0")
need.read_directory("*", reason="to read the CSV files you ask about")

SCORES = "name;team;points\nAda;red;7\nBob;blue;3\nCleo;red;5\n"


@dataclass
class Condition:
    """What a row must fulfil; numbers are compared as numbers, other values as text.

    Attributes:
        column: The column's name.
        op: How it is compared; `contains`, `starts_with` and `ends_with` ignore case; `empty` and `not_empty` take no value.
        value: What it is compared with; a list for `in` and `not_in`.
    """

    column: str
    op: Literal["=", "!=", "<", "<=", ">", ">=", "in", "not_in", "contains", "starts_with", "ends_with", "empty",
                "not_empty"]
    value: str | float | int | bool | list[str | float | int] | None = None


@dataclass
class Aggregate:
    """One value for each group.

    Attributes:
        function: What is computed; cells that are no numbers are left out of sum, mean and median.
        column: The column it is computed of; `count` without one counts rows.
        name: The name of the new column, by default such as `sum_points`.
    """

    function: Literal["count", "count_distinct", "sum", "mean", "median", "min", "max"]
    column: str | None = None
    name: str | None = None


@dataclass
class Order:
    """A column to sort by.

    Attributes:
        column: Its name; after grouping, one of the answer's columns.
        descending: Whether the largest comes first.
    """

    column: str
    descending: bool = False


@tool(
    toolset="data",
    emoji="📊",
    read_only=True,
    idempotent=True,
    open_world=False,
    max_result_size_chars=60_000,
    examples=[
        ({"text": SCORES, "where": [{"column": "points", "op": ">", "value": 4}], "select": ["name"]},
         '"rows":[["Ada"],["Cleo"]]'),
        ({"text": SCORES, "group_by": ["team"], "aggregate": [{"function": "sum", "column": "points"}],
          "sort": [{"column": "sum_points", "descending": True}]},
         '"rows":[["red",12],["blue",3]]'),
    ],
)
def csv_query(
    path: str | None = None,
    text: str | None = None,
    select: list[str] | None = None,
    where: list[Condition] | None = None,
    group_by: list[str] | None = None,
    aggregate: list[Aggregate] | None = None,
    sort: list[Order] | None = None,
    limit: Annotated[int, Field(ge=0, le=1_000)] = 100,
    offset: Annotated[int, Field(ge=0)] = 0,
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    ragged: Literal["error", "fill"] = "error",
) -> dict:
    """Selects, filters, groups and sorts the rows of a CSV file, or of CSV text.

    Delimiter, header and encoding are found out unless they are given. The answer has `columns`,
    `rows` (lists in the order of the columns), `rows_matched` (before limit and offset) and
    `rows_total`. To see what a file is like, give its path and a small limit.

    Args:
        path: The file, such as `sales.csv` or an absolute path; its directory must be granted.
        text: CSV text, in place of a path.
        select: The columns of the answer, by default all.
        where: Conditions; rows that fulfil all of them are kept.
        group_by: Columns whose equal values make one row.
        aggregate: What is computed for each group, or without group_by for all rows together.
        sort: What the rows are sorted by, the most important first.
        limit: The most rows of the answer; 0 tells columns and numbers only.
        offset: How many rows are left out at the beginning.
        delimiter: What separates cells, such as `;`.
        header: Whether the first row has names; without, the columns are column1, column2, ...
        encoding: Such as `cp1252`; by default UTF-8, or what a byte order mark says.
        ragged: What to do with rows of more or fewer cells than the header: stop, or fill up and cut off.
    """
    if (path is None) == (text is None):
        raise BadArguments("give either `path` or `text`", "path")
    data = table.read_file(path, encoding) if text is None else text
    found = table.Table(data, delimiter, header, ragged == "fill")
    return query.run(found, select, where or [], group_by, aggregate, sort or [], limit, offset)
