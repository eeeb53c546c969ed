"""What one plugin declares: collected while its modules are loaded, published by `register`."""

from __future__ import annotations


from .errors import DefinitionError


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

    for what, text in (("name", name), ("version", version)):
        if text is not None and not isinstance(text, str):
            raise DefinitionError(f"plugin: the {what} is {text!r}; it takes a name and a version as texts, as in "
                                  f'`plugin("words", "1.0.0")`')
    if name is not None:
        current.name = name
    if version is not None:
        current.version = version
    current.extensions += [(key, to_json(value)) for key, value in (extensions or {}).items()]


def names_of(what: str, given) -> list[str]:
    """Returns names that were given one by one, or as lists."""
    flat = [name for item in given for name in (item if isinstance(item, (list, tuple, set, frozenset)) else [item])]
    if not flat:
        raise DefinitionError(f"{what} takes at least one name")
    for name in flat:
        if not isinstance(name, str):
            raise DefinitionError(f"{what} takes names, and {name!r} is none")
    return flat
