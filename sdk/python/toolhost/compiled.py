"""What is compiled while a script is loaded: kept by the first instance, and used by those that follow.

That is the code of its modules, the regular expressions they compile at import, and the functions
that `dataclass` and `namedtuple` write: all of it costs far more to make than to read.
"""

from __future__ import annotations

import builtins
import collections
import dataclasses
import importlib.util
import marshal
import re
import types
import typing

import _sre

#: Other interpreters, and other versions of this file, read nothing of what one has kept.
FORMAT = (importlib.util.MAGIC_NUMBER, _sre.MAGIC, 1)


class Compiled:
    """The compiled parts of one script."""

    def __init__(self):
        #: Whether what is compiled is remembered.
        self.is_open = True
        self.paths: list[str] = []
        #: Code objects as bytes: most calls need a few of them.
        self.modules: dict[str, bytes] = {}
        self.snippets: dict[tuple[str, str], bytes] = {}
        self.patterns: dict[tuple[str | bytes, int], bytes] = {}

    def module(self, path: str, text) -> types.CodeType:
        """Returns the code of a module; `text()` is its text."""
        known = self.modules.get(path)
        if known is not None:
            return marshal.loads(known)
        code = compile(text(), path, "exec", dont_inherit=True)
        if self.is_open:
            self.modules[path] = marshal.dumps(code)
        return code

    def snippet(self, text, mode: str):
        """Returns the code of a text that the standard library has written."""
        if type(text) is not str:
            return text
        known = self.snippets.get((text, mode))
        if known is not None:
            return marshal.loads(known)
        code = compile(text, "<string>", mode, dont_inherit=True)
        if self.is_open:
            self.snippets[text, mode] = marshal.dumps(code)
        return code

    def pattern(self, pattern, flags: int, original):
        """Returns a regular expression; `original` compiles one."""
        if type(pattern) not in (str, bytes):
            return original(pattern, flags)
        # Numbers may be of classes with names, which marshal does not know.
        flags = int(flags)
        known = self.patterns.get((pattern, flags))
        if known is not None:
            return _sre.compile(*marshal.loads(known))
        if not self.is_open:
            return original(pattern, flags)
        compiled, arguments = _compile_pattern(original, pattern, flags)
        self.patterns[pattern, flags] = marshal.dumps(arguments)
        return compiled

    def dumps(self, texts: dict[str, str]) -> bytes:
        """Writes it, with the modules that nothing has imported so far."""
        for path, text in texts.items():
            try:
                self.module(path, lambda text=text: text)
            except (SyntaxError, ValueError):
                # Whoever imports it will be told.
                pass
        return marshal.dumps((FORMAT, list(texts), self.modules, self.snippets, self.patterns))

    @staticmethod
    def loads(data: bytes | None) -> Compiled | None:
        """Reads it; None if there is nothing, or it was written by another interpreter."""
        if data is None:
            return None
        try:
            form, *parts = marshal.loads(data)
        except (ValueError, EOFError, TypeError):
            return None
        if form != FORMAT:
            return None
        found = Compiled()
        found.is_open = False
        found.paths, found.modules, found.snippets, found.patterns = parts
        return found


#: Where compiled parts come from and go to; None where nothing is kept.
current: Compiled | None = None


def install() -> typing.Callable[[], None]:
    """Makes the standard library look into `current` before it compiles, and returns what undoes it.

    It is for the runner's own interpreter: the functions that are replaced are nobody's interface.
    """
    compiler = re._compiler

    def compile_pattern(p, flags=0):
        return original(p, flags) if current is None else current.pattern(p, flags, original)

    def undo():
        compiler.compile = original
        del dataclasses.exec, collections.eval

    original, compiler.compile = compiler.compile, compile_pattern
    dataclasses.exec = lambda text, *spaces: builtins.exec(_snippet(text, "exec"), *spaces)
    collections.eval = lambda text, *spaces: builtins.eval(_snippet(text, "eval"), *spaces)
    return undo


def _snippet(text, mode: str):
    return text if current is None else current.snippet(text, mode)


def _compile_pattern(original, pattern, flags: int):
    """Compiles a pattern, and returns what the engine was given for it, too."""
    compiler, seen = re._compiler, []

    def compile(pattern, flags, code, *others):
        seen.extend((pattern, int(flags), [int(one) for one in code], *others))
        return _sre.compile(pattern, flags, code, *others)

    engine = compiler._sre
    compiler._sre = types.SimpleNamespace(**{**vars(engine), "compile": compile})
    try:
        return original(pattern, flags), tuple(seen)
    finally:
        compiler._sre = engine
