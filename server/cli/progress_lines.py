"""Progress of long commands on stderr: a bar on a terminal, lines elsewhere, JSON lines for a program that starts the command."""

from __future__ import annotations

import json
import os
import shutil
from typing import TextIO

MODES = ("auto", "json", "none")
_BAR = 24


class ProgressLines:
    """`of` is an estimate that grows when there is more to do than was thought. A step that cannot be written is dropped: the
    reader of the progress may go away, and the work goes on."""

    def __init__(self, stream: TextIO, mode: str, of: int) -> None:
        self._stream = stream
        self._of = max(of, 1)
        self._step = 0
        self._width = 0
        self._mode = mode
        if mode == "auto":
            self._mode = "bar" if stream.isatty() and os.environ.get("TERM") != "dumb" else "lines"

    def more(self, count: int) -> None:
        """There are this many more steps to come, at least."""
        self._of = max(self._of, self._step + count)

    def step(self, message: str) -> None:
        """The next step begins."""
        self._step += 1
        self._of = max(self._of, self._step)
        if self._mode == "json":
            self._write(json.dumps({"step": self._step, "of": self._of, "message": message}) + "\n")
        elif self._mode == "lines":
            self._write(f"{message}\n")
        elif self._mode == "bar":
            done = _BAR * (self._step - 1) // self._of
            width = shutil.get_terminal_size().columns - 1
            line = f"[{'#' * done}{'.' * (_BAR - done)}] {self._step}/{self._of} {message}"[:width]
            self._write(f"\r{line.ljust(self._width)}")
            self._width = len(line)

    def end(self) -> None:
        """Removes the bar."""
        if self._mode == "bar" and self._width:
            self._write("\r" + " " * self._width + "\r")
            self._width = 0

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._mode = "none"
