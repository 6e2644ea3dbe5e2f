"""A24: the log says what happened and nothing of the user's: no source text, no prompt, no key."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from lsprotocol import types as t

from tests.server.client import REAL, Editor, editor_session, until
from tests.server.test_program_jobs import Desk, at, desk, job_ended

__all__ = ["desk"]  # the fixture

pytestmark = pytest.mark.asyncio

CANARY = "canary_in_a_coal_mine"
CLIENTS = ["neovim", "visual_studio_code"]


def logged(editor: Editor) -> str:
    return "\n".join(m.message for m in editor.client.log_messages) + "\n".join(editor.messages)


@pytest.mark.parametrize("client", CLIENTS)
async def test_a24_no_source_text_in_the_log(client: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Sound and broken code, malformed messages that quote it, a fix, hover, and the graph."""
    uri = (tmp_path / "a.cu").as_uri()
    text = f"int {CANARY}; __global__ void k() {{}}\nint main() {{ k<<<1, 1>>>(); }}\n"
    async with editor_session(client, REAL, {"diagnosticsDelay": 0}, tmp_path) as editor:
        editor.open(uri, text)
        await editor.command("stitchcuda.graphText", uri)
        for broken in (f"{CANARY} ( {{{{ <<<", f'#include "{CANARY}.h"\n' + text, f"#define {CANARY} }}\n{text}"):
            editor.replace(uri, broken)
            await editor.command("stitchcuda.graphText", uri)
        for method in ("textDocument/hover", "textDocument/didChange", "textDocument/didOpen", CANARY):
            editor.send({"method": method, "params": {"textDocument": CANARY, "contentChanges": CANARY}})
        for number, method in enumerate(("textDocument/hover", "textDocument/codeAction", "workspace/executeCommand")):
            editor.send({"id": f"x{number}", "method": method, "params": {"command": CANARY, "textDocument": CANARY}})
        body = f"{{{CANARY}".encode()
        editor.send_raw(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await editor.command("stitchcuda.status")
        assert CANARY not in logged(editor)
    assert CANARY not in capfd.readouterr().err


@pytest.mark.parametrize("client", CLIENTS)
async def test_a24_no_intent_and_no_key_in_the_log(desk: Desk, client: str, capfd: pytest.CaptureFixture[str]) -> None:
    desk.answer({"schema": 1, "outcome": "no_safe_change", "reason": "nothing", "run_dir": "", "units": []})
    async with at(desk, client, proposer="both") as editor:
        editor.chosen = [None] * 9
        answer = await editor.command("stitchcuda.stitch", desk.uri, f"make {CANARY} fast", f"sk-{CANARY}")
        await job_ended(editor, answer["job"])
        status = json.dumps(await editor.command("stitchcuda.status"))
        assert CANARY not in logged(editor) and CANARY not in status
    assert CANARY not in capfd.readouterr().err


async def test_a24_the_trace_says_what_was_answered_and_quotes_nothing(tmp_path: Path) -> None:
    uri = (tmp_path / "a.cu").as_uri()
    async with editor_session("vscode", REAL, {"diagnosticsDelay": 0}) as editor:
        traced: list[t.LogTraceParams] = []
        editor.client.protocol.fm.features.pop(t.LOG_TRACE, None)

        @editor.client.feature(t.LOG_TRACE)  # type: ignore[untyped-decorator]
        def on_trace(params: t.LogTraceParams) -> None:
            traced.append(params)

        editor.open(uri, f"int {CANARY};\n")
        await editor.pull(uri)
        assert not traced
        for value, detail in ((t.TraceValue.Messages, False), (t.TraceValue.Verbose, True)):
            editor.client.set_trace(t.SetTraceParams(value=value))
            traced.clear()
            await editor.pull(uri)
            (said,) = await until(lambda: traced or None)
            assert said.message.startswith("textDocument/diagnostic answered in ")
            assert (said.verbose is not None) == detail
        editor.client.set_trace(t.SetTraceParams(value=t.TraceValue.Off))
        await editor.command("stitchcuda.status")
        traced.clear()
        await editor.pull(uri)
        await asyncio.sleep(0.1)
        assert not traced
        assert CANARY not in str(traced)
