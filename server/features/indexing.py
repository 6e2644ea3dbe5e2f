"""Reading a program's other files, shown as one job with progress that the user can cancel."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from lsprotocol import types as t
from stitchcuda.server.engine.messages import Indexing
from stitchcuda.server.jobs import Job
from stitchcuda.server.progress import Progress

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer


class IndexingJobs:
    """At most one job a program; fed by the analysis process."""

    def __init__(self, server: StitchServer):
        self._server = server
        self._reports: dict[str, asyncio.Queue[Indexing]] = {}

    def progress(self, message: Indexing) -> None:
        reports = self._reports.get(message.root)
        if reports is None:
            if message.done >= message.total:
                return
            reports = self._reports[message.root] = asyncio.Queue()
            title = f"Indexing {os.path.basename(message.root) or message.root}"
            self._server.jobs.start(title, lambda job: self._show(job, message.root, reports))
        reports.put_nowait(message)

    async def _show(self, job: Job, root: str, reports: asyncio.Queue[Indexing]) -> None:
        try:
            async with Progress(self._server, job) as progress:
                while True:
                    message = await reports.get()
                    if message.done >= message.total:
                        return
                    progress.report(100 * message.done // message.total, f"{message.done} of {message.total} files")
        except asyncio.CancelledError:
            self._server.analyses.stop_indexing()
            raise
        finally:
            self._reports.pop(root, None)


def cancel_progress(ls: StitchServer, params: t.WorkDoneProgressCancelParams) -> None:
    ls.jobs.cancel_token(params.token)
