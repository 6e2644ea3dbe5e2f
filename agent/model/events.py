"""Server-sent events out of the bytes of a stream, however they were cut into pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a \r at the end may be half of a line end


class EventReader:
    """Feeds on pieces of bytes; gives the data of each whole event. Comments and fields other than data are left out, and an event
    that the end of the stream cuts off is none."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        lines = _LINE_END.split(self._rest + piece) if self._has_end(piece) else [self._rest + piece]
        self._rest = lines.pop()
        for line in lines:
            yield from self._line(line)

    def end(self) -> Iterator[bytes]:
        """The last event, where only the empty line after it is missing."""
        yield from self._line(self._rest.rstrip(b"\r"))
        yield from self._line(b"")

    def _has_end(self, piece: bytes) -> bool:
        return b"\n" in piece or b"\r" in piece or self._rest.endswith(b"\r")

    def _line(self, line: bytes) -> Iterator[bytes]:
        if not line:
            if self._data:
                yield b"\n".join(self._data)
            self._data = []
        elif line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
