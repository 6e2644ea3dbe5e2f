"""The requests that wait for the analysis process, and how one of them stops what runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from stitchcuda.server.engine.messages import LENGTH, Check, GraphText, OutlineAt, Request, StopIndexing, unpack


class Inbox:
    """Requests in arrival order, filled by a thread."""

    def __init__(self, fd: int):
        self._fd = fd
        self._requests: list[Request] = []
        self._ready = threading.Condition()
        self._running: str | None = None
        self._yields = False
        self._cancel = threading.Event()
        threading.Thread(target=self._read, name="requests", daemon=True).start()

    def _read(self) -> None:
        while True:
            request = unpack(self._exactly(LENGTH.unpack(self._exactly(LENGTH.size))[0]))
            with self._ready:
                self._requests.append(request)  # type: ignore[arg-type]
                if isinstance(request, Check) and (self._yields or request.path == self._running):
                    self._cancel.set()
                self._ready.notify()

    def _exactly(self, size: int) -> bytes:
        # Not `sys.stdin.buffer`: its lock, held here while waiting, aborts an interpreter that ends with an exception.
        data = bytearray()
        while len(data) < size:
            part = os.read(self._fd, min(size - len(data), 1 << 20))
            if not part:
                os._exit(0)  # the server is gone
            data += part
        return bytes(data)

    def take(self, timeout: float | None = None) -> Request | None:
        """The next request; None when there is none for `timeout` seconds."""
        with self._ready:
            self._ready.wait_for(lambda: self._requests, timeout)
            return self._requests.pop(0) if self._requests else None

    def is_waiting(self) -> bool:
        """Whether there is a request."""
        return bool(self._requests)

    def take_outline_at(self, wanted: Callable[[OutlineAt], bool]) -> OutlineAt | None:
        """The first request of that kind that is `wanted`, ahead of what came before it."""
        with self._ready:
            waiting = list(self._requests)
        for request in waiting:
            if isinstance(request, OutlineAt) and wanted(request):
                with self._ready:
                    self._requests.remove(request)
                return request
        return None

    def put_back(self, request: Request) -> None:
        """To be handled after everything that is waiting now."""
        with self._ready:
            self._requests.append(request)

    def has_check(self) -> bool:
        with self._ready:
            return any(isinstance(r, Check | GraphText | StopIndexing) for r in self._requests)

    def superseded(self, path: str) -> bool:
        """Whether a later request asks to check the same path again."""
        with self._ready:
            return any(isinstance(r, Check) and r.path == path for r in self._requests)

    def running(self, path: str | None) -> threading.Event:
        """Says what is being checked; the event is set when a newer check of it arrives."""
        with self._ready:
            self._running, self._yields = path, False
            self._cancel = threading.Event()
            return self._cancel

    def yielding(self) -> threading.Event:
        """The same for what gives way to a check of any file."""
        with self._ready:
            self._running, self._yields = None, True
            self._cancel = threading.Event()
            if any(isinstance(r, Check) for r in self._requests):
                self._cancel.set()
            return self._cancel
