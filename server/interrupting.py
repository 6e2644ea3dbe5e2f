"""Being told to end, as an editor does with its jobs and a terminal that is closed, is like being interrupted at the keyboard; and when
that has to wait."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def ended_like_interrupted() -> Iterator[None]:
    """Within it the first SIGINT, SIGTERM or SIGHUP raises KeyboardInterrupt, so that what runs is ended and scratch folders go;
    more of them do not disturb that. What is ignored, as under nohup, stays ignored. For the main thread."""
    before = {number: signal.getsignal(number) for number in INTERRUPTS}
    taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]

    def interrupt(number: int, frame: FrameType | None) -> None:
        for one in taken:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    try:
        for number in taken:
            signal.signal(number, interrupt)
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Within it they do not come; a process that is started in it inherits that. POSIX only."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
