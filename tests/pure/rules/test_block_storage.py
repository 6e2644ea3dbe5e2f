"""Shared memory that is lent to CUB's block-wide calls, again and again: each program is wrong by one line, and right without
it."""

from __future__ import annotations

import pytest

from tests.pure.rules.programs import halves, hazards_in

HEAD = """#include <cub/cub.cuh>
template <int N> __global__ void k(const float* in, float* out, int rounds) {
    using Reduce = cub::BlockReduce<float, 256>;
    typedef cub::BlockScan<float, N> Scan;
    __shared__ typename Reduce::TempStorage temp;
    __shared__ typename Scan::TempStorage other;
    __shared__ union { typename Scan::TempStorage scan; typename Reduce::TempStorage reduce; } either;
    float v = in[blockIdx.x * 256 + threadIdx.x], before;
    BODY
    out[blockIdx.x * 256 + threadIdx.x] = v;
}
void run(const float* in, float* out, int rounds) { k<256><<<64, 256>>>(in, out, rounds); }
"""

AGAIN = {
    "one call after the other": """
    float sum = Reduce(temp).Sum(v);
    __syncthreads(); //+
    v = Reduce(temp).Sum(v * v) - sum;
    """,
    "a class by its whole name, and a function of the caller": """
    float sum = cub::BlockReduce<float, 256>(temp).Sum(v);
    __syncthreads(); //+
    v = cub::BlockReduce<float, 256>(temp).Reduce(v, cub::Max()) - sum;
    """,
    "braces": """
    Scan{other}.InclusiveSum(v, before);
    __syncthreads(); //+
    Scan{other}.InclusiveSum(before, v);
    """,
    "the next round": """
    for (int k = 0; k < rounds; ++k) {
        Scan(other).ExclusiveSum(v, before);
        v += before;
        __syncthreads(); //+
    }
    """,
}


@pytest.mark.parametrize("body", AGAIN.values(), ids=AGAIN)
def test_storage_is_lent_again_behind_a_barrier(body: str) -> None:
    wrong, right = halves(HEAD.replace("BODY", body))
    assert hazards_in(wrong) == {"missing-syncthreads"}
    assert hazards_in(right) == set()


APART = {
    "storage of its own": "v = Reduce(temp).Sum(v); Scan(other).ExclusiveSum(v, before);",
    "other members": "v = Reduce(either.reduce).Sum(v); __syncthreads(); Scan(either.scan).ExclusiveSum(v, before);",
    "once": "v = Reduce(temp).Sum(v); if (threadIdx.x == 0) out[blockIdx.x] = v;",
    "loads that need none": """
    float items[4];
    cub::BlockLoad<float, 256, 4> a(temp);
    cub::BlockLoad<float, 256, 4>(other).Load(in, items);
    cub::BlockLoad<float, 256, 4>(other).Load(in + 1024, items);
    """,
}


@pytest.mark.parametrize("body", APART.values(), ids=APART)
def test_storage_that_is_not_lent_again(body: str) -> None:
    assert hazards_in(HEAD.replace("BODY", body)) == set()


def test_a_class_of_the_program_is_what_it_says() -> None:
    own = "struct BlockReduce { __device__ BlockReduce(float* s) {} __device__ float Sum(float v) { return v; } };\n"
    body = "__shared__ float s[256]; v = BlockReduce(s).Sum(v); v = BlockReduce(s).Sum(v);"
    assert hazards_in(own + HEAD.replace("BODY", body)) == set()
