"""The execution graph before and after a stitched version: the page of `stitchcuda graph --run`, made in a child process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stitchcuda.server.features import program_jobs
from stitchcuda.server.jobs import Job

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer


async def run_graph(ls: StitchServer, *arguments: Any) -> dict[str, str]:
    """`[uri]` -> `{"page", "folder"}` about the newest run of *Stitch* or of a rewrite on the file's program in this session. Paths in
    the page count from the folder."""
    document = program_jobs.document_of(ls, "stitchcuda.runGraph", arguments[0] if arguments else None)
    program = program_jobs.program_of(document.path, ls.roots)
    newest = ls.turns.jobs.get(str(program))
    result = newest.result if newest is not None else None
    if not isinstance(result, dict) or not result.get("run_dir"):
        raise program_jobs.refuse(f"{program.name} was not stitched since the server started")
    job = ls.jobs.start(f"Execution graph: {program.name}", lambda job: _page(ls, job, Path(result["run_dir"])))
    await job.wait()
    page, reason = job.result or ("", job.error or job.state.value)
    if not page:
        raise program_jobs.refuse(f"the execution graph of the run could not be made: {reason}")
    return {"page": page, "folder": str(program if program.is_dir() else program.parent)}


async def _page(ls: StitchServer, job: Job, run_dir: Path) -> tuple[str, str]:
    """The page, or "" and why there is none."""
    pipes = {"stdin": asyncio.subprocess.DEVNULL, "stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    words = ("graph", "--run", run_dir.name, "--format", "html")
    process = await job.process(*ls.child_command, *words, **pipes)
    page, said = await process.communicate()
    return page.decode(), said.decode(errors="replace").strip()[-2000:]
