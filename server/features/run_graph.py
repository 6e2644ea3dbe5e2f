"""The execution graph before and after a stitched version: the page of `stitchcuda graph --run`, made in a child process."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygls.exceptions import JsonRpcInvalidParams
from stitchcuda.server.features import program_jobs
from stitchcuda.server.jobs import Job

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer


_RUN = re.compile(r"(?!-)[\w.-]*")


async def run_graph(ls: StitchServer, *arguments: Any) -> dict[str, str]:
    """`[uri, run = ""]` -> `{"page", "folder", "run"}` about a run of *Stitch* or of a rewrite on the file's program: the newest of this
    session without a name. Paths in the page count from the folder."""
    uri, run = (*arguments, *("", "")[len(arguments) :])[:2]
    if not isinstance(run, str) or not _RUN.fullmatch(run):
        raise JsonRpcInvalidParams(message="stitchcuda.runGraph takes a URI and the name of a run")
    document = program_jobs.document_of(ls, "stitchcuda.runGraph", uri)
    program = program_jobs.program_of(ls, document)
    newest = ls.turns.jobs.get(str(program))
    result = newest.result if newest is not None else None
    if not run and isinstance(result, dict):
        run = Path(result.get("run_dir") or "").name
    if not run:
        raise program_jobs.refuse(f"{program.name} was not stitched since the server started")
    job = ls.jobs.start(f"Execution graph: {program.name}", lambda job: _page(ls, job, run))
    await job.wait()
    page, reason = job.result or ("", job.error or job.state.value)
    if not page:
        raise program_jobs.refuse(f"the execution graph of the run could not be made: {reason}")
    return {"page": page, "folder": str(program if program.is_dir() else program.parent), "run": run}


async def _page(ls: StitchServer, job: Job, run: str) -> tuple[str, str]:
    """The page, or "" and why there is none."""
    pipes = {"stdin": asyncio.subprocess.DEVNULL, "stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    words = ("graph", "--run", run, "--format", "html")
    process = await job.process(*ls.child_command, *words, **pipes)
    page, said = await process.communicate()
    return page.decode(), said.decode(errors="replace").strip()[-2000:]
