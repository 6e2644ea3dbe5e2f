"""The order of a traced run, and the hazard rules on it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from stitchcuda.analysis.findings.finding import Confidence
from stitchcuda.analysis.findings.race import DEVICE_WORK, Race, races
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.order.timeline import Mode
from stitchcuda.analysis.program.ir import ApiKind, Program
from stitchcuda.gpu_validate.trace.model import Call, Trace, TracedStream
from stitchcuda.gpu_validate.trace.store import from_json
from stitchcuda.gpu_validate.trace.timeline import MAX_OPS, Effects, TracedTimeline, effects_of, kind_of, timeline_of

RECORDED = Path(__file__).parents[2] / "fixtures" / "traces"


def recorded(name: str) -> Trace:
    return from_json(json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8")))


def source_effects(name: str) -> tuple[Program, Effects]:
    index = Index()
    index.put(f"{name}.cu", (RECORDED / "programs" / f"{name}.cu").read_bytes())
    program = index.analyse().program
    return program, effects_of(program)


def found(traced: TracedTimeline, program: Program | None = None) -> list[Race]:
    nothing = program or Program({}, {})
    return races(nothing, traced.timeline, DEVICE_WORK, DEVICE_WORK, lambda a, b, c, d: True)


def op_of(traced: TracedTimeline, index: int) -> int:
    return next(k for k, call in enumerate(traced.calls) if call.index == index)


def ordered(traced: TracedTimeline, first: int, second: int) -> bool:
    """By the indexes of their calls."""
    return traced.timeline.ordered(op_of(traced, first), op_of(traced, second))


def test_streams_events_and_waits_order_a_recorded_run() -> None:
    traced = timeline_of(recorded("streams"))
    assert traced.timeline.source == "traced" and not traced.timeline.cuts
    scale, add, download, read = 8, 12, 13, 15
    assert ordered(traced, scale, add)  # through the event
    assert ordered(traced, add, download)  # one stream
    assert ordered(traced, download, read)  # the host waited for its stream in between
    upload = 10  # from pageable memory: it may still be arriving when the other stream, a non-blocking one, goes on
    assert not ordered(traced, upload, add)


def test_the_race_in_a_recorded_run_is_found() -> None:
    program, effects = source_effects("streams")
    traced = timeline_of(recorded("streams"), effects)
    (race,) = found(traced, program)
    assert (race.earlier.api, race.later.kernel) == ("cudaMemcpy", "add")
    assert (race.conflict.first.mode, race.conflict.second.mode) == (Mode.WRITE, Mode.READ)
    assert race.confidence is not Confidence.POSSIBLE
    (blind,) = found(timeline_of(recorded("streams")))
    assert blind.confidence is Confidence.POSSIBLE  # without the source it is not known what the kernel does


def test_without_the_event_the_kernels_race() -> None:
    trace = recorded("streams")
    program, effects = source_effects("streams")
    left_out = ("cudaStreamWaitEvent", "cudaMemcpy")  # the copy's wait for the default stream orders them as well
    without = replace(trace, calls=tuple(c for c in trace.calls if c.api not in left_out))
    pairs = {(race.earlier.kernel, race.later.kernel) for race in found(timeline_of(without, effects), program)}
    assert ("scale<float>", "add") in pairs


def test_effects_come_from_the_source() -> None:
    _, effects = source_effects("streams")
    add = effects("add")
    assert add is not None
    assert [modes for modes, _ in add] == [frozenset({Mode.READ}), frozenset({Mode.READ}), frozenset({Mode.WRITE})]
    assert effects("no_such_kernel") is None


def test_a_graph_runs_with_its_launches() -> None:
    traced = timeline_of(recorded("graph"))
    line = traced.timeline
    captured = [op for op in line.ops if op.graph is not None]
    assert [op.kind for op in captured if op.accesses] == [ApiKind.LAUNCH, ApiKind.COPY]
    launches = [op for op in line.ops if op.kind is ApiKind.GRAPH_LAUNCH]
    assert {access.mode for access in launches[0].accesses} == {Mode.READ, Mode.WRITE}
    assert line.ordered(launches[0].id, launches[1].id)
    assert not found(traced)


@pytest.mark.parametrize("name", ["vit", "reuse"])
def test_nothing_is_reported_where_nothing_races_on_the_device(name: str) -> None:
    assert found(timeline_of(recorded(name))) == []


def call(index: int, api: str, **fields: object) -> Call:
    return replace(Call(index, api, index, index + 1), **fields)  # type: ignore[arg-type]


def on_two_streams(*calls: Call) -> TracedTimeline:
    streams = (TracedStream(1, "created", 1), TracedStream(2, "created", 1))
    return timeline_of(Trace("full", 0, 1, 1000, calls, streams=streams))


MADE = (call(0, "cudaMalloc", bytes=256, target=0x1000),)
WRITES = call(1, "cudaMemsetAsync", bytes=256, target=0x1000, stream=1)
READS = call(9, "cudaMemcpyAsync", bytes=64, source=0x1080, target=0x9000, stream=2, copy_kind="d2h")


def test_overlapping_copies_on_two_streams_race() -> None:
    (race,) = found(on_two_streams(*MADE, WRITES, READS))
    assert race.confidence is Confidence.CERTAIN


@pytest.mark.parametrize("wait", [("cudaStreamSynchronize", 1), ("cudaDeviceSynchronize", 0), ("cudaStreamQuery", 1)])
def test_a_wait_in_between_orders_them(wait: tuple[str, int]) -> None:
    assert not found(on_two_streams(*MADE, WRITES, call(2, wait[0], stream=wait[1]), READS))


def test_a_wait_that_failed_or_one_for_another_stream_does_not() -> None:
    assert found(on_two_streams(*MADE, WRITES, call(2, "cudaStreamQuery", stream=1, status=600), READS))
    assert found(on_two_streams(*MADE, WRITES, call(2, "cudaStreamSynchronize", stream=2), READS))


def test_another_threads_wait_is_not_relied_on() -> None:
    assert found(on_two_streams(*MADE, WRITES, call(2, "cudaStreamSynchronize", stream=1, thread=1), READS))


def test_memory_at_the_address_of_freed_memory_is_other_memory() -> None:
    again = (call(3, "cudaFree", target=0x1000), call(4, "cudaMalloc", bytes=256, target=0x1000))
    assert not found(on_two_streams(*MADE, WRITES, *again, READS))


def test_a_long_trace_is_cut_and_says_so() -> None:
    calls = [call(k, "cudaMemsetAsync", bytes=4, target=0x1000, stream=1) for k in range(MAX_OPS + 5)]
    traced = on_two_streams(*calls)
    assert len(traced.timeline.ops) == MAX_OPS
    assert [cut.what for cut in traced.timeline.cuts] == [f"only the first {MAX_OPS} operations are looked at"]


@pytest.mark.parametrize(
    ("api", "kind"),
    [
        ("cudaLaunchKernelExC", ApiKind.LAUNCH),
        ("cuLaunchHostFunc", ApiKind.HOST_FUNC),
        ("cudaMallocHost", ApiKind.HOST_ALLOC),
        ("cudaMallocAsync", ApiKind.ALLOC),
        ("cuMemFreeHost", ApiKind.HOST_FREE),
        ("cuMemcpyDtoHAsync", ApiKind.COPY),
        ("cuCtxSynchronize", ApiKind.DEVICE_SYNC),
        ("cudaGraphLaunch", ApiKind.GRAPH_LAUNCH),
        ("cudaStreamCreate", None),
        ("cudaGetLastError", None),
    ],
)
def test_kinds_of_calls(api: str, kind: ApiKind | None) -> None:
    assert kind_of(api) is kind
