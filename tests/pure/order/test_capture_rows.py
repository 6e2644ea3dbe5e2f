"""The ordering rows about captures, graphs, host functions and other ways of ordering work, named after them."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.order.timeline import FaultKind

from tests.pure.order.programs import Run, run

TWO = (
    "  cudaStream_t s, t; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);\n"
    "  cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);\n"
)
BLOCKING = "  cudaStream_t s, t; cudaStreamCreate(&s); cudaStreamCreate(&t);\n"
EVENTS = "  cudaEvent_t e, f; cudaEventCreate(&e); cudaEventCreate(&f);\n"
BEGIN = "cudaStreamBeginCapture(s, cudaStreamCaptureMode{mode});"
END = "cudaGraph_t g; cudaStreamEndCapture(s, &g);"
NODES = (
    "cudaGraph_t g; cudaGraphCreate(&g, 0); cudaGraphNode_t first, second; void* args[] = {&x};\n"
    "cudaKernelNodeParams p = {}; p.gridDim = dim3(1); p.blockDim = dim3(32); p.kernelParams = args;\n"
)


def captured(body: str, *, mode: str = "Global", streams: str = TWO, before: str = "") -> Run:
    begin = BEGIN.format(mode=mode)
    return run(f"{streams}{EVENTS}{before}{begin} a<<<1, 1, 0, s>>>(x); {body} {END}")


def faults(found: Run) -> list[tuple[FaultKind, str]]:
    return [(f.kind, f.api) for f in found.timeline.faults]


# ------------------------------------------------------------------------------------------------------------- capture

WAITS = (
    "cudaStreamSynchronize(s);",
    "cudaStreamQuery(s);",
    "cudaDeviceSynchronize();",
    "cudaEventRecord(e, s); cudaEventSynchronize(e);",
    "cudaEventRecord(e, s); cudaEventQuery(e);",
)


@pytest.mark.parametrize("mode", ["Global", "ThreadLocal", "Relaxed"])
@pytest.mark.parametrize("call", WAITS)
def test_g2_no_wait_for_what_is_only_recorded(mode: str, call: str) -> None:
    assert [kind for kind, _ in faults(captured(call, mode=mode))] == [FaultKind.WAIT]


@pytest.mark.parametrize("call", ["b<<<1, 1>>>(y);", "cudaMemset(y, 0, 4);", "cudaEventRecord(e);"])
def test_g2_the_legacy_stream_cannot_be_used_beside_a_blocking_one(call: str) -> None:
    assert [k for k, _ in faults(captured(call, mode="Relaxed", streams=BLOCKING))] == [FaultKind.DEFAULT_STREAM]


def test_g1_work_on_the_legacy_stream_runs_beside_the_capture_of_a_nonblocking_one() -> None:
    assert faults(captured("cudaMemset(y, 0, 4);")) == [(FaultKind.BESIDE, "cudaMemset")]
    assert faults(captured("b<<<1, 1, 0, t>>>(y);")) == []


@pytest.mark.parametrize(
    "call",
    [
        "float* q; cudaMalloc(&q, 4);",
        "cudaFree(y);",
        "float* q; cudaMallocHost(&q, 4);",
        "cudaStreamSynchronize(t);",
        "cudaEventRecord(e, t); cudaEventQuery(e);",
        "float* q; cudaMallocAsync(&q, 4, t);",
    ],
)
def test_g3_unsafe_calls_depend_on_the_mode(call: str) -> None:
    for mode in ("Global", "ThreadLocal"):
        assert [kind for kind, _ in faults(captured(call, mode=mode))] == [FaultKind.UNSAFE_CALL]
    assert faults(captured(call, mode="Relaxed")) == []
    relaxed = "cudaStreamCaptureMode m = cudaStreamCaptureModeRelaxed; cudaThreadExchangeStreamCaptureMode(&m);"
    assert faults(captured(relaxed + call)) == []
    assert len(faults(captured(f"{relaxed} cudaThreadExchangeStreamCaptureMode(&m); {call}"))) == 1


def test_g3_stream_ordered_memory_is_part_of_the_graph() -> None:
    assert faults(captured("float* q; cudaMallocAsync(&q, 4, s); b<<<1, 1, 0, s>>>(q); cudaFreeAsync(q, s);")) == []
    outside = captured("cudaFreeAsync(q, s);", before="float* q; cudaMallocAsync(&q, 4, s);")
    assert faults(outside) == [(FaultKind.OUTSIDE_MEMORY, "cudaFreeAsync")]


FORK = "cudaEventRecord(e, s); cudaStreamWaitEvent(t, e, 0);"
JOIN = "cudaEventRecord(f, t); cudaStreamWaitEvent(s, f, 0);"


def test_g4_forked_work_must_be_joined() -> None:
    assert [k for k, _ in faults(captured(f"{FORK} b<<<1, 1, 0, t>>>(y);"))] == [FaultKind.UNJOINED]
    assert faults(captured(f"{FORK} b<<<1, 1, 0, t>>>(y); {JOIN}")) == []
    assert faults(captured(FORK)) == []
    late = captured(f"{FORK} b<<<1, 1, 0, t>>>(y); {JOIN} c<<<1, 1, 0, t>>>(y);")
    assert [k for k, _ in faults(late)] == [FaultKind.UNJOINED]


def test_g4_events_belong_to_one_side_of_a_capture() -> None:
    outside = captured("cudaStreamWaitEvent(s, e, 0);", before="cudaEventRecord(e, t);")
    assert faults(outside) == [(FaultKind.OUTSIDE_EVENT, "cudaStreamWaitEvent")]
    external = captured("cudaStreamWaitEvent(s, e, cudaEventWaitExternal);", before="cudaEventRecord(e, t);")
    assert faults(external) == []
    later = run(
        f"{TWO}{EVENTS}{BEGIN.format(mode='Relaxed')} a<<<1, 1, 0, s>>>(x); cudaEventRecord(e, s); {END}"
        "cudaEventSynchronize(e);"
    )
    assert faults(later) == [(FaultKind.CAPTURED_EVENT, "cudaEventSynchronize")]
    ended = captured(f"{FORK} cudaStreamEndCapture(t, &h);", before="cudaGraph_t h;")
    assert FaultKind.END_ELSEWHERE in [k for k, _ in faults(ended)]


def test_g4_a_capture_is_known_to_who_asks() -> None:
    asks = (
        "cudaStreamCaptureStatus st; cudaStreamIsCapturing(s, &st);"
        "if (st == cudaStreamCaptureStatusNone) cudaStreamSynchronize(s);"
    )
    assert faults(captured(asks)) == []
    r = run(f"{TWO}{asks}")
    assert r.op("cudaStreamSynchronize").conditions == ()


# ------------------------------------------------------------------------------------------------------------- graphs


def test_g5_nodes_are_ordered_by_their_dependencies_only() -> None:
    add = "p.func = (void*)a; cudaGraphAddKernelNode(&first, g, nullptr, 0, &p); p.func = (void*)b;"
    after = run(f"{NODES}{add} cudaGraphAddKernelNode(&second, g, &first, 1, &p);")
    assert after.ordered("a", "b")
    beside = run(f"{NODES}{add} cudaGraphAddKernelNode(&second, g, nullptr, 0, &p);")
    assert not beside.ordered("a", "b") and beside.timeline.may_overlap(beside.op("a").id, beside.op("b").id)
    edge = run(
        f"{NODES}{add} cudaGraphAddKernelNode(&second, g, nullptr, 0, &p); cudaGraphAddDependencies(g, &second, &first, 1);"
    )
    assert edge.ordered("b", "a") and not edge.timeline.may_overlap(edge.op("a").id, edge.op("b").id)


def test_g5_launches_of_one_executable_do_not_overlap() -> None:
    add = "p.func = (void*)a; cudaGraphAddKernelNode(&first, g, nullptr, 0, &p);"
    exec_ = "cudaGraphExec_t x1; cudaGraphInstantiate(&x1, g, 0); cudaGraphLaunch(x1, s); cudaGraphLaunch(x1, t);"
    r = run(f"{TWO}{NODES}{add}{exec_}")
    first, second = (r.op("cudaGraphLaunch", k) for k in (0, 1))
    assert r.timeline.ordered(first.id, second.id)
    assert {a.buffer for a in first.accesses} == {a.buffer for a in r.op("a").accesses}


# ------------------------------------------------------------------------------------------------------ host functions

HOST = (
    "struct Job { float* h; int n; bool done; };\nvoid fn(void* p) { Job* j = (Job*)p; j->h[0] = 1; j->done = true; }\n"
)
JOB = "  float* h; cudaMallocHost(&h, 4096); Job j; j.h = h; j.done = false;\n"


def test_w5_a_host_function_does_its_accesses_in_the_stream() -> None:
    r = run(TWO + JOB + "a<<<1, 1, 0, s>>>(x); cudaLaunchHostFunc(s, fn, &j); b<<<1, 1, 0, s>>>(h);", before=HOST)
    op = r.op("cudaLaunchHostFunc")
    assert r.ordered("a", "cudaLaunchHostFunc") and r.ordered("cudaLaunchHostFunc", "b")
    written = {r.timeline.buffers[a.buffer].name for a in op.accesses if a.mode == "write"}
    assert written == {"h", "j"}


def test_w5_the_host_knows_by_what_the_function_writes() -> None:
    call = TWO + JOB + "a<<<1, 1, 0, s>>>(x); cudaLaunchHostFunc(s, fn, &j);"
    polled = run(call + "while (!j.done) {} float v = h[0];", before=HOST)
    assert polled.before(polled.host_reads()[-1], "a")
    glanced = run(call + "float v = h[0];", before=HOST)
    assert not glanced.before(glanced.host_reads()[-1], "a")


def test_h1_cuda_calls_in_a_host_function() -> None:
    bad = "void bad(void* p) { cudaFree(p); }\n"
    r = run(TWO + "cudaLaunchHostFunc(s, bad, x);", before=bad)
    assert faults(r) == [(FaultKind.IN_HOST_FUNCTION, "cudaFree")]
    assert "cudaFree" not in [op.api for op in r.timeline.ops]


# --------------------------------------------------------------------------------------------------------------- others

EARLY = (
    "__global__ void first(float* x) { x[threadIdx.x] = 1; cudaTriggerProgrammaticLaunchCompletion(); }\n"
    "__global__ void late(float* x) { cudaGridDependencySynchronize(); x[threadIdx.x] += 1; }\n"
)
CONFIG = (
    "cudaLaunchAttribute attribute[1]; attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;\n"
    "attribute[0].val.programmaticStreamSerializationAllowed = 1; cudaLaunchConfig_t config = {0};\n"
    "config.gridDim = dim3(1); config.blockDim = dim3(1); config.stream = s; config.attrs = attribute; config.numAttrs = 1;\n"
)


def test_o1_a_programmatic_launch_may_start_early() -> None:
    start = f"{TWO}{CONFIG} first<<<1, 1, 0, s>>>(x);"
    early = run(f"{start} cudaLaunchKernelEx(&config, b, x); c<<<1, 1, 0, s>>>(x);", before=EARLY)
    assert not early.ordered("first", "b") and early.ordered("first", "c") and early.ordered("b", "c")
    waits = run(f"{start} cudaLaunchKernelEx(&config, late, x);", before=EARLY)
    assert waits.ordered("first", "late")
    untriggered = run(f"{TWO}{CONFIG} a<<<1, 1, 0, s>>>(x); cudaLaunchKernelEx(&config, b, x);", before=EARLY)
    assert untriggered.ordered("a", "b")


def test_x1_stream_memory_operations_order_like_events() -> None:
    flag = TWO + "a<<<1, 1, 0, s>>>(x); cuStreamWriteValue32(s, (CUdeviceptr)y, 1, 0);"
    r = run(flag + "cuStreamWaitValue32(t, (CUdeviceptr)y, 1, 0); b<<<1, 1, 0, t>>>(x);", before="#include <cuda.h>\n")
    assert r.ordered("a", "b")
    r = run(flag + "cuStreamWaitValue32(t, (CUdeviceptr)x, 1, 0); b<<<1, 1, 0, t>>>(x);", before="#include <cuda.h>\n")
    assert not r.ordered("a", "b")


def test_c9_a_peer_copy_is_ordered_with_all_work_of_its_devices() -> None:
    r = run(TWO + "a<<<1, 1, 0, s>>>(x); cudaMemcpyPeer(y, 0, x, 0, 4096); b<<<1, 1, 0, t>>>(y);")
    assert r.ordered("a", "cudaMemcpyPeer") and r.ordered("cudaMemcpyPeer", "b")


def test_c9_a_copy_described_by_a_structure_touches_its_bytes() -> None:
    copy = (
        "cudaMemcpy3DParms p = {0}; p.srcPtr = make_cudaPitchedPtr(x, 512, 512, 2); p.kind = cudaMemcpyDeviceToDevice;"
        "p.dstPtr = make_cudaPitchedPtr(y, 512, 512, 2); p.extent = make_cudaExtent(512, 2, 1); cudaMemcpy3DAsync(&p, s);"
    )
    read, written = run(TWO + copy).op("cudaMemcpy3DAsync").accesses
    assert [str(a.range.extent) for a in (read, written)] == ["1024", "1024"]


def test_c11_the_host_touches_managed_memory_after_the_kernels_that_use_it() -> None:
    managed = TWO + "float* m; cudaMallocManaged(&m, 4096); cudaStreamAttachMemAsync(s, m); a<<<1, 1, 0, s>>>(m);"
    early = run(managed + "float v = m[0];")
    assert not early.before(early.host_reads()[-1], "a")
    late = run(managed + "cudaStreamSynchronize(s); float v = m[0];")
    assert late.before(late.host_reads()[-1], "a")


LAZY = (
    "struct Space { float* p = nullptr; size_t size = 0;\n"
    "  float* get(size_t n) { if (n > size) { if (p) cudaFree(p); cudaMalloc(&p, n); size = n; } return p; } };\n"
    "void work(Space& w, size_t n, cudaStream_t s) { float* q = w.get(n); c<<<1, 1, 0, s>>>(q); }\n"
)


def test_g5_what_a_graph_holds_is_told_apart_by_path() -> None:
    use = "Space w; size_t n = argc; work(w, n, s); cudaStreamSynchronize(s);"
    body = f"{TWO}int argc = 3; {use} {BEGIN.format(mode='Global')} work(w, n, s); {END}"
    launch = "cudaGraphExec_t x1; cudaGraphInstantiate(&x1, g, 0); cudaGraphLaunch(x1, s); cudaStreamSynchronize(s);"
    assert run(body + launch, before=LAZY).timeline.stale == ()
    unknown = run((body + launch).replace("int argc = 3", "extern int argc"), before=LAZY)
    assert unknown.timeline.stale == ()
