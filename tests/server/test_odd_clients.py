"""Clients that break the rules of the protocol, spelled with raw messages, and files that must not be waited for."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from stitchcuda.analysis.syntax.text import Change
from stitchcuda.server.documents import Documents
from stitchcuda.server.engine.analyses import start_process
from stitchcuda.server.sources import include_folders, read_file

from tests.server.client import FAKE, REAL
from tests.server.test_lifetime import ROOT, answer_to, message

INITIALIZE: dict[str, object] = {"processId": None, "rootUri": None, "capabilities": {}}


def test_nothing_but_initialize_opens_the_session() -> None:
    with subprocess.Popen(FAKE, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None

        def ask(number: int, method: str, params: object = None) -> object:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(message(id=number, method=method, params=params))
            process.stdin.flush()
            answer = answer_to(process.stdout, number)
            return answer["error"]["code"] if "error" in answer else answer["result"]

        process.stdin.write(message(id=99, result=None) + message(id="x", error={"code": 1, "message": ""}))
        assert ask(1, "textDocument/hover", {}) == -32002
        assert ask(2, "shutdown") == -32002
        assert ask(3, "initialize", {"processId": "x"}) == -32602
        assert isinstance(ask(4, "initialize", INITIALIZE), dict)
        assert ask(5, "initialize", INITIALIZE) == -32600
        process.stdin.write(message(id={"a": 1}, method="textDocument/hover") + message(id=None, method="shutdown"))
        process.stdin.write(message(id=float("nan"), method="shutdown") + message(id=True, method="shutdown"))
        process.stdin.write(message(id=6, method="shutdown").replace(b'"jsonrpc": "2.0"', b'"jsonrpx": "2.0"'))
        process.stdin.flush()
        assert answer_to(process.stdout, 6)["error"]["code"] == -32600
        process.stdin.write(b"Content-Length: 99999999999999999999\r\n\r\n")
        assert ask(7, "shutdown") is None
        process.stdin.write(message(method="exit"))
        process.stdin.flush()
        assert process.wait(5) == 0


def test_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            (*REAL[:-1], "--tcp", str(port)), cwd=ROOT, check=False, capture_output=True, text=True, timeout=30
        )
    assert done.returncode == 2
    assert done.stderr.startswith(f"stitchcuda: cannot listen on 127.0.0.1:{port} (") and done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="there are no process groups on this system")
def test_an_interrupt_at_the_terminal_does_not_reach_the_analysis() -> None:
    command = (sys.executable, "-c", "import os; print(os.getpgrp() == os.getpid())")
    assert start_process(command).communicate()[0] == b"True\n"


def test_two_uris_of_one_file() -> None:
    documents = Documents()
    one, two = "file:///p/a%2Bb.cu", "file:///p/a+b.cu"
    documents.open(one, "cuda", 1, "1")
    documents.open(two, "cuda", 1, "2")
    documents.close(one)
    assert (found := documents.at("/p/a+b.cu")) is not None and found.uri == two
    documents.open(one, "cuda", 1, "3")
    documents.close(one)
    assert (found := documents.at("/p/a+b.cu")) is not None and found.uri == two
    assert documents.change(two, 2, [Change(None, None, "4")]) is not None
    documents.close(two)
    assert documents.at("/p/a+b.cu") is None


@pytest.mark.skipif(os.name == "nt", reason="there are no such files on this system")
def test_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.h")
    for path in (str(tmp_path / "pipe.h"), "/dev/zero", str(tmp_path)):
        assert read_file(path) is None
        assert Documents().snapshot(path) is None
    os.mkfifo(tmp_path / "compile_commands.json")
    above = include_folders(str(tmp_path / "a.cu"), [str(tmp_path)])  # which does not wait for somebody to write
    assert {os.path.normpath(folder) for folder in above} <= {str(tmp_path)}
