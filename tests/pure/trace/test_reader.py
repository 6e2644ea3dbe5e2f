"""The tracer's file, read back; traces recorded on an H200, stored and measured."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from stitchcuda.gpu_validate.trace import records
from stitchcuda.gpu_validate.trace.measures import calls_by_api, cuda_span, gpu_busy, reading, union
from stitchcuda.gpu_validate.trace.model import NOT_RETURNED, Trace
from stitchcuda.gpu_validate.trace.perfetto import to_perfetto
from stitchcuda.gpu_validate.trace.reader import read_trace
from stitchcuda.gpu_validate.trace.records import CHUNK_BYTES, DATA, MAGIC
from stitchcuda.gpu_validate.trace.store import BadTrace, from_json, to_json
from stitchcuda.gpu_validate.trace.summary import to_text
from stitchcuda.gpu_validate.trace.symbols import plain_name

RECORDED = Path(__file__).parents[2] / "fixtures" / "traces"
RUNTIME, KERNEL, PROBLEM = 1, 3, 6
MALLOC, LAUNCH, COPY, FREE = 20, 211, 41, 22


def recorded(name: str) -> Trace:
    return from_json(json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8")))


def record(kind: int, form: str, *values: object, more: bytes = b"") -> bytes:
    body = struct.pack("<" + form, *values) + more
    body += b"\0" * (-(4 + len(body)) % 8)
    return struct.pack("<HH", kind, 4 + len(body)) + body


def text(table: int, number: int, words: str) -> bytes:
    return record(3, "III", table, number, len(words), more=words.encode())


def call(
    api: int,
    index: int,
    *,
    size: int = 0,
    target: int = 0,
    kind: int = 255,
    end: int = 200,
    state: int = 2,
    status: int = 0,
    start: int = 100,
) -> bytes:
    fields = (api, index, start, end, index + 1, status, 0, 0, size, 0, target, 0, 0, kind, state)
    return record(4, "IQQQIiIIQQQIIBB6x", *fields)


def launch(index: int, *words: int) -> bytes:
    numbers = (4, 1, 1, 128, 1, 1, 0, len(words))
    return record(5, "IQ8I", 1, index, *numbers, more=struct.pack(f"<{len(words)}Q", *words))


def file(*chunks: tuple[int, int, bytes], dropped: int = 0) -> bytes:
    """The shared file with a chunk for each (process, thread, records)."""
    data = b""
    for process, thread, words in chunks:
        head = struct.pack("<IIIIQ", 0x6B6E6863, CHUNK_BYTES, process, thread, len(words))
        data += (head + words).ljust(CHUNK_BYTES, b"\0")
    size = DATA + len(data)
    return struct.pack("<8sQQQ", MAGIC, size, size, dropped).ljust(DATA, b"\0") + data


NAMES = (
    text(RUNTIME, MALLOC, "cudaMalloc_v3020")
    + text(RUNTIME, LAUNCH, "cudaLaunchKernel_ptsz_v7000")
    + text(RUNTIME, COPY, "cudaMemcpyAsync_v3020")
    + text(RUNTIME, FREE, "cudaFree_v3020")
)


def test_kernel_arguments_that_point_into_live_memory() -> None:
    words = NAMES + text(KERNEL, 1, "void scale<float>(float*, float, int)")
    words += call(MALLOC, 0, size=4096, target=0x7000_0000)
    words += launch(1, 0x7000_0FFF, 0x7000_1000, 5, 0) + call(LAUNCH, 1)
    words += call(FREE, 2, target=0x7000_0000)
    words += launch(3, 0x7000_0000) + call(LAUNCH, 3)
    trace = read_trace(file((7, 7, words)), "full", 50, 1000)
    assert trace is not None
    assert [c.api for c in trace.calls] == ["cudaMalloc", "cudaLaunchKernel", "cudaFree", "cudaLaunchKernel"]
    assert [c.pointers for c in trace.calls] == [(), (0x7000_0FFF,), (), ()]
    assert (trace.calls[1].kernel, trace.calls[1].grid, trace.calls[1].block) == (
        "scale<float>",
        (4, 1, 1),
        (128, 1, 1),
    )
    assert (trace.calls[0].start, trace.calls[0].end, trace.end) == (50, 150, 950)


def test_a_call_that_did_not_return_is_told_as_such() -> None:
    trace = read_trace(file((7, 7, NAMES + call(MALLOC, 0, end=0, state=0))), "timing", 0, 1000)
    assert trace is not None
    assert (trace.calls[0].status, trace.calls[0].end) == (NOT_RETURNED, 1000)
    assert trace.problems == ("cudaMalloc (call 0) did not return",)


def test_a_copy_that_could_not_be_read_has_no_digest() -> None:
    words = NAMES + call(COPY, 0, size=64, target=1, kind=2) + call(COPY, 1, size=64, target=1, kind=2)
    words += call(COPY, 2, size=64, target=1, kind=2, status=1) + call(COPY, 3, size=64, target=1, kind=1)
    words += record(8, "IQQ16sQ", 12, 1, 64, bytes(range(16)), 0)
    trace = read_trace(file((7, 7, words)), "timing", 0, 1000)
    assert trace is not None
    assert [(r.call, r.digest) for r in trace.reads] == [(0, ""), (1, bytes(range(16)).hex())]
    assert reading(trace) == 12


def test_contents_are_kept_beside_the_digest_and_never_in_json() -> None:
    kept = bytes(range(64))
    where = DATA + CHUNK_BYTES
    words = NAMES + call(COPY, 0, size=64, target=1, kind=2) + call(COPY, 1, size=64, target=1, kind=2)
    words += record(8, "IQQ16sQ", 1, 0, 64, bytes(16), where) + record(8, "IQQ16sQ", 1, 1, 64, bytes(16), 0)
    trace = read_trace(file((7, 7, words)) + kept, "timing", 0, 1000)
    assert trace is not None
    assert [read.contents for read in trace.reads] == [kept, None]
    stored = to_json(trace)
    assert all("contents" not in read for read in stored["reads"])
    assert from_json(json.loads(json.dumps(stored))).reads[0].contents is None
    stored["reads"][0]["contents"] = "x"
    with pytest.raises(BadTrace, match="contents"):
        from_json(stored)


@pytest.mark.parametrize(
    "reads",
    [
        record(8, "IQQ16sQ", 1, 0, 65, bytes(16), DATA + CHUNK_BYTES),  # beyond the end of the file
        record(8, "IQQ16sQ", 1, 0, 1 << 62, bytes(16), 1 << 63),
        b"".join(record(8, "IQQ16sQ", 1, 0, 60_000, bytes(16), at) for at in range(8, 800, 8)),  # more than can be
    ],
)
def test_contents_that_cannot_have_been_kept_are_no_trace(monkeypatch: pytest.MonkeyPatch, reads: bytes) -> None:
    monkeypatch.setattr("stitchcuda.gpu_validate.trace.reader.CONTENTS", 1 << 20)
    assert read_trace(file((7, 7, NAMES + reads)) + bytes(64), "timing", 0, 1000) is None


def test_threads_are_merged_in_issue_order_and_other_processes_are_told() -> None:
    chunks = (
        (7, 70, NAMES + call(MALLOC, 1)),
        (8, 80, NAMES + call(MALLOC, 0)),
        (7, 71, call(FREE, 0) + call(FREE, 2)),
    )
    trace = read_trace(file(*chunks, dropped=3), "timing", 0, 1000)
    assert trace is not None
    assert [(c.index, c.thread, c.api) for c in trace.calls] == [
        (0, 0, "cudaFree"),
        (1, 1, "cudaMalloc"),
        (2, 0, "cudaFree"),
    ]
    assert trace.problems == ("1 more of the program's processes used CUDA; the trace tells one",)
    assert trace.dropped == 3


def test_no_process_is_a_problem_and_no_error() -> None:
    trace = read_trace(file(), "full", 10, 30)
    assert trace is not None
    assert (trace.context_end, trace.end, len(trace.problems)) == (0, 20, 1)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:100],
        lambda data: b"x" + data[1:],
        lambda data: data[:DATA] + b"x" + data[DATA + 1 :],
        lambda data: data[: DATA + 16] + b"\xff" * 8 + data[DATA + 24 :],
        lambda data: data[: DATA + 26] + b"\0\0" + data[DATA + 28 :],
        lambda data: data[: DATA + 26] + b"\xff\xff" + data[DATA + 28 :],
    ],
)
def test_a_damaged_file_is_no_trace(damage: object) -> None:
    good = file((7, 7, NAMES))
    assert read_trace(good, "full", 0, 1) is not None
    assert callable(damage) and read_trace(damage(good), "full", 0, 1) is None


def op(kind: int) -> bytes:
    return record(7, "IQQIIIIQQI4x", kind, 1, 2, 1, 0, 0, 0, 8, 0, 0)


@pytest.mark.parametrize(
    "words",
    [
        op(9),  # no kind of operation
        record(9, "III", 1 << 31, 1, 0),  # a stream that would make a table of two thousand million
        NAMES + record(4, "IQQQIiIIQQQIIBB6x", COPY, 0, 1, 2, 1, 0, 0, 1 << 31, *(0,) * 6, 2),  # such an event
        struct.pack("<HH", 77, 4),  # no multiple of 8 bytes
        record(5, "IQ8I", 1, 0, *(1,) * 7, 1 << 30),  # more arguments than the record has room for
        record(6, "IQ", 1, 1 << 60),
    ],
)
def test_what_the_tracer_never_writes_is_no_trace(words: bytes) -> None:
    assert read_trace(file((7, 7, words)), "full", 0, 1000) is None


def test_more_records_than_memory_would_hold_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_RECORDS", 6)
    chunks = ((7, 7, NAMES + call(MALLOC, 0)), (7, 7, call(FREE, 1) + call(FREE, 2)))
    trace = read_trace(file(*chunks), "timing", 0, 1000)
    assert trace is not None and (len(trace.calls), trace.dropped) == (2, 1)


def test_a_chunk_that_was_only_taken_is_skipped() -> None:
    good = file((7, 7, NAMES + call(MALLOC, 0)), (7, 8, b""))
    at = DATA + CHUNK_BYTES
    trace = read_trace(good[:at] + b"\0" * CHUNK_BYTES, "full", 0, 1000)
    assert trace is not None and len(trace.calls) == 1


@pytest.mark.parametrize(
    ("symbol", "plain"),
    [
        ("add(float const*, float*, int)", "add"),
        ("void scale<float>(float*, float)", "scale<float>"),
        ("void ns::f<ns::g<int (*)(int)>, (unsigned)3>(int)", "ns::f<ns::g<int (*)(int)>, (unsigned)3>"),
        ("(anonymous namespace)::k(int*)", "(anonymous namespace)::k"),
        ("kernel_of_cuda_c", "kernel_of_cuda_c"),
        ("", ""),
    ],
)
def test_plain_names(symbol: str, plain: str) -> None:
    assert plain_name(symbol) == plain


@pytest.mark.parametrize("name", ["streams", "graph", "reuse", "vit"])
def test_recorded_traces_survive_json(name: str) -> None:
    trace = recorded(name)
    assert from_json(json.loads(json.dumps(to_json(trace)))) == trace
    assert trace.problems == () and trace.dropped == 0
    assert all(read.digest for read in trace.reads)


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"schema": 2},
        {"schema": 1},
        {**to_json(Trace("full", 0, 0, 1)), "calls": [{"index": 0, "api": "x", "start": 0, "end": 1, "sites": 4}]},
        {**to_json(Trace("full", 0, 0, 1)), "ops": [{"kind": "kernel"}]},
        {**to_json(Trace("full", 0, 0, 1)), "reads": {}},
    ],
)
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(BadTrace, match="not a trace"):
        from_json(value)


def test_measures_of_a_recorded_run() -> None:
    trace = recorded("streams")
    span, busy = cuda_span(trace), gpu_busy(trace)
    assert span is not None and busy is not None
    assert span == max(op.end for op in trace.ops) - trace.context_end - reading(trace, max(op.end for op in trace.ops))
    assert busy == union((op.start, op.end) for op in trace.ops) < sum(op.end - op.start for op in trace.ops) + 1
    assert calls_by_api(trace)["cudaLaunchKernel"][0] == 2


def test_the_span_without_operations_ends_with_the_last_wait() -> None:
    trace = recorded("streams")
    host = replace(trace, ops=())
    waits = [c for c in trace.calls if c.api in ("cudaDeviceSynchronize", "cudaStreamSynchronize")]
    span = cuda_span(host)
    assert span == waits[-1].end - trace.context_end - reading(trace, waits[-1].end)
    assert gpu_busy(host) is None
    # neither a call that never returned nor an upload says when the device was done
    assert cuda_span(replace(host, calls=(replace(waits[-1], status=NOT_RETURNED),))) is None
    uploads = tuple(c for c in trace.calls if c.copy_kind == "h2d")
    assert cuda_span(replace(host, calls=uploads)) is None


def test_union_of_intervals() -> None:
    assert union([(0, 10), (2, 3), (5, 12), (20, 21)]) == 13
    assert union([]) == 0


def test_perfetto_shows_calls_operations_and_who_issued_them() -> None:
    trace = recorded("graph")
    events = to_perfetto(trace)["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert len(slices) == len(trace.calls) + len(trace.ops)
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys() and len(starts) == len(trace.ops)
    assert all(starts[k]["ts"] <= ends[k]["ts"] for k in starts)
    assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} == {
        "thread 0",
        "default stream",
        "stream 1",
    }


def test_summary_names_what_failed() -> None:
    trace = recorded("reuse")
    broken = replace(trace, calls=(replace(trace.calls[-1], status=700), *trace.calls[:-1]), problems=("something",))
    words = to_text(broken)
    assert "failed: cudaStreamSynchronize (call 7) with error 700 at" in words
    assert "problem: something" in words


def test_a_copy_of_unknown_direction_is_a_problem() -> None:
    words = text(RUNTIME, 1, "cudaMemcpyBatchAsync_v13000") + text(RUNTIME, 2, "cudaMemcpyToArray_v3020")
    trace = read_trace(file((7, 7, words + call(1, 0) + call(1, 1) + call(2, 2))), "timing", 0, 1000)
    assert trace is not None
    assert trace.problems == ("2 copies by cudaMemcpyBatchAsync: whether they brought data to the host is not known",)
