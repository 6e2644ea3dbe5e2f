"""Lambdas that launches hand to kernels."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index import Index

HEAD = """
template <typename F> __global__ void each(F f, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) f(i);
}
int main() {
    int n = 1024;
    float *x, *y;
    cudaMallocManaged(&x, n * sizeof(float));
    cudaMallocManaged(&y, n * sizeof(float));
    auto work = [=] __host__ __device__(int i) { BODY };
    each<<<4, 256>>>(work, n);
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i];
    cudaDeviceSynchronize();
    return sum > 0;
}
"""


def read_too_early(body: str) -> list[str]:
    index = Index(strict=True)
    index.put("a.cu", HEAD.replace("BODY", body).encode())
    return [f.confidence.value for f in index.analyse().findings if f.code == "host-read-before-sync"]


@pytest.mark.parametrize("body", ["x[i] = 2 * y[i];", "x[i] += 1;", "if (y[i] > 0) x[i] = 0;"])
def test_what_the_lambda_writes_is_written_by_the_launch(body: str) -> None:
    assert read_too_early(body) in (["certain"], ["likely"])


@pytest.mark.parametrize("body", ["y[i] = 2 * x[i];", "int x[1]; x[0] = i; y[i] = x[0];"])
def test_what_it_only_reads_is_not(body: str) -> None:
    assert read_too_early(body) == []


def test_a_lambda_beside_the_launch_is_the_same() -> None:
    index = Index(strict=True)
    text = HEAD.replace("auto work = [=] __host__ __device__(int i) { BODY };", "").replace(
        "each<<<4, 256>>>(work, n)", "each<<<4, 256>>>([=] __device__(int i) { x[i] = n; }, n)"
    )
    index.put("a.cu", text.encode())
    assert "host-read-before-sync" in [f.code for f in index.analyse().findings]
