"""Pairs of programs written as one text.

A line that ends in `//-` stands in the original only, one that ends in `//+` in the changed version only. `//!` at the end
of a line (before such a mark) is where the proof must find what is wrong.
"""

from __future__ import annotations

from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.analysis.proof.model import Declared, May, Proof, ProofFinding
from stitchcuda.analysis.proof.prove import prove

HEAD = """\
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>
#include <vector>
#define CHECK(call) \\
    do { cudaError_t e = (call); if (e != cudaSuccess) { std::printf("%s", cudaGetErrorString(e)); std::exit(1); } } while (0)
__global__ void fill(float* a, int n) { int i = threadIdx.x; if (i < n) a[i] = i; }
__global__ void twice(const float* a, float* b, int n) { int i = threadIdx.x; if (i < n) b[i] = 2 * a[i]; }
__global__ void loud(const float* a, int n) { int i = threadIdx.x; if (i < n) printf("%f", a[i]); }
void ship(float* v, int n);
void start_async(float* v);
"""
MAIN = """\
int main() {
    const int n = 1 << 20;
    float *a, *b;
    CHECK(cudaMalloc(&a, n * 4));
    CHECK(cudaMalloc(&b, n * 4));
    std::vector<float> h(n);
"""
END = """\
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    return 0;
}
"""
ANYTHING_DECLARED = Declared(("test",), waits=May.ANY, copies=May.FEWER, allocations=May.ANY)


def analysed(text: str) -> Analysis:
    index = Index(strict=True)
    index.put("a.cu", text.encode())
    return index.analyse()


def versions(text: str) -> tuple[str, str]:
    """The original and the changed version; marks stay, as comments."""
    lines = text.splitlines(keepends=True)
    original = "".join(line for line in lines if not line.rstrip().endswith("//+"))
    changed = "".join(line for line in lines if not line.rstrip().endswith("//-"))
    return original, changed


def in_main(body: str) -> str:
    return HEAD + MAIN + body + END


def proof_of(text: str, declared: Declared = ANYTHING_DECLARED) -> Proof:
    original, changed = versions(text)
    return prove(analysed(original), analysed(changed), declared)


def line_text(text: str, finding: ProofFinding) -> str:
    """The line that a finding points at."""
    original, changed = versions(text)
    return (original if finding.original else changed).splitlines()[finding.line - 1]
