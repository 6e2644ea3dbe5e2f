"""A12: progress of a job: begun, reported and ended in pairs, never going back, with what happens now; messages for clients without
it."""

from __future__ import annotations

import asyncio
import json

import pytest
from lsprotocol import types as t

from tests.server.client import Editor, until
from tests.server.test_program_jobs import Desk, at, desk, job_ended

__all__ = ["desk"]  # the fixture

pytestmark = pytest.mark.asyncio

# Reports that go back, are out of place, or are no reports; then a result, an error, or nothing until it is cancelled.
TOOL = """\
import json, pathlib, sys, time
here = pathlib.Path(__file__).parent
(here / "words.json").write_text(json.dumps([sys.argv[1:], 0]))
for step, of, message in [(1, 4, "turn 1 of 4, asking"), (3, 4, "turn 3 of 4, 0.02 USD"), (2, 4, "back?"), (9, 4, "beyond")]:
    print(json.dumps({"step": step, "of": of, "message": message}), file=sys.stderr, flush=True)
    time.sleep(0.05)
print('{"step": 1, "of": 0, "message": "no share"}', file=sys.stderr, flush=True)
how = (here / "how").read_text()
if how == "cancelled":
    time.sleep(60)
if how == "failed":
    print("stitchcuda: it broke", file=sys.stderr)
    sys.exit(3)
print(json.dumps({"schema": 1, "state": "ok", "gates": []}))
"""


def reports(editor: Editor) -> list[object]:
    """Those of the one job that is no indexing."""
    every = list(editor.client.progress_reports.values())
    return next((list(r) for r in every if r and not getattr(r[0], "title", "").startswith("Indexing")), [])


@pytest.mark.parametrize("client", ["neovim", "visual_studio_code"])
@pytest.mark.parametrize("how", ["done", "failed", "cancelled"])
async def test_a12_progress_is_paired_and_never_goes_back(desk: Desk, client: str, how: str) -> None:
    desk.tool.write_text(TOOL)
    (desk.folder / "how").write_text(how)
    async with at(desk, client) as editor:
        answer = await editor.command("stitchcuda.validate", desk.uri)
        if how == "cancelled":
            await until(lambda: len(reports(editor)) > 5)
            await editor.command("stitchcuda.cancel", answer["job"])
        await job_ended(editor, answer["job"])
        await until(lambda: isinstance((reports(editor) or [None])[-1], t.WorkDoneProgressEnd))
        begin, *middle, end = reports(editor)
        assert isinstance(begin, t.WorkDoneProgressBegin) and begin.cancellable and begin.title == "Validate: program"
        assert isinstance(end, t.WorkDoneProgressEnd)
        # The command's own failure is a result that the job tells; it is no failure of the job.
        assert end.message == ("cancelled" if how == "cancelled" else "done")
        assert all(isinstance(m, t.WorkDoneProgressReport) for m in middle)
        shares = [m.percentage for m in middle if isinstance(m, t.WorkDoneProgressReport)]
        assert shares == [25, 75, 75, 100, 100]
        said = [m.message for m in middle if isinstance(m, t.WorkDoneProgressReport)]
        assert said == ["turn 1 of 4, asking", "turn 3 of 4, 0.02 USD", "back?", "beyond", "no share"]
        tokens = [token for token, r in editor.client.progress_reports.items() if r]
        assert len(tokens) == len(set(tokens)) and all(isinstance(token, str) for token in tokens)


async def test_a12_each_job_has_a_token_of_its_own(desk: Desk) -> None:
    desk.answer({"schema": 1, "state": "ok", "gates": []})
    async with at(desk) as editor:
        for _ in range(3):
            answer = await editor.command("stitchcuda.validate", desk.uri)
            await job_ended(editor, answer["job"])
        ended = [
            r for r in editor.client.progress_reports.values() if getattr(r[0], "title", "") == "Validate: program"
        ]
        assert len(ended) == 3


async def test_a12_without_progress_the_start_and_the_end_are_messages(desk: Desk) -> None:
    """And the indexing of a program, which nobody asked for, is none."""
    desk.answer({"schema": 1, "state": "ok", "gates": []})
    async with at(desk, "bare") as editor:
        answer = await editor.command("stitchcuda.validate", desk.uri)
        await job_ended(editor, answer["job"])
        await until(lambda: len(editor.messages) >= 3)
        assert editor.messages[:2] == ["Validate: program ...", "Validate: program: done"]
        assert editor.messages[2].startswith("stitchcuda: program: ok")
        assert not editor.client.progress_reports
        assert json.dumps(editor.messages).count("Indexing") == 0
        await asyncio.sleep(0)
