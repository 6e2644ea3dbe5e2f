"""The command `stitchcuda.runGraph`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pygls.exceptions import JsonRpcException

from tests.server import small_program
from tests.server.client import REAL, editor_session
from tests.server.test_program_jobs import job_ended

pytestmark = pytest.mark.asyncio


async def test_the_page_shows_the_program_before_and_after_the_newest_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = small_program.write(tmp_path)
    uri = (program / "main.cu").as_uri()
    async with editor_session(command=REAL, root=tmp_path) as editor:
        editor.open(uri, small_program.MAIN)
        with pytest.raises(JsonRpcException, match="program was not stitched since the server started"):
            await editor.command("stitchcuda.runGraph", uri)
        answer = await editor.command("stitchcuda.stitch", uri)
        assert (await job_ended(editor, answer["job"]))["state"] == "done"
        shown = await editor.command("stitchcuda.runGraph", uri)
        assert shown["folder"] == str(program) and shown["page"].startswith("<!DOCTYPE html>")
        (data,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', shown["page"])
        kinds = [[node["kind"] for node in side["nodes"]] for side in json.loads(data)["sides"]]
        assert {node["path"] for node in json.loads(data)["sides"][0]["nodes"]} == {"main.cu", "smooth.cu"}
        assert [side.count("device_sync") for side in kinds] == [3, 0], "before and after"
        assert await editor.command("stitchcuda.runGraph", uri, shown["run"]) == shown
        for wrong in ("--version", "../run", 5):
            with pytest.raises(JsonRpcException, match="takes a URI and the name of a run"):
                await editor.command("stitchcuda.runGraph", uri, wrong)
