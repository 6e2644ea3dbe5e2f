"""The traced part of G4: what it holds against a version, and all that it must not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from stitchcuda.analysis.index import Analysis, Index
from stitchcuda.gpu_validate.gates.traced_races import TracedRaces, TracedRun, traced_races, with_traced_races
from stitchcuda.gpu_validate.trace import timeline
from stitchcuda.gpu_validate.trace.model import Call, Trace, TracedStream
from stitchcuda.gpu_validate.trace.store import from_json
from stitchcuda.gpu_validate.verdict import GateResult, GateState

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "fixtures" / "traces"


def recorded(name: str) -> Trace:
    return from_json(json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8")))


@cache
def analysed(name: str) -> Analysis:
    folder = ROOT / "examples" / "vit"
    paths = sorted(folder.glob("*.*")) if name == "vit" else [RECORDED / "programs" / f"{name}.cu"]
    index = Index()
    for path in paths:
        if path.suffix in (".cu", ".h", ".cpp"):
            index.put(path.relative_to(ROOT).as_posix(), path.read_bytes())
    return index.analyse()


def without(trace: Trace, *apis: str) -> Trace:
    return replace(trace, calls=tuple(c for c in trace.calls if c.api not in apis))


def compared(before: Trace, after: Trace, name: str) -> TracedRaces:
    return traced_races(TracedRun(before, analysed(name)), TracedRun(after, analysed(name)))


# ----------------------------------------------------------------------------------------------------- recorded on a GPU


def test_a_version_that_lost_an_event_fails_although_the_sanitizer_saw_nothing() -> None:
    ordered = without(recorded("streams"), "cudaMemcpy")
    found = compared(ordered, without(ordered, "cudaStreamWaitEvent"), "streams")
    gate = with_traced_races(GateResult("G4", GateState.PASSED), found)
    assert gate.state is GateState.FAILED and gate.evidence["traced"]["new"] > 0
    first = gate.findings[0]
    assert "scale<float>" in first.what and "add" in first.what and not first.baseline
    source = (RECORDED / "programs" / "streams.cu").read_text(encoding="utf-8").splitlines()
    assert first.path.endswith("streams.cu") and "add<<<" in source[first.line - 1]


def test_what_the_original_has_as_well_is_told_and_does_not_fail() -> None:
    racing = without(recorded("streams"), "cudaMemcpy", "cudaStreamWaitEvent")
    found = compared(racing, racing, "streams")
    assert not found.new and found.told and all(f.baseline for f in found.told)
    assert with_traced_races(GateResult("G4", GateState.PASSED), found).state is GateState.PASSED
    moved = tuple(replace(c, sites=tuple(replace(s, line=s.line + 7) for s in c.sites)) for c in racing.calls)
    text = (RECORDED / "programs" / "streams.cu").read_bytes()
    index = Index()
    index.put("tests/fixtures/traces/programs/streams.cu", b"\n" * 7 + text.replace(b"add<<<N", b"add<<<(N)"))
    edited = TracedRun(replace(racing, calls=moved), index.analyse())
    assert not traced_races(TracedRun(racing, analysed("streams")), edited).new  # lines moved, and one was changed


@pytest.mark.parametrize("name", ["streams", "reuse", "graph", "vit"])
def test_a_recorded_run_has_nothing_new_against_itself(name: str) -> None:
    if name == "reuse":
        found = compared(recorded(name), recorded(name), "streams")
    else:
        found = compared(recorded(name), recorded(name), name)
    assert found.evidence["checked"] and not found.new and all(f.baseline for f in found.told)


def one_arena(trace: Trace) -> Trace:
    """All device memory is one allocation, made first and never freed; the addresses stay, with all their reuse."""
    made = [c for c in trace.calls if c.api == "cudaMalloc"]
    low, high = min(c.target for c in made), max(c.target + c.bytes for c in made)
    arena = replace(made[0], index=0, target=low, bytes=high - low)
    return replace(trace, calls=(arena, *(c for c in trace.calls if c.api not in ("cudaMalloc", "cudaFree"))))


def from_pool(trace: Trace) -> Trace:
    names = {"cudaMalloc": "cudaMallocAsync", "cudaFree": "cudaFreeAsync"}
    return replace(trace, calls=tuple(replace(c, api=names.get(c.api, c.api)) for c in trace.calls))


def on_own_stream(trace: Trace) -> Trace:
    """Everything asynchronous on one non-blocking stream, with a wait behind each download."""
    calls: list[Call] = []
    for c in trace.calls:
        if c.api == "cudaMemcpy":
            calls.append(replace(c, api="cudaMemcpyAsync", stream=1))
            if c.copy_kind == "d2h":
                calls.append(
                    replace(c, api="cudaStreamSynchronize", stream=1, copy_kind="", bytes=0, source=0, target=0)
                )
        elif c.api != "cudaDeviceSynchronize":
            calls.append(replace(c, stream=1) if c.kernel or c.api.endswith("Async") else c)
    return replace(trace, calls=tuple(calls), streams=(TracedStream(1, "created", 1),))


def on_two_streams(trace: Trace) -> Trace:
    """The same, but the copies are on a second stream, and events take the order from one to the other."""
    calls: list[Call] = []
    last = 1
    for c in on_own_stream(trace).calls:
        stream = 2 if c.copy_kind else 1 if c.stream else 0
        if stream and stream != last:
            calls += [
                call("cudaEventRecord", stream=last, event=last),
                call("cudaStreamWaitEvent", stream=stream, event=last),
            ]
            last = stream
        calls.append(replace(c, stream=last if c.api == "cudaStreamSynchronize" else stream))
    streams = (TracedStream(1, "created", 1), TracedStream(2, "created", 1))
    return replace(trace, calls=tuple(calls), streams=streams)


def no_waits(trace: Trace) -> Trace:
    return without(trace, "cudaDeviceSynchronize")


@pytest.mark.parametrize(
    "edits",
    [(one_arena,), (from_pool,), (no_waits, from_pool), (one_arena, on_own_stream), (one_arena, on_two_streams)],
)
def test_edits_that_keep_the_order_raise_nothing(edits: tuple[Callable[[Trace], Trace], ...]) -> None:
    before = after = recorded("vit")
    for edit in edits:
        after = edit(after)
    found = compared(before, replace(after, calls=numbered(after.calls)), "vit")
    assert found.evidence["checked"] and not found.new and not found.told


# --------------------------------------------------------------------------------------------------------------- made up

SOURCE = b"""
__global__ void fill(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = 1.0f; }
__global__ void use(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }
__global__ void part(float* x, int n, int from) { int i = from + blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = 1.0f; }
__global__ void odd(float* x, int n, int half) { int i = threadIdx.x; if (i % 2 == half) x[i] = 1.0f; }
__global__ void count(int* x, int n) { int i = threadIdx.x; if (i < n) atomicAdd(&x[i], 1); }
__global__ void spin(volatile int* flag, float* y) { while (flag[0] == 0) {} y[threadIdx.x] = 1.0f; }
"""
BASE, FLAG, HOST = 0x10000, 0x20000, 0x90000
SIZE = 4096


def program(text: bytes = SOURCE) -> Analysis:
    index = Index()
    index.put("p.cu", text)
    return index.analyse()


PROGRAM = program()


def call(api: str, **fields: object) -> Call:
    return replace(Call(0, api, 0, 1), **fields)  # type: ignore[arg-type]


def numbered(calls: tuple[Call, ...]) -> tuple[Call, ...]:
    return tuple(replace(c, index=k, start=k, end=k + 1) for k, c in enumerate(calls))


def kernel(name: str, stream: int, *pointers: int) -> Call:
    return call("cudaLaunchKernel", kernel=name, stream=stream, pointers=pointers)


def copy(kind: str, source: int, target: int, stream: int, size: int = SIZE) -> Call:
    return call("cudaMemcpyAsync", stream=stream, copy_kind=kind, source=source, target=target, bytes=size)


MADE = (
    call("cudaMalloc", target=BASE, bytes=SIZE),
    call("cudaMalloc", target=FLAG, bytes=SIZE),
    call("cudaHostAlloc", target=HOST, bytes=2 * SIZE),
)
FILL, USE = kernel("fill", 1, BASE), kernel("use", 2, BASE, FLAG)
EVENT = (call("cudaEventRecord", stream=1, event=1), call("cudaStreamWaitEvent", stream=2, event=1))


def trace(*calls: Call, made: tuple[Call, ...] = MADE, origin: str = "created") -> Trace:
    streams = tuple(TracedStream(n, origin, 1) for n in (1, 2, 3))
    return Trace("full", 0, 1, 1000, numbered((*made, *calls)), streams=streams)


def lost(before: Trace, after: Trace) -> TracedRaces:
    return traced_races(TracedRun(before, PROGRAM), TracedRun(after, PROGRAM))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FILL, USE),
        (kernel("use", 1, BASE, FLAG), kernel("fill", 2, BASE)),  # a read that a write must not overtake
        (FILL, copy("d2h", BASE, HOST, 2)),
        (copy("h2d", HOST, BASE, 1), USE),
        (copy("h2d", HOST, BASE + 64, 1, 64), copy("d2d", BASE + 100, FLAG, 2, 200)),
        (call("cudaMemsetAsync", stream=1, target=BASE, bytes=SIZE), kernel("fill", 2, BASE)),
    ],
)
def test_a_lost_event_fails(first: Call, second: Call) -> None:
    found = lost(trace(first, *EVENT, second), trace(first, second))
    assert len(found.new) == 1 and not found.new[0].baseline
    assert not lost(trace(first, second), trace(first, *EVENT, second)).new
    assert lost(trace(first, *EVENT, second), trace(first, EVENT[1], second)).new  # nothing is recorded to wait for


def test_a_free_that_does_not_wait_for_the_last_use_fails() -> None:
    made = (call("cudaMallocAsync", target=BASE, bytes=SIZE, stream=1), *MADE[1:])
    freed = call("cudaFreeAsync", target=BASE, stream=2)
    found = lost(trace(FILL, *EVENT, freed, made=made), trace(FILL, freed, made=made))
    assert len(found.new) == 1 and "releases" in found.new[0].what


BETWEEN = {
    "an allocation": call("cudaMalloc", target=0x50000, bytes=64),
    "a free, which waits in practice": call("cudaFree", target=FLAG),
    "times of events": call("cudaEventElapsedTime"),
    "a function on the host": call("cudaLaunchHostFunc", stream=1),
    "a flag for the host": kernel("fill", 1, HOST),
    "a small download that the host may wait for": copy("d2h", BASE, HOST, 1, 4),
    "a kernel that waits by itself": kernel("spin", 2, FLAG, FLAG + 512),
    "a query": call("cudaStreamQuery", stream=3),
    "a call that is not understood": call("cudaStreamAttachMemAsync", stream=1),
    "a call that failed": call("cudaStreamSynchronize", stream=1, status=700),
    "another thread": call("cudaStreamSynchronize", stream=1, thread=1),
    "a wait value": call("cudaStreamWaitValue32", stream=2),
    "a launch with attributes": call("cudaLaunchKernelExC", stream=3, kernel="other"),
}


@pytest.mark.parametrize("what", BETWEEN)
def test_what_may_order_them_without_being_seen_keeps_it_from_failing(what: str) -> None:
    before = trace(FILL, *EVENT, USE)
    assert not lost(before, trace(FILL, BETWEEN[what], USE)).new, what


UNSURE: dict[str, tuple[Call, Call]] = {
    "other parts of one allocation": (copy("h2d", HOST, BASE, 1, 64), copy("d2h", BASE + 64, HOST + 64, 2, 64)),
    "parts that scalars choose": (kernel("part", 1, BASE), kernel("use", 2, BASE, FLAG)),
    "every other element": (kernel("odd", 1, BASE), kernel("odd", 2, BASE)),
    "behind each other in one pool": (kernel("fill", 1, BASE), kernel("use", 2, BASE + 1024, FLAG)),
    "atomics": (kernel("count", 1, BASE), kernel("count", 2, BASE)),
    "one kernel twice": (kernel("fill", 1, BASE), kernel("fill", 2, BASE)),
    "no bytes": (FILL, copy("d2h", BASE, HOST, 2, 0)),
    "an address that is null and a number like one": (FILL, kernel("use", 2, BASE)),
    "a kernel without source": (kernel("library", 1, BASE), USE),
    "a kernel of the same name elsewhere": (kernel("lib::fill", 1, BASE), USE),
    "memory that CUDA did not allocate": (copy("d2h", BASE, 0x777000, 1), copy("h2d", 0x777000, FLAG, 2)),
    "rows": (FILL, call("cudaMemcpy2DAsync", stream=2, copy_kind="d2h", source=BASE, target=HOST, bytes=64)),
    "a graph": (FILL, call("cudaGraphLaunch", stream=2)),
}


@pytest.mark.parametrize("what", UNSURE)
def test_accesses_that_may_not_meet_do_not_fail(what: str) -> None:
    first, second = UNSURE[what]
    assert not lost(trace(first, *EVENT, second), trace(first, second)).new, what


def test_memory_at_an_address_that_was_freed_is_other_memory() -> None:
    again = (call("cudaFreeAsync", target=BASE, stream=1), call("cudaMallocAsync", target=BASE, bytes=SIZE, stream=2))
    made = (call("cudaMallocAsync", target=BASE, bytes=SIZE, stream=1), *MADE[1:])
    assert not lost(trace(FILL, *EVENT, *again, USE, made=made), trace(FILL, *again, USE, made=made)).new


def test_managed_memory_can_hold_a_flag() -> None:
    made = (call("cudaMallocManaged", target=BASE, bytes=SIZE), *MADE[1:])
    assert not lost(trace(FILL, *EVENT, USE, made=made), trace(FILL, USE, made=made)).new


def test_streams_of_which_little_is_known_and_two_devices_do_not_fail() -> None:
    before = trace(FILL, *EVENT, USE)
    assert not lost(before, trace(FILL, USE, origin="unknown")).new
    assert lost(before, trace(call("cudaSetDevice"), FILL, USE)).new
    assert not lost(before, trace(call("cudaSetDevice"), call("cudaSetDevice"), FILL, USE)).new


def test_an_original_of_which_not_all_is_seen_keeps_new_ones_from_failing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MAX_OPS", 20)
    racing = trace(FILL, USE)
    long = trace(*(call("cudaMemsetAsync", stream=3, target=FLAG, bytes=4) for _ in range(20)), FILL, *EVENT, USE)
    for before in (
        long,
        trace(FILL, *EVENT, USE, call("cudaGraphLaunch", stream=1)),
        trace(FILL, *EVENT, USE, BETWEEN["a query"]),
    ):
        found = lost(before, racing)
        assert not found.new and found.told and found.evidence["only_told"]
    assert lost(trace(FILL, *EVENT, USE), replace(long, calls=numbered((*racing.calls, *long.calls[3:])))).new


@pytest.mark.parametrize(
    "fields",
    [
        {"dropped": 1},
        {"problems": ("another process used CUDA",)},
        {"mode": "timing"},
        {"calls": ()},
        {"calls": (replace(USE, event=1 << 22),)},
    ],
)
def test_a_trace_that_is_not_whole_says_nothing(fields: dict[str, object]) -> None:
    good, bad = trace(FILL, *EVENT, USE), replace(trace(FILL, USE), **fields)  # type: ignore[arg-type]
    for found in (
        lost(good, bad),
        lost(bad, trace(FILL, USE)),
        traced_races(TracedRun(None, PROGRAM), TracedRun(good, PROGRAM)),
    ):
        assert not found.new and not found.told and found.evidence["checked"] is False
        assert str(found.evidence["reason"]).startswith("not checked: ")
        untested = GateResult("G4", GateState.UNTESTED, "compute-sanitizer is not on this machine")
        assert with_traced_races(untested, found).state is GateState.UNTESTED


def test_time_is_limited_and_said() -> None:
    before = trace(FILL, *EVENT, USE)
    found = traced_races(TracedRun(before, PROGRAM), TracedRun(trace(FILL, USE), PROGRAM), seconds=0.0)
    assert not found.new and "time" in str(found.evidence["limits"])
