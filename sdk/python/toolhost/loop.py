"""Runs `async def` tools.

In a component there are no sockets to wait for, so the loop only waits for time: tasks, `gather`,
`sleep`, timeouts, queues and locks of asyncio work; its streams, subprocesses and threads do not.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import time


class _Clock:
    """In place of a selector: waits until the next timer is due."""

    def select(self, timeout):
        if timeout is None:
            raise RuntimeError("every task waits for something that never comes")
        if timeout > 0:
            time.sleep(timeout)
        return []

    def close(self):
        """Has nothing to close."""


class Loop(asyncio.BaseEventLoop):
    """An event loop without input and output."""

    def __init__(self):
        super().__init__()
        self._selector = _Clock()

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass


def run(coroutine):
    """Runs a coroutine to its end and returns what it returns."""
    return asyncio.run(coroutine)


def finished(answer):
    """Returns what a function of the author's has returned; if that is to be awaited, what comes of it."""
    if inspect.iscoroutine(answer):
        return run(answer)
    return run(_awaited(answer)) if inspect.isawaitable(answer) else answer


async def _awaited(awaitable):
    return await awaitable


if sys.platform == "wasi":
    asyncio.new_event_loop = asyncio.events.new_event_loop = Loop
