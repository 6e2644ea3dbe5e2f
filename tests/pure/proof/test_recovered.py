"""Times, textures, profiles, captures, graphs, host functions, thrust, lambdas and classes: an edit that takes away an order
that one of them relies on is never proved."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.proof.model import ProofState

from tests.pure.proof.twins import END, HEAD, MAIN, proof_of

STREAMS = """\
    cudaStream_t s, t; cudaEvent_t e;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
"""
TIMES = "    cudaEvent_t x, y; float ms; CHECK(cudaEventCreate(&x)); CHECK(cudaEventCreate(&y));\n"
ASKED = '    CHECK(cudaEventElapsedTime(&ms, x, y)); printf("%f", ms);\n    CHECK(cudaDeviceSynchronize());\n'
FILL = "    fill<<<64,256,0,s>>>(a,n);\n"
GONE = "    CHECK(cudaStreamSynchronize(s));  //-\n"
LATER = "    CHECK(cudaDeviceSynchronize());\n"
USED = "    twice<<<64,256,0,t>>>(a,b,n);\n" + LATER
EACH = "template <class F> __global__ void each(int n, F f) { int i = threadIdx.x; if (i < n) f(i); }\n"
LOOK = "__global__ void look(cudaTextureObject_t v, float* o) { o[threadIdx.x] = tex1Dfetch<float>(v, threadIdx.x); }\n"
TIMER = """\
struct Timer {
    clock_t begun = clock();
    ~Timer() { std::printf("%ld", (long)(clock() - begun)); }
};
"""
JOB = "struct Job { int n; };\nvoid note(void* job) { ((Job*)job)->n = 1; }\n"
LANES = """\
struct Lane {
    cudaStream_t s; float *d, *staged; cudaEvent_t done;
    void open(int n) {
        CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); CHECK(cudaMalloc(&d, n * 4));
        CHECK(cudaMallocHost(&staged, n * 4)); CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    }
};
"""
CAPTURED = """\
    cudaGraph_t g; cudaGraphExec_t x;
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    fill<<<64,256,0,s>>>(a,n);
    CHECK(cudaStreamEndCapture(s, &g));
    CHECK(cudaGraphInstantiate(&x, g, 0));
    CHECK(cudaGraphLaunch(x, s));
"""
BUILT = """\
    cudaGraph_t g; cudaGraphExec_t x; cudaGraphNode_t clear; CHECK(cudaGraphCreate(&g, 0));
    cudaMemsetParams to = {}; to.dst = a; to.elementSize = 4; to.width = n; to.height = 1;
    CHECK(cudaGraphAddMemsetNode(&clear, g, nullptr, 0, &to));
    CHECK(cudaGraphInstantiate(&x, g, 0));
    CHECK(cudaGraphLaunch(x, s));
"""
CASES = {
    "the end of an interval between events": (
        "",
        TIMES + "    CHECK(cudaEventRecord(x, s));\n" + FILL + "    CHECK(cudaEventRecord(y, s));\n"
        "    CHECK(cudaEventSynchronize(y));  //-\n" + ASKED,
    ),
    "the start of an interval between events": (
        "",
        TIMES + "    CHECK(cudaEventRecord(x, s)); CHECK(cudaEventRecord(y, t));\n"
        "    CHECK(cudaEventSynchronize(x));  //-\n    CHECK(cudaEventSynchronize(y));\n" + ASKED,
    ),
    "a stopwatch that stops when it dies": (TIMER, "    {\n    Timer timer;\n" + FILL + GONE + "    }\n" + LATER),
    "a profile": ("", "    cudaProfilerStart();\n" + FILL + GONE + "    cudaProfilerStop();\n" + LATER),
    "a limit of the device": ("", FILL + GONE + "    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));\n" + LATER),
    "a texture that is destroyed": (
        LOOK,
        "    cudaTextureObject_t v; cudaResourceDesc r = {}; cudaTextureDesc d = {};\n"
        "    CHECK(cudaCreateTextureObject(&v, &r, &d, nullptr));\n    look<<<1,256,0,s>>>(v, b);\n"
        + GONE + "    CHECK(cudaDestroyTextureObject(v));\n" + LATER,
    ),
    "a handle of a library": (
        "",
        "    cublasHandle_t h2; cublasCreate(&h2); cublasSetStream(h2, s); float one = 1;\n"
        "    cublasSscal(h2, n, &one, a, 1);\n" + GONE + "    cublasDestroy(h2);\n" + LATER,
    ),
    "other managed memory that the host uses": (
        "",
        "    float* m; CHECK(cudaMallocManaged(&m, n * 4));\n" + FILL + GONE
        + "    for (int i = 0; i < n; ++i) m[i] = i;\n    twice<<<64,256,0,s>>>(m, b, n);\n" + LATER,
    ),
    "a stream that is destroyed before the default stream follows": (
        "",
        "    cudaStream_t w; CHECK(cudaStreamCreate(&w));\n    fill<<<64,256,0,w>>>(a,n);\n"
        "    CHECK(cudaStreamSynchronize(w));  //-\n    CHECK(cudaStreamDestroy(w));\n    twice<<<64,256>>>(a,b,n);\n" + LATER,
    ),
    "a wait behind the end of its stream": (
        "",
        FILL + GONE + "    CHECK(cudaStreamDestroy(s));\n    CHECK(cudaStreamSynchronize(s));  //+\n" + LATER,
    ),
    "memory that is allocated and freed the wrong way round": (
        "",
        ("    float* q; CHECK(cudaMalloc(&q, 16));\n    CHECK(cudaFree(q));  //-\n    CHECK(cudaMalloc(&q, 32));\n"
        "    CHECK(cudaFree(q));  //+\n    CHECK(cudaFree(q));\n"),
    ),
    "what a host function is given": (
        JOB, "    {\n    Job job{0};\n    CHECK(cudaLaunchHostFunc(s, note, &job));\n" + GONE + "    }\n" + LATER,
    ),
    "what a host function writes": (
        JOB, "    Job job{0};\n    CHECK(cudaLaunchHostFunc(s, note, &job));\n" + GONE + '    printf("%d", job.n);\n' + LATER,
    ),
    "a graph that was captured": ("", CAPTURED + GONE + USED),
    "a graph that was built": ("", BUILT + GONE + USED),
    "a graph that is destroyed": ("", CAPTURED + GONE + "    CHECK(cudaGraphExecDestroy(x)); CHECK(cudaGraphDestroy(g));\n" + LATER),
    "a fork in a capture": (
        "",
        "    cudaGraph_t g;\n    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));\n" + FILL
        + "    CHECK(cudaEventRecord(e, s));  //-\n    CHECK(cudaStreamWaitEvent(t, e, 0));  //-\n"
        "    twice<<<64,256,0,t>>>(a,b,n);\n    CHECK(cudaStreamEndCapture(s, &g));\n",
    ),
    "thrust that does not wait": (
        "#include <thrust/sort.h>\n",
        "    thrust::sort(thrust::cuda::par_nosync.on(s), a, a + n);\n" + GONE + USED,
    ),
    "thrust on what another stream fills": (
        "#include <thrust/sort.h>\n",
        FILL + GONE + "    thrust::sort(thrust::cuda::par.on(t), a, a + n);\n" + LATER,
    ),
    "a lambda that holds the memory": (EACH, "    each<<<64,256,0,s>>>(n, [=] __device__ (int i) { a[i] = i; });\n" + GONE + USED),
    "staging memory of an array of objects": (
        LANES,
        "    Lane lanes[2]; for (auto& l : lanes) l.open(n);\n    for (int k = 0; k < 10; ++k) {\n    Lane& l = lanes[k % 2];\n"
        "    CHECK(cudaEventSynchronize(l.done));  //-\n    for (int i = 0; i < n; ++i) l.staged[i] = i;\n"
        "    CHECK(cudaMemcpyAsync(l.d, l.staged, n * 4, cudaMemcpyHostToDevice, l.s));\n"
        "    CHECK(cudaEventRecord(l.done, l.s));\n    }\n" + LATER,
    ),
    "buffers that are swapped": (
        "",
        "    for (int i = 0; i < 100; ++i) {\n" + FILL + GONE + "    twice<<<64,256,0,t>>>(b,a,n);\n"
        "    CHECK(cudaStreamSynchronize(t));\n    std::swap(a, b);\n    }\n" + LATER,
    ),
    "the swapped buffer that is left": (
        "",
        "    float *now = a, *next = b;\n    for (int i = 0; i < 100; ++i) {\n    twice<<<64,256,0,s>>>(now,next,n);\n"
        + GONE + "    float* old = now; now = next; next = old;\n    }\n"
        "    CHECK(cudaMemcpyAsync(h.data(), now, n * 4, cudaMemcpyDeviceToHost, t));\n" + LATER,
    ),
    "a copy in front of a swap": (
        "",
        "    CHECK(cudaMemcpyAsync(b, a, n * 4, cudaMemcpyDeviceToDevice, s));  //-\n    std::swap(a, b);\n"
        "    twice<<<64,256,0,s>>>(a,b,n);\n" + LATER,
    ),
    "memory that two streams use from round to round": (
        "",
        "    float* q;\n    CHECK(cudaMalloc(&q, n * 4));  //+\n    for (int i = 0; i < 9; ++i) {\n    CHECK(cudaMalloc(&q, n * 4));  //-\n"
        "    twice<<<64,256,0,s>>>(a,q,n);\n    CHECK(cudaEventRecord(e, s)); CHECK(cudaStreamWaitEvent(t, e, 0));\n"
        "    twice<<<64,256,0,t>>>(q,b,n);\n    CHECK(cudaFree(q));  //-\n    }\n    CHECK(cudaFree(q));  //+\n" + LATER,
    ),
    "an event of another round": (
        "",
        "    cudaEvent_t filled[4]; for (auto& f : filled) CHECK(cudaEventCreateWithFlags(&f, cudaEventDisableTiming));\n"
        "    for (int k = 0; k < 4; ++k) { fill<<<64,256,0,s>>>(a + k * 256, n); CHECK(cudaEventRecord(filled[k], s)); }\n"
        "    for (int k = 0; k < 4; ++k) {\n    CHECK(cudaStreamWaitEvent(t, filled[k], 0));  //-\n"
        "    CHECK(cudaStreamWaitEvent(t, filled[0], 0));  //+\n    twice<<<64,256,0,t>>>(a + k * 256, b + k * 256, n);\n    }\n" + LATER,
    ),
}  # fmt: skip
FINE = {
    "a start that the wait for the end covers": (
        "",
        TIMES + "    CHECK(cudaEventRecord(x, s));\n" + FILL + "    CHECK(cudaEventRecord(y, s));\n"
        "    CHECK(cudaEventSynchronize(x));  //-\n    CHECK(cudaEventSynchronize(y));\n" + ASKED,
    ),
    "a stream that is destroyed, and a wait behind it": ("", FILL + GONE + "    CHECK(cudaStreamDestroy(s));\n" + LATER),
    "a wait behind thrust, which waits": (
        "#include <thrust/sort.h>\n",
        "    thrust::sort(thrust::cuda::par.on(s), a, a + n);\n" + GONE + USED,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "body"), CASES.values(), ids=CASES.keys())
def test_what_relies_on_an_order_keeps_it(before: str, body: str) -> None:
    text = HEAD + before + MAIN + STREAMS + body + END
    assert proof_of(text).state is not ProofState.PROVED


@pytest.mark.parametrize(("before", "body"), FINE.values(), ids=FINE.keys())
def test_what_nothing_relies_on_may_go(before: str, body: str) -> None:
    proof = proof_of(HEAD + before + MAIN + STREAMS + body + END)
    assert proof.state is ProofState.PROVED, proof.reason


def test_a_round_trip_through_a_function_that_a_condition_calls() -> None:
    """The statement that calls it is no statement of its own."""
    trip = """\
bool trip(std::vector<float>& h, float* a, int n) {
    cudaMemcpy(h.data(), a, n * 4, cudaMemcpyDeviceToHost);  //-
    cudaMemcpy(a, h.data(), n * 4, cudaMemcpyHostToDevice);  //-
    return true;
}
"""
    start = "int main() { std::vector<float> h(8); float* a; cudaMalloc(&a, 32); if (trip(h, a, 8)) {} }\n"
    assert proof_of(HEAD + trip + start).state is not ProofState.PROVED
