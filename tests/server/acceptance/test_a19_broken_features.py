"""A19: a handler that raises costs its own answer and nothing else. The table is the server's own: what is added there is tested."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import attrs
import pytest
from lsprotocol import types as t
from pygls.exceptions import JsonRpcException
from stitchcuda.server.lsp import COMMANDS, FEATURES

from tests.server.client import FAKE, Editor, editor_session

URI = "file:///project/a.cu"
TEXT = "void f() { hazard(x); k<<<1, 2>>>(x); }\n"
# Without these there is no session, or no document: what is left working differs.
BEFORE_ALL = {t.INITIALIZE}
METHODS = [f.method for f in FEATURES if f.method not in BEFORE_ALL]
PATIENCE_SECONDS = 20.0


def params_of(kind: Any, name: str = "") -> Any:
    """The least that a request of this type may say, about the document and its beginning."""
    origin = t.Position(0, 0)
    known = {
        t.TextDocumentIdentifier: t.TextDocumentIdentifier(URI),
        t.Position: origin,
        t.Range: t.Range(origin, t.Position(1, 0)),
        t.CodeActionContext: t.CodeActionContext(diagnostics=[]),
        t.VersionedTextDocumentIdentifier: t.VersionedTextDocumentIdentifier(uri=URI, version=2),
        t.TextDocumentItem: t.TextDocumentItem(uri=URI, language_id="cuda", version=1, text=TEXT),
        t.WorkspaceFoldersChangeEvent: t.WorkspaceFoldersChangeEvent(added=[], removed=[]),
    }
    if kind in known:
        return known[kind]
    if attrs.has(kind):
        fields = attrs.fields_dict(attrs.resolve_types(kind))
        needed = {n: f for n, f in fields.items() if f.default is attrs.NOTHING}
        return kind(**{n: params_of(f.type, n) for n, f in needed.items()})
    text = str(kind)
    if kind is str or name in ("title", "token", "uri", "query", "command"):
        return URI if name == "uri" else "x"
    if "Sequence" in text or "list" in text:
        return []
    return None


def request_of(method: str) -> tuple[bool, Any]:
    """Whether a method is a request, and its parameters."""
    _, _, params, _ = t.METHOD_TO_TYPES[method]
    request = t.METHOD_TO_TYPES[method][1] is not None
    return request, params_of(params) if params is not None else None


async def ask(editor: Editor, method: str) -> None:
    request, params = request_of(method)
    if request:
        await asyncio.wait_for(
            asyncio.wrap_future(editor.client.protocol.send_request(method, params)), PATIENCE_SECONDS
        )
    else:
        editor.client.protocol.notify(method, params)


def test_a19_every_feature_and_command_has_a_request_here() -> None:
    for method in METHODS:
        _, params = request_of(method)
        assert params is None or attrs.has(type(params)), method
    assert len({name for name, _ in COMMANDS}) == len(COMMANDS)


@pytest.mark.asyncio
@pytest.mark.parametrize("method", METHODS)
async def test_a19_a_feature_that_raises_breaks_nothing_else(method: str, capfd: pytest.CaptureFixture[str]) -> None:
    async with editor_session("vscode", (*FAKE, "--fail", method), {"diagnosticsDelay": 0}) as editor:
        editor.open(URI, TEXT)
        await _fails(editor, method)
        await _others_work(editor, method)
        assert not editor.messages, "a popup"
    _one_line(capfd.readouterr().err, method)


@pytest.mark.asyncio
@pytest.mark.parametrize("name", [name for name, _ in COMMANDS])
async def test_a19_a_command_that_raises_breaks_nothing_else(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    async with editor_session("neovim", (*FAKE, "--fail", name), {"diagnosticsDelay": 0}) as editor:
        editor.open(URI, TEXT)
        with pytest.raises(JsonRpcException) as caught:
            await editor.command(name, URI)
        _is_short(caught.value)
        await _others_work(editor, name)
        assert not editor.messages, "a popup"
    _one_line(capfd.readouterr().err, name)


@pytest.mark.asyncio
async def test_a19_a_client_whose_initialize_fails_is_told() -> None:
    with pytest.raises(JsonRpcException) as caught:
        async with editor_session("vscode", (*FAKE, "--fail", t.INITIALIZE)):
            raise AssertionError("it is initialized")
    _is_short(caught.value)


async def _fails(editor: Editor, method: str) -> None:
    if not request_of(method)[0]:
        await ask(editor, method)
        return
    with pytest.raises(JsonRpcException) as caught:
        await ask(editor, method)
    _is_short(caught.value)


def _is_short(error: JsonRpcException) -> None:
    assert error.code == t.ErrorCodes.InternalError
    assert error.data is None and "Traceback" not in error.message and "secret" not in error.message
    assert len(error.message) < 200 and "RuntimeError" in error.message


async def _others_work(editor: Editor, broken: str) -> None:
    for method in METHODS:
        if method == broken or not request_of(method)[0]:
            continue
        try:
            await ask(editor, method)
        except JsonRpcException as error:
            assert error.code != t.ErrorCodes.InternalError, f"{method}: {error.message}"
    if broken != "stitchcuda.status":
        status = await editor.command("stitchcuda.status")
        opens = broken != t.TEXT_DOCUMENT_DID_OPEN
        assert status["documents"] == (1 if opens else 0)


def _one_line(log: str, name: str) -> None:
    lines = [line for line in log.splitlines() if "RuntimeError" in line]
    assert lines and all(re.search(r"RuntimeError at fake_server\.py:\d+", line) for line in lines), f"{name}: {lines}"
    assert "Traceback" not in log and "secret" not in log
    # One for each time that it was called; a notification may come again (a change of configuration, folders).
    assert len(lines) <= 3, lines
