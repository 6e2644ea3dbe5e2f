"""When Python looks for unreachable cycles: while nobody waits for an answer.

The facts of a long file are tens of thousands of objects that stay. Left to itself the collector walks over them again and again, at any
time: up to a hundredth of a second in which no request is answered.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable

_QUIET_SECONDS = 1.0
_AT_LATEST_SECONDS = 60.0


_MANY = 50_000  # new objects: what some dozens of edits leave behind
_TOO_MANY = 500_000  # a program was read: next to all of that stays


def collect_new() -> None:
    """For the analysis process between two requests, where the collector is off: takes what the last edits left, in some hundredths of
    a second, so that it does not pile up while somebody types on and on."""
    new = gc.get_count()[0]
    if new > _MANY:
        if new < _TOO_MANY:
            gc.collect()
        gc.freeze()  # what is left stays for long, and need not be walked over again


def collect_all() -> None:
    """The same when nobody waits: all that there is."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


async def collect_in_pauses(heard: Callable[[], float]) -> None:
    """Takes over from the collector until it is cancelled. `heard` says when (`time.monotonic`) the last message came."""
    gc.freeze()  # the protocol's types stay for good
    gc.disable()
    collected = time.monotonic()
    try:
        while True:
            await asyncio.sleep(_QUIET_SECONDS)
            now = time.monotonic()
            quiet = collected < heard() < now - _QUIET_SECONDS
            if quiet or now - collected > _AT_LATEST_SECONDS:
                gc.collect()
                collected = now
    finally:
        gc.enable()
