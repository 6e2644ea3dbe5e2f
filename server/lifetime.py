"""When the server ends: end of input, SIGTERM, SIGINT, and the death of the editor that started it.

An editor that crashes sends neither `shutdown` nor `exit`, and its pipe can be held open by another child of it; so the
`processId` of `initialize` is polled as well.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable

_POLL_SECONDS = 0.5


def on_signals(stop: Callable[[], None]) -> None:
    """Calls `stop` in the running loop on SIGTERM and SIGINT."""
    loop = asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGINT"):
        number = getattr(signal, name)
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))


async def parent_gone(pid: int) -> None:
    """Returns when the process `pid` does not exist any more."""
    while is_alive(pid):
        await asyncio.sleep(_POLL_SECONDS)


def is_alive(pid: int) -> bool:
    if sys.platform == "win32":
        return _is_alive_windows(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Whether the process has ended but was not reaped: signal 0 still reaches it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] == b"Z"
    except (OSError, IndexError):  # no /proc on this system, or it is gone by now: the next poll tells
        return False


def _is_alive_windows(pid: int) -> bool:
    import ctypes

    kernel32 = ctypes.windll.kernel32  # type: ignore[attr-defined,unused-ignore]
    handle = kernel32.OpenProcess(0x00100000, False, pid)  # SYNCHRONIZE
    if not handle:
        return False
    running: bool = kernel32.WaitForSingleObject(handle, 0) == 0x102  # WAIT_TIMEOUT
    kernel32.CloseHandle(handle)
    return running
