"""A Python guest without an SDK: counts words, crashes, and tries to reach what it may not."""

import json
import os
import socket
import sys

from componentize_py_types import Err
from wit_world import WitWorld as World
from wit_world import exports
from wit_world.imports import log, types


class WitWorld(World):
    def register(self) -> types.Registration:
        tool = types.Tool(
            name="count_words_py",
            toolset="text",
            description="Counts the words of a text.",
            parameters=json.dumps(
                {
                    "type": "object",
                    "properties": {"text": {"type": "string"}},
                    "required": ["text"],
                }
            ),
            output=None,
            emoji="🔢",
            requires_env=[],
            max_result_size_chars=None,
            overrides=False,
            has_check=False,
            has_dynamic_schema=False,
            annotations=types.Annotations(read_only=True, destructive=None, idempotent=None, open_world=None),
            examples=[types.Example(arguments='{"text": "a b"}', expected="2")],
            extensions=[],
        )
        return types.Registration(name="words", version="1.0.0", tools=[tool], needs=[], extensions=[])

    def call(self, tool: str, arguments: str, context: types.CallContext) -> types.ToolOutput:
        text = json.loads(arguments)["text"]
        if text == "crash":
            raise RuntimeError("the script crashed")
        if text == "fail":
            raise Err(types.ToolError_Failed("the script says no"))
        if text == "peek":
            answer = peek()
        else:
            log.log(log.Level.INFO, "counting")
            answer = {"words": len(text.split())}
        return types.ToolOutput(content=[types.Content_Json(json.dumps(answer))], structured=None, extensions=[])


def peek():
    found = {"variables": sorted(os.environ), "root": None, "network": False}
    try:
        found["root"] = os.listdir("/")
    except OSError:
        pass
    try:
        socket.socket().connect(("127.0.0.1", 80))
        found["network"] = True
    except OSError:
        pass
    return found


class Availability(exports.Availability):
    def check(self, tool: str) -> None:
        return None


class SchemaOverride(exports.SchemaOverride):
    def describe(self, tool: str, available: list[str]) -> str | None:
        return None


class Hooks(exports.Hooks):
    def request(self, call):
        return None

    def pre_call(self, call):
        return exports.hooks.Decision_Allow()

    def post_call(self, call, outcome):
        return None

    def transform(self, call, outcome):
        return None
