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
