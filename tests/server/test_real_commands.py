"""Jobs about a program with the real command line behind them: nothing is simulated but the editor."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from stitchcuda.server.cli.dispatch import COMMANDS, main

from tests.server import small_program
from tests.server.client import REAL, Editor, editor_session, until
from tests.server.test_program_jobs import RANGE, Desk, at, desk, job_ended, jobs, save

__all__ = ["desk"]  # the fixture

WAIT = "cudaDeviceSynchronize();"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return small_program.write(tmp_path)


def opened(editor: Editor, program: Path) -> str:
    uri = (program / "main.cu").as_uri()
    editor.open(uri, small_program.MAIN)
    return uri


@pytest.mark.asyncio
@pytest.mark.parametrize("client", ["visual_studio_code", "neovim"])
async def test_stitching_an_untrusted_folder_ends_in_a_labelled_preview(program: Path, client: str) -> None:
    async with editor_session(client, REAL, {"diagnosticsDelay": 0}, program) as editor:
        uri = opened(editor, program)
        answer = await editor.command("stitchcuda.stitch", uri)
        assert (await job_ended(editor, answer["job"]))["state"] == "done"
        (sent,) = editor.applied
        assert sent.label == "Stitch end-to-end: not validated"
        texts = {Path(uri).name: text for uri, text in editor.texts.items()}
        for name in ("main.cu", "smooth.cu"):
            assert texts[name] == small_program.FILES[name].replace(" " + WAIT, "")
        (message,) = await until(lambda: editor.messages or None)
        assert message.startswith("stitchcuda: program: not validated: ") and "the workspace is not trusted" in message


@pytest.mark.asyncio
async def test_what_is_typed_during_a_real_run_stays_and_the_result_is_kept(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with editor_session("visual_studio_code", REAL, {"diagnosticsDelay": 0}, program) as editor:
        uri = opened(editor, program)
        answer = await editor.command("stitchcuda.stitch", uri)
        editor.edit(uri, RANGE, "// typed\n")
        await job_ended(editor, answer["job"])
        assert editor.applied == [] and editor.texts == {uri: "// typed\n" + small_program.MAIN}
        (message,) = await until(lambda: editor.messages or None)
    command = message.split("stitchcuda ", 1)[1].split(" applies it")[0].split()
    assert main(command) == 0, capsys.readouterr().err
    assert (program / "smooth.cu").read_text(encoding="utf-8") == small_program.SMOOTH.replace(" " + WAIT, "")


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The words as the real command reads them."""
    (command,) = [c for c in COMMANDS if c.name == words[0]]
    parser = argparse.ArgumentParser(exit_on_error=False)
    importlib.import_module(command.module).add_arguments(parser)
    return parser.parse_args(words[1:])


@pytest.mark.asyncio
async def test_the_commands_understand_the_words_of_the_jobs(desk: Desk) -> None:
    program = str(desk.program)
    async with at(desk, validateOnSave=True) as editor:

        async def words_of(command: str, *arguments: str) -> argparse.Namespace:
            answer = await editor.command(command, desk.uri, *arguments)
            await job_ended(editor, answer["job"])
            assert desk.words is not None
            return parsed(desk.words[0])

        found = await words_of("stitchcuda.stitch", "latency under 8 ms")
        assert (found.path, found.intent, found.no_run) == (program, "latency under 8 ms", False)
        assert (found.format, found.progress, found.write) == ("json", "json", False)
        found = await words_of("stitchcuda.validate")
        assert (found.paths, found.against, found.format, found.progress) == ([program], "HEAD", "json", "json")
        save(editor, desk.uri)
        (job,) = [
            j for j in jobs(await editor.command("stitchcuda.status")) if j["title"].startswith("Validate on save")
        ]
        await job_ended(editor, job["id"])
        assert desk.words is not None
        found = parsed(desk.words[0])
        assert (found.path, found.on_save, found.format, found.progress) == (program, True, "json", "json")
    async with at(desk, trusted=False) as editor:
        found = await words_of("stitchcuda.stitch")
        assert found.no_run and found.intent is None
