"""What a kernel is sure to do with the first element of each parameter."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.program.device.first_element import first_elements, may_wait_for_others

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"


def touched(params: str, body: str) -> set[str]:
    index = Index()
    index.put("k.cu", f"template <class T> __global__ void k({params}) {{ {body} }}".encode())
    program = index.analyse().program
    (kernel,) = program.functions.values()
    return {f"{name} {mode.value}" for name, mode in first_elements(program, kernel)}


@pytest.mark.parametrize(
    ("params", "body", "expected"),
    [
        ("float* x, int n", INDEX + "if (i >= n) return; x[i] = sqrtf(x[i]);", {"x read", "x write"}),
        ("T* x, const T* y, size_t n", "for (size_t i = threadIdx.x; i < n; i += blockDim.x) x[i] += y[i];", {"x read", "x write", "y read"}),
        ("T* x, int w, int h", "int c = threadIdx.x, r = threadIdx.y; if (r < h && c < w) x[r * w + c] = 0;", {"x write"}),
        ("T* x", "__shared__ T s[32]; s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); if (threadIdx.x == 0) x[blockIdx.x] = s[0];", {"x read", "x write"}),
        ("float* x, int n, int off", INDEX + "if (i < n) x[i + off] = 1;", set()),
        ("float* x, int n, int lo", INDEX + "if (i >= lo && i < n) x[i] = 1;", set()),
        ("float* x, int n, int flag", INDEX + "if (i < n && flag > 0) x[i] = 1;", set()),
        ("float* x, int n, int half", INDEX + "if (i % 2 == half) x[i] = 1;", set()),
        ("float* x, int n", INDEX + "x += n; x[i] = 1;", set()),
        ("float* x, int n", INDEX + "if (x[i] > 0) return; x[i] = 1;", {"x read"}),
        ("float* x, int n, bool skip", INDEX + "if (skip) i = n; x[i] = 1;", set()),
        ("float* x, int n", INDEX + "{ int i = n; x[i] = 2; } x[i] = 1;", {"x write"}),
        ("float* x, int steps", INDEX + "for (int s = 0; s < steps; ++s) x[i] = s;", set()),
        ("float* x, int n", INDEX + "helper(i); x[i] = 1;", set()),
        ("float* x, int n", INDEX + 'asm("exit;"); x[i] = 1;', set()),
        ("float* x, int n", INDEX + "float* y = x; if (i < n) y[i] = 1;", set()),
        ("float* x, int n", "x[0] = 1; int i = " + "-".join(["n"] * 4000) + "; x[i] = 1;", set()),
    ],
)  # fmt: skip
def test_first_elements(params: str, body: str, expected: set[str]) -> None:
    assert touched(params, body) == expected


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        ("for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = 1;", False),
        ("while (x[0] == 0) {}", True),
        ("for (int k = 0; k < x[0]; ++k) x[k] = 1;", True),
        ("for (int go = 1; go > 0;) go = x[0];", True),
        ("for (int go = 1; go > 0; ++n) go = x[0];", True),
        ("until(x);", True),
        ("plain(x);", False),
    ],
)
def test_kernels_that_may_wait_for_others(body: str, waits: bool) -> None:
    index = Index()
    helpers = "__device__ void until(int* x) { do {} while (x[0] == 0); } __device__ void plain(int* x) { x[0] = 1; }"
    index.put("k.cu", f"{helpers} __global__ void k(int* x, int n) {{ {body} }}".encode())
    program = index.analyse().program
    assert may_wait_for_others(program, program.functions["k.cu::k"]) is waits
