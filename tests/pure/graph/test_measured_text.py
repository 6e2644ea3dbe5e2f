"""A measured run told in text."""

from __future__ import annotations

import re

from stitchcuda.analysis.graph.build import execution_graph
from stitchcuda.analysis.graph.measured import Measured, MeasuredLane, Span
from stitchcuda.analysis.graph.measured_text import COLUMNS, measured_to_text
from stitchcuda.analysis.graph.model import ExecutionGraph
from stitchcuda.analysis.index import Index

US = 1000
SOURCE = b"""\
#include <cuda_runtime.h>
__global__ void left(float *x) { x[threadIdx.x] = 1; }
__global__ void right(float *x) { x[threadIdx.x] = 2; }
void enqueue(float *x, float *y, cudaStream_t a, cudaStream_t b) {
    left<<<1, 32, 0, a>>>(x);
    right<<<1, 32, 0, b>>>(y);
}
int main() {
    float *x, *y, h[32];
    cudaStream_t a, b;
    cudaMalloc(&x, 128);
    cudaMalloc(&y, 128);
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    enqueue(x, y, a, b);
    cudaDeviceSynchronize();
    cudaMemcpy(h, x, 128, cudaMemcpyDeviceToHost);
}
"""


def graph() -> ExecutionGraph:
    index = Index()
    index.put("src/main.cu", SOURCE)
    analysis = index.analyse()
    return execution_graph(analysis.timelines, analysis.program, analysis.sources)


def run(told: ExecutionGraph) -> Measured:
    """`left` from 100 to 140 us, `right` from 120 to 200, the copy from 260 to 270; the host waits from 60 to 210 and from 225 to 275."""
    at = {n.kernel or n.kind: n.id for n in told.nodes}

    def span(start: int, end: int, name: str, kind: str, node: str, issued: int = -1) -> Span:
        return Span(start * US, end * US, name, kind, at.get(node, ""), issued * US if issued >= 0 else -1)

    host = (
        span(2, 8, "cudaMalloc", "call", "alloc"),
        span(20, 30, "cudaLaunchKernel", "call", "left"),
        span(40, 50, "cudaLaunchKernel", "call", "right"),
        span(60, 210, "cudaDeviceSynchronize", "wait", "device_sync"),
        span(225, 275, "cudaMemcpy", "wait", "copy"),
    )
    lanes = (
        MeasuredLane("host", None, True, host),
        MeasuredLane("stream a", "a", False, (span(100, 140, "left", "kernel", "left", 20),)),
        MeasuredLane("stream b", "b", False, (span(120, 200, "right", "kernel", "right", 40),)),
        MeasuredLane("default stream", "default", False, (span(260, 270, "copy d2h", "copy", "copy", 225),)),
    )
    return Measured("GPU", 10 * US, 275 * US, lanes, 3, ("it was slow",))


def part(text: str, title: str) -> list[str]:
    return text.split(f"{title}:\n")[1].split("\n\n")[0].strip("\n").split("\n")


def test_times_overlap_gaps_and_waits() -> None:
    told = graph()
    text = measured_to_text(run(told), told)
    lines = text.split("\n")
    assert lines[0] == "Measured on GPU (src/main.cu)"
    assert lines[1] == "  265.0 us from when the device was ready to the end"
    assert (
        "busy for 110.0 us, 65% of the time from its first work to its last, and did two things or more for 20.0 us"
        in lines[2]
    )
    assert "  stream b: 1 kernel, 80.0 us busy" in lines
    assert part(text, "What took how long")[0] == "  80.0 us: `right` on stream b (main.cu:6)"
    assert part(text, "What ran at the same time") == [
        "  20.0 us: `left` on stream a (main.cu:5), and `right` on stream b (main.cu:6)"
    ]
    assert part(text, "Where the device had nothing to do") == [
        "  60.0 us at 190.0 us, before copy d2h on default stream (main.cu:17); the host was in cudaMemcpy (main.cu:17) for 35.0 us of it"
    ]
    assert part(text, "Where the host waited") == [
        "  150.0 us: cudaDeviceSynchronize (main.cu:16)",
        "  50.0 us: cudaMemcpy (main.cu:17)",
    ]
    assert part(text, "In order")[0].split()[:6] == ["90.0", "us", "for", "40.0", "us", "`left`"]
    assert "  note: it was slow" in lines and "  note: 3 operations at the end are left out, for their number" in lines


def test_the_picture() -> None:
    told = graph()
    rows = dict(re.findall(rf"^  (\S.*?) +\|(.{{{COLUMNS}}})\|$", measured_to_text(run(told), told), re.MULTILINE))
    assert list(rows) == ["host", "stream a", "stream b", "default stream"]
    column = 265 / COLUMNS  # microseconds
    for name, mark, start, end in (
        ("stream a", "#", 100, 140),
        ("stream b", "#", 120, 200),
        ("default stream", "=", 260, 270),
    ):
        shown = rows[name]
        assert set(shown) == {mark, " "}
        assert abs(shown.index(mark) - (start - 10) / column) < 1
        assert abs(shown.rindex(mark) + 1 - (end - 10) / column) <= 1
    assert rows["host"].count("w") > rows["host"].count(".") > 0


def test_of_a_function_alone() -> None:
    told = graph()
    text = measured_to_text(run(told), told, "enqueue")
    assert "cudaMemcpy" not in text and "copy" not in text.split("one column")[0]
    assert "busy with what runs in enqueue for 100.0 us" in text
    assert "nothing to do" not in text, "the work before it was not its own"
    assert measured_to_text(run(told), told, "nowhere").split("\n")[1] == "  nothing of this ran in the measured run"


def test_rounds_that_follow_each_other_are_one_row() -> None:
    told = graph()
    at = next(n.id for n in told.nodes if n.kernel == "left")
    spans = tuple(Span(k * 10 * US, (k * 10 + 4 + k) * US, "left", "kernel", at) for k in range(5))
    text = measured_to_text(Measured("GPU", 0, 60 * US, (MeasuredLane("stream a", "a", False, spans),)), told)
    assert part(text, "What took how long") == [
        "  30.0 us in 5 runs, 6.0 us each, 4.0 us to 8.0 us: `left` on stream a (main.cu:5)"
    ]
    assert part(text, "In order") == ["        0.0 us for 30.0 us    5 times `left` on stream a (main.cu:5)"]


def test_nothing_ran() -> None:
    assert measured_to_text(Measured("", 0, 0, ()), ExecutionGraph((), (), ())) == (
        "Measured on an unknown device\n  nothing of this ran in the measured run\n"
    )
