"""hoist-allocation, trap by trap: what is rewritten, and the line that prevents it.

A case is the body of a program, with `//!` at the line that a refusal shows, and what must stand in the changed text;
nothing: no change.
"""

from __future__ import annotations

import pytest
from stitchcuda.agent.transforms import hoist_allocation
from stitchcuda.agent.transforms.transform import Outcome, Situation, edits_overlap
from stitchcuda.agent.units import TextEdit
from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.analysis.proof.model import ProofState
from stitchcuda.analysis.proof.prove import prove

PRELUDE = """\
#include <chrono>
#include <cstdlib>
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { std::exit(1); } } while (0)
__global__ void fill(float* p, int n) { int i = threadIdx.x; if (i < n) p[i] = i; }
__global__ void add(float* p, const float* q, int n) { int i = threadIdx.x; if (i < n) p[i] += q[i]; }
"""
MAIN = """\
int main(int argc, char** argv) {
    float* out; CHECK(cudaMalloc(&out, 1024));
    CHECK(cudaMemset(out, 0, 1024));
    float h[256];
"""
END = """\
    CHECK(cudaMemcpy(h, out, 1024, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(out));
    return h[0] > 0;
}
"""


def loop(body: str, before: str = "", head: str = "for (int i = 0; i < argc; ++i)") -> str:
    return PRELUDE + before + MAIN + f"    {head} {{\n" + body + "    }\n" + END


PLAIN = """\
        float* t;
        CHECK(cudaMalloc(&t, 256 * sizeof(float)));
        fill<<<1, 256>>>(t, 256);
        add<<<1, 256>>>(out, t, 256);
        CHECK(cudaFree(t));
"""
MOVED = """\
    float* t;
    CHECK(cudaMalloc(&t, 256 * sizeof(float)));
    for (int i = 0; i < argc; ++i) {
        fill<<<1, 256>>>(t, 256);
        add<<<1, 256>>>(out, t, 256);
    }
    CHECK(cudaFree(t));
"""
POOLED = [
    "keep_freed_memory() {",
    "keep_freed_memory(); ",
    "CHECK(cudaMallocAsync(&t, ",
    ", 0));",
    "cudaFreeAsync(t, 0)",
]
HELPER = """\
static void step(float* out, int n) {
    float* t = nullptr;
    CHECK(cudaMalloc((void**)&t, n * sizeof(float)));
    fill<<<1, 256>>>(t, n);
    add<<<1, 256>>>(out, t, n);
    CHECK(cudaFree(t));
}
"""

CASES: dict[str, tuple[str, list[str]]] = {
    "out of its loop": (loop(PLAIN), [MOVED]),
    "two pointers of one declaration": (
        loop(PLAIN.replace("float* t;", "float *t, *u = nullptr;").replace("        fill", "        CHECK(cudaMalloc(&u, 1024));\n        fill", 1).replace(
            "        add", "        fill<<<1, 256>>>(u, 256);\n        add<<<1, 256>>>(out, u, 256);\n        add").replace("        CHECK(cudaFree(t", "        CHECK(cudaFree(u));\n        CHECK(cudaFree(t")),
        ["    float *t, *u = nullptr;\n    CHECK(cudaMalloc(&t, 256 * sizeof(float)));\n    CHECK(cudaMalloc(&u, 1024));\n    for ("],
    ),
    "in a function that is called again and again": (
        loop("        step(out, 256);\n", HELPER),
        [
            "    CHECK(cudaMallocAsync((void**)&t, n * sizeof(float), 0));\n    fill<<<1, 256>>>(t, n);\n",
            "    CHECK(cudaFreeAsync(t, 0));\n",
            "\n// Lets the memory pool of the device keep what is freed: allocating it again is then cheap.\n",
            "static void keep_freed_memory() {\n    int device = 0;\n    CHECK(cudaGetDevice(&device));\n",
            "    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));\n}\n\nint main(",
            "{\n    float* out; keep_freed_memory(); CHECK(cudaMalloc(&out",
        ],
    ),
    "behind the selection of the device": (
        loop("        step(out, 256);\n", HELPER).replace("    float* out;", "    CHECK(cudaSetDevice(0));\n    // All of it.\n    float* out;"),
        ["    CHECK(cudaSetDevice(0));\n    // All of it.\n    float* out; keep_freed"],
    ),
    "above the comment of the first use": (
        loop("        step(out, 256);\n", HELPER).replace("    float* out; CHECK", "    // All of it.\n    static float* out;\n    // At once.\n    CHECK"),
        ["static float* out;\n    keep_freed_memory();\n    // At once.\n    CHECK(cudaMalloc(&out"],
    ),
    "above the comment of the function": (
        loop("        step(out, 256);\n", HELPER + "\n/**\n * The example.\n */\n"),
        ["\n// Lets the memory", "}\n\n/**\n * The example.\n */\nint main(", "keep_freed_memory(); "],
    ),
    "the size changes": (loop(PLAIN.replace("256 * sizeof", "(i + 1) * 256 * sizeof")), POOLED),
    "a way out of the round": (loop(PLAIN.replace("        add", "        if (argc > 8) break;\n        add")), POOLED),
    "called once": (PRELUDE + HELPER + MAIN + "    step(out, 256);\n" + END, []),
    "read before it is written": (loop(PLAIN.replace("        fill<<<1, 256>>>(t, 256);\n", "").replace("256);\n        CHECK", "256);//!\n        CHECK")), []),
    "a part is written, all of it is read": (
        loop(PLAIN.replace("fill<<<1, 256>>>(t, 256);", "CHECK(cudaMemset(t, 0, 512));").replace("256);\n        CHECK(cudaFree", "256);//!\n        CHECK(cudaFree")),
        [],
    ),
    "kept in a variable of others": (
        loop(PLAIN.replace("        add", "        kept = t;//!\n        add"), "static float* kept;\n"),
        [],
    ),
    "used on a stream that does not wait": (
        loop(
            "        cudaStream_t s; CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));\n"
            + PLAIN.replace("fill<<<1, 256>>>", "fill<<<1, 256, 0, s>>>").replace("(t, 256);\n        add", "(t, 256);//!\n        add")
            + "        CHECK(cudaStreamDestroy(s));\n"
        ),
        [],
    ),
    "cudaFree as the wait before a clock": (
        loop(PLAIN + "        auto stamp = std::chrono::steady_clock::now();//!\n"),
        [],
    ),
    "cudaFree as the wait before the host reads": (
        loop(PLAIN + "        h[1] = m[0];//!\n", head="float* m; CHECK(cudaMallocManaged(&m, 1024)); for (int i = 0; i < argc; ++i)").replace("add<<<1, 256>>>(out, t, 256)", "add<<<1, 256>>>(m, t, 256)"),
        [],
    ),
    "several devices": (
        loop("        CHECK(cudaSetDevice(i));\n" + PLAIN.replace("float)));", "float)));//!")),
        [],
    ),
    "free memory is counted": (
        loop(PLAIN + "        size_t a, b; CHECK(cudaMemGetInfo(&a, &b));//!\n"),
        [],
    ),
    "built for HIP too": ("#ifdef __HIP_PLATFORM_AMD__//!\n#endif\n" + loop(PLAIN), []),
    "released elsewhere": (
        loop(PLAIN.replace("CHECK(cudaFree(t))", "drop(t)"), "static void drop(float* p) { CHECK(cudaFree(p)); }//!\n"),
        [],
    ),
    "released without having been allocated": (
        loop(PLAIN.replace("float* t;", "float* t = nullptr;").replace("CHECK(cudaMalloc(&t, 256 * sizeof(float)));", "if (argc > 4) { CHECK(cudaMalloc(&t, 1024)); }//!").replace("fill", "if (argc > 4) fill").replace("add", "if (argc > 4) add")),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_allocations(name: str, newline: str) -> None:
    marked, expected = CASES[name]
    wanted = {k for k, line in enumerate(marked.splitlines(), 1) if line.endswith("//!")}
    source = marked.replace("//!", "").replace("\n", newline).encode()
    before = analysed(source)
    outcome = hoist_allocation.find(Situation(before))
    assert not edits_overlap(outcome.proposals)
    changed = applied(source, outcome)
    assert changed.count(b"\n") == changed.count(newline.encode())
    text = changed.decode().replace("\r\n", "\n")
    assert (changed == source) == (not expected), outcome.refusals
    for piece in expected:
        assert piece in text, outcome.refusals
    shown = {r.line for r in outcome.refusals}
    assert (shown & wanted or not wanted) and (not shown or wanted), outcome.refusals
    for proposal in outcome.proposals:
        alone = Outcome((proposal,))
        assert prove(before, analysed(applied(source, alone)), proposal.declared).state is not ProofState.FAILED


def analysed(source: bytes) -> Analysis:
    index = Index(strict=True)
    index.put("main.cu", source)
    return index.analyse()


def applied(source: bytes, outcome: Outcome) -> bytes:
    edits: list[TextEdit] = [e for p in outcome.proposals for e in p.edits]
    for edit in sorted(edits, key=lambda e: (e.start, e.end), reverse=True):
        source = source[: edit.start] + edit.text + source[edit.end :]
    return source
