"""A child that prints what it should not: the server takes what it can use and stays small and alive."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import pytest
from stitchcuda.server import child_command
from stitchcuda.server.child_command import Answer
from stitchcuda.server.jobs import Jobs

pytestmark = pytest.mark.asyncio


async def ran(code: str) -> tuple[Answer, list[tuple[int, str]], float]:
    """The answer, the progress, and the longest work during which nothing else could run, in CPU seconds: on a busy machine any wait is
    long."""
    steps: list[tuple[int, str]] = []
    job = Jobs().start(
        "job", lambda job: child_command.run(job, (), lambda *step: steps.append(step), (sys.executable, "-c", code))
    )
    longest = 0.0
    ended = asyncio.ensure_future(job.wait())
    while not ended.done():
        before = time.thread_time()
        await asyncio.sleep(0.001)
        longest = max(longest, time.thread_time() - before)
    assert isinstance(job.result, Answer), job.error
    return job.result, steps, longest


async def test_progress_amid_other_words() -> None:
    answer, steps, _ = await ran(
        "import sys\n"
        "for line in ('[[' * 100000, 'x' * 3000000, '{\"step\": 1}', '{\"message\": 3}', '\\udcff', "
        '\'{"step": "a", "of": 2, "message": "begun"}\', \'{"step": 1, "of": 2, "message": "half"}\', '
        "'stitchcuda: no good'):\n"
        "    sys.stderr.buffer.write(line.encode(errors='surrogateescape') + b'\\n')\n"
        "sys.exit(2)"
    )
    assert steps == [(0, "begun"), (50, "half")]
    assert (answer.code, answer.value) == (2, None) and answer.message.endswith("no good")
    assert len(answer.message) <= 2000


@pytest.mark.parametrize("printed", ["", "3", "[]", '{"a":', "[" * 100000, "\x00"])
async def test_a_result_that_is_no_object_is_a_reason(printed: str) -> None:
    answer, _, _ = await ran(f"import sys; sys.stdout.write({json.dumps(printed)})")
    assert answer == Answer(0, None, "it ended with 0 and no result")


async def test_a_hundred_megabytes_of_either_do_no_harm() -> None:
    flood = "import sys\nfor _ in range(100): sys.{}.write('{}' * (1 << 20))\n"
    answer, _, longest = await ran(flood.format("stdout", "x"))
    assert answer.value is None and answer.message == "its result is larger than 16 MiB"
    answer, steps, longest = await ran(
        'import sys\nline = \'{{"step": 1, "of": 2, "message": "{}"}}\\n\'\n'
        "for k in range(100): sys.stderr.write(''.join(line.format(j) for j in range(100)) * 250)\nprint('{}')"
    )
    assert answer.value == {} and steps[-1] == (50, "99") and len(steps) < 25000
    assert longest < 0.5, "the server must answer meanwhile"
