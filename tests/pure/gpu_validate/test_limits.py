"""What limits a version, from a recorded trace and from made-up ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stitchcuda.gpu_validate.invocations import Starts
from stitchcuda.gpu_validate.limits import limits_of
from stitchcuda.gpu_validate.trace import store
from stitchcuda.gpu_validate.trace.model import Call, DeviceOp, Trace

RECORDED = Path(__file__).parents[2] / "fixtures" / "traces" / "vit.json"


def test_the_recorded_run_is_limited_by_the_host() -> None:
    trace = store.from_json(json.loads(RECORDED.read_text(encoding="utf-8")))
    found = limits_of(trace, Starts())
    assert found is not None and found.of == "run"
    (most, _), (next_, _), _ = found.largest
    assert (most, next_) == ("h2d copies", "linear_kernel"), "one image: its weights are most of what moves"
    assert sum(share for _, share in found.largest) <= 1
    span = max(op.end for op in trace.ops) / 1e9
    assert 0 < found.copies < found.device_seconds < span
    assert found.sentence(10 * found.device_seconds).startswith("the host limits it: the GPU works only")


def made_up(times: list[list[int]]) -> tuple[Trace, Starts]:
    """Invocations of kernels that take so long, 100 ns apart."""
    calls: list[Call] = []
    ops: list[DeviceOp] = []
    spans: list[tuple[int, int]] = []
    now = 0
    for group in times:
        first = len(calls)
        for k, took in enumerate(group):
            calls.append(Call(len(calls), "cudaLaunchKernel", now, now + 1, correlation=len(calls) + 1))
            ops.append(DeviceOp("kernel", now, now + took, 0, len(calls), f"k{k}"))
            now += took + 100
        spans.append((first, len(calls)))
    return Trace("full", 0, 1, now, tuple(calls), tuple(ops)), Starts(tuple(spans), len(calls))


def test_invocations_are_told_apart_and_the_first_is_left_out() -> None:
    found = limits_of(*made_up([[90_000, 90_000], [1_000, 3_000], [1_000, 3_000], [1_000, 3_000]]))
    assert found is not None and found.of == "invocation" and found.device_seconds == pytest.approx(4e-6)
    assert found.largest == (("k1", 0.75), ("k0", 0.25))
    sentence = found.sentence(5e-6)
    assert sentence.startswith(
        "the kernels and copies limit it: the GPU works 0.004 ms of one invocation's 0.005 ms (80%"
    )


def test_nothing_is_said_without_operations_or_with_lost_ones() -> None:
    assert limits_of(Trace("full", 0, 1, 2), Starts()) is None
    trace, starts = made_up([[10]])
    assert limits_of(Trace("full", 0, 1, 2, trace.calls, trace.ops, dropped=1), starts) is None
    assert limits_of(Trace("timing", 0, 1, 2, trace.calls, trace.ops), starts) is None
