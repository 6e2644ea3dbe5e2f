"""A stitchcuda command run for a job, in a child process: what the editor does is what the command line does.

The child prints its result as one JSON object on stdout, and one JSON object a line on stderr for its progress
(`{"step", "of", "message"}`). Anything else on stderr is what it has to say when it fails.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stitchcuda.server.jobs import Job

COMMAND = (sys.executable, "-m", "stitchcuda.server.cli")
_LINE_LIMIT = 1 << 20  # of a progress line; results are read whole
_MESSAGE_BYTES = 2000

Report = Callable[[int, str], None]  # percentage, message


@dataclass(frozen=True)
class Answer:
    """`value` is the JSON object that the command printed, None when it printed none; `message` is then its reason."""

    code: int
    value: Mapping[str, Any] | None
    message: str = ""


async def run(job: Job, words: Sequence[str], report: Report, command: Sequence[str] = COMMAND) -> Answer:
    """Runs `stitchcuda WORDS... --format json --progress json`; it ends with the job at the latest."""
    process = await job.process(
        *command,
        *words,
        "--format",
        "json",
        "--progress",
        "json",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=_LINE_LIMIT,
    )
    assert process.stdout is not None and process.stderr is not None
    output, said = await asyncio.gather(process.stdout.read(), _follow(process.stderr, report))
    code = await process.wait()
    try:
        value = json.loads(output)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        return Answer(code, None, said or f"it ended with {code} and no result")
    return Answer(code, value, said)


async def _follow(stream: asyncio.StreamReader, report: Report) -> str:
    """Passes progress on; returns what else was said, its end when it is long."""
    said = b""
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # a line over the limit: what of it was read is dropped
            continue
        if not line:
            return said.decode(errors="replace").strip().removeprefix("stitchcuda: ")
        step = _progress(line)
        if step is None:
            said = (said + line)[-_MESSAGE_BYTES:]
        else:
            report(*step)


def _progress(line: bytes) -> tuple[int, str] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("message"), str):
        return None
    step, of = value.get("step"), value.get("of")
    if not isinstance(step, int) or not isinstance(of, int) or of <= 0:
        return 0, value["message"]
    return 100 * step // of, value["message"]
