"""When the analysis process is given up: by what it did, not by how long it took. On a busy machine, or with a huge program, minutes
pass with nothing wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

LOOK_SECONDS = 5.0  # between two looks
_WORK_SECONDS = 120.0  # of the processor without a word
_IDLE_SECONDS = 120.0  # in which it waits for something that does not come
_IDLE_WORK_SECONDS = 0.5  # what it uses in these at the most: on the busiest machine a process that can work gets more
_BLIND_SECONDS = 600.0  # without a word, where the system does not tell what a process uses


def processor_seconds(pid: int) -> float | None:
    """What a process has used of the processor so far (Linux); None where that is not told."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError, AttributeError):
        return None


class Silence:
    """What a process that owes an answer did since it was last heard."""

    def __init__(
        self,
        used: Callable[[int], float | None] = processor_seconds,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._used, self._clock = used, clock
        self._since: tuple[float, float | None] | None = None  # time and processor time at the first look
        self._idle_since: tuple[float, float] | None = None

    def heard(self) -> None:
        """It said something, or owes nothing."""
        self._since = self._idle_since = None

    def why_stuck(self, pid: int) -> str:
        """Asked at each look while it owes an answer; "" while it may still give one."""
        now, used = self._clock(), self._used(pid)
        if self._since is None:
            self._since = (now, used)
            self._idle_since = (now, used) if used is not None else None
            return ""
        began, base = self._since
        if used is None or base is None or self._idle_since is None:
            return f"gave no sign for {_BLIND_SECONDS:.0f} s" if now - began > _BLIND_SECONDS else ""
        if used - base > _WORK_SECONDS:
            return f"took more than {_WORK_SECONDS:.0f} s of the processor"
        if used - self._idle_since[1] > _IDLE_WORK_SECONDS:
            self._idle_since = (now, used)
        elif now - self._idle_since[0] > _IDLE_SECONDS:
            return f"did nothing for {_IDLE_SECONDS:.0f} s"
        return ""
