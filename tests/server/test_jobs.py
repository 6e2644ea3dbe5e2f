"""The job table."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest
from stitchcuda.server.jobs import Job, Jobs, State
from stitchcuda.server.lifetime import is_alive

pytestmark = pytest.mark.asyncio


async def test_result_and_error() -> None:
    jobs = Jobs()

    async def good(job: Job) -> int:
        return 3

    async def bad(job: Job) -> None:
        raise ValueError("secret")

    done, failed = jobs.start("good", good), jobs.start("bad", bad)
    await done.wait()
    await failed.wait()
    assert (done.state, done.result, failed.state, failed.error) == (State.DONE, 3, State.FAILED, "ValueError")
    assert done.token != failed.token and not jobs.cancel(done.id)
    assert [j["state"] for j in jobs.describe()] == ["done", "failed"]
    await asyncio.sleep(0)  # what is called when a task is done
    assert done.ended is not None
    done.started, done.ended = done.started - 7, done.started - 4
    assert jobs.describe()[0]["seconds"] == 3.0, "how long it took, not how long ago it began"


async def test_a_job_that_is_cancelled_before_it_began_has_ended() -> None:
    jobs = Jobs()

    async def work(job: Job) -> None:
        raise AssertionError("it never begins")

    job = jobs.start("job", work)
    assert jobs.cancel(job.id)
    await job.wait()
    await asyncio.sleep(0)
    assert job.state is State.CANCELLED and not jobs.cancel(job.id)


@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
async def test_cancel_kills_the_process_group(tmp_path: Path) -> None:
    """Also a grandchild, and one that ignores SIGTERM."""
    pids = tmp_path / "pids"
    script = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}\\n')\n"
        "time.sleep(60)\n"
    )

    async def work(job: Job) -> None:
        process = await job.process(sys.executable, "-c", script)
        await process.wait()

    jobs = Jobs()
    began = time.monotonic()
    job = jobs.start("sleep", work)
    while not pids.exists() or not pids.read_text().endswith("\n"):
        await asyncio.sleep(0.02)
    assert jobs.cancel_token(job.token)
    await asyncio.wait_for(job.wait(), 20)  # the processes would sleep for 60 s
    assert job.state is State.CANCELLED
    while [pid for pid in pids.read_text().split() if is_alive(int(pid))]:
        await asyncio.sleep(0.02)  # killed, and not reaped yet
        assert time.monotonic() < began + 40
    assert is_alive(os.getpid())


async def test_old_jobs_are_forgotten() -> None:
    jobs = Jobs()

    async def work(job: Job) -> None:
        return None

    for _ in range(60):
        await jobs.start("x", work).wait()
    assert len(jobs.describe()) <= 21
