"""Server-sent events out of the bytes of a stream, however they were cut into pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a \r at the end may be half of a line end


class EventReader:
    """Feeds on pieces of bytes; gives the data of each whole event. Comments and fields other than data are left out, and an event
    that the end of the stream cuts off is none."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # pieces of a line whose end has not come
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        half = bool(self._rest) and self._rest[-1].endswith(b"\r")
        if piece:
            self._rest.append(piece)
        if half or b"\n" in piece or b"\r" in piece:
            lines = _LINE_END.split(b"".join(self._rest))
            self._rest = [last] if (last := lines.pop()) else []
            for line in lines:
                yield from self._line(line)

    def end(self) -> Iterator[bytes]:
        """The last event, where only the empty line after it is missing."""
        yield from self._line(b"".join(self._rest).rstrip(b"\r"))
        yield from self._line(b"")

    def _line(self, line: bytes) -> Iterator[bytes]:
        if not line:
            if self._data:
                yield b"\n".join(self._data)
            self._data = []
        elif line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
