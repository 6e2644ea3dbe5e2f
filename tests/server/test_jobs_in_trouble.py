"""Jobs about a program when something goes wrong beside them: files that vanish or are of another form, a second job, an editor
that dies."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lsprotocol import types as t
from stitchcuda.agent.units import TextEdit, Unit
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.server.convert import Annotated, to_annotated_edit
from stitchcuda.server.documents import Documents

from tests.server.client import FAKE, editor_session, until
from tests.server.test_program_jobs import MAIN, Desk, at, desk, job_ended, jobs, save

__all__ = ["desk"]  # the fixture


def stitched(desk: Desk, files: dict[str, bytes], gone: bytes) -> dict[str, bytes]:
    """The program holds these files, and a run takes `gone` out of each; the texts after it."""
    edits = []
    for name, text in files.items():
        (desk.program / name).write_bytes(text)
        if gone in text:
            edits.append(TextEdit(name, text.index(gone), text.index(gone) + len(gone), b""))
    return desk.kept(files, [Unit("", (), "remove-wait", "why", tuple(edits), Declared(("remove-wait",)))])


@pytest.mark.asyncio
@pytest.mark.parametrize("client", ["visual_studio_code", "neovim"])
async def test_line_ends_marks_and_characters_of_two_units(desk: Desk, client: str) -> None:
    """The edit begins after such characters in a file with a byte order mark and CRLF line ends; the other file is not open."""
    main = b"\xef\xbb\xbf" + "int a; // 🐢\r\n/* 🐢延迟 */ wait();\r\nint b;\r\n".encode()
    ops = "\ufeff/* 🐢 */ wait();\r\n".encode()
    after = stitched(desk, {"main.cu": main, "ops.cu": ops}, b"wait();\r\n")
    async with editor_session(client, (*FAKE, "--tool", str(desk.tool)), {"trusted": True}, desk.program) as editor:
        editor.open(desk.uri, main.removeprefix(b"\xef\xbb\xbf").decode())
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        await job_ended(editor, answer["job"])
        texts = {Path(uri).name: text for uri, text in editor.texts.items()}
        assert texts == {name: text.removeprefix(b"\xef\xbb\xbf").decode() for name, text in after.items()}


@pytest.mark.asyncio
async def test_a_file_that_is_not_utf8_is_never_edited(desk: Desk) -> None:
    ops = "// 延迟\n    wait();\n".encode("gbk")
    stitched(desk, {"main.cu": MAIN.encode(), "ops.cu": ops}, b"    wait();\n")
    async with at(desk) as editor:
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        await job_ended(editor, answer["job"])
        found = await until(lambda: next((m for m in editor.messages if "not applied" in m), None))
        assert "ops.cu:1 is not UTF-8" in found and editor.applied == []
        editor.open((desk.program / "ops.cu").as_uri(), ops.decode(errors="replace"))
        with pytest.raises(Exception, match=r"save .*ops\.cu as UTF-8 first"):
            await editor.command("stitchcuda.stitch", desk.uri)


@pytest.mark.asyncio
@pytest.mark.parametrize("name", ["main.cu", "ops.cu"])
async def test_a_file_that_vanishes_during_the_run(desk: Desk, name: str) -> None:
    """One that is open is edited where it is; one that is not leaves everything as it was."""
    texts = desk.stitched()
    (desk.folder / "hold").touch()
    async with at(desk) as editor:
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        await until(lambda: desk.words)
        (desk.program / name).unlink()
        (desk.folder / "hold").unlink()
        await job_ended(editor, answer["job"])
        if name == "main.cu":
            assert editor.texts[desk.uri] == texts["main.cu"]
        else:
            found = await until(lambda: next((m for m in editor.messages if "not applied" in m), None))
            assert "ops.cu cannot be read any more" in found and editor.texts[desk.uri] == MAIN


@pytest.mark.asyncio
async def test_a_second_job_about_a_program_is_refused_and_other_runs_wait(desk: Desk) -> None:
    desk.stitched()
    other = desk.folder / "other.cu"
    other.write_text(MAIN, encoding="utf-8")
    (desk.folder / "hold").touch()
    async with at(desk) as editor:
        editor.open(other.as_uri(), MAIN)
        first = await editor.command("stitchcuda.stitch", desk.uri)
        words = await until(lambda: desk.words)
        for command in ("stitchcuda.stitch", "stitchcuda.validate"):
            with pytest.raises(Exception, match=f"has not ended yet.*job {first['job']}"):
                await editor.command(command, desk.uri)
        second = await editor.command("stitchcuda.validate", other.as_uri())
        await asyncio.sleep(0.3)
        assert desk.words == words, "the machine is taken"
        assert await editor.command("stitchcuda.cancel", first["job"]) is True
        await until(lambda: desk.words != words)
        (desk.folder / "hold").unlink()
        assert (await job_ended(editor, second["job"]))["state"] == "done"
        again = await editor.command("stitchcuda.stitch", desk.uri)
        assert (await job_ended(editor, again["job"]))["state"] == "done"


@pytest.mark.asyncio
async def test_a_validation_on_save_gives_way_to_what_the_user_asks_for(desk: Desk) -> None:
    desk.stitched()
    (desk.folder / "hold").touch()
    async with at(desk, validateOnSave=True) as editor:
        save(editor, desk.uri)
        await until(lambda: desk.words)
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        await until(lambda: desk.words is not None and desk.words[0][0] == "stitch")
        (desk.folder / "hold").unlink()
        assert (await job_ended(editor, answer["job"]))["state"] == "done"
        states = {j["title"].split(":")[0]: j["state"] for j in jobs(await editor.command("stitchcuda.status"))}
        assert states == {"Validate on save": "cancelled", "Stitch end-to-end": "done"}


@pytest.mark.asyncio
async def test_what_nobody_expected_is_told_and_the_server_goes_on(desk: Desk) -> None:
    desk.answer({"schema": 1, "state": "rejected", "primary": {"issue": "a race", "path": "a.cu"}})  # without a line
    async with at(desk) as editor:
        for _ in range(2):
            answer = await editor.command("stitchcuda.validate", desk.uri)
            ended = await job_ended(editor, answer["job"])
        assert ended["state"] == "failed" and ended["error"] == "KeyError"
        await until(lambda: [m for m in editor.messages if "Validate: program: internal error: KeyError." in m][1:])


@pytest.mark.parametrize(("start", "end"), [(1, 3), (0, 7), (7, 8)])
def test_an_edit_inside_a_character_or_a_line_end_is_none(start: int, end: int) -> None:
    documents = Documents("utf-16")
    documents.open("file:///a.cu", "cuda", 1, "🐢ab\r\nc")  # four bytes, two, two, one
    edit = Annotated("/a.cu", start, end, "", "n")
    assert to_annotated_edit([edit], {}, documents.at, "utf-16", t.ClientCapabilities(), False) is None
