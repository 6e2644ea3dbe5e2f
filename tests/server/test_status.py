"""The notification `stitchcuda/status`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.server import small_program
from tests.server.client import REAL, editor_session, until

pytestmark = pytest.mark.asyncio


async def test_a_client_that_shows_the_status_is_told_of_the_machine_and_of_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # where the run is kept
    program = small_program.write(tmp_path)
    uri = (program / "main.cu").as_uri()
    async with editor_session(command=REAL, options={"status": True}, root=tmp_path) as editor:
        told: list[dict[str, Any]] = []
        editor.client.feature("stitchcuda/status")(lambda params: told.append(_plain(params)))
        editor.open(uri, small_program.MAIN)
        answer = await editor.command("stitchcuda.stitch", uri)
        await until(lambda: any(t["jobs"] for t in told) and not told[-1]["jobs"], 60)
        (job,) = next(t["jobs"] for t in told if t["jobs"])
        assert (job["id"], job["title"]) == (answer["job"], "Stitch end-to-end: program")
        assert job["asked"] is True and job["token"] and job["state"] == "running"
        await until(lambda: told[-1]["gpu"] is not None)
        assert told[-1]["trusted"] is False
        assert told[-1]["unavailable"] == "the workspace is not trusted, so nothing of it is built or run"
        assert not [m for m in editor.messages if "unknown setting" in m]


async def test_others_are_not() -> None:
    async with editor_session(command=REAL) as editor:
        told: list[Any] = []
        editor.client.feature("stitchcuda/status")(lambda params: told.append(params))
        await editor.command("stitchcuda.status")
        await asyncio.sleep(0.3)
        assert not told


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name: _plain(v) for name, v in value._asdict().items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value
