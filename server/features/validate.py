"""*Validate*: the saved program is judged against its last commit, as a job in a child process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsprotocol import types as t
from pygls.exceptions import JsonRpcInvalidParams
from stitchcuda.server.features import program_jobs
from stitchcuda.server.jobs import Job

if TYPE_CHECKING:
    from stitchcuda.server.lsp import StitchServer

TITLE = "Validate against the last commit"


async def validate(ls: StitchServer, *arguments: Any) -> dict[str, str]:
    """`[uri, revision = "HEAD"]` -> `{"job": id}`, at once. The verdict is shown as a message and kept with the job."""
    uri, revision = (*arguments, *("", "HEAD")[len(arguments) :])[:2]
    if not isinstance(revision, str) or not revision or revision.startswith("-"):
        raise JsonRpcInvalidParams(message="stitchcuda.validate takes a URI and the name of a git revision")
    reading = "a validation runs the files as they are saved"
    program = program_jobs.saved_program(ls, "stitchcuda.validate", uri, reading, runs=True)
    words = ("validate", "--against", revision, str(program))
    return program_jobs.start(ls, f"Validate: {program.name}", program, lambda job: _work(ls, job, program, words))


async def _work(ls: StitchServer, job: Job, program: Path, words: Sequence[str]) -> dict[str, Any]:
    answer = await program_jobs.run(ls, job, words)
    value = answer.value
    if value is None:
        program_jobs.show(ls, f"stitchcuda: {program.name}: {answer.message}", t.MessageType.Error)
        return {"state": "failed", "reason": answer.message}
    kind = t.MessageType.Warning if value.get("state") == "rejected" else t.MessageType.Info
    ended = program_jobs.Ended(str(value.get("state", "")))
    program_jobs.show(ls, f"stitchcuda: {program.name}: {_sentence(value)}", kind, ended)
    return dict(value)


def _sentence(verdict: Any) -> str:
    """The verdict with what the user most needs to know: what to put right, else how fast it is."""
    state = str(verdict.get("state", ""))
    primary = verdict.get("primary")
    if isinstance(primary, dict):
        place = f" ({primary['path']}:{primary['line']})" if primary.get("path") else ""
        return f"{state}: {primary.get('issue', '')}{place}"
    speed = {name: value for name, value in (verdict.get("speedup") or {}).items() if isinstance(value, list)}
    for name in ("latency", "cuda_span", "wall"):
        if name in speed and len(speed[name]) == 3:
            low, middle, high = speed[name]
            return f"{state}: {name.replace('_', ' ')} {middle:.2f} times as fast ({low:.2f} to {high:.2f})"
    untested = [g for g in verdict.get("gates", ()) if g.get("state") in ("untested", "inconclusive")]
    return state + "".join(f"; {g.get('gate')} {g.get('state')}: {g.get('reason', '')}" for g in untested[:2])
