"""The server and its children end by themselves, however the editor leaves."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from stitchcuda.server.lifetime import is_alive

from tests.server.client import FAKE, REAL

ROOT = Path(__file__).parents[2]
URI = "file:///project/a.cu"
PATIENCE_SECONDS = 20  # an end that does not come takes for ever: how slow the machine is must not matter


def message(**fields: Any) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **fields}).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def read_message(stream: IO[bytes]) -> dict[str, Any]:
    length = 0
    while line := stream.readline().strip():
        if line.startswith(b"Content-Length"):
            length = int(line.split(b":")[1])
    answer: dict[str, Any] = json.loads(stream.read(length))
    return answer


def answer_to(stream: IO[bytes], number: int) -> dict[str, Any]:
    while (got := read_message(stream)).get("id") != number:
        pass
    return got


class Server:
    """A server process that was initialised and has a document open whose analysis never ends."""

    def __init__(self, parent: int | None, word: str = "STUCK"):
        self.process = subprocess.Popen(FAKE, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.send(id=1, method="initialize", params={"processId": parent, "rootUri": None, "capabilities": {}})
        answer_to(self.stdout, 1)
        self.send(method="initialized", params={})
        text = f"void f() {{}} // {word}\n"
        item = {"uri": URI, "languageId": "cuda", "version": 1, "text": text}
        self.send(method="textDocument/didOpen", params={"textDocument": item})
        self.send(id=2, method="workspace/executeCommand", params={"command": "stitchcuda.status", "arguments": []})
        self.analysis: int = answer_to(self.stdout, 2)["result"]["analysis"]["pid"]
        time.sleep(0.4)  # until the analysis is on its way
        assert is_alive(self.analysis)

    def send(self, **fields: Any) -> None:
        self.stdin.write(message(**fields))
        self.stdin.flush()

    def ended(self) -> int:
        """The exit code, with everything gone."""
        end = time.monotonic() + PATIENCE_SECONDS
        code = self.process.wait(PATIENCE_SECONDS)
        while is_alive(self.analysis):
            assert time.monotonic() < end, "the analysis process outlives the server"
            time.sleep(0.01)
        return code

    def kill(self) -> None:
        for pid in (self.process.pid, self.analysis):
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.stdin.close()
        self.stdout.close()


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    started: list[Server] = []
    yield started
    for server in started:
        server.kill()


def test_shutdown_and_exit(servers: list[Server]) -> None:
    servers.append(server := Server(os.getpid()))
    server.send(id=3, method="shutdown")
    assert "error" not in answer_to(server.stdout, 3)
    server.send(id=4, method="textDocument/hover", params={})
    assert answer_to(server.stdout, 4)["error"]["code"] == -32600
    server.send(method="exit")
    assert server.ended() == 0


def test_exit_without_shutdown(servers: list[Server]) -> None:
    servers.append(server := Server(os.getpid()))
    server.send(method="exit")
    assert server.ended() == 1


def test_end_of_input(servers: list[Server]) -> None:
    servers.append(server := Server(os.getpid()))
    server.stdin.close()
    assert server.ended() == 1


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal(servers: list[Server], number: signal.Signals) -> None:
    servers.append(server := Server(os.getpid()))
    server.process.send_signal(number)
    assert server.ended() == 1


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_killed(servers: list[Server]) -> None:
    """The analysis process notices by itself."""
    servers.append(server := Server(os.getpid()))
    server.process.kill()
    assert server.ended() == -signal.SIGKILL


def test_death_of_the_editor(servers: list[Server]) -> None:
    editor = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        servers.append(server := Server(editor.pid))
        time.sleep(0.6)
        assert server.process.poll() is None
    finally:
        editor.kill()  # not reaped: a zombie counts as dead
    assert server.ended() == 1
    editor.wait()


def test_requests_before_initialize() -> None:
    process = subprocess.Popen(FAKE, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(message(id=1, method="textDocument/hover", params={}))
    process.stdin.flush()
    assert answer_to(process.stdout, 1)["error"]["code"] == -32002
    process.stdin.close()
    assert process.wait(PATIENCE_SECONDS) == 1
    process.stdout.close()


def test_tcp() -> None:
    command = [*REAL[:-1], "--tcp", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    port = int(process.stderr.readline().rsplit(b":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), 5) as connection, connection.makefile("rb") as stream:
        connection.sendall(message(id=1, method="initialize", params={"processId": None, "capabilities": {}}))
        assert "capabilities" in answer_to(stream, 1)["result"]
    assert process.wait(PATIENCE_SECONDS) == 1
    process.stderr.close()


def test_the_log_holds_no_source_text() -> None:
    process = subprocess.Popen(
        [*REAL, "--log-level", "debug"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    send = process.stdin
    send.write(message(id=1, method="initialize", params={"processId": None, "capabilities": {}}))
    send.write(message(method="initialized", params={}))
    item = {"uri": URI, "languageId": "cuda", "version": 1, "text": "int canary_in_a_coal_mine; void f( {{{ <<<"}
    send.write(message(method="textDocument/didOpen", params={"textDocument": item}))
    change = [{"range": {"start": {"line": 0, "character": 0}}, "text": "canary_in_a_coal_mine"}]
    bad = {"textDocument": {"uri": URI, "version": 2}, "contentChanges": change}
    send.write(message(method="textDocument/didChange", params=bad))
    send.write(message(id=2, method="textDocument/hover", params={"textDocument": "canary_in_a_coal_mine"}))
    send.flush()
    answer_to(process.stdout, 2)
    send.write(message(id=3, method="shutdown"))
    send.write(message(method="exit"))
    _, log = process.communicate(timeout=PATIENCE_SECONDS)
    assert b"canary" not in log
    assert process.returncode == 0
