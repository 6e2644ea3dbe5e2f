"""What the server is doing, told to clients that show it all the time: the notification `stitchcuda/status`.

Sent to a client that has `"status": true` in its initialization options: once it is initialized, when the machine's facts are there, and
when a job has started or ended. What a client asks for at will is the command `stitchcuda.status`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from stitchcuda.server.features import machine
from stitchcuda.server.features.code_action import why_not_run
from stitchcuda.server.jobs import State

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

NOTIFICATION = "stitchcuda/status"


def configure(ls: StitchServer, options: object) -> None:
    ls.shows_status = isinstance(options, dict) and options.get("status") is True


async def initialized(ls: StitchServer) -> None:
    """Tells what is known at once, and again with the machine's facts."""
    if not ls.shows_status:
        return
    changed(ls)
    if machine.known(ls) is None and ls.machine.task is not None:
        await asyncio.wait([ls.machine.task])
        changed(ls)


def changed(ls: StitchServer) -> None:
    if ls.shows_status:
        ls.protocol.notify(NOTIFICATION, now(ls))


def now(ls: StitchServer) -> dict[str, Any]:
    """`gpu` is None while it is not known, "" where there is none; `unavailable` says why programs are not run, "" when they are."""
    facts = machine.known(ls)
    return {
        "version": ls.version,
        "trusted": ls.trusted,
        "gpu": facts.get("gpu", "") if facts is not None else None,
        "unavailable": why_not_run(ls),
        "jobs": [job for job in ls.jobs.describe() if job["state"] == State.RUNNING.value],
    }
