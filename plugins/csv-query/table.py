"""CSV as a table: encodings, delimiters, headers, and rows that do not fit."""

import codecs
import csv
import io
import os
from collections import Counter

from toolhost import BadArguments, ToolError

BYTES_MAX = 32 << 20
DELIMITERS = (",", ";", "\t", "|")
BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def read_file(path, encoding):
    """Returns the text of a file."""
    try:
        with open(path, "rb") as file:
            data = file.read(BYTES_MAX + 1)
    except IsADirectoryError:
        raise BadArguments(f"`{path}` is a directory; {_files_in(path)}", "path") from None
    except FileNotFoundError:
        raise _not_found(path) from None
    except PermissionError:
        raise ToolError(f"`{path}` cannot be read: its directory is not granted: {_grant(path)}") from None
    except OSError as error:
        raise ToolError(f"`{path}` cannot be read: {error.strerror}") from None
    if len(data) > BYTES_MAX:
        raise ToolError(f"`{path}` has more than {BYTES_MAX >> 20} MiB, which is more than this tool reads: split it")
    known = next((name for mark, name in BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding or known)
    except LookupError:
        raise BadArguments(f"`{encoding}` is no known encoding; try utf-8, utf-16, cp1252 or latin-1", "encoding") from None
    except UnicodeDecodeError as error:
        raise BadArguments(
            f"`{path}` is not {encoding or known}: byte {error.start} is 0x{data[error.start]:02X}; pass another "
            "`encoding`, such as cp1252 for Western European Windows", "encoding") from None


def _not_found(path):
    folder = os.path.dirname(path) or "."
    try:
        os.listdir(folder)
    except OSError:
        return ToolError(f"`{path}` cannot be reached: there is no such file, or its directory is not granted: "
                         f"{_grant(path)}")
    return BadArguments(f"there is no file `{os.path.basename(path)}` in `{folder}`; {_files_in(folder)}", "path")


def _files_in(folder):
    try:
        names = sorted(name for name in os.listdir(folder) if name.lower().endswith((".csv", ".tsv", ".txt")))
    except OSError:
        return _grant(os.path.join(folder, "x"))
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"it has {', '.join(names[:20])}{more}" if names else "it has no CSV files"


def _grant(path):
    folder = os.path.dirname(path) or "."
    return f"run `toolhost grant csv-query --dir {folder}:ro`"


class Table:
    """The columns, and the rows one after the other."""

    def __init__(self, text, delimiter, header, fill):
        # Not `splitlines`, for which a form feed, U+0085 or U+2028 within a cell ends a line as well.
        self.lines = list(io.StringIO(text.removeprefix("\ufeff"), newline=""))
        if not any(line.strip() for line in self.lines):
            raise ToolError("there is nothing in this CSV: it has no rows")
        self.delimiter, self.fill = delimiter or sniff_delimiter(self.lines), fill
        first = next((row for row in self._parsed() if row), [])
        self.has_header = looks_like_header(first) if header is None else header
        self.columns = unique(first) if self.has_header else [f"column{n}" for n in range(1, len(first) + 1)]
        self.ragged = 0

    def rows(self):
        """Yields the rows, each as long as there are columns."""
        width, is_header = len(self.columns), self.has_header
        for row in self._parsed():
            if not row:
                continue
            if is_header:
                is_header = False
                continue
            if len(row) != width:
                if not self.fill:
                    raise ToolError(
                        f"line {self.line} has {len(row)} cells, but there are {width} columns "
                        f"({', '.join(self.columns[:20])}) with the delimiter {self.delimiter!r}: pass ragged=\"fill\" "
                        "to fill up short rows and cut off long ones, or another `delimiter`")
                self.ragged += 1
                row = (row + [""] * width)[:width]
            yield row

    def index(self, name, path):
        """Returns which column has this name."""
        return index(self.columns, name, path)

    def _parsed(self):
        reader = csv.reader(self.lines, delimiter=self.delimiter)
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise ToolError(f"line {reader.line_num} is no CSV: {error} (a quote that is never closed, perhaps)") from None
            self.line = reader.line_num
            yield row


def index(columns, name, path):
    """Returns which column has this name, or else one that differs in case only."""
    if name in columns:
        return columns.index(name)
    near = [known for known in columns if known.strip().lower() == name.strip().lower()]
    if len(near) == 1:
        return columns.index(near[0])
    shown = ", ".join(columns[:50]) + (f" and {len(columns) - 50} more" if len(columns) > 50 else "")
    raise BadArguments(f"there is no column `{name}`; there are {shown}", path)


def sniff_delimiter(lines):
    """Returns the delimiter that gives most of the first rows the same number of cells."""
    def score(delimiter):
        try:
            counts = Counter(len(row) for row in csv.reader(lines[:50], delimiter=delimiter) if row)
        except csv.Error:
            return (0, 0)
        width, rows = counts.most_common(1)[0]
        return (0, 0) if width == 1 else (rows / sum(counts.values()), width)

    return max(DELIMITERS, key=score)


def looks_like_header(row):
    """Tells whether these are names: none is empty or a number, and no two are the same."""
    cells = [cell.strip() for cell in row]
    return all(cells) and len(set(cells)) == len(cells) and not any(is_number(cell) for cell in cells)


def is_number(cell):
    """Tells whether a cell is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def unique(names):
    """Returns names for columns: stripped, none empty, no two the same."""
    found = []
    for number, name in enumerate(names, 1):
        name = name.strip() or f"column{number}"
        candidate, count = name, 2
        while candidate in found:
            candidate, count = f"{name}_{count}", count + 1
        found.append(candidate)
    return found
