"""Kernels that run what a template argument supplies, or use an address that came as a number: they may do anything."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.proof.model import ProofState

from tests.pure.proof.twins import END, HEAD, MAIN, proof_of

EACH = "template <class F> __global__ void each(F f, int n) { int i = threadIdx.x; if (i < n) f(i); }\n"
STREAMS = "    cudaStream_t s, r; CHECK(cudaStreamCreate(&s)); CHECK(cudaStreamCreate(&r));\n"
RACE = """\
    CHECK(cudaStreamSynchronize(s));  //-
    twice<<<64,256,0,r>>>(b,a,n);
    CHECK(cudaDeviceSynchronize());
"""
SAID = """\
    CHECK(cudaDeviceSynchronize());  //-
    std::printf("between");
    CHECK(cudaDeviceSynchronize());
"""
POLICY = """\
struct Loud { static __device__ void say(int i) { printf("%d", i); } };
template <class P> __global__ void talk(float* x) { x[threadIdx.x] = 1; P::say(threadIdx.x); }
__global__ void chat(float* x) { x[threadIdx.x] = 1; Loud::say(threadIdx.x); }
"""
CASES = {
    "a function object that holds a pointer": (
        "struct Store { float* p; __device__ void operator()(int i) const { p[i] = i; } };\n" + EACH,
        STREAMS + "    each<<<1,256,0,s>>>(Store{b},n);\n" + RACE,
    ),
    "a lambda that captures a pointer": (
        EACH,
        STREAMS + "    each<<<1,256,0,s>>>([=] __device__ (int i) { b[i] = i; },n);\n" + RACE,
    ),
    "an address as a number": (
        "__global__ void put(unsigned long long p, int n) { if (threadIdx.x < n) ((float*)p)[threadIdx.x] = 1; }\n",
        STREAMS + "    put<<<1,256,0,s>>>((unsigned long long)b,n);\n" + RACE,
    ),
    "a policy that prints": (POLICY, "    talk<Loud><<<1,256>>>(a);\n" + SAID),
    "a static method that prints": (POLICY, "    chat<<<1,256>>>(a);\n" + SAID),
    "a function of another file": (
        "__device__ void note(int i);\n__global__ void tell(float* x) { x[threadIdx.x] = 1; note(threadIdx.x); }\n",
        "    tell<<<1,256>>>(a);\n" + SAID,
    ),
}


@pytest.mark.parametrize(("before", "body"), CASES.values(), ids=CASES.keys())
def test_what_is_supplied_may_do_anything(before: str, body: str) -> None:
    assert proof_of(HEAD + before + MAIN + body + END).state is not ProofState.PROVED


def test_a_number_type_supplies_nothing() -> None:
    kernel = "template <typename T> __global__ void put(T* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = T(n); }\n"
    body = "    put<<<1,256>>>(a,n);\n    CHECK(cudaDeviceSynchronize());  //-\n    CHECK(cudaDeviceSynchronize());\n"
    assert proof_of(HEAD + kernel + MAIN + body + END).state is ProofState.PROVED
