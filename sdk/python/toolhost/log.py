"""Lines for the host's log; a model never sees them. Outside of a host they go to stderr.

What a script prints goes to the log as well: stdout as `info`, stderr as `warn`; so do records of
the standard module `logging`.
"""

from __future__ import annotations

from . import host
from .writing import sendable


def debug(message: object) -> None:
    """Logs what is of use to the plugin's author."""
    write("debug", message)


def info(message: object) -> None:
    """Logs what is of use to the operator."""
    write("info", message)


def warn(message: object) -> None:
    """Logs that something is wrong and the call goes on."""
    write("warn", message)


def error(message: object) -> None:
    """Logs that something is wrong and the call will probably fail."""
    write("error", message)


def write(level: str, message: object) -> None:
    """Logs at a level given by its name."""
    host.current.log(level, sendable(str(message)))
