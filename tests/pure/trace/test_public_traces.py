"""Runs of public programs, recorded on an H200: what the ordering rules say happened there.

Traces of HeCBench, NVIDIA's samples, tutorials and books; `benchmarks/truth.py` compares them with the sources (docs/accuracy.md).
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

import pytest
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.trace.store import from_json
from stitchcuda.gpu_validate.trace.timeline import TracedTimeline, timeline_of

FOLDER = Path(__file__).parents[2] / "fixtures" / "traces" / "public"
NAMES = sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz"))


@cache
def told(name: str) -> tuple[Trace, TracedTimeline]:
    trace = from_json(json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes())))
    return trace, timeline_of(trace)


def ran(trace: Trace, line: TracedTimeline) -> dict[int, tuple[int, int]]:
    """When the device began and ended the work of an op; work of graphs has no call of its own."""
    times: dict[int, list[tuple[int, int]]] = {}
    for op in trace.ops:
        if not op.graph_node:
            times.setdefault(op.correlation, []).append((op.start, op.end))
    return {
        op.id: (min(s for s, _ in times[call.correlation]), max(e for _, e in times[call.correlation]))
        for op, call in zip(line.timeline.ops, line.calls, strict=True)
        if call.correlation in times
    }


def test_there_are_enough_of_them() -> None:
    assert len(NAMES) >= 15


@pytest.mark.parametrize("name", NAMES)
def test_what_is_ordered_ran_in_that_order(name: str) -> None:
    trace, line = told(name)
    times = ran(trace, line)
    assert times or all(op.graph_node for op in trace.ops)
    for later, (start, _) in times.items():
        before = line.timeline.before[later]
        late = [(a, end - start) for a, (_, end) in times.items() if before >> a & 1 and end > start]
        assert late == []


@pytest.mark.parametrize("name", NAMES)
def test_a_host_wait_returns_after_what_it_waits_for(name: str) -> None:
    trace, line = told(name)
    times = ran(trace, line)
    for op, call in zip(line.timeline.ops, line.calls, strict=True):
        late = [a for a, (_, end) in times.items() if op.waits >> a & 1 and end > call.end]
        assert late == []
