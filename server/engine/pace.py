"""When to say what is known for good while a long analysis goes on: soon, and then less and less often."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

_SOON = 0.01  # seconds of looking at functions before the first time
_AGAIN = 0.15  # a file that shows findings gets others only when it takes long; and before the second time
_SELDOM = 2.0
_SHARE = 20  # so many times as long as a look that found nothing is not looked again
_SHORT = 24 * 1024  # bytes: all of a file that is no longer is there soon anyway, and a list that grows only disturbs


class Pace:
    """An `Offer` for an analysis. `tell` sends what is known and says whether it was anything new."""

    def __init__(
        self, tell: Callable[[Any], bool], size: int, is_new: bool, clock: Callable[[], float] = time.perf_counter
    ):
        """`size` in bytes of the file that is asked about; `is_new`: nothing of it is shown yet."""
        self._tell, self._clock = tell, clock
        self._wait = _SELDOM if size <= _SHORT else _SOON if is_new else _AGAIN
        self._shows_nothing = is_new
        self._due = clock() + self._wait

    def __call__(self, make: Callable[[], Any]) -> bool:
        began = self._clock()
        if began < self._due:
            return False
        known = make()
        told = known is not None and self._tell(known)
        now = self._clock()
        if self._shows_nothing and not told:
            self._due = now + max(self._wait, _SHARE * (now - began))
            return False
        self._shows_nothing = False
        self._wait = min(max(2 * self._wait, _AGAIN), _SELDOM)
        self._due = now + self._wait
        return told
