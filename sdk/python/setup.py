"""Adds to the package what it shares with the repository: the contract, and the component's side."""

import pathlib
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent


class BuildWithContract(build_py):
    """Copies the WIT files and the modules of the component into the built package."""

    def run(self):
        super().run()
        package = pathlib.Path(self.build_lib) / "toolhost"
        for source, target in (
            (HERE.parent.parent / "wit", package / "_wit" / "contract"),
            (HERE / "wit", package / "_wit" / "python"),
            (HERE / "toolhost" / "component", package / "component"),
        ):
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


setup(cmdclass={"build_py": BuildWithContract})
