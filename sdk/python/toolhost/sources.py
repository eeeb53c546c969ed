"""Which files a script plugin is made of."""

from __future__ import annotations

import os
import pathlib

from .loader import LoadError

_OTHER_FOLDERS = ("__pycache__", "node_modules", "plugins", "test", "tests", "target")


def read_script(path: pathlib.Path) -> list[tuple[str, str]]:
    """Returns the modules of a script, as pairs of path and text: the main one first, the others by
    their paths.

    A script is one file, or a folder with `plugin.py`. Hidden files, `__pycache__`,
    `node_modules`, `target`, tests and links below the folder do not belong to it: a host that
    runs the script would not read them either.
    """
    if path.is_file():
        return [(path.name, _read(path))]
    if not (path / "plugin.py").is_file():
        raise LoadError(f"{path} is no plugin: it is neither a .py file nor a folder with plugin.py")
    if (path / "plugin.py").is_symlink():
        raise LoadError("plugin.py is a link, and links are no part of a plugin: put the file itself there")
    found = sorted((pathlib.Path(folder) / name).relative_to(path).as_posix()
                   for folder, _, names in os.walk(path) for name in names
                   if name.endswith(".py") and _is_file(pathlib.Path(folder) / name))
    modules = ["plugin.py"] + [name for name in found if name != "plugin.py" and _belongs(name)]
    return [(name, _read(path / name)) for name in modules]


def _is_file(path: pathlib.Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _belongs(name: str) -> bool:
    *folders, file = name.split("/")
    if any(folder.startswith(".") or folder in _OTHER_FOLDERS for folder in folders):
        return False
    return not (file.startswith((".", "test_")) or file.endswith("_test.py") or file == "conftest.py")


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LoadError(f"{path.name}: not UTF-8: {error}") from None
