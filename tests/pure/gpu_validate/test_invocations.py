"""Where invocations start, read off the calls of a run, and how long each took."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from stitchcuda.gpu_validate.invocations import find_starts, latencies, statistic
from stitchcuda.gpu_validate.trace.model import Call, CallSite, DeviceOp, Trace

LAUNCH, COPY, ASYNC, WAIT = "cudaLaunchKernel", "cudaMemcpy", "cudaMemcpyAsync", "cudaStreamSynchronize"


def trace(calls: Sequence[tuple[str, int]], *, mode: str = "full", function: str = "main", ops: bool = False) -> Trace:
    """Calls as (api, line); each takes 1 us, one every 10 us, and its device work ends 5 us after it was issued."""
    made = tuple(
        Call(i, api, i * 10_000, i * 10_000 + 1_000, correlation=i + 1, sites=(CallSite("a.cu", line, function),))
        for i, (api, line) in enumerate(calls)
    )
    done = tuple(DeviceOp("kernel", c.start, c.start + 5_000, correlation=c.correlation) for c in made if ops)
    return Trace(mode, 0, 0, len(made) * 10_000, made, done)


SETUP = [("cudaMalloc", 1), (COPY, 2), (COPY, 2), (COPY, 2)]
LAYERS = [(LAUNCH, 20), (LAUNCH, 21)] * 3
BATCH = [(COPY, 10), *LAYERS, (LAUNCH, 30), (COPY, 40)]


def test_the_outermost_loop_is_found_and_not_the_layers_inside() -> None:
    starts = find_starts(trace([*SETUP, *BATCH * 4, ("cudaFree", 50)]))
    assert starts.starts == tuple(len(SETUP) + k * len(BATCH) for k in range(4))
    assert starts.end == len(SETUP) + 4 * len(BATCH)


def test_an_iteration_may_begin_and_end_with_an_inner_loop() -> None:
    body = [*[(LAUNCH, 20)] * 3, (LAUNCH, 30), *[(LAUNCH, 35)] * 2, (WAIT, 40)]
    starts = find_starts(trace([*SETUP, *body * 3]))
    assert starts.starts == tuple(len(SETUP) + k * len(body) for k in range(3))


def test_a_setup_loop_of_as_many_turns_is_another_loop() -> None:
    setup = [(COPY, 2)] * 4
    starts = find_starts(trace([*setup, *BATCH * 4]))
    assert starts.starts == tuple(4 + k * len(BATCH) for k in range(4))


def test_a_program_without_a_loop_has_no_invocations_and_says_so() -> None:
    starts = find_starts(trace([*SETUP, (LAUNCH, 5), (LAUNCH, 6), (COPY, 7)]))
    assert not starts.starts and "no loop" in starts.reason
    assert "no loop" in latencies(trace([(LAUNCH, 5)]), starts).reason


def test_scope_counts_only_what_runs_inside_the_function() -> None:
    inside = trace(BATCH * 3, function="Model::forward(float*) const")
    assert len(find_starts(inside, ("forward",)).starts) == 3
    assert "backward" in find_starts(inside, ("backward",)).reason


def test_an_incomplete_trace_tells_nothing() -> None:
    assert find_starts(trace(BATCH * 3, mode="timing")).reason


def test_latency_is_from_the_first_operation_to_the_return_of_the_last_wait() -> None:
    full = trace(BATCH * 4)
    found = latencies(trace(BATCH * 4, mode="timing"), find_starts(full))
    took = ((len(BATCH) - 1) * 10_000 + 1_000) / 1e9
    assert found.seconds == pytest.approx([took] * 3)  # the first one is warm-up


def test_without_a_wait_it_ends_on_the_device_and_only_if_that_is_known() -> None:
    body = [(ASYNC, 10), (LAUNCH, 20), (LAUNCH, 30)]
    starts = find_starts(trace(body * 4, ops=True))
    assert latencies(trace(body * 4, ops=True), starts).seconds == pytest.approx([25e-6] * 3)
    assert "nothing waits" in latencies(trace(body * 4, mode="timing"), starts).reason


def test_a_wait_that_does_not_cover_the_last_operation_does_not_count() -> None:
    body = [(LAUNCH, 20), (WAIT, 25), (LAUNCH, 30)]
    assert "nothing waits" in latencies(trace(body * 4), find_starts(trace(body * 4))).reason


def test_a_run_with_other_calls_tells_nothing() -> None:
    starts = find_starts(trace(BATCH * 4))
    assert "calls" in latencies(trace(BATCH * 3), starts).reason


def test_statistics_of_invocations() -> None:
    values = [float(v) for v in range(1, 201)]
    assert statistic(values, "mean") == 100.5
    assert statistic(values, "p50") == 100
    assert statistic(values, "p99") == 198
    assert statistic(values, "max") == 200
    assert statistic(values[:50], "p99") is None  # it would be the maximum of few
    assert statistic([], "mean") is None
