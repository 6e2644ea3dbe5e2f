"""A18: however the editor leaves, the server and all that runs for it are gone within two seconds; the exit code is 0 after
`shutdown` alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.server.lifetime import is_alive

from tests.server.client import FAKE, ROOT
from tests.server.test_lifetime import answer_to, message
from tests.server.test_program_jobs import MAIN, Desk, desk

__all__ = ["desk"]  # the fixture

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

SECONDS = 2.0
SLOW = float(os.environ.get("STITCHCUDA_TEST_PATIENCE", "5"))  # times as long on a busy machine
PATIENCE_SECONDS = 30.0
# A job's command that starts what does not want to end: directly, as a compiler is, or under the watch that programs run under.
DIRECT = """\
import pathlib, subprocess, sys
here = pathlib.Path(__file__).parent
subprocess.run([sys.executable, str(here / "stubborn.py")])
"""
WATCHED = """\
import pathlib, sys
from stitchcuda.gpu_validate.processes import run_limited
here = pathlib.Path(__file__).parent
run_limited([sys.executable, str(here / "stubborn.py")], cwd=here)
"""
# A kernel of a minute, and a child of it; both ignore what asks them to end.
STUBBORN = """\
import json, os, pathlib, signal, subprocess, sys, time
for name in ("SIGTERM", "SIGINT", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
if len(sys.argv) < 2:
    here = pathlib.Path(__file__).parent
    child = subprocess.Popen([sys.executable, __file__, "child"])
    (here / "new").write_text(json.dumps([os.getpid(), child.pid]))
    (here / "new").rename(here / "pids.json")
time.sleep(60)
"""


class Session:
    """A server whose job runs a stubborn program, and the editor that it belongs to."""

    def __init__(self, desk: Desk, tool: str) -> None:
        desk.tool.write_text(tool)
        (desk.folder / "stubborn.py").write_text(STUBBORN)
        self.editor = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(90)"])
        self.server = subprocess.Popen(
            (*FAKE, "--tool", str(desk.tool)), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.server.stdin is not None and self.server.stdout is not None
        self.stdin, self.stdout = self.server.stdin, self.server.stdout
        options = {"trusted": True}
        params = {"processId": self.editor.pid, "rootUri": None, "capabilities": {}, "initializationOptions": options}
        self.ask(1, "initialize", params)
        self.send(method="initialized", params={})
        item = {"uri": desk.uri, "languageId": "cuda", "version": 1, "text": MAIN}
        self.send(method="textDocument/didOpen", params={"textDocument": item})
        status = self.ask(2, "workspace/executeCommand", {"command": "stitchcuda.status", "arguments": []})
        self.ask(3, "workspace/executeCommand", {"command": "stitchcuda.stitch", "arguments": [desk.uri]})
        end = time.monotonic() + PATIENCE_SECONDS
        while not (desk.folder / "pids.json").exists():
            assert time.monotonic() < end, "the program does not run"
            time.sleep(0.02)
        pids = json.loads((desk.folder / "pids.json").read_text())
        self.children: list[int] = [*pids, status["result"]["analysis"]["pid"]]
        assert all(is_alive(pid) for pid in self.children)

    def send(self, **fields: Any) -> None:
        self.stdin.write(message(**fields))
        self.stdin.flush()

    def ask(self, number: int, method: str, params: object) -> dict[str, Any]:
        self.send(id=number, method=method, params=params)
        answer = answer_to(self.stdout, number)
        assert "error" not in answer, answer
        return answer

    def close(self) -> None:
        for process in (self.editor, self.server):
            process.kill()
            process.wait()
        for pid in self.children:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.stdout.close()


def shut_down(session: Session) -> None:
    session.ask(9, "shutdown", None)
    session.send(method="exit")


def exit_alone(session: Session) -> None:
    session.send(method="exit")


def end_of_input(session: Session) -> None:
    session.stdin.close()


def sigterm(session: Session) -> None:
    session.server.send_signal(signal.SIGTERM)


def editor_killed(session: Session) -> None:
    """Its pipe stays open: somebody else holds it. It is not reaped: a zombie counts as dead."""
    session.editor.kill()


@pytest.fixture
def sessions() -> Iterator[list[Session]]:
    started: list[Session] = []
    yield started
    for session in started:
        session.close()


@pytest.mark.parametrize("tool", [DIRECT, WATCHED], ids=["compiler", "program"])
@pytest.mark.parametrize(
    ("way", "code"), [(shut_down, 0), (exit_alone, 1), (end_of_input, 1), (sigterm, 1), (editor_killed, 1)]
)
def test_a18_nothing_outlives_the_editor(desk: Desk, sessions: list[Session], tool: str, way: Any, code: int) -> None:
    sessions.append(session := Session(desk, tool))
    began = time.monotonic()
    way(session)
    assert session.server.wait(PATIENCE_SECONDS) == code
    while left := [pid for pid in session.children if is_alive(pid)]:
        assert time.monotonic() - began < PATIENCE_SECONDS, f"{left} outlive the server"
        time.sleep(0.01)
    took = time.monotonic() - began
    print(f"{way.__name__}: all gone after {took:.2f} s")
    assert took < SECONDS * SLOW


def test_a18_the_limits_add_up() -> None:
    """What the server allows itself for ending everything, and for noticing the editor's death, is less than two seconds."""
    from stitchcuda.server import lifetime, lsp

    assert lifetime._POLL_SECONDS + lsp._END_SECONDS <= SECONDS
    assert Path("/proc").exists() or sys.platform != "linux"


def test_a18_threads_in_slow_calls_hold_nothing_up() -> None:
    """A driver that does not answer, a network disk that is gone: no thread of the pool comes back for half a minute."""
    with subprocess.Popen((*FAKE, "--starve", "30"), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        params: dict[str, object] = {"processId": None, "rootUri": None, "capabilities": {}}
        server.stdin.write(message(id=1, method="initialize", params=params) + message(method="initialized", params={}))
        server.stdin.write(message(id=2, method="workspace/executeCommand", params={"command": "stitchcuda.status"}))
        server.stdin.flush()
        answer_to(server.stdout, 2)
        server.stdin.write(message(id=3, method="shutdown") + message(method="exit"))
        server.stdin.flush()
        began = time.monotonic()
        assert server.wait(PATIENCE_SECONDS) == 0
        assert time.monotonic() - began < SECONDS * SLOW
