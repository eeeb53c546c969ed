"""What a tool returns: an answer made of blocks, and how plain values become one."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing

from .writing import to_json, unicode

T = typing.TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Text:
    """Plain text."""

    text: str

    def __post_init__(self):
        _check(self, "text", self.text, str, "a str; write `Text(str(value))`, or `Json(value)`")


@dataclasses.dataclass(frozen=True)
class Json:
    """A value as JSON."""

    value: object


@dataclasses.dataclass(frozen=True)
class Image:
    """A picture: its bytes, and a media type such as `image/png`."""

    data: bytes
    media_type: str = "image/png"

    def __post_init__(self):
        _check_blob(self)


@dataclasses.dataclass(frozen=True)
class Audio:
    """A sound: its bytes, and a media type such as `audio/wav`."""

    data: bytes
    media_type: str = "audio/wav"

    def __post_init__(self):
        _check_blob(self)


@dataclasses.dataclass(frozen=True)
class Resource:
    """A pointer to a resource, with its text if that is short."""

    uri: str
    media_type: str | None = None
    text: str | None = None

    def __post_init__(self):
        _check(self, "uri", self.uri, str, 'a str such as "file:///notes.txt"; of a path that is `path.as_uri()`')
        _check(self, "media_type", self.media_type, (str, type(None)), 'a str such as "text/plain", or None')
        _check(self, "text", self.text, (str, type(None)), "a str, or None")


def _check(block, name: str, value, kinds, allowed: str) -> None:
    # What is no text or no bytes would stop the whole component when the answer leaves it.
    if not isinstance(value, kinds):
        raise TypeError(f"{type(block).__name__}: `{name}` is {_shown(value)}; it takes {allowed}")


def _check_blob(block) -> None:
    kind = type(block).__name__
    _check(block, "data", block.data, (bytes, bytearray, memoryview),
           f"bytes; of base64 text they are `{kind}(base64.b64decode(text))`")
    _check(block, "media_type", block.media_type, str, f'a str such as "{type(block).media_type}"')


def _shown(value) -> str:
    text = repr(value)
    return f"a {type(value).__name__}, {text if len(text) <= 40 else text[:37] + '...'}"


Block = typing.Union[Text, Json, Image, Audio, Resource]
_BLOCKS = (Text, Json, Image, Audio, Resource)


class Output:
    """The answer of a tool: blocks in order, and optionally the same as structured JSON.

    A block that is a `str` counts as `Text`; any other plain value as `Json`. `structured` must
    be an object in JSON: a dictionary, a dataclass.
    """

    def __init__(self, *blocks, structured=None):
        self.blocks: list[Block] = [block_of(block) for block in blocks]
        self._structured = structured
        self._finished: dict[int, str] | None = None

    def finish(self) -> Output:
        """Writes all of it, once: a generator within gives what it has only once. Returns itself.

        What cannot be written is to be said here, and not where nobody hears of it.
        """
        for block in self.blocks:
            for name in ("text", "uri", "media_type"):
                text = getattr(block, name, None)
                if text is not None:
                    unicode(text, "result" if isinstance(block, Text) else f"{type(block).__name__}: `{name}`")
        values = [block.value for block in self.blocks if isinstance(block, Json)]
        if self._structured is not None:
            values.append(self._structured)
        self._finished = {}
        for value in values:
            if id(value) not in self._finished:
                self._finished[id(value)] = to_json(value, "result")
        return self

    def written(self, value) -> str:
        """The JSON text of a value that is part of this answer."""
        known = self._finished.get(id(value)) if self._finished else None
        return to_json(value) if known is None else known

    @property
    def text(self) -> str:
        """All text and JSON blocks joined by line breaks: what a test compares."""
        texts = (block.text if isinstance(block, Text) else self.written(block.value)
                 for block in self.blocks if isinstance(block, (Text, Json)))
        return "\n".join(texts)

    @property
    def structured(self) -> str | None:
        """The structured output as JSON text, if there is one."""
        return None if self._structured is None else self.written(self._structured)

    def __repr__(self):
        return f"Output({', '.join(map(repr, self.blocks))}, structured={self._structured!r})"


class Structured(typing.Generic[T]):
    """A value returned as JSON *and* as structured output.

    With `text`, that is what people and models read instead of the JSON. A function annotated
    `-> Structured[Weather]` has the schema of `Weather` in its registration.
    """

    def __init__(self, value: T, text: str | None = None):
        self.value, self.text = value, text
        _check(self, "text", text, (str, type(None)), "a str, or None for the value as JSON")


def block_of(value) -> Block:
    """Returns the block that a plain value is shown as."""
    if isinstance(value, Json) and isinstance(value.value, types.GeneratorType):
        return Json(list(value.value))
    if isinstance(value, _BLOCKS):
        return value
    if isinstance(value, types.GeneratorType):
        return Json(list(value))
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("bytes have no meaning by themselves; return `Image(data, media_type)`, `Audio` or text")
    return Json(value)


def output_of(value, is_structured: bool = False) -> Output:
    """Returns the output that a tool's return value stands for."""
    if isinstance(value, Output):
        return value
    if value is None:
        return Output()
    if isinstance(value, types.GeneratorType):
        value = list(value)
    if isinstance(value, Structured):
        shown = Json(value.value) if value.text is None else Text(value.text)
        return Output(shown, structured=value.value)
    if isinstance(value, (list, tuple)) and any(isinstance(item, _BLOCKS) for item in value):
        return Output(*value)
    block = block_of(value)
    return Output(block, structured=value if is_structured and isinstance(block, Json) else None)
