"""Work-done progress of a job: begin, report and end always in pairs, or nothing at all.

When the client cannot show progress, the start and the end of what the user asked for are shown as messages, and those of other jobs
go to the log window: a popup for each opened file would be worse than nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Self

from lsprotocol import types as t
from pygls.exceptions import JsonRpcException
from stitchcuda.server.jobs import Job

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

log = logging.getLogger(__name__)

_CREATE_SECONDS = 2.0


class Progress:
    """`async with Progress(server, job) as progress: progress.report(percentage, message)`."""

    def __init__(self, server: StitchServer, job: Job):
        self._server = server
        self._job = job
        self._shown = False
        self._percentage = 0

    async def __aenter__(self) -> Self:
        window = self._server.client_capabilities.window
        if window is not None and window.work_done_progress:
            params = t.WorkDoneProgressCreateParams(token=self._job.token)
            try:
                created = self._server.protocol.send_request_async(t.WINDOW_WORK_DONE_PROGRESS_CREATE, params)
                # Not `wait_for`: before Python 3.12 it forgets a cancellation that comes together with the answer.
                async with asyncio.timeout(_CREATE_SECONDS):
                    await created
                self._shown = True
            except (JsonRpcException, TimeoutError):
                log.warning("the client did not create a progress token")
        if self._shown:
            self._notify(t.WorkDoneProgressBegin(title=self._job.title, cancellable=True, percentage=0))
        else:
            self._say(f"{self._job.title} ...")
        return self

    def report(self, percentage: int, message: str) -> None:
        """`percentage` never goes back, whatever is passed."""
        self._percentage = max(self._percentage, min(percentage, 100))
        if self._shown:
            self._notify(t.WorkDoneProgressReport(percentage=self._percentage, message=message, cancellable=True))

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        message = "done" if kind is None else "cancelled" if kind is asyncio.CancelledError else "failed"
        if self._shown:
            self._notify(t.WorkDoneProgressEnd(message=message))
        else:
            self._say(f"{self._job.title}: {message}")

    def _notify(self, value: object) -> None:
        self._server.protocol.notify(t.PROGRESS, t.ProgressParams(token=self._job.token, value=value))

    def _say(self, text: str) -> None:
        if self._job.asked:
            self._server.window_show_message(t.ShowMessageParams(type=t.MessageType.Info, message=text))
        else:
            self._server.window_log_message(t.LogMessageParams(type=t.MessageType.Info, message=text))
