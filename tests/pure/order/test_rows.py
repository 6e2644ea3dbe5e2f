"""The ordering rows of docs/ordering.md, one test or more a row, named after it."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.order.timeline import Certainty, Mode
from stitchcuda.analysis.program.ir import ApiKind

from tests.pure.order.programs import run

TWO = "  cudaStream_t s, t; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);\n" + (
    "  cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);\n"
)
BLOCKING = "  cudaStream_t s, t; cudaStreamCreate(&s); cudaStreamCreateWithPriority(&t, cudaStreamDefault, 0);\n"
EVENT = "  cudaEvent_t e; cudaEventCreate(&e);\n"
PINNED = "  float* h; cudaMallocHost(&h, 4096);\n"
PAGEABLE = "  float h[1024];\n"


# --------------------------------------------------------------------------------------------------------------- order


def test_o1_one_stream_runs_in_issue_order() -> None:
    r = run(TWO + "a<<<1, 1, 0, s>>>(x); b<<<1, 1, 0, s>>>(y);")
    assert r.ordered("a", "b")


def test_o2_the_host_goes_on_after_a_launch() -> None:
    r = run(PINNED + TWO + "a<<<1, 1, 0, s>>>(h); float v = h[0];")
    (read,) = r.host_reads()
    assert not r.before(read, "a")


def test_o3_streams_are_unordered_until_the_host_waits() -> None:
    assert not run(TWO + "a<<<1, 1, 0, s>>>(x); b<<<1, 1, 0, t>>>(x);").ordered("a", "b")
    assert run(TWO + "a<<<1, 1, 0, s>>>(x); cudaStreamSynchronize(s); b<<<1, 1, 0, t>>>(x);").ordered("a", "b")


def test_o4_the_legacy_stream_is_ordered_with_blocking_streams_both_ways() -> None:
    r = run(BLOCKING + "a<<<1, 1, 0, s>>>(x); b<<<1, 1>>>(x); c<<<1, 1, 0, t>>>(x);")
    assert r.ordered("a", "b") and r.ordered("b", "c") and r.ordered("a", "c")


def test_o4_counts_records_and_waits_on_the_legacy_stream() -> None:
    assert run(BLOCKING + EVENT + "a<<<1, 1, 0, s>>>(x); cudaEventRecord(e); c<<<1, 1, 0, t>>>(x);").ordered("a", "c")


def test_o5_a_nonblocking_stream_takes_no_part_in_o4() -> None:
    r = run(TWO + "a<<<1, 1, 0, s>>>(x); b<<<1, 1>>>(x); c<<<1, 1, 0, t>>>(x);")
    assert not r.ordered("a", "b") and not r.ordered("b", "c")


def test_o6_the_per_thread_default_stream_is_not_the_legacy_one() -> None:
    body = BLOCKING + "a<<<1, 1, 0, s>>>(x); b<<<1, 1>>>(x); c<<<1, 1>>>(x);"
    assert run(body).ordered("a", "b")
    r = run(body, per_thread=True)
    assert not r.ordered("a", "b") and r.ordered("b", "c")
    named = run(BLOCKING + "a<<<1, 1, 0, cudaStreamPerThread>>>(x); b<<<1, 1>>>(x); c<<<1, 1, 0, s>>>(x);")
    assert named.ordered("a", "b") and named.ordered("b", "c")


def test_o7_the_macro_in_a_cu_file_changes_nothing() -> None:
    r = run(BLOCKING + "a<<<1, 1, 0, s>>>(x); b<<<1, 1>>>(x);", before="#define CUDA_API_PER_THREAD_DEFAULT_STREAM\n")
    assert r.ordered("a", "b")


# --------------------------------------------------------------------------------------------------------- host waits


def test_w1_a_device_wait_covers_every_stream() -> None:
    r = run(TWO + "a<<<1, 1, 0, s>>>(x); b<<<1, 1>>>(y); cudaDeviceSynchronize(); c<<<1, 1, 0, t>>>(x);")
    assert r.waited("cudaDeviceSynchronize") >= {"a", "b"}
    assert r.ordered("a", "c") and r.ordered("b", "c")


def test_w2_a_stream_wait_covers_that_stream_and_what_it_waited_for() -> None:
    r = run(TWO + "a<<<1, 1, 0, s>>>(x); b<<<1, 1, 0, t>>>(y); cudaStreamSynchronize(s);")
    assert "a" in r.waited("cudaStreamSynchronize") and "b" not in r.waited("cudaStreamSynchronize")
    joined = run(
        TWO
        + EVENT
        + "a<<<1, 1, 0, s>>>(x); cudaEventRecord(e, s); cudaStreamWaitEvent(t, e); cudaStreamSynchronize(t);"
    )
    assert "a" in joined.waited("cudaStreamSynchronize")


def test_w2_on_the_legacy_stream_covers_blocking_streams_only() -> None:
    r = run(BLOCKING + "a<<<1, 1, 0, s>>>(x); cudaStreamSynchronize(0);")
    assert "a" in r.waited("cudaStreamSynchronize")
    r = run(TWO + "a<<<1, 1, 0, s>>>(x); cudaStreamSynchronize(0);")
    assert "a" not in r.waited("cudaStreamSynchronize")


def test_w3_an_event_wait_covers_the_last_record_before_it() -> None:
    r = run(TWO + EVENT + "a<<<1, 1, 0, s>>>(x); cudaEventRecord(e, s); b<<<1, 1, 0, s>>>(x); cudaEventSynchronize(e);")
    assert "a" in r.waited("cudaEventSynchronize") and "b" not in r.waited("cudaEventSynchronize")


def test_w3_an_event_that_was_never_recorded_orders_nothing() -> None:
    r = run(TWO + EVENT + "a<<<1, 1, 0, s>>>(x); cudaEventSynchronize(e);")
    assert not r.waited("cudaEventSynchronize")


def test_w6_destroying_is_no_wait() -> None:
    r = run(TWO + EVENT + "a<<<1, 1, 0, s>>>(x); cudaStreamDestroy(s); cudaEventDestroy(e); b<<<1, 1, 0, t>>>(x);")
    assert not r.ordered("a", "b")


@pytest.mark.parametrize("call", ["cudaMalloc(&z, 4)", "cudaMallocHost(&z, 4)", "cudaMallocManaged(&z, 4)"])
def test_w7_allocating_is_no_order(call: str) -> None:
    assert not run(f"{TWO} float* z; a<<<1, 1, 0, s>>>(x); {call}; b<<<1, 1, 0, t>>>(x);").ordered("a", "b")


def test_w8_freeing_is_no_order_to_rely_on() -> None:
    assert not run(TWO + "a<<<1, 1, 0, s>>>(x); cudaFree(y); b<<<1, 1, 0, t>>>(x);").ordered("a", "b")


# -------------------------------------------------------------------------------------------------------------- copies


def test_c1_a_pageable_upload_waits_for_earlier_work_but_may_still_be_arriving() -> None:
    body = PAGEABLE + TWO + "a<<<1, 1>>>(y); cudaMemcpy(x, h, 4096, cudaMemcpyHostToDevice); b<<<1, 1, 0, s>>>(x);"
    r = run(body)
    assert r.ordered("a", "b")
    assert not r.ordered("cudaMemcpy", "b")
    assert run(body.replace("cudaStreamNonBlocking", "cudaStreamDefault")).ordered("cudaMemcpy", "b")


def test_c2_a_pinned_upload_is_complete_on_return() -> None:
    r = run(PINNED + TWO + "cudaMemcpy(x, h, 4096, cudaMemcpyHostToDevice); b<<<1, 1, 0, s>>>(x);")
    assert r.ordered("cudaMemcpy", "b")


@pytest.mark.parametrize("host", [PINNED, PAGEABLE])
def test_c3_a_download_is_complete_on_return(host: str) -> None:
    r = run(host + TWO + "a<<<1, 1>>>(x); cudaMemcpy(h, x, 4096, cudaMemcpyDeviceToHost); b<<<1, 1, 0, s>>>(x);")
    assert r.ordered("a", "b") and r.ordered("cudaMemcpy", "b")


def test_c4_the_host_does_not_wait_for_a_copy_on_the_device() -> None:
    r = run(TWO + "cudaMemcpy(y, x, 4096, cudaMemcpyDeviceToDevice); b<<<1, 1, 0, s>>>(y);")
    assert not r.ordered("cudaMemcpy", "b")


@pytest.mark.parametrize("call", ["cudaMemcpy(h, g, 4096, cudaMemcpyHostToHost)",
                                  "cudaMemcpyAsync(h, g, 4096, cudaMemcpyHostToHost, s)"])  # fmt: skip
def test_c5_a_copy_on_the_host_is_complete_on_return(call: str) -> None:
    r = run(f"{PINNED}{TWO} float* g; cudaMallocHost(&g, 4096); {call}; b<<<1, 1, 0, t>>>(x);")
    assert r.ordered(call.partition("(")[0], "b")


def test_c6_an_asynchronous_pageable_copy_is_never_relied_on_and_never_certain() -> None:
    r = run(PAGEABLE + TWO + "cudaMemcpyAsync(h, x, 4096, cudaMemcpyDeviceToHost, s); b<<<1, 1, 0, t>>>(x);")
    copy, kernel = r.op("cudaMemcpyAsync"), r.op("b")
    assert not r.timeline.ordered(copy.id, kernel.id)
    assert r.timeline.may_wait[kernel.id] >> copy.id & 1


def test_c7_an_asynchronous_pinned_copy_is_not_waited_for() -> None:
    r = run(PINNED + TWO + "cudaMemcpyAsync(h, x, 4096, cudaMemcpyDeviceToHost, s); float v = h[0];")
    (read,) = r.host_reads()
    assert not r.before(read, "cudaMemcpyAsync")
    assert not r.timeline.may_wait[read.id] >> r.op("cudaMemcpyAsync").id & 1


def test_c8_a_memset_of_device_memory_returns_at_once() -> None:
    assert not run(TWO + "cudaMemset(x, 0, 4096); b<<<1, 1, 0, s>>>(x);").ordered("cudaMemset", "b")
    assert run(PINNED + TWO + "cudaMemset(h, 0, 4096); b<<<1, 1, 0, s>>>(h);").ordered("cudaMemset", "b")


def test_c9_a_copy_to_a_symbol_writes_what_kernels_that_name_it_read() -> None:
    r = run(
        PAGEABLE + "cudaMemcpyToSymbol(table, h, 64); use<<<1, 1>>>(x);",
        before="__constant__ float table[16]; __global__ void use(float* x) { x[0] = table[0]; }\n",
    )
    written = {a.buffer for a in r.op("cudaMemcpyToSymbol").accesses if a.mode == "write"}
    assert written & {a.buffer for a in r.op("use").accesses if a.mode == "read"}


def test_c10_the_direction_of_a_default_copy_comes_from_the_pointers() -> None:
    assert run(PINNED + "cudaMemcpy(h, x, 4096, cudaMemcpyDefault);").op("cudaMemcpy").copy_kind == "d2h"
    assert run("cudaMemcpy(y, x, 4096, cudaMemcpyDefault);").op("cudaMemcpy").copy_kind == "d2d"


# -------------------------------------------------------------------------------------------------------------- events


def test_e1_a_record_takes_a_snapshot_and_a_later_one_replaces_it() -> None:
    body = TWO + EVENT + "a<<<1, 1, 0, s>>>(x); cudaEventRecord(e, s); b<<<1, 1, 0, s>>>(x);"
    r = run(body + "cudaStreamWaitEvent(t, e); c<<<1, 1, 0, t>>>(x);")
    assert r.ordered("a", "c") and not r.ordered("b", "c")
    assert run(body + "cudaEventRecord(e, s); cudaStreamWaitEvent(t, e); c<<<1, 1, 0, t>>>(x);").ordered("b", "c")


def test_e1_a_wait_that_is_enqueued_keeps_its_snapshot() -> None:
    r = run(
        TWO + EVENT + "a<<<1, 1, 0, s>>>(x); cudaEventRecord(e, s); cudaStreamWaitEvent(t, e);"
        "b<<<1, 1, 0, s>>>(x); cudaEventRecord(e, s); c<<<1, 1, 0, t>>>(x);"
    )
    assert r.ordered("a", "c") and not r.ordered("b", "c")


def test_e1_without_a_stream_it_is_recorded_on_the_default_stream() -> None:
    r = run(TWO + EVENT + "a<<<1, 1>>>(x); cudaEventRecord(e); cudaStreamWaitEvent(t, e); c<<<1, 1, 0, t>>>(x);")
    assert r.ordered("a", "c")


def test_e2_a_wait_before_any_record_does_nothing() -> None:
    r = run(
        TWO + EVENT + "a<<<1, 1, 0, s>>>(x); cudaStreamWaitEvent(t, e); cudaEventRecord(e, s); c<<<1, 1, 0, t>>>(x);"
    )
    assert not r.ordered("a", "c")


def test_e2_a_wait_knows_its_records() -> None:
    r = run(
        TWO
        + EVENT
        + "cudaStreamWaitEvent(t, e); a<<<1, 1, 0, s>>>(x); cudaEventRecord(e, s); cudaStreamWaitEvent(t, e);"
    )
    first, second = (op for op in r.timeline.ops if op.kind is ApiKind.EVENT_WAIT)
    (record,) = (op for op in r.timeline.ops if op.kind is ApiKind.EVENT_RECORD)
    (launch,) = (op for op in r.timeline.ops if op.kind is ApiKind.LAUNCH)
    assert (first.records, first.awaited) == ((), 0)
    assert second.records == (record.id,)
    assert second.awaited == 1 << record.id | 1 << launch.id


def test_e5_a_wait_on_the_own_stream_orders_nothing_new() -> None:
    r = run(
        TWO + EVENT + "a<<<1, 1, 0, s>>>(x); cudaEventRecord(e, s); cudaStreamWaitEvent(s, e); b<<<1, 1, 0, t>>>(x);"
    )
    (wait,) = (op for op in r.timeline.ops if op.kind is ApiKind.EVENT_WAIT)
    assert wait.records and not wait.awaited
    assert not r.ordered("a", "b")


def test_e3_events_and_streams_know_their_device() -> None:
    r = run(
        "cudaSetDevice(1); cudaEvent_t e; cudaEventCreate(&e); cudaStream_t s; cudaStreamCreate(&s); cudaSetDevice(0);"
    )
    assert [event.device for event in r.timeline.events] == [1]
    assert [stream.device for stream in r.timeline.streams if stream.name == "s"] == [1]


ELAPSED = "cudaEvent_t f; cudaEventCreate(&f); cudaEventRecord(e, s); a<<<1, 1, 0, s>>>(x); cudaEventRecord(f, s);"


@pytest.mark.parametrize(("wait", "late"), [
    ("", 2), ("cudaEventSynchronize(e);", 1), ("cudaEventSynchronize(f);", 0), ("cudaStreamSynchronize(s);", 0),
    ("while (cudaEventQuery(f) != cudaSuccess) {}", 0),
])  # fmt: skip
def test_e4_the_time_between_events_knows_what_is_recorded_and_complete(wait: str, late: int) -> None:
    r = run(f"{TWO} {EVENT} {ELAPSED} {wait} float ms; cudaEventElapsedTime(&ms, e, f);")
    (measured,) = r.timeline.measurements
    assert measured.running.bit_count() == late and not measured.unrecorded
    (never,) = run(f"{EVENT} float ms; cudaEventElapsedTime(&ms, e, e);").timeline.measurements
    assert set(never.unrecorded) == {0}


def test_h1_memory_that_dies_under_a_host_function_is_known() -> None:
    before = "struct Job { int n; };\nvoid tell(void*) {}\nvoid ask(cudaStream_t s, bool wait) { Job job; "
    before += "cudaLaunchHostFunc(s, tell, &job); if (wait) cudaStreamSynchronize(s); }\n"
    (ending,) = run(f"{TWO} ask(s, false);", before=before).timeline.endings
    assert ending.users and not ending.maybe
    assert not run(f"{TWO} ask(s, true);", before=before).timeline.endings


# ----------------------------------------------------------------------------------- allocation, capture, what is more


def test_w6_a_handle_that_was_destroyed_is_told_apart() -> None:
    r = run(TWO + EVENT + "a<<<1, 1, 0, s>>>(x); cudaEventRecord(e, s); cudaEventDestroy(e); cudaStreamDestroy(s);")
    assert not r.timeline.stale
    used = run(
        TWO + EVENT + "cudaStreamDestroy(s); a<<<1, 1, 0, s>>>(x); cudaEventDestroy(e); cudaEventSynchronize(e);"
    )
    assert [(use.kind, use.how) for use in used.timeline.stale] == [("stream", "a"), ("event", "cudaEventSynchronize")]


def test_a1_a_stream_ordered_allocation_is_work_of_its_stream() -> None:
    r = run(TWO + "float* p; cudaMallocAsync(&p, 64, s); a<<<1, 1, 0, s>>>(p); b<<<1, 1, 0, t>>>(p);")
    assert r.ordered("cudaMallocAsync", "a") and not r.ordered("cudaMallocAsync", "b")


def test_a2_what_is_issued_after_the_release_is_told_apart() -> None:
    r = run(
        TWO + "float* p; cudaMallocAsync(&p, 64, s); a<<<1, 1, 0, s>>>(p); cudaFreeAsync(p, s); b<<<1, 1, 0, s>>>(p);"
    )
    assert [(use.how, use.released.how, use.again) for use in r.timeline.stale] == [("b", "cudaFreeAsync", False)]
    renewed = run("float* p; cudaMalloc(&p, 64); cudaFree(p); cudaMalloc(&p, 64); a<<<1, 1>>>(p); cudaFree(p);")
    assert not renewed.timeline.stale


def test_a4_a_second_release_is_told_apart() -> None:
    (again,) = run("cudaFree(x); cudaFree(x);").timeline.stale
    assert again.again and again.released.sure
    assert not run("cudaFree(x); x = 0; cudaFree(x);").timeline.stale
    assert not run("if (y) { cudaFree(x); x = 0; } if (x) cudaFree(x);").timeline.stale
    (perhaps,) = run("int n; if (n > 3) cudaFree(x); cudaFree(x);").timeline.stale
    assert not perhaps.released.sure


OWNER = "struct Own { float* p; Own() { cudaMalloc(&p, 64); } ~Own() { cudaFree(p); } };\n"
MOVES = OWNER.replace("~Own", "Own(Own&& o) : p(o.p) { o.p = 0; } ~Own")


@pytest.mark.parametrize(("owner", "body", "twice"), [
    (OWNER, "{ Own a; Own b = a; }", True),
    (OWNER, "{ Own a; Own b(a); }", True),
    (OWNER, "{ Own a; Own& b = a; }", False),
    (OWNER, "{ Own a; auto f = [&]() { c<<<1, 1>>>(a.p); return 1; }; f(); }", False),
    (MOVES, "{ Own a; Own b = std::move(a); }", False),
])  # fmt: skip
def test_a4_a_second_release_by_a_copy_of_its_owner(owner: str, body: str, twice: bool) -> None:
    assert any(use.again for use in run(body, before=owner).timeline.stale) is twice


def test_a4_freeing_a_null_pointer_is_no_operation() -> None:
    assert not [op for op in run("cudaFree(0);").timeline.ops if op.api == "cudaFree"]


CAPTURE = "cudaGraph_t g; cudaGraphExec_t x1; cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);"
LAUNCH = "cudaStreamEndCapture(s, &g); cudaGraphInstantiate(&x1, g, 0); cudaGraphLaunch(x1, s);"


def test_g1_captured_work_is_only_recorded() -> None:
    r = run(f"{TWO} {CAPTURE} a<<<1, 1, 0, s>>>(x); cudaDeviceSynchronize(); {LAUNCH} b<<<1, 1, 0, s>>>(x);")
    assert r.op("a").graph is not None
    assert "a" not in r.waited("cudaDeviceSynchronize")


def test_g4_a_stream_joins_a_capture_by_waiting_for_its_event() -> None:
    fork = "cudaEventRecord(e, s); cudaStreamWaitEvent(t, e); b<<<1, 1, 0, t>>>(y); cudaEventRecord(e, t);"
    r = run(f"{TWO} {EVENT} {CAPTURE} a<<<1, 1, 0, s>>>(x); {fork} cudaStreamWaitEvent(s, e); {LAUNCH}")
    assert r.op("b").graph == r.op("a").graph is not None
    assert r.ordered("a", "b")


def test_g5_a_graph_launch_is_one_operation_of_its_stream() -> None:
    r = run(f"{TWO} {CAPTURE} a<<<1, 1, 0, s>>>(x); {LAUNCH} b<<<1, 1, 0, s>>>(x);")
    assert r.ordered("cudaGraphLaunch", "b")
    assert {a.buffer for a in r.op("a").accesses} == {a.buffer for a in r.op("cudaGraphLaunch").accesses}


def test_o9_a_library_call_runs_on_the_stream_of_its_handle() -> None:
    r = run(
        TWO + "cublasHandle_t h; cublasCreate(&h); cublasSetStream(h, s); a<<<1, 1, 0, s>>>(x);"
        "cublasSscal(h, 16, &v, x, 1); b<<<1, 1, 0, s>>>(x);",
        before="#include <cublas_v2.h>\nstatic float v = 2;\n",
    )
    assert r.ordered("a", "cublasSscal") and r.ordered("cublasSscal", "b")


def test_o9_a_handle_that_is_passed_on_keeps_its_stream() -> None:
    r = run(
        TWO + "cublasHandle_t h; cublasCreate(&h); cublasSetStream(h, s); a<<<1, 1, 0, s>>>(x); scaled(h, x);",
        before="#include <cublas_v2.h>\nstatic float v = 2;\n"
        "static void scaled(cublasHandle_t on, float* p) { cublasSscal(on, 16, &v, p, 1); }\n",
    )
    assert r.ordered("a", "cublasSscal")
    assert {a.mode for a in r.op("cublasSscal").accesses} == {Mode.READ, Mode.WRITE}
    assert {a.certainty for a in r.op("cublasSscal").accesses} == {Certainty.MUST}
