"""A13: however a job is cancelled, within a second its request is broken off, its programs are gone, and no edit comes any more."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lsprotocol import types as t
from stitchcuda.server.features.consent import ALLOW
from stitchcuda.server.lifetime import is_alive

from tests.llm.answers import hang
from tests.llm.endpoint import ScriptedEndpoint
from tests.server import small_program
from tests.server.client import FAKE, ROOT, Editor, editor_session, until
from tests.server.test_program_jobs import Desk, at, desk, job_ended

__all__ = ["desk"]  # the fixture

pytestmark = [pytest.mark.asyncio, pytest.mark.skipif(sys.platform == "win32", reason="POSIX process groups")]

QUICK = str(ROOT / "tests" / "server" / "programs" / "quick_command.py")
SECONDS = 1.0
SLOW = float(os.environ.get("STITCHCUDA_TEST_PATIENCE", "3"))  # times as long on a busy machine
# A job's command as a build and a model make it: a compiler with a child of its own, both deaf to SIGTERM, and a request that
# waits for its answer.
TOOL = """\
import json, os, pathlib, subprocess, sys, threading, urllib.request
here = pathlib.Path(__file__).parent
compiler = subprocess.Popen([sys.executable, str(here / "nvcc.py")])
(here / "words.json").write_text(json.dumps([sys.argv[1:], os.getpid()]))
print(json.dumps({"step": 1, "of": 4, "message": "building"}), file=sys.stderr, flush=True)
threading.Thread(target=compiler.wait, daemon=True).start()
urllib.request.urlopen(urllib.request.Request((here / "url").read_text() + "/chat/completions", b"{}", method="POST")).read()
"""
NVCC = """\
import os, pathlib, signal, subprocess, sys, time
here = pathlib.Path(__file__).parent
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "cicc" not in sys.argv:
    child = subprocess.Popen([sys.executable, __file__, "cicc"])
    (here / "pids.new").write_text(f"{os.getpid()} {child.pid}")
    (here / "pids.new").rename(here / "pids")
time.sleep(60)
"""


async def by_progress(editor: Editor, job: str) -> None:
    token = next(token for token, reports in editor.client.progress_reports.items() if _is_job(reports))
    editor.client.window_work_done_progress_cancel(t.WorkDoneProgressCancelParams(token=token))


async def by_command(editor: Editor, job: str) -> None:
    assert await editor.command("stitchcuda.cancel", job) is True


def _is_job(reports: object) -> bool:
    assert isinstance(reports, list)
    return bool(reports) and str(getattr(reports[0], "title", "")).startswith("Stitch")


@pytest.mark.parametrize("client", ["neovim", "visual_studio_code"])
@pytest.mark.parametrize("way", [by_progress, by_command], ids=["progress", "command"])
async def test_a13_a_cancelled_job_ends_with_all_that_it_started(
    desk: Desk, client: str, way: Callable[[Editor, str], object]
) -> None:
    with ScriptedEndpoint(then=hang()) as endpoint:
        _write(desk, endpoint)
        async with at(desk, client) as editor:
            answer = await editor.command("stitchcuda.stitch", desk.uri)
            pids = await _running(desk, endpoint)
            began = time.monotonic()
            done = way(editor, answer["job"])
            assert asyncio.iscoroutine(done)
            await done
            assert (await job_ended(editor, answer["job"]))["state"] == "cancelled"
            took = time.monotonic() - began
            assert endpoint.requests[0].left_within(SLOW), "the request goes on"
            assert not [pid for pid in pids if is_alive(pid)]
            print(f"{client}, {way.__name__}: all gone after {took:.2f} s")
            assert took < SECONDS * SLOW
            await asyncio.sleep(0.3)
            assert editor.applied == [] and not [m for m in editor.messages if "not applied" in m]
            # And the next job may begin.
            again = await editor.command("stitchcuda.stitch", desk.uri)
            await editor.command("stitchcuda.cancel", again["job"])
            assert (await job_ended(editor, again["job"]))["state"] == "cancelled"


async def test_a13_the_end_of_the_client_cancels_as_well(desk: Desk) -> None:
    with ScriptedEndpoint(then=hang()) as endpoint:
        _write(desk, endpoint)
        async with at(desk) as editor:
            await editor.command("stitchcuda.stitch", desk.uri)
            pids = await _running(desk, endpoint)
            began = time.monotonic()
        # `at` has ended the session: shutdown, then exit.
        await until(lambda: not [pid for pid in pids if is_alive(pid)])
        assert time.monotonic() - began < SECONDS * SLOW
        assert endpoint.requests[0].left_within(SLOW)


async def test_a13_a_request_to_a_model_is_broken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real command line (as on a machine without a compiler), whose model never answers."""
    for name in ("CACHE", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name in ("STITCHCUDA_LLM_KEY", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    program = small_program.write(tmp_path)
    uri = (program / "main.cu").as_uri()
    options = {"trusted": True, "proposer": "llm", "diagnosticsDelay": 0}
    with ScriptedEndpoint(then=hang()) as endpoint:
        monkeypatch.setenv("STITCHCUDA_LLM_URL", endpoint.url)
        monkeypatch.setenv("STITCHCUDA_LLM_MODEL", "coder")
        async with editor_session("visual_studio_code", (*FAKE, "--tool", QUICK), options, program) as editor:
            editor.open(uri, small_program.MAIN)
            answer = await editor.command("stitchcuda.stitch", uri)
            await until(lambda: bool(editor.asked), 60)
            assert not endpoint.all_requests, "nothing is sent before it is agreed to"
            assert endpoint.url in editor.asked[0].message
            editor.chosen = [ALLOW] * 4
            await until(lambda: bool(endpoint.requests), 60)
            began = time.monotonic()
            await editor.command("stitchcuda.cancel", answer["job"])
            assert (await job_ended(editor, answer["job"]))["state"] == "cancelled"
            assert endpoint.requests[0].left_within(SECONDS * SLOW), "the request goes on"
            assert time.monotonic() - began < SECONDS * SLOW
            assert editor.applied == []


def _write(desk: Desk, endpoint: ScriptedEndpoint) -> None:
    desk.tool.write_text(TOOL)
    (desk.folder / "nvcc.py").write_text(NVCC)
    (desk.folder / "url").write_text(endpoint.url)


async def _running(desk: Desk, endpoint: ScriptedEndpoint) -> list[int]:
    """The command, its compiler and the compiler's child, once the request is on its way."""
    await until(lambda: bool(endpoint.requests and (desk.folder / "pids").exists() and desk.words))
    assert desk.words is not None
    pids = [desk.words[1], *map(int, Path(desk.folder / "pids").read_text().split())]
    assert all(is_alive(pid) for pid in pids)
    return pids
