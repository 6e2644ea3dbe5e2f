"""A16: a version is one edit over all of its files, with one label, and notes where the editor shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types as t

from tests.server.client import until
from tests.server.test_program_jobs import OPS, RANGE, Desk, at, desk, job_ended

__all__ = ["desk"]  # the fixture

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("confirm", [False, True])
@pytest.mark.parametrize("client", ["visual_studio_code", "neovim", "plain"])
async def test_a16_a_version_is_one_edit_of_all_files(desk: Desk, client: str, confirm: bool) -> None:
    texts = desk.stitched()
    async with at(desk, client, confirmEdits=confirm) as editor:
        action = next(a for a in await editor.actions(desk.uri, RANGE, ["refactor.rewrite.stitchcuda.stitch"]))
        assert action.command is not None and action.edit is None
        answer = await editor.command(action.command.command, *(action.command.arguments or ()))
        assert (await job_ended(editor, answer["job"]))["state"] == "done"
        assert desk.words is not None
        assert desk.words[0] == ["stitch", str(desk.program), "--format", "json", "--progress", "json"]
        (sent,) = editor.applied
        assert sent.label == "Stitch end-to-end: improved"
        assert {Path(uri).name: text for uri, text in editor.texts.items()} == texts
        annotations = sent.edit.change_annotations
        if client == "visual_studio_code":
            notes = [(n.label, n.description, bool(n.needs_confirmation)) for n in (annotations or {}).values()]
            assert notes == [
                ("remove-wait (improved)", "nothing needs the wait", confirm),
                ("remove-wait (improved)", "nor this one", confirm),
            ]
            used = {e.annotation_id for c in sent.edit.document_changes or [] for e in _edits(c)}
            assert used == set(annotations or {})
        else:
            assert annotations is None
        assert bool(sent.edit.document_changes) == (client != "plain")
        assert bool(sent.edit.changes) == (client == "plain")
        assert (desk.program / "ops.cu").read_text() == OPS, "files change in the editor, not behind its back"
        await until(lambda: any("twice as fast" in m for m in editor.messages))


def _edits(change: object) -> list[t.AnnotatedTextEdit]:
    assert isinstance(change, t.TextDocumentEdit)
    return [e for e in change.edits if isinstance(e, t.AnnotatedTextEdit)]
