"""`if (i < n)` in a kernel that is launched with `n` threads: all threads take that branch."""

from __future__ import annotations

import pytest

from tests.pure.kernel.findings import shown

KERNEL = """
__global__ void k(long n, const int* a, int* out) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    __shared__ int found;
    if (i == 0) found = 0;
    __syncthreads();
    if (a[i]) out[atomicAdd(&found, 1)] = a[i];
  }
}
void run(long n, long m, int* a, int* out, cudaStream_t s) { LAUNCH }
"""


@pytest.mark.parametrize(
    "launch",
    [
        "k<<<1, n, 0, s>>>(n, a, out);",
        "k<<<dim3(1), dim3(n), 0, s>>>(n, a, out);",
        "dim3 threads(n); k<<<1, threads>>>(n, a, out);",
        "k<<<1, static_cast<unsigned>(n)>>>(n, a, out);",
        "k<<<1, n>>>(n, a, out); k<<<1, m>>>(m, a, out);",
        "k<<<m, n>>>(n, a, out);",  # all of the first block and none of the others
    ],
)
def test_the_size_of_the_block_is_no_limit(launch: str) -> None:
    assert shown(KERNEL.replace("LAUNCH", launch)) == []


@pytest.mark.parametrize(
    "launch",
    [
        "k<<<1, m>>>(n, a, out);",
        "k<<<1, n>>>(n - 1, a, out);",
        "k<<<1, (n + 31) / 32 * 32>>>(n, a, out);",
        "k<<<1, dim3(n, m)>>>(n, a, out);",
        "k<<<m, n>>>(m, a, out);",
        "dim3 threads(n); n = m; k<<<1, threads>>>(n, a, out);",
        "k<<<1, n>>>(n, a, out); k<<<1, n>>>(m, a, out);",
    ],
)
def test_another_number_is_one(launch: str) -> None:
    assert shown(KERNEL.replace("LAUNCH", launch)) == ["divergent-barrier"]


def test_a_parameter_that_is_changed_is_another_number() -> None:
    text = KERNEL.replace("LAUNCH", "k<<<1, n>>>(n, a, out);")
    assert shown(text.replace("if (i < n)", "n -= 1;\n  if (i < n)")) == ["divergent-barrier"]
