"""Broken text never raises, and every position lies where it can."""

from __future__ import annotations

import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stitchcuda.analysis.program.cuda import collect_macros, lower_module
from stitchcuda.analysis.program.ir import Api, Launch, Name
from stitchcuda.analysis.program.link import link

from tests.pure.program.lowering import cuda_nodes, nodes

SEED = r"""
#include <cuda_runtime.h>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { exit(1); } } while (0)
#define FOR(i, n) for (int i = 0; i < (n); ++i)
#define LAUNCH(k, ...) k<<<1, 32, 0, s>>>(__VA_ARGS__)
#define DECLARE(T, x) T* x; cudaMalloc(&x, sizeof(T))
#define DEFINE(T) void make_##T(T* p) { cudaMalloc(&p, sizeof(T)); }
DEFINE(float)
template <typename T> __global__ void scale(T* x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }
struct Engine { cudaStream_t s; Engine() : s(0) { cudaStreamCreate(&s); } ~Engine() { cudaStreamDestroy(s); } };
static void run(Engine& e, float* d, float* h, int n) {
#ifdef FAST
  CHECK(cudaMemcpyAsync(d, h, n * sizeof(float), cudaMemcpyHostToDevice, e.s));
#else
  cudaMemcpy(d, h, n, cudaMemcpyHostToDevice);
#endif
  FOR(i, n) { LAUNCH(scale<float>, d + i, n); }
  DECLARE(float, tmp);
  auto done = [&](int code) { CHECK(cudaStreamSynchronize(e.s)); return code; };
  switch (n) { case 1: done(1); break; default: while (cudaEvent_t v = next()) { cudaEventRecord(v, e.s); } }
  scale<<<dim3(n / 256), 256, 0, e.s>>>(d, n); // launch
}
int main() { Engine e; run(e, nullptr, new float[4], 4); return 0; }
"""
MACROS = (b"CHECK", b"FOR", b"LAUNCH", b"DE")
PIECES = [
    "{",
    "}",
    "(",
    ")",
    "<<<",
    ">>>",
    ";",
    "#if X\n",
    "#endif\n",
    '"',
    "/*",
    "CHECK(",
    "template<",
    "::",
    ",",
    "\\\n",
    "\xe9",
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    text = SEED.encode()
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(text)))
        match draw(st.integers(0, 2)):
            case 0:
                text = text[:at] + draw(st.sampled_from(PIECES)).encode() + text[at:]
            case 1:
                text = text[:at] + text[at + draw(st.integers(1, 40)) :]
            case _:
                other = draw(st.integers(0, len(text)))
                text = text[:at] + text[other : other + draw(st.integers(1, 60))] + text[at:]
    return text


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_mutations(text: bytes) -> None:
    module = lower_module("a.cu", text)
    macros = collect_macros(text)
    for owner, node in nodes(module):
        start, end = node.span
        assert 0 <= start <= end <= owner.span[1], (owner.name, node)
        if isinstance(node, Api):
            written = text[owner.base + node.name_span[0] : owner.base + node.name_span[1]]
            first = re.match(rb"\w*", text[owner.base + node.name_span[0] :])
            invocation = first is not None and first.group(0).decode("utf-8", "replace") in macros
            spelled = re.sub(rb"\s+", b"", written).decode("utf-8", "replace")
            assert spelled == node.name or invocation, (written, node)
    for owner in module.functions:
        assert 0 <= owner.base <= owner.base + owner.span[1] <= len(text) + 1
    link([module])


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(text: bytes) -> None:
    link([lower_module("a.cu", text)])


def test_names_stand_where_they_are_said_to() -> None:
    module = lower_module("a.cu", SEED.encode())
    text = SEED.encode()
    seen = []
    for owner, node in cuda_nodes(module):
        if isinstance(node, Api):
            start, end = owner.base + node.name_span[0], owner.base + node.name_span[1]
            if text[owner.base + node.span[0] :].startswith(MACROS):
                continue
            assert text[start:end].decode() == node.name
            seen.append(node.name)
        elif isinstance(node, Launch) and node.api == "<<<>>>":
            seen.append("<<<>>>")
    assert seen.count("cudaStreamSynchronize") == 1
    assert seen.count("<<<>>>") == 2


def test_a_name_that_is_missing_is_no_name() -> None:
    text = b"__global__ void k(int* p, int n) { int a = ((n >> 21&) | n) * 2; p[a] = (n &); k<<<1, >>>(p, ); }"
    names = [n for _, n in nodes(lower_module("a.cu", text)) if isinstance(n, Name)]
    assert names and all(n.name for n in names)
