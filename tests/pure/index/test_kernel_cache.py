"""Findings about kernels are kept while nothing that they rest on has changed."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.index.kernels import KernelFindings, kernel_findings
from stitchcuda.analysis.program.ir import Program

KERNELS = b"""
__device__ int twice(int x) { return 2 * x; }
__device__ void exchange(int* s, int* out) {
    s[threadIdx.x] = twice(threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = s[255 - threadIdx.x];
}
__global__ void reverse(int* out) {
    __shared__ int s[256];
    exchange(s, out);
}
__global__ void other(int* out) { out[threadIdx.x] = 1; }
void run(int* d) {
    reverse<<<1, 256>>>(d);
    other<<<1, 256>>>(d);
}
"""


def kernels_looked_at(index: Index, monkeypatch: pytest.MonkeyPatch, text: bytes) -> tuple[list[str], list[str]]:
    seen: list[str] = []

    def spy(program: Program, kernel: str, *rest: object) -> KernelFindings:
        seen.append(program.functions[kernel].name)
        return kernel_findings(program, kernel, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("stitchcuda.analysis.index.index.kernel_findings", spy)
    index.put("k.cu", text)
    return seen, [f.code for f in index.analyse().findings if f.group == "device"]


def test_a_kernel_is_looked_at_again_when_it_or_what_it_reaches_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(strict=True)
    assert kernels_looked_at(index, monkeypatch, KERNELS) == (["reverse", "other"], [])
    moved = b"// a comment\n" + KERNELS
    assert kernels_looked_at(index, monkeypatch, moved) == ([], [])
    host = moved.replace(b"other<<<1, 256>>>(d);", b"other<<<1, 256>>>(d); int unused = 1;")
    assert kernels_looked_at(index, monkeypatch, host) == ([], [])
    helper = host.replace(b"    __syncthreads();\n", b"")
    assert kernels_looked_at(index, monkeypatch, helper) == (["reverse"], ["missing-syncthreads"])
    moved_again = b"\n\n" + helper
    assert kernels_looked_at(index, monkeypatch, moved_again) == ([], ["missing-syncthreads"])
    kernel = moved_again.replace(b"= 1; }", b"= 2; }")
    assert kernels_looked_at(index, monkeypatch, kernel) == (["other"], ["missing-syncthreads"])


def test_a_kernel_is_looked_at_again_when_its_launch_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(strict=True)
    kernels_looked_at(index, monkeypatch, KERNELS)
    smaller = KERNELS.replace(b"reverse<<<1, 256>>>", b"reverse<<<1, 64>>>")
    assert kernels_looked_at(index, monkeypatch, smaller)[0] == ["reverse"]
    both = smaller.replace(b"other<<<1, 256>>>", b"other<<<1, 64>>>")  # nothing in it depends on the launch
    assert kernels_looked_at(index, monkeypatch, both)[0] == []


def test_a_kernel_is_looked_at_again_when_a_function_of_its_bounds_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(strict=True)
    text = b"""
constexpr __device__ int width() { return 32; }
__launch_bounds__(width()) __global__ void reverse(int* out) {
    extern __shared__ int s[];
    s[threadIdx.x] = out[threadIdx.x];
    out[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
void run(int* d, int n) { reverse<<<1, n, 4 * n>>>(d); }
"""
    assert kernels_looked_at(index, monkeypatch, text) == (["reverse"], ["missing-syncwarp"])
    wider = text.replace(b"return 32", b"return 128")
    assert kernels_looked_at(index, monkeypatch, wider) == (["reverse"], ["missing-syncthreads"])
