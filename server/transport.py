"""Bytes in and out: pipes read and written by daemon threads, and the message loop on top.

Not asyncio's own pipe transports: those need `O_NONBLOCK` on file descriptors that we share with others and do not work
for inherited pipes on Windows. Not an executor either: its threads are joined at exit, so one that waits in `read` would
keep a dead server alive. A daemon thread has neither problem, and a write never blocks the event loop however slowly
the other side reads.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import threading
import time
from typing import Any

log = logging.getLogger(__name__)

_READ_SIZE = 1 << 20
_MAX_LINES = 10_000  # of the log that nobody has read yet
_MAX_BODY = 1 << 30  # a longer message is a damaged header, which must not swallow all that follows


class PipeReader:
    """Feeds an `asyncio.StreamReader` from a file descriptor."""

    def __init__(self, fd: int):
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self.stream = asyncio.StreamReader(limit=1 << 16)
        threading.Thread(target=self._run, name=f"read-{fd}", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                data = os.read(self._fd, _READ_SIZE)
            except OSError:
                data = b""
            try:
                if not data:
                    self._loop.call_soon_threadsafe(self.stream.feed_eof)
                    return
                self._loop.call_soon_threadsafe(self.stream.feed_data, data)
            except RuntimeError:  # the loop is closed: the process is ending
                return


class PipeWriter:
    """Writes to a file descriptor in order, without blocking the caller."""

    def __init__(self, fd: int):
        self._fd = fd
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"write-{fd}", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        self._queue.put(data)

    @property
    def waiting(self) -> int:
        """Writes that have not begun."""
        return self._queue.qsize()

    def close(self) -> None:
        self._queue.put(None)

    def flush(self, timeout: float) -> None:
        """Closes, and waits until everything is written or `timeout` seconds have passed."""
        self.close()
        self._thread.join(timeout)

    def _run(self) -> None:
        while (data := self._queue.get()) is not None:
            view = memoryview(data)
            while view:
                try:
                    view = view[os.write(self._fd, view) :]
                except BlockingIOError:
                    time.sleep(0.002)  # the descriptor was handed to us non-blocking
                except OSError:
                    return  # nobody reads any more; the end of the input tells the loop


class LogHandler(logging.Handler):
    """Log lines to a file descriptor, which an editor may never read from: the server must not stop when that is full. What is too much
    is dropped."""

    def __init__(self, fd: int):
        super().__init__()
        self._writer = PipeWriter(fd)

    def emit(self, record: logging.LogRecord) -> None:
        if self._writer.waiting < _MAX_LINES:
            self._writer.write(f"{self.format(record)}\n".encode(errors="backslashreplace"))

    def close(self) -> None:
        self._writer.flush(0.3)
        super().close()


async def read_messages(stream: asyncio.StreamReader, handle: Any) -> None:
    """Calls `handle(message)` with each JSON object that arrives, until the end of the input. What is not a message is
    logged (its size, not its text) and skipped."""
    while True:
        length = await _read_header(stream)
        if length is None:
            return
        if length < 0:
            continue
        try:
            body = await stream.readexactly(length)
        except asyncio.IncompleteReadError:
            return
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            log.warning("ignored %d bytes that are not JSON (%s)", length, type(error).__name__)
            continue
        if not isinstance(message, dict):
            log.warning("ignored a JSON message that is not an object")
            continue
        handle(message)
        # One turn for what the message started: a burst of messages must not starve timers and answers.
        await asyncio.sleep(0)


async def _read_header(stream: asyncio.StreamReader) -> int | None:
    """Content length of the next message; None at the end of the input, -1 when the header has no usable length."""
    length = -1
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than the limit: not a header
            log.warning("ignored an overlong header line")
            continue
        if not line:
            return None
        if not line.strip():
            return length
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            try:
                length = int(value) if 0 <= int(value) <= _MAX_BODY else -1
            except ValueError:
                log.warning("ignored a header with a bad Content-Length")
