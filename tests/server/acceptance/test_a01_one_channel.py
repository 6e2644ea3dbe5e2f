"""A1: each finding comes through one channel, whatever the client can do, and is shown once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from lsprotocol import types as t

from tests.server.client import REAL, Editor, editor_session, until
from tests.server.test_program_jobs import Desk, at, desk, save
from tests.server.test_session import RACE

__all__ = ["desk"]  # the fixture

pytestmark = pytest.mark.asyncio

CLIENTS = ["neovim", "visual_studio_code", "vscode", "bare"]
HAZARD = "void f() { hazard(x); }\nint main() {\n    step();\n    return 0;\n}\n"
SLOWER = {"code": "latency-regression", "path": "main.cu", "line": 3, "message": "step takes 20 % more"}


@pytest.mark.parametrize("client", CLIENTS)
async def test_a1_findings_of_the_text_and_of_the_gpu_are_shown_once(desk: Desk, client: str) -> None:
    """Those of the text by the client's channel; those of a validation on save by push, with nothing else in it when the client
    pulls."""
    (desk.program / "main.cu").write_text(HAZARD, encoding="utf-8")
    desk.answer({"schema": 1, "state": "regressed", "findings": [SLOWER]})
    async with at(desk, client, validateOnSave=True) as editor:
        editor.replace(desk.uri, HAZARD)
        save(editor, desk.uri)
        found = await _when(editor, desk.uri, {"latency-regression", "stream-race-raw"})
        counted = Counter((d.code, d.range.start.line, d.range.start.character) for d in found)
        assert sorted(counted) == [("latency-regression", 2, 4), ("stream-race-raw", 0, 11)]
        assert set(counted.values()) == {1}
        assert editor.pulls == (client == "vscode"), "only a client that can be asked to pull again pulls"
        codes = {d.code for params in editor.pushed for d in params.diagnostics}
        assert codes == ({"latency-regression"} if editor.pulls else {"latency-regression", "stream-race-raw"})


@pytest.mark.parametrize("client", ["neovim", "visual_studio_code", "vscode"])
async def test_a1_a_finding_that_another_file_takes_away_goes_without_an_edit_of_its_own(
    client: str, tmp_path: Path
) -> None:
    """The channel must reach an editor that asks for nothing: by push, or by a request to pull again."""
    helper = "void order(cudaStream_t a, cudaStream_t b) {}\n"
    waits = """\
void order(cudaStream_t a, cudaStream_t b) {
  cudaEvent_t e;
  cudaEventCreate(&e);
  cudaEventRecord(e, a);
  cudaStreamWaitEvent(b, e, 0);
  cudaEventDestroy(e);
}
"""
    main = RACE.replace("/* 😀 */ consume", "order(a, b); consume").replace(
        "int main() {", "void order(cudaStream_t a, cudaStream_t b);\nint main() {"
    )
    (tmp_path / "main.cu").write_text(main, encoding="utf-8")
    (tmp_path / "order.cu").write_text(helper, encoding="utf-8")
    one, other = ((tmp_path / name).as_uri() for name in ("main.cu", "order.cu"))
    async with editor_session(client, REAL, {"diagnosticsDelay": 0}, tmp_path) as editor:
        editor.open(one, main)
        editor.open(other, helper)
        await _when(editor, one, {"stream-race-raw"})
        asked, told = editor.refreshes, len(editor.pushed)
        editor.replace(other, waits)
        if editor.pulls:
            await until(lambda: editor.refreshes > asked)
        else:
            await until(lambda: [p for p in editor.pushed[told:] if p.uri == one and not p.diagnostics] or None)
        assert await editor.shown(one) == []


async def _when(editor: Editor, uri: str, codes: set[str]) -> list[t.Diagnostic]:
    """What is shown once these codes are."""
    for _ in range(1000):
        found = await editor.shown(uri)
        if {d.code for d in found} == codes:
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"{[d.code for d in found]} is not {codes}")
