"""What a tool returns: an answer made of blocks, and how plain values become one."""

from __future__ import annotations

import dataclasses
import enum
import typing

from .writing import to_json

T = typing.TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Text:
    """Plain text."""

    text: str


@dataclasses.dataclass(frozen=True)
class Json:
    """A value as JSON."""

    value: object


@dataclasses.dataclass(frozen=True)
class Image:
    """A picture: its bytes, and a media type such as `image/png`."""

    data: bytes
    media_type: str = "image/png"


@dataclasses.dataclass(frozen=True)
class Audio:
    """A sound: its bytes, and a media type such as `audio/wav`."""

    data: bytes
    media_type: str = "audio/wav"


@dataclasses.dataclass(frozen=True)
class Resource:
    """A pointer to a resource, with its text if that is short."""

    uri: str
    media_type: str | None = None
    text: str | None = None


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

    @property
    def text(self) -> str:
        """All text and JSON blocks joined by line breaks: what a test compares."""
        texts = (block.text if isinstance(block, Text) else to_json(block.value)
                 for block in self.blocks if isinstance(block, (Text, Json)))
        return "\n".join(texts)

    @property
    def structured(self) -> str | None:
        """The structured output as JSON text, if there is one."""
        return None if self._structured is None else to_json(self._structured)

    def __repr__(self):
        return f"Output({', '.join(map(repr, self.blocks))}, structured={self._structured!r})"


class Structured(typing.Generic[T]):
    """A value returned as JSON *and* as structured output.

    With `text`, that is what people and models read instead of the JSON. A function annotated
    `-> Structured[Weather]` has the schema of `Weather` in its registration.
    """

    def __init__(self, value: T, text: str | None = None):
        self.value, self.text = value, text


def block_of(value) -> Block:
    """Returns the block that a plain value is shown as."""
    if isinstance(value, _BLOCKS):
        return value
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
    if isinstance(value, Structured):
        shown = Json(value.value) if value.text is None else Text(value.text)
        return Output(shown, structured=value.value)
    if isinstance(value, (list, tuple)) and any(isinstance(item, _BLOCKS) for item in value):
        return Output(*value)
    block = block_of(value)
    return Output(block, structured=value if is_structured and isinstance(block, Json) else None)
