"""A17: the server writes nothing into the workspace; what jobs build and try lies outside of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.server import small_program
from tests.server.client import FAKE, ROOT, editor_session
from tests.server.test_program_jobs import job_ended

pytestmark = pytest.mark.asyncio

QUICK = str(ROOT / "tests" / "server" / "programs" / "quick_command.py")


def state_of(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file and folder: when it was changed, its mode, and its content."""
    found = {}
    for where, _, files in os.walk(folder):
        for path in (Path(where), *(Path(where) / name for name in files)):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            found[str(path)] = (status.st_mtime_ns, status.st_mode, content)
    return found


@pytest.mark.parametrize("trusted", [False, True])
async def test_a17_jobs_leave_the_workspace_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    """Stitch, a rewrite, validation and the graph with the real command line, as on a machine without a compiler."""
    for name in ("CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "user" / name.lower()))
    program = small_program.write(tmp_path)
    before = state_of(program)
    options = {"diagnosticsDelay": 0, "trusted": trusted, "validateOnSave": trusted}
    async with editor_session("visual_studio_code", (*FAKE, "--tool", QUICK), options, program) as editor:
        uri = (program / "main.cu").as_uri()
        editor.open(uri, small_program.MAIN)
        editor.accepts = False  # an editor that only looks
        for command, *arguments in (
            ("stitchcuda.stitch", uri),
            ("stitchcuda.rewrite", uri, "remove-wait"),
            *((("stitchcuda.validate", uri),) if trusted else ()),
        ):
            try:
                answer = await editor.command(command, *arguments)
            except Exception as error:
                raise AssertionError(f"{command}: {error}") from error
            await job_ended(editor, answer["job"])
        await editor.command("stitchcuda.graphText", uri, "", "text", True)
        assert state_of(program) == before
        shown = [Path(d.uri.removeprefix("file://")) for d in editor.client.shown_documents]
        assert all(not path.is_relative_to(program) for path in shown)
    assert state_of(program) == before
