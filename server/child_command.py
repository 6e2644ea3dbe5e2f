"""A stitchcuda command run for a job, in a child process: what the editor does is what the command line does.

The child prints its result as one JSON object on stdout, and one JSON object a line on stderr for its progress
(`{"step", "of", "message"}`). Anything else on stderr is what it has to say when it fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stitchcuda.server.jobs import Job

COMMAND = (sys.executable, "-m", "stitchcuda.server.cli")
_RESULT_BYTES = 16 << 20
_READ_BYTES = 1 << 16
_STEPS_SHOWN = 10  # of those that came with one read: an editor shows no thousands a second
_MESSAGE_BYTES = 2000

Report = Callable[[int, str], None]  # percentage, message


@dataclass(frozen=True)
class Answer:
    """`value` is the JSON object that the command printed, None when it printed none; `message` is then its reason."""

    code: int
    value: Mapping[str, Any] | None
    message: str = ""


async def run(
    job: Job,
    words: Sequence[str],
    report: Report,
    command: Sequence[str] = COMMAND,
    secrets: Mapping[str, str] | None = None,
) -> Answer:
    """Runs `stitchcuda WORDS... --format json --progress json`; it ends with the job at the latest. `secrets` are variables that
    it gets beside ours: what stands in a command line others can read."""
    process = await job.process(
        *command,
        *words,
        "--format",
        "json",
        "--progress",
        "json",
        env={**os.environ, **secrets} if secrets else None,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    output, said = await asyncio.gather(_result(process), _follow(process.stderr, report))
    code = await process.wait()
    if output is None:
        return Answer(code, None, f"its result is larger than {_RESULT_BYTES >> 20} MiB")
    try:
        value = json.loads(output)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return Answer(code, None, said or f"it ended with {code} and no result")
    return Answer(code, value, said)


async def _result(process: asyncio.subprocess.Process) -> bytes | None:
    """What it prints; None, and its end, when that is too much."""
    assert process.stdout is not None
    output = bytearray()
    while chunk := await process.stdout.read(_READ_BYTES):
        output += chunk
        if len(output) > _RESULT_BYTES:
            process.kill()
            return None
    return bytes(output)


async def _follow(stream: asyncio.StreamReader, report: Report) -> str:
    """Passes progress on; returns what else was said, its end when it is long."""
    said, partial = b"", b""
    while chunk := await stream.read(_READ_BYTES):
        *lines, partial = (partial + chunk).split(b"\n")
        partial = partial[-_READ_BYTES:]  # a line without an end must not grow for ever
        steps: list[tuple[int, str]] = []
        words = b""
        for line in reversed(lines):
            if len(steps) == _STEPS_SHOWN:
                break
            step = _progress(line)
            if step is None:
                words = (line + b"\n" + words)[-_MESSAGE_BYTES:]
            else:
                steps.append(step)
        said = (said + words)[-_MESSAGE_BYTES:]
        for step in reversed(steps):
            report(*step)
        await asyncio.sleep(0)  # what is there already is read without a pause: others want to be served, too
    return (said + partial)[-_MESSAGE_BYTES:].decode(errors="replace").strip().removeprefix("stitchcuda: ")


def _progress(line: bytes) -> tuple[int, str] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("message"), str):
        return None
    step, of = value.get("step"), value.get("of")
    if not isinstance(step, int) or not isinstance(of, int) or of <= 0:
        return 0, value["message"][:_MESSAGE_BYTES]
    return 100 * step // of, value["message"][:_MESSAGE_BYTES]
