"""Being told to end, as an editor does with its jobs, is like being interrupted at the keyboard."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ended_like_interrupted() -> Iterator[None]:
    """Within it SIGTERM raises KeyboardInterrupt, so that what runs is ended and scratch folders go. For the main thread."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
