"""Where invocations start, read off the calls of a run, and how long each took."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from stitchcuda.gpu_validate.analysed import analyse
from stitchcuda.gpu_validate.invocations import Starts, find_starts, latencies, statistic
from stitchcuda.gpu_validate.source_loops import Placed, SourceLoops, source_loops
from stitchcuda.gpu_validate.trace.model import Call, CallSite, DeviceOp, Trace
from stitchcuda.gpu_validate.trace.store import from_json
from stitchcuda.gpu_validate.version import Version

TRACES = Path(__file__).parents[2] / "fixtures" / "traces"

LAUNCH, COPY, ASYNC, WAIT = "cudaLaunchKernel", "cudaMemcpy", "cudaMemcpyAsync", "cudaStreamSynchronize"


def starts_of(full: Trace, scope: Sequence[str] = ()) -> Starts:
    """With a source that has each line at its depth; inside a scope function one loop less counts."""
    depths = {
        line: 0 if line in OUTSIDE else 2 if line in INNER else 1 for c in full.calls for line in [c.sites[0].line]
    }
    placed = tuple(Placed((("a.cu", line),), max(0, depth - bool(scope))) for line, depth in depths.items())
    return find_starts(full, SourceLoops(dict.fromkeys({c.api for c in full.calls}, placed)), scope)


def turns(first: int, length: int, count: int) -> tuple[tuple[int, int], ...]:
    return tuple((first + k * length, first + (k + 1) * length) for k in range(count))


def trace(calls: Sequence[tuple[str, int]], *, mode: str = "full", function: str = "main", ops: bool = False) -> Trace:
    """Calls as (api, line); each takes 1 us, one every 10 us, and its device work ends 5 us after it was issued."""
    made = tuple(
        Call(i, api, i * 10_000, i * 10_000 + 1_000, correlation=i + 1, sites=(CallSite("a.cu", line, function),))
        for i, (api, line) in enumerate(calls)
    )
    done = tuple(DeviceOp("kernel", c.start, c.start + 5_000, correlation=c.correlation) for c in made if ops)
    return Trace(mode, 0, 0, len(made) * 10_000, made, done)


INNER = {20, 21, 35}  # lines in a loop inside the loop
OUTSIDE = {1, 5, 6, 7, 50}
SETUP = [("cudaMalloc", 1), (COPY, 2), (COPY, 2), (COPY, 2)]
LAYERS = [(LAUNCH, 20), (LAUNCH, 21)] * 3
BATCH = [(COPY, 10), *LAYERS, (LAUNCH, 30), (COPY, 40)]


def test_the_outermost_loop_is_found_and_not_the_layers_inside() -> None:
    starts = starts_of(trace([*SETUP, *BATCH * 4, ("cudaFree", 50)]))
    assert starts.spans == turns(len(SETUP), len(BATCH), 4)


def test_an_iteration_may_begin_and_end_with_an_inner_loop() -> None:
    body = [*[(LAUNCH, 20)] * 3, (LAUNCH, 30), *[(LAUNCH, 35)] * 2, (WAIT, 40)]
    starts = starts_of(trace([*SETUP, *body * 3]))
    assert starts.spans == turns(len(SETUP), len(body), 3)


def test_a_setup_loop_of_as_many_turns_is_another_loop() -> None:
    setup = [(COPY, 2)] * 4
    starts = starts_of(trace([*setup, *BATCH * 4]))
    assert starts.spans == turns(4, len(BATCH), 4)


def test_a_program_without_a_loop_is_one_invocation() -> None:
    starts = starts_of(trace([("cudaMalloc", 1), (LAUNCH, 5), (LAUNCH, 6), (COPY, 7)]))
    assert starts.once and not starts.spans
    assert "no loop" in latencies(trace([(LAUNCH, 5)]), starts).reason


def test_the_layers_of_a_loop_that_ran_once_are_not_invocations() -> None:
    starts = starts_of(trace([*SETUP, *BATCH]))
    assert starts.once and "ran once" in starts.reason


def test_without_a_call_directly_in_the_outermost_loop_nothing_is_guessed() -> None:
    starts = starts_of(trace([*LAYERS, (WAIT, 50)]))
    assert not starts.spans and not starts.once and "cannot be told" in starts.reason


def test_one_call_of_the_scope_function_is_one_invocation() -> None:
    once = starts_of(trace(BATCH, function="forward"), ("forward",))
    assert once.spans == ((0, len(BATCH)),)


def test_scope_counts_only_what_runs_inside_the_function() -> None:
    inside = trace(BATCH * 3, function="Model::forward(float*) const")
    assert len(starts_of(inside, ("forward",)).spans) == 3
    assert "backward" in starts_of(inside, ("backward",)).reason


def test_an_invocation_of_a_scope_function_ends_with_its_own_last_call() -> None:
    """In the recorded run of examples/vit the function runs twelve times, between work of others."""
    recorded = from_json(json.loads((TRACES / "vit.json").read_text(encoding="utf-8")))
    loops = source_loops(analyse(Version(TRACES.parents[2] / "examples" / "vit")), ("mlp_block",))
    spans = find_starts(recorded, loops, ("mlp_block",)).spans
    assert len(spans) == 12 and len({after - first for first, after in spans}) == 1
    covered = {k for first, after in spans for k in range(first, after)}
    mine = {c.index for c in recorded.calls if any(site.function == "mlp_block" for site in c.sites)}
    assert covered <= mine
    assert {c.index for c in recorded.calls if c.kernel} & mine <= covered


def test_the_image_loop_of_the_example_ran_once_in_the_recorded_run() -> None:
    recorded = from_json(json.loads((TRACES / "vit.json").read_text(encoding="utf-8")))
    loops = source_loops(analyse(Version(TRACES.parents[2] / "examples" / "vit")))
    assert find_starts(recorded, loops).once


def test_an_incomplete_trace_tells_nothing() -> None:
    assert starts_of(trace(BATCH * 3, mode="timing")).reason


def test_latency_is_from_the_first_operation_to_the_return_of_the_last_wait() -> None:
    full = trace(BATCH * 4)
    found = latencies(trace(BATCH * 4, mode="timing"), starts_of(full))
    took = ((len(BATCH) - 1) * 10_000 + 1_000) / 1e9
    assert found.seconds == pytest.approx([took] * 3)  # the first one is warm-up


def test_without_a_wait_it_ends_on_the_device_and_only_if_that_is_known() -> None:
    body = [(ASYNC, 10), (LAUNCH, 20), (LAUNCH, 30)]
    starts = starts_of(trace(body * 4, ops=True))
    assert latencies(trace(body * 4, ops=True), starts).seconds == pytest.approx([25e-6] * 3)
    assert "nothing waits" in latencies(trace(body * 4, mode="timing"), starts).reason


def test_a_wait_that_does_not_cover_the_last_operation_does_not_count() -> None:
    body = [(LAUNCH, 20), (WAIT, 25), (LAUNCH, 30)]
    assert "nothing waits" in latencies(trace(body * 4), starts_of(trace(body * 4))).reason


def test_a_run_with_other_calls_tells_nothing() -> None:
    starts = starts_of(trace(BATCH * 4))
    assert "calls" in latencies(trace(BATCH * 3), starts).reason


def test_statistics_of_invocations() -> None:
    values = [float(v) for v in range(1, 201)]
    assert statistic(values, "mean") == 100.5
    assert statistic(values, "p50") == 100
    assert statistic(values, "p99") == 198
    assert statistic(values, "max") == 200
    assert statistic(values[:50], "p99") is None  # it would be the maximum of few
    assert statistic([], "mean") is None
