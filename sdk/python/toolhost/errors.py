"""What a tool raises: the errors whose text is for the model, and the author's own mistakes."""

from __future__ import annotations


class ToolError(Exception):
    """The tool says no. The model reads the text alone: what went wrong, and what to do."""


class BadArguments(ToolError):
    """The arguments match the schema, yet the tool cannot use them.

    `path` is the argument: its name, or a JSON Pointer such as `/filter/0/column`.
    """

    def __init__(self, message: str, path: str | None = None):
        super().__init__(message)
        # Often an exception is handed on: `raise BadArguments(error, "when")`.
        self.message = str(message)
        path = "" if path is None else str(path)
        if path and not path.startswith("/"):
            path = "/" + path
        self.path = path or None


class NotAvailable(ToolError):
    """The tool cannot work at present: something it requires is missing. The text says what."""


class DefinitionError(Exception):
    """A tool, a need or a hook is declared in a way that cannot be registered.

    `function` is what was declared, if the mistake was found after its module was loaded.
    """

    def __init__(self, message: str, function=None):
        super().__init__(message)
        self.function = function
