"""Clients that say more, less or something else than the protocol has, answer late, refuse, or do not read what is written."""

from __future__ import annotations

import asyncio
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from stitchcuda.server.documents import Documents
from stitchcuda.server.engine.analyses import Analyses
from stitchcuda.server.engine.messages import Check, DiskChanged, Texts
from stitchcuda.server.lsp import _failed
from stitchcuda.server.understood import leave_out

from tests.server.client import FAKE, REAL
from tests.server.test_lifetime import ROOT, message, read_message

URI = "file:///project/a.cu"
HAZARD = "void f() { hazard(x); k<<<1, 2>>>(x); }\n"
ORIGIN = {"line": 0, "character": 0}
WHERE = {"start": {"line": 0, "character": 11}, "end": {"line": 0, "character": 20}}
SECONDS = 30.0


class Client:
    """`answers` says by method what the server's requests are answered with; others with null, and None not at all."""

    def __init__(self, process: subprocess.Popen[bytes]):
        assert process.stdin is not None and process.stdout is not None
        self.stdin, self._stdout = process.stdin, process.stdout
        self.answers: dict[str, dict[str, Any] | None] = {}
        self.told: list[dict[str, Any]] = []
        self._got: queue.Queue[dict[str, Any]] = queue.Queue()
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                got = read_message(self._stdout)
                if "method" in got and "id" in got:
                    answer = self.answers.get(got["method"], {"result": None})
                    if answer is not None:
                        self.send(id=got["id"], **answer)
                (self.told.append if "method" in got else self._got.put)(got)
        except (ValueError, OSError):
            return  # the end of the server

    def send(self, **fields: Any) -> None:
        self.stdin.write(message(**fields))
        self.stdin.flush()

    def tell(self, method: str, **params: Any) -> None:
        self.send(method=method, params=params)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self.send(id=self._number, method=method, params=params)
        while (got := self._got.get(timeout=SECONDS)).get("id") != self._number:
            pass
        return got

    def initialize(self, capabilities: Any, **more: Any) -> dict[str, Any]:
        got = self.ask("initialize", processId=None, rootUri=None, capabilities=capabilities, **more)
        self.tell("initialized")
        return got

    def open(self, text: str, uri: str = URI) -> None:
        item = {"uri": uri, "languageId": "cuda", "version": 1, "text": text}
        self.tell("textDocument/didOpen", textDocument=item)

    def methods(self) -> list[str]:
        return [told["method"] for told in self.told]

    def pushed(self) -> list[Any]:
        lists = [t["params"] for t in self.told if t["method"] == "textDocument/publishDiagnostics"]
        return [pushed["diagnostics"] for pushed in lists]

    def until(self, probe: Callable[[], Any]) -> None:
        end = time.monotonic() + SECONDS
        while not probe():
            assert time.monotonic() < end, "it did not happen in time"
            time.sleep(0.01)


@contextmanager
def client_of(command: Sequence[str] = FAKE, stderr: int | None = None) -> Iterator[Client]:
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
    try:
        yield Client(process)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "capabilities",
    [
        {"textDocument": {"documentSymbol": {"symbolKind": {"valueSet": [1, 99]}}}},
        {"textDocument": {"publishDiagnostics": {"tagSupport": True, "relatedInformation": True}}},
        {"textDocument": {"semanticTokens": {}, "codeAction": {"codeActionLiteralSupport": {}}}},
        {"workspace": {"workspaceEdit": {"resourceOperations": ["create", "copy"], "failureHandling": "retry"}}},
        {"general": {"staleRequestSupport": {"cancel": True}, "positionEncodings": ["utf-7", "utf-8"]}},
    ],
)
def test_a_capability_that_is_not_known_does_not_keep_the_server_from_starting(capabilities: Any) -> None:
    with client_of() as client:
        assert "result" in client.initialize(capabilities, trace="compact", clientInfo={"version": "2"})
        client.open(HAZARD)
        client.until(lambda: client.pushed())
        related = "publishDiagnostics" in capabilities.get("textDocument", {})
        assert ("relatedInformation" in client.pushed()[-1][0]) is related  # what stands beside it counts


def test_a_diagnostic_of_another_server_does_not_cost_the_actions() -> None:
    odd = {"range": WHERE, "message": "theirs", "severity": 0, "tags": [99]}
    with client_of() as client:
        client.initialize({})
        client.open(HAZARD)
        client.until(lambda: client.pushed())
        document = {"uri": URI}
        context = {"diagnostics": [odd, odd], "triggerKind": 9}
        found = client.ask("textDocument/codeAction", textDocument=document, range=WHERE, context=context)
        assert "Make it safe" in [action["title"] for action in found["result"]]
        backwards = {"start": ORIGIN}
        wrong = client.ask("textDocument/codeAction", textDocument=document, range=backwards, context=context)
        assert wrong["error"]["code"] == -32602


def test_what_is_left_out_is_no_more_than_what_cannot_be_read() -> None:
    from lsprotocol import types as t
    from lsprotocol.converters import get_converter

    converter = get_converter()
    changes: list[Any] = [{"uri": "a", "type": 9}, {"uri": "b", "type": 2}, {"uri": "c"}]
    data: Any = {"jsonrpc": "2.0", "method": "workspace/didChangeWatchedFiles", "params": {"changes": changes}}
    for _ in range(2):  # first the members, then what cannot do without them
        with pytest.raises(Exception) as failed:
            converter.structure(data, t.DidChangeWatchedFilesNotification)
        assert leave_out(data, failed.value)
    assert data["params"] == {"changes": [{"uri": "b", "type": 2}]}
    converter.structure(data, t.DidChangeWatchedFilesNotification)


def test_a_change_of_the_whole_text_with_a_range_that_is_null() -> None:
    with client_of() as client:
        client.initialize({})
        client.open(HAZARD)
        client.until(lambda: client.pushed())
        identifier = {"uri": URI, "version": 2}
        changes: list[Any] = [{"range": None, "text": "void f() { k<<<1, 2>>>(x); }\n"}]
        client.tell("textDocument/didChange", textDocument=identifier, contentChanges=changes)
        client.until(lambda: client.pushed()[-1] == [])
        # Part of a range means nothing: the text is not taken for the whole one.
        changes = [{"range": {"start": ORIGIN}, "text": HAZARD}]
        client.tell("textDocument/didChange", textDocument={"uri": URI, "version": 3}, contentChanges=changes)
        status = client.ask("workspace/executeCommand", command="stitchcuda.status")["result"]
        assert status["texts"][URI]["version"] == 2


@pytest.mark.parametrize("answer", [{"result": None}, {"result": {}}, {"result": "yes"}])
def test_an_answer_that_is_malformed_is_not_waited_for(answer: dict[str, Any]) -> None:
    with client_of() as client:
        client.answers["workspace/applyEdit"] = answer
        client.initialize({"workspace": {"applyEdit": True}})
        client.open(HAZARD)
        client.until(lambda: client.pushed())
        got = client.ask("workspace/executeCommand", command="stitchcuda.fixAll", arguments=[URI])
        assert got["error"]["message"] == "the editor's answer is malformed"


@pytest.mark.parametrize("answer", [{"error": {"code": -32601, "message": "no"}}, None])
def test_a_client_that_registers_nothing_is_told_the_rest(answer: dict[str, Any] | None) -> None:
    dynamic = {"dynamicRegistration": True}
    with client_of() as client:
        client.answers["client/registerCapability"] = answer
        capabilities = {"workspace": {"didChangeWatchedFiles": dynamic, "didChangeConfiguration": dynamic}}
        client.initialize(capabilities, initializationOptions={"status": True})
        client.until(lambda: "stitchcuda/status" in client.methods())
        assert client.methods().count("client/registerCapability") == 2


def test_a_log_that_nobody_reads_does_not_stop_the_server() -> None:
    reading, writing = os.pipe()
    try:
        with client_of(REAL, stderr=writing) as client:
            client.initialize({})
            nowhere = {"uri": "file:///not/open", "version": 1}
            for _ in range(3000):  # a line of the log each, more than a pipe holds
                client.tell("textDocument/didChange", textDocument=nowhere, contentChanges=[])
            assert client.ask("workspace/executeCommand", command="stitchcuda.status")["result"]["documents"] == 0
            assert b"not open" in os.read(reading, 1000)
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.skipif(os.name == "nt", reason="a folder in use cannot be removed on this system")
def test_the_folder_that_the_server_was_started_in_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd "{gone}" && rmdir "{gone}" && exec "$@"'
    with client_of(("/bin/sh", "-c", script, "sh", *REAL)) as client:
        client.initialize({})
        client.open("int main() { cudaDeviceSynchronize(); cudaDeviceSynchronize(); }\n", "untitled:Untitled-1")
        client.until(lambda: client.pushed())


def test_half_a_character_in_a_project_file() -> None:
    with client_of() as client:
        client.initialize({})
        uri = "file:///project/stitchcuda.toml"
        client.open('[check]\nignore = ["\ud83d"]\nselect = 1\n', uri)
        client.until(lambda: client.pushed())
        places = [d["range"]["start"]["line"] for d in client.pushed()[-1]]
        assert places == [1, 2]
        position = {"line": 3, "character": 0}
        found = client.ask("textDocument/completion", textDocument={"uri": uri}, position=position)
        assert "exclude" in [item["label"] for item in found["result"]]


def test_what_fails_in_the_background_is_told_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    try:
        _failed(loop, {"message": "Task exception was never retrieved", "exception": ValueError("secret source text")})
    finally:
        loop.close()
    (told,) = caplog.messages
    assert "ValueError" in told and "secret" not in told


def test_what_changes_while_a_client_pulls_again_is_pulled_after_that() -> None:
    with client_of() as client:
        client.answers["workspace/diagnostic/refresh"] = None
        refresh = {"diagnostics": {"refreshSupport": True}}
        client.initialize({"textDocument": {"diagnostic": {}}, "workspace": refresh})
        client.open(HAZARD)
        for severity in ("warning", "hint"):
            settings = {"severity": {"stream-race-raw": severity}}
            client.tell("workspace/didChangeConfiguration", settings=settings)
        client.ask("workspace/executeCommand", command="stitchcuda.status")
        (asked,) = [told for told in client.told if told["method"] == "workspace/diagnostic/refresh"]
        client.send(id=asked["id"], result=None)
        client.until(lambda: client.methods().count("workspace/diagnostic/refresh") == 2)


def test_files_that_are_told_one_by_one_are_told_to_the_analysis_at_once() -> None:
    documents, sent = Documents(), list[Any]()

    def nothing(*_: object) -> None:
        pass

    analyses = Analyses(documents, nothing, nothing, nothing, nothing)
    analyses._send = sent.append  # type: ignore[method-assign, assignment]
    for number in range(300):
        analyses.disk_changed([f"/p/{number}.cu"])
    assert not sent
    analyses.request(documents.open(URI, "cuda", 1, HAZARD).path, 0)
    told, texts, check = sent
    assert (len(told.paths), told.paths[0]) == (300, "/p/0.cu")
    assert isinstance(texts, Texts) and isinstance(check, Check)
    analyses.disk_changed(())
    analyses.disk_changed(["/p/0.cu"])  # any may have changed already
    analyses.request(documents.at("/project/a.cu").path, 0)  # type: ignore[union-attr]
    assert sent[3:] == [DiskChanged(()), check]
