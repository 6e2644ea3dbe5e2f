"""A14: whether an edit was applied is decided by the texts, not by what the editor says: some say yes to what they dropped."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types as t

from tests.server.client import Editor, until
from tests.server.test_program_jobs import MAIN, OPS, Desk, at, desk, job_ended

__all__ = ["desk"]  # the fixture

pytestmark = pytest.mark.asyncio

CLIENTS = ["neovim", "visual_studio_code"]


async def stitched(editor: Editor, desk: Desk) -> None:
    answer = await editor.command("stitchcuda.stitch", desk.uri)
    await job_ended(editor, answer["job"])


async def said(editor: Editor) -> str:
    return await until(lambda: next((m for m in editor.messages if "not applied" in m), None))


@pytest.mark.parametrize("client", CLIENTS)
async def test_a14_edits_carry_the_versions_that_they_are_for(desk: Desk, client: str) -> None:
    desk.stitched()
    async with at(desk, client) as editor:
        start = t.Range(start=t.Position(line=0, character=0), end=t.Position(line=0, character=0))
        editor.edit(desk.uri, start, "x")
        editor.edit(desk.uri, t.Range(start=start.start, end=t.Position(line=0, character=1)), "")
        await stitched(editor, desk)
        (sent,) = editor.applied
        versions = {}
        for change in sent.edit.document_changes or []:
            assert isinstance(change, t.TextDocumentEdit)
            versions[Path(change.text_document.uri).name] = change.text_document.version
        assert versions == {"main.cu": 3, "ops.cu": None}


@pytest.mark.parametrize("client", CLIENTS)
async def test_a14_an_editor_that_says_applied_and_drops_the_edit_is_not_believed(desk: Desk, client: str) -> None:
    desk.stitched()
    async with at(desk, client) as editor:
        editor.drops = True
        await stitched(editor, desk)
        assert "main.cu does not hold the edited text" in await said(editor)
        assert len(editor.applied) == 1, "it is not tried again"
        assert editor.texts == {desk.uri: MAIN}


@pytest.mark.parametrize("writes", [True, False])
async def test_a14_a_file_that_the_editor_does_not_report_is_read_again(desk: Desk, writes: bool) -> None:
    """Some editors write files that are not open to the disk; others lose that part of the edit."""
    texts = desk.stitched()
    async with at(desk) as editor:
        whole = editor.apply

        def apply(edit: t.WorkspaceEdit) -> None:
            for change in edit.document_changes or []:
                assert isinstance(change, t.TextDocumentEdit)
                if change.text_document.uri == desk.uri:
                    whole(t.WorkspaceEdit(document_changes=[change]))
                elif writes:
                    (desk.program / "ops.cu").write_text(texts["ops.cu"], encoding="utf-8")

        editor.apply = apply  # type: ignore[method-assign]
        await stitched(editor, desk)
        if writes:
            await until(lambda: any("improved: twice as fast" in m for m in editor.messages))
        else:
            assert "ops.cu was neither opened nor written by the editor" in await said(editor)
            assert (desk.program / "ops.cu").read_text(encoding="utf-8") == OPS
        assert editor.texts[desk.uri] == texts["main.cu"] and len(editor.applied) == 1


async def test_a14_an_editor_that_refuses_is_told_where_the_change_is(desk: Desk) -> None:
    desk.stitched()
    async with at(desk) as editor:
        editor.accepts = False
        await stitched(editor, desk)
        assert editor.texts[desk.uri] == MAIN
        message = await said(editor)
        assert "not applied: no." in message and "stitchcuda runs apply" in message
