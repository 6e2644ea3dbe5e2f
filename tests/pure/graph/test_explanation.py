"""The end of the text form: what waits for what, what could overlap, and which waits cost time. Each sentence is true of the program
beside it, and is not said of the twin in which it is not."""

from __future__ import annotations

from stitchcuda.analysis.graph.build import execution_graph
from stitchcuda.analysis.graph.to_text import to_text
from stitchcuda.analysis.index import Index

HEAD = """#include <cuda_runtime.h>
__global__ void produce(float* out) { out[threadIdx.x] = 1; }
__global__ void consume(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void other(float* z) { z[threadIdx.x] += 1; }
int main() {
    float *x, *y, *z, *h;
    cudaStream_t a, b;
    cudaEvent_t ready;
    cudaMallocHost(&h, 1024);
    cudaMalloc(&x, 1024);
    cudaMalloc(&y, 1024);
    cudaMalloc(&z, 1024);
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEventCreate(&ready);
"""  # the body begins at line 16


def sections(*body: str) -> dict[str, list[str]]:
    """Title to lines, of a program with this body."""
    index = Index(strict=True)
    index.put("a.cu", (HEAD + "".join(f"    {line}\n" for line in body) + "}\n").encode())
    analysis = index.analyse()
    text = to_text(execution_graph(analysis.timelines, analysis.program, analysis.sources))
    found: dict[str, list[str]] = {}
    title = ""
    for line in text.partition("In short:\n")[2].splitlines():
        if line.startswith("  - "):
            found.setdefault(title, []).append(line[4:])
        else:
            title = line.strip()
    return found


def test_a_stream_waits_for_another_through_an_event() -> None:
    lines = sections(
        "produce<<<1, 256, 0, a>>>(x);",
        "cudaEventRecord(ready, a);",
        "cudaStreamWaitEvent(b, ready, 0);",
        "consume<<<1, 256, 0, b>>>(x, y);",
        "cudaStreamSynchronize(b);",
    )
    assert lines["Between streams:"] == [
        (
            "`consume` (line 19) on stream `b` waits for `produce` (line 16) on stream `a`, through event `ready` "
            "(recorded at line 17, waited for at line 18); `x` flows that way"
        )
    ]
    assert lines["What could overlap:"] == ["nothing: all work is ordered, although it is on several streams"]


def test_the_default_stream_orders_itself() -> None:
    lines = sections(
        "other<<<1, 256>>>(z);", "cudaStream_t c;", "cudaStreamCreate(&c);", "produce<<<1, 256, 0, c>>>(z);"
    )
    assert lines["Between streams:"][0].startswith(
        "`produce` (line 19) on stream `c` waits for `other` (line 16) on the default stream, because the default stream"
    )
    lines = sections("other<<<1, 256>>>(z);", "produce<<<1, 256, 0, a>>>(x);")
    assert "Between streams:" not in lines, "a non-blocking stream does not wait"
    assert lines["What could overlap:"] == [
        "`produce` (line 17) on stream `a` with `other` (line 16) on the default stream"
    ]


def test_what_could_overlap() -> None:
    free = ("produce<<<1, 256, 0, a>>>(x);", "other<<<1, 256, 0, b>>>(z);")
    assert sections(*free)["What could overlap:"] == [
        "`other` (line 17) on stream `b` with `produce` (line 16) on stream `a`"
    ]
    waited = (free[0], "cudaStreamSynchronize(a);", free[1])
    assert sections(*waited)["What could overlap:"] == [
        "nothing: all work is ordered, although it is on several streams"
    ]
    one = ("produce<<<1, 256, 0, a>>>(x);", "other<<<1, 256, 0, a>>>(z);")
    assert sections(*one)["What could overlap:"] == ["nothing: all work is on stream `a`, one piece after the other"]
    assert "What could overlap:" not in sections("produce<<<1, 256, 0, a>>>(x);")


def test_branches_of_which_one_runs_do_not_overlap() -> None:
    lines = sections(
        "extern int choice();",
        "if (choice()) { produce<<<1, 256, 0, a>>>(x);",
        "} else { other<<<1, 256, 0, b>>>(z); }",
    )
    assert lines["What could overlap:"] == ["nothing: all work is ordered, although it is on several streams"]


def test_rounds_overlap() -> None:
    lines = sections(
        "for (int i = 0; i < 100; ++i) {",
        "  produce<<<1, 256, 0, a>>>(x);",
        "  cudaEventRecord(ready, a);",
        "  cudaStreamWaitEvent(b, ready, 0);",
        "  consume<<<1, 256, 0, b>>>(x, y);",
        "}",
    )
    assert (
        "`produce` (line 17) on stream `a` with `consume` (line 20) of the round before on stream `b`"
        in lines["What could overlap:"]
    )


def test_a_wait_in_a_loop_leaves_the_device_without_work() -> None:
    loop = ("for (int i = 0; i < 100; ++i) {", "  produce<<<1, 256, 0, a>>>(x);")
    lines = sections(*loop, "  cudaDeviceSynchronize();", "}")
    assert lines["Where the host waits:"] == [
        (
            "line 18, in each of 100 rounds: for all work on the device; "
            "the device has nothing to do until `produce` (line 17) of the next round is issued"
        )
    ]
    lines = sections(*loop, "  other<<<1, 256, 0, b>>>(z);", "  cudaStreamSynchronize(a);", "}")
    assert lines["Where the host waits:"] == [
        "line 19, in each of 100 rounds: for stream `a`; `other` (line 18) can go on meanwhile"
    ]


def test_waits_say_what_they_are_for() -> None:
    copy = "cudaMemcpyAsync(h, x, 1024, cudaMemcpyDeviceToHost, a);"
    lines = sections(
        "produce<<<1, 256, 0, a>>>(x);",
        copy,
        "cudaStreamSynchronize(a);",
        "z[0] = 0; float first = h[0];",
        "return first > 0;",
    )
    assert lines["Where the host waits:"] == ["line 18: for stream `a`; the host then reads `h` (line 19)"]
    lines = sections("produce<<<1, 256, 0, a>>>(x);", "cudaDeviceSynchronize();", "return 0;")
    assert lines["Where the host waits:"] == ["line 17: for all work on the device; no work follows"]
    lines = sections(
        "produce<<<1, 256>>>(x);", "cudaMemcpy(h, x, 1024, cudaMemcpyDeviceToHost);", "other<<<1, 256>>>(z);"
    )
    assert lines["Where the host waits:"] == [
        "line 17: until `x` is copied to `h`; the device has nothing to do until `other` (line 18) is issued"
    ]


def test_waits_in_loops_come_first() -> None:
    lines = sections(
        "cudaDeviceSynchronize();",
        "for (int i = 0; i < 9; ++i) { other<<<1, 256, 0, a>>>(z); cudaStreamSynchronize(a); }",
        "cudaDeviceSynchronize();",
    )
    assert [line.partition(":")[0] for line in lines["Where the host waits:"]] == [
        "line 17, in each of 9 rounds", "line 16", "line 18",
    ]  # fmt: skip


def test_nothing_is_claimed_of_work_on_streams_that_are_not_known() -> None:
    index = Index(strict=True)
    index.put(
        "a.cu",
        b"#include <cuda_runtime.h>\nextern cudaStream_t pick();\n__global__ void k(float* p) { p[0] = 1; }\n"
        b"void run(float* p, float* q, cudaStream_t s) {\n    k<<<1, 1, 0, pick()>>>(p);\n    k<<<1, 1, 0, s>>>(q);\n"
        b"    cudaStreamSynchronize(s);\n    k<<<1, 1, 0, s>>>(q);\n}\n",
    )
    analysis = index.analyse()
    text = to_text(execution_graph(analysis.timelines, analysis.program, analysis.sources))
    assert "the device has nothing to do" not in text


def test_a_call_beside_work_of_the_entry_itself() -> None:
    """Under one heading, one group of calls can have a way to it and the next one none."""
    index = Index(strict=True)
    index.put(
        "a.cu",
        b"#include <cuda_runtime.h>\n__global__ void k(float* p) { p[0] = 1; }\n"
        b"static void step(float* p) { k<<<1, 1>>>(p); }\n"
        b"int main() {\n    float* p;\n    cudaMalloc(&p, 4);\n    step(p);\n"
        b"    for (int r = 0; r < 3; ++r) k<<<1, 1>>>(p);\n}\n",
    )
    analysis = index.analyse()
    told = to_text(execution_graph(analysis.timelines, analysis.program, analysis.sources))
    assert told.count("`k` runs on the default stream") == 2
