"""A4: what was computed for one version is shown for that version, or moved to the newer one, or withdrawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types as t

from tests.server.client import REAL, editor_session, until
from tests.server.test_program_jobs import MAIN, RANGE, Desk, at, desk, job_ended, jobs, pushed, save
from tests.server.test_session import RACE

__all__ = ["desk"]  # the fixture

pytestmark = pytest.mark.asyncio

SLOWER = {"code": "latency-regression", "path": "main.cu", "line": 4, "message": "step takes 20 % more"}


@pytest.mark.parametrize("client", ["neovim", "visual_studio_code"])
async def test_a4_no_list_is_of_a_version_that_the_server_knows_to_be_old(client: str, tmp_path: Path) -> None:
    """Quick typing, now and then with an answer in between: from then on the server has all edits before it."""
    uri = (tmp_path / "race.cu").as_uri()
    async with editor_session(client, REAL, {"diagnosticsDelay": 0}) as editor:
        editor.open(uri, RACE)
        origin = t.Range(t.Position(0, 0), t.Position(0, 0))
        for step in range(40):
            editor.edit(uri, origin, "// typed\n" if step % 5 == 4 else " ")
            if step % 3 == 0:
                known, told = editor.versions[uri], len(editor.pushed)
                await editor.command("stitchcuda.status")
                seen = len(editor.pushed)
                assert all((p.version or 0) >= 1 for p in editor.pushed[told:seen])
                await editor.command("stitchcuda.status")
                late = [p.version for p in editor.pushed[seen:] if p.version is not None and p.version < known]
                assert late == [], f"lists of {late} after version {known} was there"
        (race,) = await editor.pushed_for(uri, lambda items: len(items) == 1)
        assert editor.at(uri, race.range) == "consume<<<4, 256, 0, b>>>(x, y, n)"
        versions = [p.version or 0 for p in editor.pushed]
        assert versions == sorted(versions) and versions[-1] == editor.versions[uri]


@pytest.mark.parametrize("client", ["neovim", "visual_studio_code", "vscode"])
async def test_a4_a_slow_finding_moves_with_the_text_and_goes_with_its_line(desk: Desk, client: str) -> None:
    """Pushed to clients that pull the other findings, too, and then nothing else is in it."""
    desk.answer({"schema": 1, "state": "regressed", "findings": [SLOWER]})
    async with at(desk, client, validateOnSave=True) as editor:
        save(editor, desk.uri)
        (found,) = await until(lambda: pushed(editor, desk.uri) or None)
        assert desk.words is not None and desk.words[0][:3] == ["gate", str(desk.program), "--on-save"]
        assert (found.severity, found.source, found.message) == (2, "stitchcuda", "step takes 20 % more")
        assert editor.at(desk.uri, found.range) == "step();" and found.range.start.line == 3
        if editor.pulls:
            assert {d.code for d in await editor.pull(desk.uri)}.isdisjoint({"latency-regression"})
            assert all(d.code == "latency-regression" for p in editor.pushed for d in p.diagnostics)

        editor.edit(desk.uri, RANGE, "// above\n")
        (moved,) = await until(lambda: pushed(editor, desk.uri) or None)
        assert moved.range.start.line == 4
        inside = t.Position(line=4, character=6)
        editor.edit(desk.uri, t.Range(start=inside, end=inside), "_fast")
        await until(lambda: pushed(editor, desk.uri) == [])

        (desk.program / "main.cu").write_text(editor.texts[desk.uri], encoding="utf-8")
        save(editor, desk.uri)
        await until(lambda: pushed(editor, desk.uri) or None)
        desk.answer({"schema": 1, "state": "ok", "findings": []})
        save(editor, desk.uri)
        await until(lambda: pushed(editor, desk.uri) == [])


async def test_a4_what_was_edited_since_it_was_saved_gets_no_old_result(desk: Desk) -> None:
    desk.answer({"schema": 1, "state": "regressed", "findings": [SLOWER]})
    (desk.folder / "hold").touch()
    async with at(desk, validateOnSave=True) as editor:
        assert editor.texts[desk.uri] == MAIN
        save(editor, desk.uri)
        await until(lambda: desk.words)
        editor.edit(desk.uri, RANGE, "// typed\n")
        (desk.folder / "hold").unlink()
        (job,) = [
            j for j in jobs(await editor.command("stitchcuda.status")) if j["title"].startswith("Validate on save")
        ]
        await job_ended(editor, job["id"])
        assert not pushed(editor, desk.uri)
