"""The working directory: that of the caller, of which the C library knows nothing.

It is a base for names, and need not be granted. To the C library it is `/`, where `..` would lead
nowhere, and `os.path.abspath` elsewhere than `open`.
"""

import os

from wit_world.imports import environment

NOWHERE = "/"


def install(is_running):
    """Gives `os` the working directory; `is_running()` tells whether there is a caller by now."""
    changed, known = os.chdir, os.getcwd

    def getcwd():
        """Returns the working directory: the caller's, until it is changed."""
        at = known()
        return environment.initial_cwd() or at if at == NOWHERE and is_running() else at

    def getcwdb():
        """Returns the working directory as bytes."""
        return os.fsencode(getcwd())

    def chdir(path):
        """Changes the working directory to one that was granted."""
        changed(path if isinstance(path, int) else os.path.abspath(os.fsdecode(path)))

    os.getcwd, os.getcwdb, os.chdir = getcwd, getcwdb, chdir
