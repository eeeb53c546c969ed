"""Secrets that a tool uses without ever seeing them: the host puts them into requests.

A plugin asks for one with `need.secret`. Outside of a host none is present, unless
`toolhost.testing` says so.
"""

from __future__ import annotations

from . import host
from .writing import sendable


def present(name: str) -> bool:
    """Says whether the secret is there for this tool: asked for, granted and set."""
    return host.current.secret_present(sendable(name))


def placeholder(name: str) -> str | None:
    """Returns a text that stands for the secret, or None if it is not present.

    It is for slots that hold more than the bare value, as in `Bearer {{secret:TOKEN}}`.
    """
    return host.current.secret_placeholder(sendable(name))
