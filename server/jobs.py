"""Long work as `Job` values: created, awaited, cancelled and ended here and nowhere else.

A job is an asyncio task. Its heavy part belongs in child processes started through `Job.process`, each in a process
group of its own, so that cancelling the job also ends what those started (a compiler's children, say).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

log = logging.getLogger(__name__)

_GRACE_SECONDS = 0.5  # between asking a process group to end and killing it
_KEPT = 20  # finished jobs that `stitchcuda.status` still shows


class State(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass
class Job:
    """One piece of long work. `token` is its progress token; `id` is what `stitchcuda.cancel` takes."""

    title: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    token: str = field(default_factory=lambda: str(uuid.uuid4()))
    asked: bool = False  # the user started it and waits for it
    state: State = State.RUNNING
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    result: Any = None
    error: str = ""
    _task: asyncio.Task[None] | None = None
    _processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def process(self, *command: str, **options: Any) -> asyncio.subprocess.Process:
        """Starts a child in a process group of its own; it ends with the job at the latest."""
        if sys.platform == "win32":
            options["creationflags"] = subprocess.CREATE_NEW_PROCESS_GROUP
        else:
            options["start_new_session"] = True
        process = await asyncio.create_subprocess_exec(*command, **options)
        self._processes.append(process)
        return process

    async def wait(self) -> None:
        """Returns when the job has ended, however it did."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def describe(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "token": self.token,
            "asked": self.asked,
            "state": self.state.value,
            "seconds": round((self.ended or time.monotonic()) - self.started, 1),
            "error": self.error,
        }


class Jobs:
    """The job table. `changed` is called when a job has started or ended."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._jobs: dict[str, Job] = {}
        self._changed = changed

    def start(self, title: str, work: Callable[[Job], Awaitable[Any]], asked: bool = False) -> Job:
        """Runs `work(job)` as a task. Its exception becomes the job's error, never the caller's."""
        job = Job(title, asked=asked)
        self._jobs[job.id] = job
        job._task = asyncio.create_task(self._run(job, work))
        job._task.add_done_callback(lambda _: self._ended(job))
        for old in [j.id for j in self._jobs.values() if j.state is not State.RUNNING][:-_KEPT]:
            del self._jobs[old]
        self._changed()
        return job

    def _ended(self, job: Job) -> None:
        if job.state is State.RUNNING:  # a task that is cancelled before its first step runs none of its code
            job.state = State.CANCELLED
        job.ended = time.monotonic()
        self._changed()

    async def _run(self, job: Job, work: Callable[[Job], Awaitable[Any]]) -> None:
        state = State.FAILED
        try:
            job.result = await work(job)
            state = State.DONE
        except asyncio.CancelledError:
            state = State.CANCELLED
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the job's and not the server's end
            job.error = type(error).__name__
            log.error("job %s (%s) failed: %s", job.id, job.title, type(error).__name__)
        finally:
            try:
                await asyncio.shield(_end_processes(job))
            finally:
                job.state = state  # ended is what has no process any more

    def cancel(self, job_id: str) -> bool:
        """Asks a running job to end. False when there is none of that id."""
        job = self._jobs.get(job_id)
        if job is None or job.state is not State.RUNNING or job._task is None:
            return False
        job._task.cancel()
        return True

    def cancel_token(self, token: int | str) -> bool:
        """The same by progress token."""
        return any(self.cancel(job.id) for job in self._jobs.values() if job.token == token)

    async def end_all(self) -> None:
        """Cancels every job and waits for their processes to be gone."""
        running = [job for job in self._jobs.values() if job.state is State.RUNNING]
        for job in running:
            self.cancel(job.id)
        tasks = [job._task for job in running if job._task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=2 * _GRACE_SECONDS + 0.4)

    def describe(self) -> list[dict[str, Any]]:
        return [job.describe() for job in self._jobs.values()]


async def _end_processes(job: Job) -> None:
    alive = [p for p in job._processes if p.returncode is None]
    for process in alive:
        _signal_group(process, hard=False)
    if alive:
        await asyncio.wait([asyncio.ensure_future(p.wait()) for p in alive], timeout=_GRACE_SECONDS)
    # The leader may be gone while its children live on: the group is killed in any case, which takes a moment on a busy machine.
    end = time.monotonic() + _GRACE_SECONDS
    while [p for p in job._processes if _signal_group(p, hard=True)] and time.monotonic() < end:
        await asyncio.sleep(0.01)


def _signal_group(process: asyncio.subprocess.Process, hard: bool) -> bool:
    """Whether there was anything left of it."""
    try:
        if sys.platform == "win32":
            if process.returncode is not None:
                return False
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL if hard else signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return False  # already gone
    return True
