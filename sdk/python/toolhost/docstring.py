"""Reads docstrings: what the model is told about a tool, and about each of its arguments.

Three manners of writing are understood, and may be mixed: Google's (`Args:`), Sphinx's
(`:param name: ...`) and NumPy's (`Parameters` over a line of dashes).
"""

from __future__ import annotations

import inspect
import re

_NAMING = {"args", "arguments", "parameters", "params", "attributes", "keyword args", "keyword arguments",
           "other parameters"}
_OTHER = {"returns", "return", "yields", "yield", "raises", "raise", "example", "examples", "note", "notes",
          "see also", "references", "warning", "warnings", "warns", "todo"}
_HEADER = re.compile(r"([A-Za-z]+(?: [A-Za-z]+)?):\s*$")
_FIELD = re.compile(r":(\w+)(?:\s+([^:]*))?:(.*)$")
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:(?!:)\s*(.*)$")
_NUMPY_ENTRY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$")


class Docs:
    """The docstring of a function or class; it is read when it is asked for first."""

    def __init__(self, owner):
        self._text: str | None = owner.__doc__
        self._parsed: tuple[str, dict[str, str]] | None = None

    @property
    def description(self) -> str:
        """What it says about the whole."""
        return self._read()[0]

    def of(self, name: str) -> str | None:
        """What it says about one argument or field."""
        return self._read()[1].get(name)

    def _read(self) -> tuple[str, dict[str, str]]:
        if self._parsed is None:
            self._parsed = parse(self._text)
        return self._parsed


def parse(text: str | None) -> tuple[str, dict[str, str]]:
    """Returns the description, which is everything before the first section, and a text for each
    argument that has one.
    """
    lines = inspect.cleandoc(text or "").splitlines()
    description: list[str] = []
    found: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        header = _HEADER.match(line)
        name = header[1].lower() if header else ""
        underlined = at + 1 < len(lines) and re.fullmatch(r"-{3,}\s*", lines[at + 1])
        if underlined and line.strip().lower() in _NAMING | _OTHER:
            end = _end_of_numpy_section(lines, at + 2)
            if line.strip().lower() in _NAMING:
                _numpy(lines[at + 2 : end], found)
            at = end
        elif name in _NAMING or name in _OTHER:
            end = at + 1
            while end < len(lines) and (not lines[end].strip() or lines[end][:1].isspace()):
                end += 1
            if name in _NAMING:
                _google(lines[at + 1 : end], found)
            at = end
        elif _FIELD.match(line):
            at = _sphinx(lines, at, found)
        else:
            if not found and (line.strip() or description):
                description.append(line)
            at += 1
    texts = {name: " ".join(part for part in parts if part) for name, parts in found.items()}
    return "\n".join(description).strip(), {name: text for name, text in texts.items() if text}


def _end_of_numpy_section(lines: list[str], at: int) -> int:
    while at < len(lines):
        if at + 1 < len(lines) and lines[at].strip() and re.fullmatch(r"-{3,}\s*", lines[at + 1]):
            return at
        at += 1
    return at


def _google(lines: list[str], found: dict[str, list[str]]) -> None:
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    least = min(indents, default=0)
    current = None
    for line in lines:
        entry = _ENTRY.match(line.strip())
        if line.strip() and len(line) - len(line.lstrip()) == least and entry:
            current = found.setdefault(entry[1], [])
            current.append(entry[2].strip())
        elif current is not None:
            current.append(line.strip())


def _numpy(lines: list[str], found: dict[str, list[str]]) -> None:
    current: list[list[str]] = []
    for line in lines:
        if line.strip() and not line[:1].isspace():
            entry = _NUMPY_ENTRY.match(line)
            names = re.split(r"\s*,\s*", entry[1]) if entry else []
            current = [found.setdefault(name, []) for name in names]
        else:
            for parts in current:
                parts.append(line.strip())


def _sphinx(lines: list[str], at: int, found: dict[str, list[str]]) -> int:
    field = _FIELD.match(lines[at])
    parts = [field[3].strip()]
    at += 1
    while at < len(lines) and lines[at].strip() and lines[at][:1].isspace():
        parts.append(lines[at].strip())
        at += 1
    if field[1] in ("param", "parameter", "arg", "argument", "key", "keyword", "ivar", "var") and field[2]:
        found.setdefault(field[2].split()[-1].lstrip("*"), []).extend(parts)
    return at
