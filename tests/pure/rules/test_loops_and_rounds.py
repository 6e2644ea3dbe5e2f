"""Loops whose rounds are decided by results, and loops that turn a list of pointers: each program is wrong by one line, and
right without it."""

from __future__ import annotations

import pytest

from tests.pure.rules.programs import halves, hazards_in

SOLVER = """#include <cuda_runtime.h>
__global__ void step(float* x, float* error) { x[threadIdx.x] *= 0.5f; if (threadIdx.x == 0) *error = x[0]; }
void solve(float* x, float* error, float* h, cudaStream_t s, cudaGraphExec_t exec, int most) {
    cudaMallocHost(&h, sizeof(float));
    cudaMalloc(&error, sizeof(float));
    int rounds = 0;
    LOOP
    cudaStreamSynchronize(s);
    cudaFree(error);
    cudaFreeHost(h);
}
"""

LOOPS = {
    "a `do` loop": """
    do {
        step<<<1, 32, 0, s>>>(x, error);
        cudaMemcpyAsync(h, error, sizeof(float), cudaMemcpyDeviceToHost, s);
        cudaStreamSynchronize(s); //+
        ++rounds;
    } while (*h > 1e-5f && rounds < most);
    """,
    "a `while` loop": """
    *h = 1.0f;
    while (h[0] > 1e-5f) {
        step<<<1, 32, 0, s>>>(x, error);
        cudaMemcpyAsync(h, error, sizeof(float), cudaMemcpyDeviceToHost, s);
        cudaStreamSynchronize(s); //+
    }
    """,
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_result_that_decides_the_next_round_is_waited_for(loop: str) -> None:
    wrong, right = halves(SOLVER.replace("LOOP", loop))
    assert "host-read-before-sync" in hazards_in(wrong)
    assert hazards_in(right) == set()


WATCHING = {
    "what it watches is written before the loop": """
    step<<<1, 32, 0, s>>>(x, error);
    cudaMemcpyAsync(h, error, sizeof(float), cudaMemcpyDeviceToHost, s);
    while (*h == 0.0f) { ++rounds; }
    """,
    "it only looks at work in progress": """
    step<<<1, 32, 0, s>>>(x, error);
    do {
        cudaMemcpyAsync(h, error, sizeof(float), cudaMemcpyDeviceToHost, s);
    } while (*h == 0.0f);
    """,
    "it looks at something volatile": """
    volatile float* seen = h;
    do {
        step<<<1, 32, 0, s>>>(x, h);
    } while (*seen > 1e-5f);
    """,
}


@pytest.mark.parametrize("loop", WATCHING.values(), ids=WATCHING)
def test_a_loop_may_watch_memory_change(loop: str) -> None:
    assert hazards_in(SOLVER.replace("LOOP", loop)) == set()


TURNED = """#include <cuda_runtime.h>
__global__ void wave(const float* a, const float* b, float* c, int n) { c[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x]; }
void run(int n, int steps, cudaStream_t s) {
    float* level[3];
    for (int k = 0; k < 3; ++k) cudaALLOC(&level[k], n * sizeof(float));
    for (int t = 0; t < steps; ++t) {
        wave<<<1, 256, 0, s>>>(level[0], level[1], level[2], n);
        cudaStreamSynchronize(s);
        BEHIND
        float* oldest = level[0];
        level[0] = level[1];
        level[1] = level[2];
        level[2] = oldest;
    }
    cudaStreamSynchronize(s);
    for (int k = 0; k < 3; ++k) cudaFree(level[k]);
}
"""


def test_pointers_that_change_places_are_not_what_they_point_to() -> None:
    text = TURNED.replace("ALLOC", "Malloc").replace("BEHIND", "")
    assert "sync-in-loop" in hazards_in(text, "sync-in-loop")
    text = TURNED.replace("ALLOC", "MallocManaged").replace("BEHIND", "level[2][0] = 1.0f;")
    assert hazards_in(text, "sync-in-loop") == set()


RING = """#include <cuda_runtime.h>
__global__ void work(float* slot) { slot[threadIdx.x] += 1.0f; }
int main() {
    const int total = 1 << 22, chunk = 1 << 16;
    float *h, *slot[3];
    cudaStream_t up[3], down[3];
    cudaEvent_t done[3];
    cudaMallocHost(&h, total * sizeof(float));
    for (int k = 0; k < 3; ++k) {
        cudaMalloc(&slot[k], chunk * sizeof(float));
        cudaStreamCreate(&up[k]);
        cudaStreamCreate(&down[k]);
        cudaEventCreate(&done[k]);
    }
    LOOP
        cudaStreamWaitEvent(up[k], done[k], 0); //+
        cudaMemcpyAsync(slot[k], h + at, chunk * sizeof(float), cudaMemcpyHostToDevice, up[k]);
        cudaEventRecord(done[k], up[k]);
        cudaStreamWaitEvent(down[k], done[k], 0);
        work<<<1, 256, 0, down[k]>>>(slot[k]);
        cudaEventRecord(done[k], down[k]);
    }
    cudaDeviceSynchronize();
    return 0;
}
"""

RINGS = {
    "a second thing in the step": "for (int at = 0, k = 0; at < total; at += chunk, k = (k + 1) % 3) {",
    "the second thing comes first": "for (int k = 0, at = 0; at < total; k = (k + 1) % 3, at += chunk) {",
    "the number of the chunk": "for (int at = 0; at < total; at += chunk) { int k = at / chunk % 3;",
    "the number of the chunk, in brackets": "for (int at = 0; at < total; at += chunk) { const int k = (at / chunk) % 3;",
    "chunks from the second on": "for (int at = chunk; at < total; at += chunk) { const int k = (at / chunk) % 3;",
}


@pytest.mark.parametrize("loop", RINGS.values(), ids=RINGS)
def test_slots_that_a_loop_goes_round(loop: str) -> None:
    wrong, right = halves(RING.replace("LOOP", loop))
    assert "stream-race-waw" in hazards_in(wrong)
    assert hazards_in(right) == set()


def test_two_slots_that_are_toggled_in_the_step() -> None:
    loop = "for (int at = 0, k = 0; at < total; at += chunk, k ^= 1) {"
    wrong, right = halves(RING.replace("LOOP", loop))
    assert "stream-race-waw" in hazards_in(wrong)
    assert hazards_in(right) == set()
