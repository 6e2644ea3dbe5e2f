"""Captures of several streams at once, which come from outside and are picked by an index."""

from __future__ import annotations

import pytest

from tests.pure.rules.programs import halves, hazards_in

PROGRAM = """#include <cuda_runtime.h>
struct Args { int n; cudaStream_t* streams; };
__global__ void work(float* x);
void capture(Args* args, cudaGraph_t* graphs, float* x) {
    for (int i = 0; i < args->n; i++) {
        cudaStreamBeginCapture(args->streams[i], cudaStreamCaptureModeThreadLocal);
        cudaStreamBeginCapture(args->streams[i], cudaStreamCaptureModeThreadLocal); //-
    }
    for (int i = 0; i < args->n; i++) work<<<1, 1, 0, args->streams[i]>>>(x + i);
    for (int i = 0; i < args->n; i++) cudaStreamEndCapture(args->streams[i], graphs + i);
}
void run(Args* args, cudaGraph_t* graphs, float* x) {
    capture(args, graphs, x);
    capture(args, graphs, x);
}"""


def test_each_round_captures_another_stream() -> None:
    wrong, right = halves(PROGRAM)
    assert hazards_in(wrong) == {"capture-unsafe"}
    assert hazards_in(right) == set()


@pytest.mark.parametrize("stream", ["*args->streams", "args->streams[0]"])
def test_a_loop_that_captures_one_stream_again_is_told(stream: str) -> None:
    one = PROGRAM.replace("args->streams[i]", stream)
    assert hazards_in(halves(one)[1]) == {"capture-unsafe"}
