"""Loads a script: its modules come as texts, and can import each other, with or without packages.

What is not among them is imported as always, where there is something to import from: in the
author's Python, and while a component is built. In a runner there is only what was preloaded.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import linecache
import posixpath
import sys
import traceback

from . import compiled, declarations
from .errors import DefinitionError


class LoadError(Exception):
    """A script cannot be used. The text says where and why, for its author."""


class Script:
    """The modules of one script, the main one first, as pairs of path and text."""

    #: The script that is loaded; its files are the author's own.
    current: Script | None = None

    def __init__(self, modules: list[tuple[str, str]], ready: compiled.Compiled | None = None):
        """With `ready`, `modules` is a function that returns them: only errors need their text."""
        self._modules = modules
        self._texts: dict[str, str] | None = None
        self.compiled = ready or compiled.Compiled()
        self.paths = ready.paths if ready else list(self.texts)
        if not self.paths:
            raise LoadError("there is no script to run: this component is a runner, and its host gave it no modules")
        self.main = self.paths[0]
        self.folders = {folder for path in self.paths for folder in _folders(path)}
        stem = posixpath.basename(self.main).removesuffix(".py")
        self.stem = stem
        self.main_name = stem
        self.names: set[str] = set()

    @property
    def texts(self) -> dict[str, str]:
        """The text of each module."""
        if self._texts is None:
            modules = self._modules() if callable(self._modules) else self._modules
            self._texts = {path: text.removeprefix("\ufeff") for path, text in modules}
        return self._texts

    def load(self) -> declarations.Plugin:
        """Runs the main module, and returns what it declared. Raises `LoadError`."""
        self._check_names()
        Script.current = self
        plugin = declarations.current = declarations.Plugin(self.stem)
        sys.meta_path.insert(0, self)
        try:
            spec = importlib.machinery.ModuleSpec(self.main_name, self, origin=self.main)
            spec.has_location = True
            module = importlib.util.module_from_spec(spec)
            sys.modules[self.main_name] = module
            self.names.add(self.main_name)
            self.exec_module(module)
        except BaseException as error:
            raise LoadError(sentence(error)) from error
        return plugin

    def unload(self) -> None:
        """Forgets the modules, so that another script can be loaded; for tests."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for name in self.names:
            sys.modules.pop(name, None)
        if Script.current is self:
            Script.current = None

    def _check_names(self) -> None:
        # The main module is imported by nobody, so a plugin may well be called `time`.
        if self.main_name in sys.modules:
            self.main_name = f"plugin_{self.stem}"
        for path in self.paths:
            top = path.split("/")[0].removesuffix(".py")
            if path != self.main and top in sys.modules and top not in self.names:
                raise LoadError(f"{path}: Python has a module `{top}` already, which would be imported in its place; "
                                "rename this one")

    # What follows is the protocol of the import system.

    def find_spec(self, name, path=None, target=None):
        """Finds a module of the script."""
        place = name.replace(".", "/")
        is_package = True
        if f"{place}/__init__.py" in self.paths:
            origin = f"{place}/__init__.py"
        elif f"{place}.py" in self.paths:
            origin, is_package = f"{place}.py", False
        elif place in self.folders:
            origin = None
        else:
            return None
        if origin == self.main and self.main_name != name:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, origin=origin, is_package=is_package)
        spec.has_location = origin is not None
        if is_package:
            spec.submodule_search_locations = [place]
        self.names.add(name)
        return spec

    def create_module(self, spec):
        """Leaves it to Python."""

    def exec_module(self, module):
        """Runs the text of a module."""
        origin = module.__spec__.origin
        if origin is not None:
            exec(self.compiled.module(origin, lambda: self.texts[origin]), module.__dict__)

    def get_source(self, name):
        """Gives tracebacks the lines of a module."""
        module = sys.modules.get(name)
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        return self.texts.get(origin)


def _folders(path: str):
    while path := posixpath.dirname(path):
        yield path


def sentence(error: BaseException) -> str:
    """Says what went wrong at loading, in one line that begins with file and line."""
    if isinstance(error, LoadError):
        return str(error)
    if isinstance(error, SyntaxError) and _is_own(error.filename):
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    if isinstance(error, DefinitionError):
        code = getattr(error.function, "__code__", None)
        place = f"{_short(code.co_filename)}:{code.co_firstlineno}" if code else where(error)
        return f"{place}: {error}" if place else str(error)
    place = where(error)
    prefix = f"{place}: " if place else ""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"{prefix}no module named '{error.name}': {importable()}"
    text = text_of(error)
    return f"{prefix}{name_of(error)}: {text}" if text else f"{prefix}{name_of(error)}"


def importable() -> str:
    if sys.platform == "wasi" and getattr(sys, "toolhost_is_runner", False):
        return ("a script can import its own modules and what the runner has (csv, json, re, ...); for others build a "
                "component with `toolhost build`")
    return "it is neither a module of the script nor installed where this was built"


def main_of(plugin: declarations.Plugin) -> str:
    """Returns the main file of the script that is loaded; without one, the plugin's name."""
    return Script.current.main if Script.current is not None else plugin.name


def text_of(error: BaseException) -> str:
    """Returns the text of an error, also of one of the author's that cannot say it."""
    try:
        return str(error)
    except Exception as second:
        return f"(its text cannot be made: {name_of(second)})"


def name_of(error: BaseException) -> str:
    """Returns the type of an error, as its author would write it."""
    return type(error).__qualname__


def where(error: BaseException) -> str | None:
    """Returns file and line of the author's own place that an error came from, `words.py:12`."""
    own = [f"{_short(frame.filename)}:{frame.lineno}" for frame in _frames(error) if _is_own(frame.filename)]
    return own[-1] if own else None


def trace(error: BaseException) -> str:
    """Returns a traceback without the frames of the SDK."""
    told = _told(error)
    lines = ["Traceback (most recent call last):\n"]
    lines += traceback.format_list([_with_line(frame) for frame in told.stack if not _is_sdk(frame.filename)])
    lines += told.format_exception_only()
    return "".join(lines).rstrip()


def _frames(error: BaseException):
    return _told(error).stack


def _told(error: BaseException) -> traceback.TracebackException:
    # No line is looked up: Python would look for its own files in the caller's directories.
    return traceback.TracebackException(type(error), error, error.__traceback__, lookup_lines=False, compact=True)


def _with_line(frame: traceback.FrameSummary) -> traceback.FrameSummary:
    """Returns a frame whose line is known, and nowhere looked for."""
    if Script.current is None:
        return frame
    text = Script.current.texts.get(frame.filename)
    if text is None:
        return traceback.FrameSummary(frame.filename, frame.lineno, frame.name, lookup_line=False, line="")
    linecache.cache[frame.filename] = (len(text), None, text.splitlines(keepends=True), frame.filename)
    return frame


def _is_sdk(filename: str) -> bool:
    return filename.startswith((_HERE, "<frozen ")) or "toolhost_component" in filename


def _is_own(filename: str | None) -> bool:
    if not filename:
        return False
    if Script.current is not None:
        return filename in Script.current.paths
    return not _is_sdk(filename) and not filename.startswith("<")


def _short(filename: str) -> str:
    return filename if Script.current is not None else posixpath.basename(filename)


_HERE = posixpath.dirname(__file__) + "/"
