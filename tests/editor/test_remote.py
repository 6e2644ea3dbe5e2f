"""On another machine, through a real sshd: Neovim there in a terminal, and Neovim here with the server there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.editor.neovim import PLUGIN, binary, environment, neovim
from tests.editor.ssh_server import Machine, machine
from tests.editor.test_plugin import written
from tests.server import small_program

pytestmark = pytest.mark.editor
ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[P_^X].*?\x1b\\|[ -/]*[0-~])", re.DOTALL)


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Machine]:
    with machine(tmp_path) as found:
        yield found


class Terminal:
    """A terminal of 200 x 50 characters with a program in it; `shown` is all that was written to it, without control sequences."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]):
        self._master = master
        self.process = process
        self._read = bytearray()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            while data := os.read(self._master, 65536):
                self._read += data
        except OSError:
            pass  # the program has ended

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    @property
    def shown(self) -> str:
        return ESCAPE.sub("", self._read.decode(errors="replace"))

    def wait(self, text: str, since: int = 0, seconds: float = 40.0) -> None:
        end = time.monotonic() + seconds
        while text not in self.shown[since:]:
            assert time.monotonic() < end, f"{text!r} is not shown in {self.shown[since:][-3000:]!r}"
            time.sleep(0.05)


@contextmanager
def terminal(command: list[str]) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    variables = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=variables, start_new_session=True)
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        process.kill()
        process.wait(10)
        os.close(master)


def gone(pids: set[int], seconds: float) -> set[int]:
    """Those of the processes that still run when the time is over."""
    end = time.monotonic() + seconds
    left = pids
    while left and time.monotonic() < end:
        time.sleep(0.02)
        left = {pid for pid in left if _runs(pid)}
    return left


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def test_neovim_in_a_terminal_on_the_other_machine(remote: Machine, tmp_path: Path) -> None:
    written(tmp_path, "race.cu")
    start = tmp_path / "site" / "pack" / "test" / "start"
    start.mkdir(parents=True)
    (start / "stitchcuda").symlink_to(PLUGIN)
    own = {k: v for k, v in environment(tmp_path).items() if k.startswith("XDG_") or k == "PATH"}
    words = ["env", *(f"{k}={v}" for k, v in own.items()), binary(), "--clean"]
    words += ["--cmd", f"set packpath^={tmp_path / 'site'}", "-c", "lua vim.diagnostic.config({ virtual_text = true })"]
    command = f"cd {shlex.quote(str(tmp_path))} && {shlex.join([*words, 'race.cu'])}"
    with terminal([*remote.ssh[:1], "-tt", *remote.ssh[1:], command]) as screen:
        screen.wait("`consume` on stream `b` reads `x`")
        screen.type(":StitchCudaGraph main\r")
        screen.wait("What could overlap:")
        screen.wait("`consume` (line 17) on stream `b` with `produce` (line 16)")
        # a fix, typed: from the graph to the source, to the finding, and the first code action
        screen.type("\x17p]d")
        before = len(screen.shown)
        screen.type(":lua vim.lsp.buf.code_action({ apply = true, filter = function(a) return a.isPreferred end })\r")
        screen.wait("cudaStreamWaitEvent(b, ", before)
        screen.type(":wall\r:qall\r")
        assert screen.process.wait(20) == 0
    assert not gone(set(remote.below()), 5), remote.below()
    assert "cudaStreamWaitEvent(b, " in (tmp_path / "race.cu").read_text(encoding="utf-8")


def test_the_server_over_ssh_ends_with_the_connection(remote: Machine, tmp_path: Path) -> None:
    program = small_program.write(tmp_path)
    stitchcuda = str(Path(sys.executable).with_name("stitchcuda"))
    cache = f"XDG_CACHE_HOME={tmp_path / 'cache'}"
    with neovim(tmp_path, server=[*remote.ssh, "env", cache, stitchcuda, "lsp", "--stdio"]) as editor:
        editor.open(written(program, "race.cu"))
        editor.wait_codes("stream-race-raw")
        editor.cursor(17, 20)
        editor.do("StitchCudaExplain")  # by the command line over there
        editor.wait_for("#vim.api.nvim_list_wins() > 1")
        editor.do("fclose!")

        editor.do("StitchCuda")
        editor.wait_for("require('stitchcuda').statusline():find('Stitch') ~= nil")
        served = {pid for pid, words in remote.below().items() if "stitchcuda" in " ".join(words)}
        assert len(served) >= 3, "the server, its analysis and the job"
        neovims = Path(f"/proc/{editor.lua('return vim.uv.os_getpid()')}/task").glob("*/children")
        (client,) = (int(pid) for names in neovims for pid in names.read_text().split())
        os.kill(client, signal.SIGKILL)
        assert not gone(served, 2.0), {pid: words for pid, words in remote.below().items() if pid in served}
        # It is started again, over a new connection.
        editor.wait_said("the server ended unexpectedly (signal 9); it is started again")
        editor.wait_attached()
        editor.wait_codes("stream-race-raw")
