"""A11: a command that starts a job answers at once, and the editor is served while jobs run, whatever they do."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest
from lsprotocol import types as t

from benchmarks.peer import percentile
from tests.server.client import Editor, editor_session
from tests.server.test_program_jobs import Desk, at, desk, job_ended, jobs

__all__ = ["desk"]  # the fixture

pytestmark = pytest.mark.asyncio

# The promise is 50 ms at the 99th percentile, which benchmarks/server.py measures. A server that waits for the job here takes
# seconds.
LOOSE_SECONDS = 1.5
# A job's command that uses a whole processor and says thousands of things.
NOISY = """\
import json, pathlib, sys, time
here = pathlib.Path(__file__).parent
(here / "words.json").write_text(json.dumps([sys.argv[1:], 0]))
end = time.monotonic() + 4
step = 0
while time.monotonic() < end:
    step += 1
    print(json.dumps({"step": min(step, 99), "of": 100, "message": "turn " + str(step) + " " + "x" * 200}), file=sys.stderr)
    if step % 500 == 0:
        sys.stderr.flush()
        time.sleep(0.01)
print(json.dumps({"schema": 1, "state": "ok", "gates": []}))
"""
STARVED = (sys.executable, "-m", "tests.server.programs.fake_server", "--starve", "4")


async def served(editor: Editor, uri: str, seconds: float) -> list[float]:
    """Edits, and asks for hover and actions, for so long; the answers' times in seconds."""
    took = []
    identifier = t.TextDocumentIdentifier(uri)
    start = t.Position(0, 0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        editor.edit(uri, t.Range(start, start), " ")
        for ask in (
            lambda: editor.client.text_document_hover_async(t.HoverParams(text_document=identifier, position=start)),
            lambda: editor.actions(uri, t.Range(start, start)),
            lambda: editor.command("stitchcuda.status"),
        ):
            began = time.monotonic()
            await asyncio.wait_for(ask(), 20)
            took.append(time.monotonic() - began)
        await asyncio.sleep(0.02)
    return took


async def test_a11_the_editor_is_served_while_a_job_uses_the_machine(desk: Desk) -> None:
    desk.tool.write_text(NOISY)
    other = desk.folder / "other.cu"
    other.write_text("int a;\n", encoding="utf-8")
    async with at(desk, diagnosticsDelay=20) as editor:
        editor.open(other.as_uri(), "int a;\n")
        began = time.monotonic()
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        second = await editor.command("stitchcuda.validate", other.as_uri())
        assert time.monotonic() - began < LOOSE_SECONDS, "the answer waits for the job"
        assert set(answer) == set(second) == {"job"}
        took = await served(editor, desk.uri, 3.0)
        states = {j["state"] for j in jobs(await editor.command("stitchcuda.status"))}
        assert states == {"running"}
        print(
            f"{len(took)} answers: p50 {percentile(took, 0.5) * 1e3:.0f} ms, p99 {percentile(took, 0.99) * 1e3:.0f} ms"
        )
        assert percentile(took, 0.99) < LOOSE_SECONDS
        for started in (answer, second):
            await editor.command("stitchcuda.cancel", started["job"])
            assert (await job_ended(editor, started["job"]))["state"] == "cancelled"


@pytest.mark.parametrize("client", ["neovim", "visual_studio_code"])
async def test_a11_threads_that_are_all_busy_hold_nobody_up(client: str, tmp_path: Path) -> None:
    """The event loop's pool has no thread left for four seconds; the protocol and the analysis need none."""
    uri = (tmp_path / "a.cu").as_uri()
    async with editor_session(client, STARVED, {"diagnosticsDelay": 0}) as editor:
        began = time.monotonic()
        editor.open(uri, "void f() { hazard(x); }\n")
        await editor.pushed_for(uri, lambda items: len(items) == 1)
        editor.replace(uri, "void f() {}\n")
        await editor.pushed_for(uri, lambda items: not items)
        assert await editor.command("stitchcuda.cancel", "none") is False
        assert time.monotonic() - began < 3.5, "something waited for a thread"
