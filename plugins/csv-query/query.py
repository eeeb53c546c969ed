"""Filters, groups, sorts and cuts the rows of a table."""

import math
import statistics

import table
from toolhost import BadArguments

ANSWER_CHARS_MAX = 50_000
CELL_CHARS_MAX = 1_000


def run(source, select, where, group_by, aggregate, sort, limit, offset):
    """Answers one query."""
    conditions = [condition(source, item, f"/where/{n}") for n, item in enumerate(where)]
    total, rows = 0, []
    for row in source.rows():
        total += 1
        if all(holds(row) for holds in conditions):
            rows.append(row)
    matched, columns = len(rows), source.columns
    if group_by or aggregate:
        columns, rows = grouped(source, rows, group_by or [], aggregate or [])
    for number, order in reversed(list(enumerate(sort))):
        at = table.index(columns, order.column, f"/sort/{number}/column")
        rows.sort(key=lambda row: sort_key(row[at]), reverse=order.descending)
    if select is not None:
        chosen = [table.index(columns, name, f"/select/{n}") for n, name in enumerate(select)]
        columns, rows = [columns[at] for at in chosen], [[row[at] for at in chosen] for row in rows]
    answer = {"columns": columns, "rows": [], "rows_matched": matched, "rows_total": total}
    if group_by or aggregate:
        answer["groups"] = len(rows)
    if source.ragged:
        answer["rows_ragged"] = source.ragged
    return cut(answer, rows, limit, offset)


def cut(answer, rows, limit, offset):
    """Puts as many rows into the answer as were asked for and fit, and says how to go on."""
    size = 0
    for row in rows[offset : offset + limit]:
        shown = [shorten(value(cell)) for cell in row]
        size += sum(len(str(cell)) + 3 for cell in shown)
        if size > ANSWER_CHARS_MAX:
            answer["hint"] = f"cut at {ANSWER_CHARS_MAX} characters; select fewer columns"
            break
        answer["rows"].append(shown)
    end = offset + len(answer["rows"])
    if end < len(rows) and limit:
        answer["next_offset"] = end
    return answer


def value(cell):
    """Returns a number where the text is exactly how the number is written, so that `007` stays."""
    if not isinstance(cell, str):
        return cell
    for kind in (int, float):
        try:
            number = kind(cell)
        except ValueError:
            continue
        if str(number) == cell and math.isfinite(number):
            return number
    return cell


def shorten(cell):
    """Cuts a long text."""
    if isinstance(cell, str) and len(cell) > CELL_CHARS_MAX:
        return cell[: CELL_CHARS_MAX - 1] + "…"
    return cell


def number_of(cell):
    """Returns a cell as a number, or None if it is none."""
    if isinstance(cell, bool) or cell is None:
        return None
    try:
        number = float(cell)
    except (ValueError, TypeError):
        return None
    return number if math.isfinite(number) else None


def sort_key(cell):
    """Sorts numbers before texts, and empty cells last."""
    if cell is None or cell == "":
        return (2, 0, "")
    number = number_of(cell)
    return (1, 0, str(cell)) if number is None else (0, number, "")


def condition(source, item, path):
    """Returns the function that tells whether a row fulfils a condition."""
    at = source.index(item.column, f"{path}/column")
    op, given = item.op, item.value
    if op in ("empty", "not_empty"):
        return lambda row: (row[at].strip() == "") == (op == "empty")
    if op in ("in", "not_in"):
        if not isinstance(given, list):
            raise BadArguments(f"`{op}` takes a list of values", f"{path}/value")
        members = {comparable(member) for member in given}
        return lambda row: (comparable(row[at]) in members) == (op == "in")
    if given is None or isinstance(given, list):
        raise BadArguments(f"`{op}` takes one value", f"{path}/value")
    if op in ("contains", "starts_with", "ends_with"):
        needle = text_of(given).casefold()
        test = {"contains": str.__contains__, "starts_with": str.startswith, "ends_with": str.endswith}[op]
        return lambda row: test(row[at].casefold(), needle)
    wanted = comparable(given)
    if op in ("=", "!="):
        return lambda row: (comparable(row[at]) == wanted) == (op == "=")
    smaller, equal = op.startswith("<"), op.endswith("=")

    def compares(row):
        cell = comparable(row[at])
        # A text is neither smaller nor larger than a number.
        if type(cell) is not type(wanted):
            return False
        return cell == wanted and equal or (cell < wanted if smaller else cell > wanted)

    return compares


def comparable(cell):
    """Returns what is compared: a number if it is one, else the text."""
    number = number_of(cell)
    return text_of(cell) if number is None else number


def text_of(cell):
    """Returns a JSON value as it would stand in a CSV file."""
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


def grouped(source, rows, group_by, aggregates):
    """Returns the columns and rows of the groups."""
    keys = [source.index(name, f"/group_by/{n}") for n, name in enumerate(group_by)]
    wanted = []
    for number, item in enumerate(aggregates):
        if item.column is None and item.function != "count":
            raise BadArguments(f"`{item.function}` takes a column; there are {', '.join(source.columns)}",
                               f"/aggregate/{number}/column")
        at = None if item.column is None else source.index(item.column, f"/aggregate/{number}/column")
        name = item.name or (item.function if at is None else f"{item.function}_{source.columns[at]}")
        wanted.append((name, item.function, at))
    groups = {} if keys else {(): []}
    for row in rows:
        groups.setdefault(tuple(row[at] for at in keys), []).append(row)
    columns = table.unique([source.columns[at] for at in keys] + [name for name, _, _ in wanted])
    return columns, [[*key, *(computed(function, at, members) for _, function, at in wanted)]
                     for key, members in groups.items()]


def computed(function, at, rows):
    """Computes one value of a group; None if there is nothing to compute it of."""
    if at is None:
        return len(rows)
    cells = [row[at] for row in rows if row[at].strip() != ""]
    if function in ("count", "count_distinct"):
        return len(cells if function == "count" else set(cells))
    if function in ("min", "max"):
        return value((min if function == "min" else max)(cells, key=sort_key)) if cells else None
    numbers = [number for number in map(number_of, cells) if number is not None]
    if not numbers:
        return None
    if function == "sum":
        found = math.fsum(numbers)
    else:
        found = statistics.fmean(numbers) if function == "mean" else statistics.median(numbers)
    return int(found) if found.is_integer() and abs(found) < 1e15 else found
