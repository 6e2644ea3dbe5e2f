"""Stopping an analysis that nobody waits for any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Cancel: TypeAlias = Callable[[], bool]
"""Asked between the steps of an analysis; True ends it at the next one."""


class CancelToken:
    """A switch to pass as `cancel`: set once, from any thread."""

    __slots__ = ("_cancelled",)

    def __init__(self) -> None:
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def __call__(self) -> bool:
        return self._cancelled
