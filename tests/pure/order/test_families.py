"""Streams and memory that are picked by one index."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index

HEAD = """
__global__ void fill(float* out, const float* in, int n);
void frames(float* host, int n, int rounds, int lanes) {
    cudaStream_t s[8];
    float* in[8];
    float* out[8];
    float* whole;
    cudaMalloc(&whole, lanes * n * sizeof(float));
    for (int i = 0; i < lanes; ++i) {
        cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking);
        cudaMalloc(&in[i], n * sizeof(float));
        cudaMalloc(&out[i], n * sizeof(float));
    }
    int k = 0;
    for (int r = 0; r < rounds; ++r) {
        BODY
        k = (k + 1) % lanes;
    }
    cudaDeviceSynchronize();
}
"""


def races(body: str) -> list[str]:
    index = Index(strict=True)
    index.put("a.cu", HEAD.replace("BODY", body).encode())
    found = index.analyse().findings
    return [f.code for f in found if f.code.startswith("stream-race")]


@pytest.mark.parametrize(
    "body",
    [
        "fill<<<1, 1, 0, s[k]>>>(out[k], in[k], n);",
        "cudaMemcpyAsync(in[k], host, n * sizeof(float), cudaMemcpyHostToDevice, s[k]); fill<<<1, 1, 0, s[k]>>>(out[k], in[k], n);",
        "cudaMemsetAsync(whole + k * n, 0, n * sizeof(float), s[k]);",
    ],
)
def test_one_index_for_stream_and_memory_is_one_order(body: str) -> None:
    assert races(body) == []


def test_another_index_for_the_memory_is_not() -> None:
    assert races("fill<<<1, 1, 0, s[k]>>>(out[(r * r) % lanes], in[k], n);")
