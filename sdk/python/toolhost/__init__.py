"""Writes a toolhost plugin in Python.

A plugin is one file, or a folder with `plugin.py`, in a plugins folder:

    from toolhost import tool

    @tool(read_only=True, examples=[({"text": "a b"}, "2")])
    def count_words(text: str, min_length: int = 0) -> int:
        '''Counts the words of a text.

        Args:
            text: The text to count.
            min_length: Count words of at least this many characters.
        '''
        return sum(len(word) >= min_length for word in text.split())

Type hints become the JSON Schema, the docstring becomes what a model reads, and the arguments
arrive as the types that were written. The function stays a function; `toolhost.testing` calls it
as the host would.
"""

from . import kv, log, need, secrets
from .errors import BadArguments, DefinitionError, NotAvailable, ToolError
from .hooks import Ask, Block, HookedCall, HookedOutcome, hook
from .http import BadBody, BadRequest, HttpError, NetworkError, Refused, Response, TooLarge, fetch
from .output import Audio, Image, Json, Output, Resource, Structured, Text
from .declarations import declare as plugin
from .runtime import progress
from .shapes import Field
from .tools import Context, tool

__all__ = [
    "Ask", "Audio", "BadArguments", "BadBody", "BadRequest", "Block", "Context", "DefinitionError", "Field",
    "HookedCall", "HookedOutcome", "HttpError", "Image", "Json", "NetworkError", "NotAvailable", "Output", "Refused",
    "Resource", "Response", "Structured", "Text", "TooLarge", "ToolError", "fetch", "hook", "kv", "log", "need",
    "plugin", "progress", "secrets", "tool",
]
