"""Worker processes for batch work (a whole tree to check): ordered results, crashes contained, nothing left behind.

Not `concurrent.futures`: there one crash breaks the pool without saying which item it was, and an interrupt leaves the
workers to the terminal. Here a worker that dies costs its item only, which becomes a `Problem`.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from stitchcuda.analysis.internal_error import where
from stitchcuda.analysis.program.ir import Problem
from stitchcuda.server.interrupting import INTERRUPTS, interrupts_wait
from stitchcuda.server.shares import Shares

Item = TypeVar("Item")
Out = TypeVar("Out")

_GRACE_SECONDS = 1.0


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    item: int | None = None  # index of what it works on


@dataclass(frozen=True)
class _Raised:
    """The function raised: its type and place, which can be sent where the exception itself perhaps cannot."""

    what: str


class _Pool(Generic[Item, Out]):
    def __init__(
        self, func: Callable[[Item], Out], items: Sequence[Item], workers: int, cost: Callable[[Item], float] | None
    ):
        self._func = func
        self._items = items
        self._count = max(1, min(workers, len(items)))
        self._shares = Shares([cost(item) for item in items], self._count) if cost is not None else None
        self._in_order = iter(range(len(items)))
        self._workers: list[_Worker] = []

    def _start(self) -> _Worker:
        ours, theirs = multiprocessing.Pipe()
        process: BaseProcess
        # A fork need not import everything again. Not with threads: a forked child with a lock that nobody releases hangs for ever.
        # Not on macOS, whose libraries have some of their own.
        if sys.platform == "linux" and threading.active_count() == 1:
            # What it must not keep open: it would never see that the parent is gone.
            of_parent = [ours, *(worker.pipe for worker in self._workers if not worker.pipe.closed)]
            process = multiprocessing.get_context("fork").Process(
                target=_work, args=(theirs, self._func, of_parent), daemon=True
            )
        else:
            process = multiprocessing.get_context("spawn").Process(target=_work, args=(theirs, self._func), daemon=True)
            if sys.platform != "win32":
                resource_tracker.ensure_running()  # it lets interrupts through when it starts
        # It must be sent what it is to run, or it ends with a traceback of Python's own; it takes interrupts when it ignores a terminal's.
        with interrupts_wait():
            process.start()
        theirs.close()
        return _Worker(process, ours)

    def run(self, cancel: Callable[[], bool] | None) -> Iterator[Out | Problem]:
        """Results in the order of the items."""
        ready: dict[int, Out | Problem] = {}
        shown = 0
        try:
            for _ in range(self._count):
                self._workers.append(self._start())
                self._give(self._workers[-1])
            while shown < len(self._items):
                if cancel is not None and cancel():
                    return
                for pipe in wait([w.pipe for w in self._workers if w.item is not None], timeout=0.1):
                    worker = next(w for w in self._workers if w.pipe is pipe)
                    assert worker.item is not None
                    index = worker.item
                    ready[index] = self._receive(worker)
                    self._give(worker)
                while shown in ready:
                    yield ready.pop(shown)
                    shown += 1
        finally:
            self._end()

    def _give(self, worker: _Worker) -> None:
        if self._shares is None:
            worker.item = next(self._in_order, None)
        else:
            worker.item = self._shares.next(self._workers.index(worker))
        if worker.item is not None:
            # A worker that is already dead is noticed when its pipe is read.
            with contextlib.suppress(OSError):
                worker.pipe.send(self._items[worker.item])

    def _receive(self, worker: _Worker) -> Out | Problem:
        assert worker.item is not None
        item = self._items[worker.item]
        try:
            result: Any = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(_GRACE_SECONDS)
            code = worker.process.exitcode
            worker.pipe.close()
            fresh = self._start()
            worker.process, worker.pipe = fresh.process, fresh.pipe
            return Problem(
                str(item), 0, f"the worker process ended (exit code {code})", "it is left out", internal=True
            )
        if isinstance(result, _Raised):
            return Problem(str(item), 0, f"internal error: {result.what}", "it is left out", internal=True)
        return result  # type: ignore[no-any-return]

    def _end(self) -> None:
        for worker in self._workers:
            worker.pipe.close()
            _kill(worker.process)
        for worker in self._workers:
            worker.process.join(_GRACE_SECONDS)


def map_in_processes(
    func: Callable[[Item], Out],
    items: Sequence[Item],
    workers: int | None = None,
    cancel: Callable[[], bool] | None = None,
    cost: Callable[[Item], float] | None = None,
) -> Iterator[Out | Problem]:
    """Calls `func` (importable by name) for each item in worker processes and yields the results in the items' order.

    An item whose call raises or whose worker dies yields a `Problem` in its place. When `cancel()` becomes true, the
    iteration ends early. However it ends (exhausted, cancelled, abandoned, interrupted), the workers and what they
    started are killed. One worker a core by default. With `cost` (of an item, in any unit) a worker gets neighbours,
    after what costs most (`shares.py`)."""
    if not items:
        return
    yield from _Pool(func, items, workers or _cores(), cost).run(cancel)


def _cores() -> int:
    """Those that this process may use: in a container or under taskset they can be few of many."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _work(pipe: Connection, func: Callable[[Any], Any], of_parent: Sequence[Connection] = ()) -> None:
    for end in of_parent:
        end.close()
    if sys.platform != "win32":
        os.setpgid(0, 0)  # so that its children can be killed with it
    for number in INTERRUPTS:  # as for a new process, whatever the parent does when they come
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
    gc.freeze()  # what there is from the start stays: it is not looked through, and memory that is the parent's stays shared
    with rare_collections():
        while True:
            try:
                item = pipe.recv()
            except (EOFError, OSError):
                return  # the parent is done, or gone
            try:
                result = func(item)
            except Exception as error:  # noqa: BLE001 - one bad item must not end the batch
                result = _Raised(where(error))
            try:
                pipe.send(result)
            except OSError:
                return  # the parent was killed meanwhile


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """For batch work. What an analysis makes stays until the program is done and then goes at once, since it makes next to no
    cycles: looking for them at the usual pace visits all that is alive, again and again."""
    before = gc.get_threshold()
    gc.set_threshold(1_000_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _kill(process: BaseProcess) -> None:
    if process.pid is None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform != "win32":
            os.killpg(process.pid, signal.SIGKILL)
    if process.is_alive():  # not in its own group yet, or no groups here
        process.kill()
