"""Edits that look like moves, renames and swaps of what the proof models, and change what the program does.

Each was once said to be proved. A line that ends in `//!` is where the reason is found.
"""

from __future__ import annotations

import pytest
from stitchcuda.analysis.proof.model import Declared, May, ProofState
from stitchcuda.analysis.proof.prove import prove

from tests.pure.proof.test_programs import analysed
from tests.pure.proof.twins import END, HEAD, MAIN, in_main, line_text, proof_of

EVERYTHING = Declared(("test",), May.ANY, May.ANY, May.ANY, May.ANY)

BEFORE_MAIN = {
    "calls of host code in another order": (
        'void line(int k) { std::printf("step %d\\n", k); }\n',
        """\
    line(1);  //! //-
    line(2);
    line(1);  //+
    CHECK(cudaDeviceSynchronize());
""",
    ),
    "host code given another host pointer": (
        'void report(const char* title) { std::printf("%s\\n", title); }\n',
        """\
    const char* first = "heat"; const char* second = "cold";
    report(first);  //-
    report(second);  //! //+
    CHECK(cudaDeviceSynchronize());
""",
    ),
    "host code returns another host pointer": (
        """\
float* best(float* x, float* y) {
    return x;  //-
    return y;  //! //+
}
""",
        """\
    float* x = (float*)std::malloc(n*4); float* y = (float*)std::malloc(n*4);
    std::printf("%f", best(x, y)[0]);
    CHECK(cudaDeviceSynchronize());
""",
    ),
    "a launch moved over the number that it is given": (
        "__global__ void scale(float* a, float f, int n) { int i = threadIdx.x; if (i < n) a[i] *= f; }\n",
        """\
    float f = 2;
    scale<<<64,256>>>(a,f,n);  //! //-
    f = 3;
    scale<<<64,256>>>(a,f,n);  //+
    CHECK(cudaDeviceSynchronize());
""",
    ),
    "an upload moved over host code that is not followed": (
        "",
        """\
    CHECK(cudaMemcpy(a,h.data(),n*4,cudaMemcpyHostToDevice));  //! //+
    h.assign(n, 2.5f);
    CHECK(cudaMemcpy(a,h.data(),n*4,cudaMemcpyHostToDevice));  //-
    CHECK(cudaDeviceSynchronize());
""",
    ),
    "a download moved over a copy on the host": (
        "",
        """\
    CHECK(cudaMemcpy(h.data(),a,n*4,cudaMemcpyDeviceToHost));  //-
    std::vector<float> saved = h;
    CHECK(cudaMemcpy(h.data(),a,n*4,cudaMemcpyDeviceToHost));  //! //+
    std::printf("%f", saved[0]);
""",
    ),
    "parameters that trade names": (
        """\
__global__ void scale(float* a, float f, int n) { int i = threadIdx.x; if (i < n) a[i] *= f; }
void step(float* a, float f, float g, int n) {  //-
void step(float* a, float g, float f, int n) {  //! //+
    scale<<<64,256>>>(a,f,n);
    scale<<<64,256>>>(a,g+1,n);
}
""",
        """\
    step(a, 2, 3, n);
    CHECK(cudaDeviceSynchronize());
""",
    ),
    "a kernel that asks whether a pointer is null": (
        "__global__ void add(float* a, const float* bias, int n) { int i = threadIdx.x; if (i < n) a[i] += bias ? 1 : 2; }\n",
        """\
    float* none = nullptr;
    add<<<64,256>>>(a,none,n);  //-
    add<<<64,256>>>(a,b,n);  //! //+
    CHECK(cudaDeviceSynchronize());
""",
    ),
    "a kernel that keeps a pointer": (
        """\
__device__ float* table[4];
__global__ void keep(int k, float* p) { table[k] = p; }
__global__ void use(float* o) { o[threadIdx.x] = table[0][threadIdx.x]; }
""",
        """\
    keep<<<1,1>>>(0,a);  //-
    keep<<<1,1>>>(0,b);  //! //+
    use<<<1,256>>>(b);
    CHECK(cudaDeviceSynchronize());
""",
    ),
}


@pytest.mark.parametrize(("before", "body"), BEFORE_MAIN.values(), ids=BEFORE_MAIN.keys())
def test_what_looks_modelled_is_looked_at(before: str, body: str) -> None:
    text = HEAD + before + MAIN + body + END
    proof = proof_of(text, EVERYTHING)
    assert proof.state is not ProofState.PROVED
    wanted = [line for line in text.splitlines() if "//!" in line]
    assert line_text(text, proof.findings[0]) in wanted, proof.findings


@pytest.mark.parametrize(
    ("original", "changed"),
    [
        ('#define ROUNDS 4\n#include "cfg.h"\n', '#include "cfg.h"\n#define ROUNDS 4\n'),
        ('#ifdef FAST\n#include "cfg.h"\n#endif\n', '#ifdef FAST\n#endif\n#include "cfg.h"\n'),
    ],
    ids=["over a macro", "out of a condition"],
)
def test_an_include_that_moves_means_something_else(original: str, changed: str) -> None:
    rest = in_main("    for (int i = 0; i < ROUNDS; ++i) fill<<<1,1>>>(a,n);\n    CHECK(cudaDeviceSynchronize());\n")
    header = {"cfg.h": b"#ifndef ROUNDS\n#define ROUNDS 99\n#endif\n"}
    one, other = ({**header, "a.cu": (head + rest).encode()} for head in (original, changed))
    proof = prove(analysed(one), analysed(other), EVERYTHING)
    assert proof.state is ProofState.UNTESTED
    assert "moved" in proof.reason or "outside functions" in proof.reason
