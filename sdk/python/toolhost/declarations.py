"""What one plugin declares: collected while its modules are loaded, published by `register`."""

from __future__ import annotations


class Plugin:
    """The declarations of one plugin."""

    def __init__(self, name: str = "plugin"):
        self.name, self.version = name, "0.0.0"
        self.tools: list = []
        self.needs: list[dict] = []
        self.hooks: list = []
        self.extensions: list[tuple[str, str]] = []


#: The plugin that is being loaded, or was.
current = Plugin()


def declare(name: str | None = None, version: str | None = None, *, extensions: dict | None = None) -> None:
    """Sets the plugin's name and version, for people; by default those of its file, and 0.0.0.

    `extensions` are named JSON values of later versions of the contract.
    """
    from .writing import to_json

    if name is not None:
        current.name = name
    if version is not None:
        current.version = version
    current.extensions += [(key, to_json(value)) for key, value in (extensions or {}).items()]
