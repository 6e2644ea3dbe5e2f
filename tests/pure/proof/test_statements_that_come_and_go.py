"""Statements that one version has alone: pointers that point elsewhere, values that nobody asks for, checks around calls."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.analysis.proof.model import Declared, May, ProofState
from stitchcuda.analysis.proof.prove import prove

DECLARED = Declared(("keep-resident",), waits=May.FEWER, copies=May.FEWER, allocations=May.ANY)
TEXT = """\
#include <cuda_runtime.h>
#include <vector>
#define CHECK(x) do { if ((x) != cudaSuccess) std::exit(1); } while (0)
__global__ void work(const float* in, float* out, int n) { int i = threadIdx.x; if (i < n) out[i] = in[i]; }
void look(float* p);
int main(int argc, char** argv) {
    int n = argc;
    float *a, *b, *c;
    CHECK(cudaMalloc(&a, n * sizeof(float)));
    CHECK(cudaMalloc(&c, n * sizeof(float)));
    CHECK(cudaMemset(a, 0, n * sizeof(float)));
    //BEFORE
    std::vector<float> h(n);
    CHECK(cudaMemcpy(h.data(), a, n * sizeof(float), cudaMemcpyDeviceToHost));
    const size_t bytes = SIZE;
    CHECK(cudaMalloc(&b, bytes));
    CHECK(cudaMemcpy(b, h.data(), bytes, cudaMemcpyHostToDevice));
    work<<<1, 256>>>(b, c, n);
    //AFTER
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(a));
    CHECK(cudaFree(c));
    CHECK(cudaFree(b));
}
"""


def analysed(text: str) -> Analysis:
    index = Index(strict=True)
    index.put("a.cu", text.encode())
    return index.analyse()


def texts(*, before: str = "", after: str = "", size: str = "n * sizeof(float)") -> tuple[str, str]:
    original = TEXT.replace("//BEFORE", before).replace("//AFTER", after).replace("SIZE", size)
    first, _, rest = original.partition("    std::vector<float> h(n);\n")
    rest = "    work<<<" + rest.partition("    work<<<")[2]
    return original, (first + "    b = a;\n" + rest).replace("    CHECK(cudaFree(a));\n", "")


def test_a_buffer_takes_the_place_of_its_copy() -> None:
    before, after = texts()
    proof = prove(analysed(before), analysed(after), DECLARED)
    assert proof.state is ProofState.PROVED, proof.findings


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"after": "look(b);"}, "the host uses `b` here"),
        ({"after": "if (b == c) return 1;"}, "the host uses `b` here"),
        ({"after": "b[0] = 1;"}, "the host uses `b` here"),
        ({"size": "n++ * sizeof(float)"}, "host code was removed here"),
        ({"size": "measured(n)"}, "host code was removed here"),
    ],
    ids=["called", "compared", "written", "counted", "asked"],
)
def test_unless_somebody_could_tell(changes: dict[str, str], why: str) -> None:
    before, after = texts(**changes)
    proof = prove(analysed(before), analysed(after), DECLARED)
    assert proof.state is not ProofState.PROVED
    assert any(f.what.startswith(why) for f in proof.findings), proof.findings


def test_two_buffers_that_are_one_now_are_compared_by_buffer() -> None:
    """The last two launches order each other through `c` already; that one of them writes what the other reads now is new."""
    before, after = texts(after="work<<<1, 256>>>(c, a, n); work<<<1, 256>>>(b, c, n);")
    renamed = after.replace("    b = a;\n", "").replace("(b, c, n)", "(a, c, n)").replace("cudaFree(b)", "cudaFree(a)")
    for changed in (after, renamed):
        proof = prove(analysed(before), analysed(changed), DECLARED)
        assert proof.state is ProofState.FAILED
        assert "`a` does not hold here what it held in the original" in {f.what for f in proof.findings}


@pytest.mark.parametrize(
    ("check", "proved"),
    [
        ("do { if ((x) != cudaSuccess) std::exit(1); } while (0)", True),
        ("if (cudaSuccess != (x)) std::exit(1)", True),
        ("do { if (x) std::exit(1); } while (0)", True),
        ("do { if ((x) != cudaSuccess) std::exit(1); else calls++; } while (0)", False),
        ("do { if ((x) == cudaSuccess) calls++; } while (0)", False),
        ("do { calls++; if ((x) != cudaSuccess) std::exit(1); } while (0)", False),
        ("do { if ((x) != cudaErrorNotReady) std::exit(1); } while (0)", False),
    ],
)
def test_a_check_goes_with_its_call_when_it_acts_on_errors_alone(check: str, proved: bool) -> None:
    before, after = (
        text.replace("do { if ((x) != cudaSuccess) std::exit(1); } while (0)", check).replace(
            "void look", "static int calls;\nvoid look"
        )
        for text in texts()
    )
    proof = prove(analysed(before), analysed(after), DECLARED)
    assert (proof.state is ProofState.PROVED) is proved, proof.findings


MACROS = """\
#include <cuda_runtime.h>
#include <cstdio>
int m = 64, mk = 3;
float* q;
#define LARGE (m * 4)
#define SIZE LARGE
#define SHOW std::printf("%d", m)
#define ONE(m) ((m) + 1)
#define KEPT q
#define JOINED(x) x##k
#define APART(x) x##_x
__global__ void work(float* out, int n) { int i = threadIdx.x; if (i < n) out[i] = i; }
int main(int argc, char** argv) {
    int n = argc;
    float* a;
    cudaStream_t s;
    cudaStreamCreate(&s);
    cudaMalloc(&a, n * sizeof(float));
    //DECLARED
    //USED
    cudaStreamSynchronize(s);
    cudaFree(a);
}
"""
LAUNCH = "work<<<1, 256, 0, s>>>(a, n);"


@pytest.mark.parametrize(
    ("declared", "used", "proved"),
    [
        ("int m = 3;", LAUNCH, True),
        ("int m = 3;", LAUNCH + " std::printf(\"%d m\", ONE(n));", True),
        ("int m = 3;", LAUNCH + " std::printf(\"%d\", APART(n));", True),
        ("int m = 3;", "work<<<1, SIZE, 0, s>>>(a, n);", False),
        ("int m = 3;", LAUNCH + " std::printf(\"%d\", SIZE);", False),
        ("int m = 3;", LAUNCH + " std::printf(\"%d\", [&] { return SIZE; }());", False),
        ("int m = 3;", LAUNCH + " auto f = [=] { SHOW; }; f();", False),
        ("int m = 3;", LAUNCH + " SHOW;", False),
        ("int m = 3;", LAUNCH + " if (SIZE > 3) return 1;", False),
        ("int mk = 4;", LAUNCH + " std::printf(\"%d\", JOINED(m));", False),
        ("float* q = nullptr;", LAUNCH, True),
        ("float* q = nullptr;", "work<<<1, 256, 0, s>>>(KEPT, n);", False),
        ("float* q = nullptr;", LAUNCH + " std::printf(\"%p\", KEPT);", False),
        ("float* q = nullptr;", LAUNCH + " if (KEPT) return 1;", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("comes", [False, True])
def test_a_macro_may_hold_the_name(declared: str, used: str, proved: bool, comes: bool) -> None:
    with_it = MACROS.replace("//DECLARED", declared).replace("//USED", used)
    without = MACROS.replace("//DECLARED", "").replace("//USED", used)
    before, after = (without, with_it) if comes else (with_it, without)
    proof = prove(analysed(before), analysed(after), DECLARED)
    assert (proof.state is ProofState.PROVED) is proved, proof.findings
