"""A25: of a workspace that is not trusted nothing is executed, and nothing is sent; what would be sent is said before."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from tests.server import small_program
from tests.server.client import FAKE, REAL, editor_session
from tests.server.test_program_jobs import MAIN, Desk, desk, job_ended, save

__all__ = ["desk"]  # the fixture

pytestmark = [pytest.mark.asyncio, pytest.mark.skipif(sys.platform == "win32", reason="POSIX executables")]

TOML = """\
[build]
command = "./evil.sh build"
[run]
command = "./evil.sh run"
"""
WAYS = {"trusted": True, "validateOnSave": True, "proposer": "both"}


@pytest.mark.parametrize("client", ["neovim", "visual_studio_code"])
async def test_a25_nothing_of_an_untrusted_workspace_is_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    """Settings of the workspace say that it is to be trusted; the project file names a program of its own; the compiler that is
    found first notes that it was called."""
    for name in ("CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "user" / name.lower()))
    calls = tmp_path / "calls"
    program = small_program.write(tmp_path)
    (program / "stitchcuda.toml").write_text(TOML, encoding="utf-8")
    tools = tmp_path / "tools"
    tools.mkdir()
    named = [
        program / "evil.sh",
        *(tools / name for name in ("nvcc", "cmake", "make", "compute-sanitizer", "nsys", "g++")),
    ]
    for file in named:
        file.write_text(f'#!/bin/sh\necho "$0" "$@" >> "{calls}"\nexit 1\n', encoding="utf-8")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CUDACXX", str(tools / "nvcc"))
    options = {"diagnosticsDelay": 0}
    async with editor_session(client, REAL, options, program, configuration=dict(WAYS)) as editor:
        uri = (program / "main.cu").as_uri()
        editor.open(uri, small_program.MAIN)
        status = await editor.command("stitchcuda.status")
        assert status["trusted"] is False and "not trusted" in str(status["unavailable"])
        save(editor, uri)
        editor.accepts = False
        for command, *arguments in (("stitchcuda.stitch", uri), ("stitchcuda.rewrite", uri, "remove-wait")):
            answer = await editor.command(command, *arguments)
            assert (await job_ended(editor, answer["job"]))["state"] == "done"
        with pytest.raises(Exception, match="not trusted"):
            await editor.command("stitchcuda.validate", uri)
        assert not editor.asked, "what is not sent need not be asked about"
    assert not calls.exists(), calls.read_text()


async def test_a25_settings_cannot_trust_the_workspace_that_they_come_from(desk: Desk) -> None:
    desk.stitched()
    command = (*FAKE, "--tool", str(desk.tool))
    async with editor_session("neovim", command, {}, desk.program, configuration=dict(WAYS)) as editor:
        editor.open(desk.uri, MAIN)
        answer = await editor.command("stitchcuda.stitch", desk.uri)
        await job_ended(editor, answer["job"])
        assert desk.words is not None and "--no-run" in desk.words[0]
        assert not [word for word in desk.words[0] if word.startswith("--proposer")]
        before = desk.words
        with pytest.raises(Exception, match="not trusted"):
            await editor.command("stitchcuda.validate", desk.uri)
        save(editor, desk.uri)
        await editor.command("stitchcuda.status")
        assert desk.words == before
