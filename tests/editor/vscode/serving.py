"""The server that editors start in tests: the real one, whose jobs run `command_line.py` of this folder."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[3]


class Serving:
    """`command` is what the setting stitchcuda.server.path names."""

    def __init__(self, folder: Path):
        self._hold = folder / "hold"
        self._agree = folder / "agree"
        self._pids = folder / "pids"
        self.command = folder / "stitchcuda"
        python = shlex.quote(sys.executable)
        self.command.write_text(
            "#!/bin/sh\n"
            f'[ "$1" = lsp ] || exec {shlex.quote(str(Path(sys.executable).with_name("stitchcuda")))} "$@"\n'
            f"echo $$ >>{shlex.quote(str(self._pids))}\n"
            f"export STITCHCUDA_HOLD={shlex.quote(str(self._hold))} STITCHCUDA_AGREE={shlex.quote(str(self._agree))}\n"
            f"export PYTHONPATH={shlex.quote(str(ROOT))}\n"
            f"exec {python} -m tests.server.programs.tooled_server tests.editor.vscode.command_line\n",
            encoding="utf-8",
        )
        self.command.chmod(0o755)

    @property
    def pids(self) -> list[int]:
        """Of the servers, in the order in which they were started."""
        return [int(line) for line in self._pids.read_text().split()] if self._pids.exists() else []

    @contextmanager
    def held(self) -> Iterator[None]:
        """Jobs that start now do nothing until the block ends."""
        with _present(self._hold):
            yield

    @contextmanager
    def agreeing(self) -> Iterator[None]:
        """What jobs would build and run passes."""
        with _present(self._agree):
            yield


@contextmanager
def _present(file: Path) -> Iterator[None]:
    file.touch()
    try:
        yield
    finally:
        os.unlink(file)
