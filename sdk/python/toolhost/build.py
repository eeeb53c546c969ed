"""Builds a plugin with its modules baked in: `python -m toolhost.build PLUGIN OUT.wasm`.

The component needs no runner, and may use pure Python packages besides the standard library. It
behaves as the script does, except that its modules are run once, when it is built.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from .loader import LoadError
from .sources import read_script

HERE = pathlib.Path(__file__).resolve().parent
WORLD = "toolhost:python/baked"


def main(arguments: list[str] | None = None) -> int:
    """Runs the command, and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m toolhost.build", description=__doc__.splitlines()[0])
    parser.add_argument("plugin", type=pathlib.Path, help="a .py file, or a folder with plugin.py")
    parser.add_argument("out", type=pathlib.Path, help="the component that is written, such as words.wasm")
    parser.add_argument("--path", type=pathlib.Path, action="append", default=[], metavar="DIR",
                        help="a folder of pure Python packages that the plugin imports; may be repeated")
    parser.add_argument("--componentize-py", default="componentize-py", metavar="PROGRAM",
                        help="the compiler, by default along PATH")
    parser.add_argument("--wit", type=pathlib.Path, metavar="DIR", help="the contract, by default the SDK's own")
    given = parser.parse_args(arguments)
    try:
        build(given.plugin, given.out, given.path, given.componentize_py, given.wit)
    except LoadError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def build(plugin: pathlib.Path, out: pathlib.Path, path=(), componentize_py: str = "componentize-py",
          wit: pathlib.Path | None = None) -> None:
    """Builds a plugin. Raises `LoadError` with what is wrong with it."""
    modules = read_script(plugin)
    for folder in path:
        if not folder.is_dir():
            raise LoadError(f"{folder} is no folder")
    program = shutil.which(componentize_py)
    program = program and os.path.abspath(program)
    if program is None:
        raise LoadError(f"{componentize_py} is not installed: run `pip install componentize-py==0.25.1`, or name it "
                        "with `--componentize-py`")
    contract, own = _wit(wit)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="toolhost-build-") as folder:
        stage = pathlib.Path(folder)
        shutil.copytree(HERE, stage / "toolhost", ignore=shutil.ignore_patterns("__pycache__", "component", "_wit"))
        shutil.copytree(HERE / "component", stage / "component", ignore=shutil.ignore_patterns("__pycache__"))
        listed = "".join(f"    ({name!r}, {text!r}),\n" for name, text in modules)
        (stage / "component" / "toolhost_script.py").write_text(f"MODULES = [\n{listed}]\n", "utf-8")
        tzdata = _time_zones()
        if tzdata:
            shutil.copytree(tzdata, stage / "tzdata", ignore=shutil.ignore_patterns("__pycache__"))
        command = [program, "--quiet", "-d", contract, "-d", own, "-w", WORLD, "componentize",
                   "-p", stage, "-p", stage / "component"]
        for extra in path:
            command += ["-p", extra.resolve()]
        command += ["toolhost_baked", "-o", stage / "plugin.wasm"]
        # Without these, what lies in the author's environment is packed as well.
        ran = subprocess.run([str(part) for part in command], cwd=stage, capture_output=True, text=True,
                             env={**{name: value for name, value in os.environ.items()
                                     if name not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}}, check=False)
        if ran.returncode != 0:
            raise LoadError(_reason(ran.stderr + ran.stdout))
        shutil.move(stage / "plugin.wasm", out)


def _wit(wit: pathlib.Path | None) -> tuple[pathlib.Path, pathlib.Path]:
    installed, repository = HERE / "_wit", HERE.parent.parent.parent
    own = installed / "python" if installed.is_dir() else HERE.parent / "wit"
    contract = wit or (installed / "contract" if installed.is_dir() else repository / "wit")
    if not (contract / "plugin.wit").is_file():
        raise LoadError(f"{contract} has no plugin.wit: name the folder of the contract with `--wit`")
    return contract.resolve(), own


def _time_zones() -> pathlib.Path | None:
    try:
        import tzdata
    except ImportError:
        return None
    return pathlib.Path(tzdata.__file__).parent


def _reason(text: str) -> str:
    """Picks the SDK's own words out of what the compiler says."""
    for line in text.splitlines():
        _, mark, reason = line.partition("toolhost: ")
        if mark:
            return reason.strip()
    return f"componentize-py failed:\n{text.split('Stack backtrace:')[0].strip()}"


if __name__ == "__main__":
    sys.exit(main())
