"""Numbers of any size, and literals where others belong: an analysis ends, and soon."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stitchcuda.analysis.index import Index
from stitchcuda.analysis.order.arithmetic import binary
from stitchcuda.analysis.order.symbolic import LARGEST, Poly, number, symbol
from stitchcuda.analysis.order.values import Num

GROWING = {
    "squares": "x = x * x;" * 60,
    "squares in a loop": "for (int i = 0; i < 60; i++) x *= x;",
    "shifts": "x = x << 31;" * 600,
    "products": "x *= 1000003;" * 3000,
    "one shift": "x <<= 1000000000;",
}
PROGRAMS = {
    "host": ("a.cu", "int main() { float *p; long x = 3; BODY cudaMalloc(&p, x); cudaMemset(p, 0, x); k<<<x, x>>>(p); }"),
    "kernel": ("a.cu", """__global__ void k(float *p) { __shared__ float s[3]; long x = 3; BODY s[x] = p[x]; __syncthreads(); p[x] = s[x]; }
                          int main() { float *p; k<<<1, 32>>>(p); }"""),
    "device": ("a.cu", """__device__ long f() { long x = 3; BODY return x; } __global__ void k(float *p) { p[f()] = 1; }
                          int main() { float *p; cudaMalloc(&p, 4); k<<<1, 32>>>(p); }"""),
}  # fmt: skip
LITERALS = ["9" * 5000, "0x" + "f" * 5000, "0" + "7" * 6000, "1e400", "1_000", "²", "٣", "08", "'\\x'", "'\\xd800'", '"\\x"', '"\\ud800"', 'R"(', '"_Z' + "9" * 5000 + 'f"',
            "'", '"', "1 << 100000", "1 % 0", "-5", "0.0 / 0", '"' + "a" * 100_000 + '"', "a" * 100_000, "A" * 100_000, "A9" * 50_000]  # fmt: skip
EVERYWHERE = """#define N LITERAL
const int M = LITERAL;
template <int K> struct S { float a[K]; };
template <int DEPTH> struct Ring { float *slots[DEPTH]; int next = 0; float *take() { return slots[next++ % DEPTH]; } };
template <int K> __global__ void kt(float *p) { p[K] = 1; }
__global__ void k(float *p) {
  __shared__ float s[LITERAL]; s[threadIdx.x] = LITERAL; __syncthreads(); p[LITERAL] = s[LITERAL + 1];
  asm volatile("cp.async.wait_group LITERAL;" :: "n"(LITERAL));
  switch (p[0]) { case LITERAL: p[1] = 2; }
}
int main(int argc, char **argv) {
  float *p; cudaMalloc(&p, LITERAL); cudaStream_t s; cudaStreamCreate(&s);
  std::array<float, LITERAL> arr; float b[LITERAL]; std::tuple<int, float> t; std::pair<int, int> q;
  std::get<LITERAL>(t) = 1; std::get<LITERAL>(q) = 1; S<LITERAL> st; std::vector<float> v(LITERAL);
  int x = LITERAL * N; x += LITERAL; if (x == LITERAL) x = LITERAL - 1;
  Ring<LITERAL> ring;
  for (int i = 0; i < 9; i++) cudaMemsetAsync(ring.take(), 0, 4, s);
  for (int i = 0; i < LITERAL; i++) { cudaMemcpyAsync(p + i * LITERAL, b, LITERAL, cudaMemcpyHostToDevice, s); k<<<N, LITERAL, M, s>>>(p); }
  if (LITERAL && M) kt<LITERAL><<<1, dim3(LITERAL, LITERAL), 0, s>>>(p + LITERAL);
  switch (argc) { case LITERAL: puts(LITERAL); }
#if LITERAL || CUDA_VERSION > LITERAL
  cudaFree(p);
#endif
}
"""
PYTHON = """import cupy as cp
x = LITERAL
a = cp.zeros(LITERAL)
k = cp.RawKernel('extern "C" __global__ void k(float *p) { p[0] = 1; }', 'k')
for i in range(LITERAL):
    k((LITERAL,), (LITERAL * x,), (a[LITERAL], LITERAL ** 63 ** 63 ** 63, LITERAL << LITERAL))
"""


def analysed(name: str, text: str) -> None:
    index = Index(strict=True)
    index.put(name, text.encode())
    start = time.process_time()
    index.analyse()
    assert time.process_time() - start < 5


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("growing", GROWING)
def test_numbers_that_grow(program: str, growing: str) -> None:
    name, text = PROGRAMS[program]
    analysed(name, text.replace("BODY", GROWING[growing]))


def test_numbers_that_grow_in_constants() -> None:
    chain = "".join(f"const long c{k + 1} = c{k} * c{k};\n" for k in range(60))
    analysed(
        "a.cu",
        f"const long c0 = 3;\n{chain}__global__ void k(float *p) {{ p[c60] = 1; }}\nint main() {{ k<<<c60, c60>>>(0); }}",
    )


@pytest.mark.parametrize("literal", LITERALS, ids=lambda literal: literal[:20])
def test_literals_where_others_belong(literal: str) -> None:
    analysed("a.cu", EVERYWHERE.replace("LITERAL", literal))
    analysed("a.py", PYTHON.replace("LITERAL", literal))


@given(
    st.lists(
        st.tuples(st.sampled_from("+-*<"), st.integers(-LARGEST, LARGEST), st.sampled_from(["", "n", "-m"])),
        max_size=20,
    )
)
def test_no_number_grows_beyond_what_is_followed(steps: list[tuple[str, int, str]]) -> None:
    value = Num(number(7))
    for op, factor, name in steps:
        other: Poly = number(factor) if not name else symbol(name) * number(factor)
        value = binary("<<" if op == "<" else op, value, Num(other))  # type: ignore[assignment]
        assert isinstance(value, Num) and value.value.followed()
        assert len(str(value.value)) < 10_000


def test_what_is_not_followed_may_be_negative_when_a_part_may() -> None:
    large = number(LARGEST)
    assert (large * large).nonnegative()
    assert not (large * -large).nonnegative()
    assert large * large == large * large
