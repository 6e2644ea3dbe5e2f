"""A15: what the user types while a job runs is kept to the last character; the result waits in the run's folder."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from lsprotocol import types as t

from tests.server.client import until
from tests.server.test_program_jobs import MAIN, OPS, RANGE, Desk, at, desk, job_ended

__all__ = ["desk"]  # the fixture

pytestmark = pytest.mark.asyncio

TYPED = "int typed = 1;  // 🐢 while it ran\n"


@pytest.mark.parametrize("client", ["neovim", "visual_studio_code", "vscode"])
async def test_a15_what_is_typed_during_the_run_is_never_lost(desk: Desk, client: str) -> None:
    desk.stitched()
    (desk.folder / "hold").touch()
    async with at(desk, client, commands=["stitchcuda.showGraph"] if client == "vscode" else []) as editor:
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        await until(lambda: desk.words)
        at_ = RANGE.start
        for count, character in enumerate(TYPED):
            editor.edit(desk.uri, t.Range(start=at_, end=at_), character)
            width = len(character.encode()) if editor.encoding == "utf-8" else len(character.encode("utf-16-le")) // 2
            at_ = t.Position(line=0, character=at_.character + width)
            if count == len(TYPED) // 2:
                (desk.folder / "hold").unlink()
            await asyncio.sleep(0.005)
        await job_ended(editor, answer["job"])
        assert editor.applied == [] and editor.texts == {desk.uri: TYPED + MAIN}
        message = await until(lambda: next((m for m in editor.messages if "not applied" in m), None))
        assert "main.cu has changed since the run read it" in message and "stitchcuda runs apply" in message

        patch = Path(message.split("To read it: ", 1)[1])
        text = patch.read_text(encoding="utf-8")
        assert "-    wait();" in text and text.count("+++ b/") == 2
        if client == "vscode":
            (shown,) = await until(lambda: editor.client.shown_documents or None)
            assert shown.uri == patch.as_uri()
        else:
            assert not editor.client.shown_documents, "nothing opens by itself over what is typed"
    assert (desk.program / "ops.cu").read_text(encoding="utf-8") == OPS
    done = subprocess.run(  # noqa: ASYNC221 - nothing else runs here
        ["git", "apply", "--check", str(patch)], cwd=desk.program, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


async def test_a15_typing_in_a_file_that_the_change_leaves_alone_does_not_prevent_it(desk: Desk) -> None:
    texts = desk.stitched()
    (desk.program / "notes.cu").write_text("int n;\n", encoding="utf-8")
    (desk.folder / "hold").touch()
    async with at(desk) as editor:
        notes = (desk.program / "notes.cu").as_uri()
        editor.open(notes, "int n;\n")
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        await until(lambda: desk.words)
        editor.edit(notes, RANGE, TYPED)
        (desk.folder / "hold").unlink()
        await job_ended(editor, answer["job"])
        assert editor.texts[desk.uri] == texts["main.cu"] and editor.texts[notes] == TYPED + "int n;\n"
