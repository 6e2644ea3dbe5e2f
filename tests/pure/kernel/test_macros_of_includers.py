"""A macro that the including file defines may stand for a barrier: `SYNC;`."""

import pytest

from tests.pure.rules.test_fixtures import shown

KERNEL = b"""
__global__ void first(const int *values, int *found)
{
    __shared__ int flag;
    if (threadIdx.x == 0)
        flag = values[blockIdx.x];
    %s
    found[blockIdx.x * blockDim.x + threadIdx.x] = flag;
}
int main() { int *v, *f; cudaMalloc(&v, 64); cudaMalloc(&f, 65536); first<<<16, 256>>>(v, f); cudaFree(v); cudaFree(f); }
"""


@pytest.mark.parametrize(
    ("between", "expected"), [(b"SYNC;", []), (b"", ["missing-syncthreads"]), (b"flag;", ["missing-syncthreads"])]
)
def test_an_unknown_macro_as_a_statement(between: bytes, expected: list[str]) -> None:
    found = {r.code for r in shown("kernels.cu", KERNEL % between) if r.group == "device"}
    assert sorted(found) == expected
