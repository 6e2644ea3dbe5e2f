"""Runs asynchronous work from a plain function, and gives it up within a moment of being cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from stitchcuda.gpu_validate.runs import Cancelled

LOOK = 0.05  # seconds between two looks at `cancelled`
LEAVE = 0.5  # seconds for closing connections

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], cancelled: Callable[[], bool]) -> T:
    """The result of `work`. Raises what it raises; Cancelled soon after `cancelled()` says so, however `work` waits: its connections
    are closed by then."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    watch = loop.create_task(_watch(task, cancelled))
    try:
        return loop.run_until_complete(watch)
    finally:  # also after an interrupt from the keyboard
        task.cancel()
        watch.cancel()
        loop.run_until_complete(asyncio.wait({task, watch}, timeout=LEAVE))
        for done in (task, watch):
            if done.done() and not done.cancelled():
                done.exception()  # was raised, or nobody asks any more
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()  # a thread that looks up a host's name is not waited for


async def _watch(task: asyncio.Task[T], cancelled: Callable[[], bool]) -> T:
    while not task.done():
        if cancelled():
            raise Cancelled
        await asyncio.wait({task}, timeout=LOOK)
    return task.result()
