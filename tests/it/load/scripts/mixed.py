"""A plugin that has a bit of everything, for the tests: what it says of itself, results, errors."""

import os
from dataclasses import dataclass
from typing import Annotated, Literal

from toolhost import (BadArguments, Context, Field, Image, Json, NotAvailable, Output, Structured, Text, ToolError,
                      fetch, kv, log, need, plugin, progress, secrets, tool)

plugin("mixed", "1.2.3")
need.http("http://localhost:*", reason="to ask a server", tools=["ask"])
need.secret("TOKEN", "localhost:*", header="x-token", reason="to be let in", tools=["ask"])
need.kv(reason="to count")
need.env("GREETING")


@dataclass
class Place:
    """Where it is.

    Attributes:
        city: Its name.
    """

    city: str
    zip: int | None = None


@tool(toolset="mixed", emoji="🧺", read_only=True, idempotent=True, open_world=False, max_result_size_chars=9_000,
      examples=[({"text": "a b", "times": 2}, "a b a b")])
def repeat(text: str, times: Annotated[int, Field(ge=1, le=9)] = 1, mode: Literal["plain", "loud"] = "plain") -> str:
    """Repeats a text.

    Args:
        text: The text.
        times: How often.
        mode: How loud.
    """
    log.info("repeating")
    progress(1, 2, "half")
    return " ".join([text.upper() if mode == "loud" else text] * times)


@tool()
def locate(place: Place, tags: list[str] | None = None) -> Structured[Place]:
    """Says where a place is."""
    return Structured(Place(place.city.title(), place.zip))


@tool()
def show() -> Output:
    """Shows several blocks."""
    return Output(Text("one"), Json({"b": 1, "a": [None, 1.5]}), Image(b"\x89PNG", "image/png"))


@tool(destructive=True)
def count(by: int = 1) -> int:
    """Counts on."""
    number = int(kv.get_text("number") or 0) + by
    kv.set("number", str(number))
    return number


@tool()
def ask(url: str) -> dict:
    """Asks a server."""
    answer = fetch(url, query={"q": "a b"})
    return {"status": answer.status, "text": answer.text, "token": secrets.present("TOKEN")}


@tool()
def greet(context: Context) -> str:
    """Greets, as the environment says."""
    return f"{os.environ.get('GREETING', 'nothing')} with time: {context.remaining_ms > 0}"


@tool()
def fail(how: Literal["say", "arguments", "away", "crash", "cause", "exit"]) -> None:
    """Fails."""
    if how == "say":
        raise ToolError("no such city; check the spelling")
    if how == "arguments":
        raise BadArguments("it is too long", "how")
    if how == "away":
        raise NotAvailable("closed on Sundays")
    if how == "exit":
        raise SystemExit(3)
    try:
        {}["key"]
    except KeyError as error:
        if how == "cause":
            raise ValueError("no key") from error
        raise


def ready():
    """Says whether the tool can work."""
    raise NotAvailable("not ready")


@tool(check=ready, requires_env=["GREETING"])
def never() -> str:
    """Is never available."""
    return ""
