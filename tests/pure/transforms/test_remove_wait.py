"""remove-wait, trap by trap: what goes with it, and the line that keeps it.

A case is a program. `//-` marks the lines that go, `//!` the line that a refusal shows; the marks are no part of the
program. Where nothing is marked to go, nothing may be proposed.
"""

from __future__ import annotations

import pytest
from stitchcuda.agent.transforms import remove_wait
from stitchcuda.agent.transforms.transform import Outcome, Situation
from stitchcuda.agent.units import TextEdit
from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.analysis.proof.model import ProofState
from stitchcuda.analysis.proof.prove import prove

PRELUDE = """\
#include <chrono>
#include <cstdio>
#include <cstdlib>
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { std::exit(1); } } while (0)
__global__ void fill(float* p, int n) { int i = threadIdx.x; if (i < n) p[i] = i; }
__global__ void twice(float* p, int n) { int i = threadIdx.x; if (i < n) p[i] = 2 * p[i]; }
__global__ void loud(float* p) { printf("%f", p[0]); }
"""
SETUP = """\
    float* d; CHECK(cudaMalloc(&d, 1024));
    float h[256];
"""
END = """\
    CHECK(cudaMemcpy(h, d, 1024, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(d));
    return h[0] > 0;
}
"""


def program(body: str, before: str = "") -> str:
    return PRELUDE + before + "int main(int argc, char** argv) {\n" + SETUP + body + END


CASES = {
    "between launches on one stream": program("""\
    fill<<<1, 256>>>(d, 256);
    CHECK(cudaDeviceSynchronize());//-
    twice<<<1, 256>>>(d, 256);
"""),
    "a cross-stream order": program("""\
    cudaStream_t s; CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    fill<<<1, 256>>>(d, 256);
    CHECK(cudaDeviceSynchronize());
    twice<<<1, 256, 0, s>>>(d, 256);//!
    CHECK(cudaStreamSynchronize(s));
""").replace("cudaMemcpyDeviceToHost));\n", "cudaMemcpyDeviceToHost));//!\n"),
    "what may be the first call, which creates the context": PRELUDE
    + """int main(int argc, char** argv) {
    float* e = nullptr;
    if (argc > 9) CHECK(cudaMalloc(&e, 1024));
    CHECK(cudaDeviceSynchronize());//!
    auto t = std::chrono::steady_clock::now();
"""
    + SETUP
    + "    fill<<<1, 256>>>(d, 256);\n    CHECK(cudaDeviceSynchronize());//-\n    CHECK(cudaFree(e));\n"
    + END,
    "a first call in a loop with rounds": PRELUDE
    + """int main(int argc, char** argv) {
    float* e[4];
    for (int i = 0; i < 4; ++i) CHECK(cudaMalloc(&e[i], 1024));
    CHECK(cudaDeviceSynchronize());//-
"""
    + SETUP
    + "    fill<<<1, 256>>>(d, 256);\n"
    + END,
    "a first call in a loop that may have no round": PRELUDE
    + """int main(int argc, char** argv) {
    float* e[4];
    for (int i = 0; i < argc - 1; ++i) CHECK(cudaMalloc(&e[i], 1024));
    CHECK(cudaDeviceSynchronize());//!
"""
    + SETUP
    + "    fill<<<1, 256>>>(d, 256);\n"
    + END,
    "a first call on either way": PRELUDE
    + """int main(int argc, char** argv) {
    float* e[4];
    if (argc > 9) { CHECK(cudaMalloc(&e[0], 1024)); }
    else if (argc > 8) { CHECK(cudaMalloc(&e[0], 512)); }
    else { CHECK(cudaMalloc(&e[1], 64)); }
    CHECK(cudaDeviceSynchronize());//-
"""
    + SETUP
    + "    fill<<<1, 256>>>(d, 256);\n"
    + END,
    "a first call on two of three ways": PRELUDE
    + """int main(int argc, char** argv) {
    float* e[4];
    if (argc > 9) { CHECK(cudaMalloc(&e[0], 1024)); }
    else if (argc > 8) { CHECK(cudaMalloc(&e[0], 512)); }
    CHECK(cudaDeviceSynchronize());//!
"""
    + SETUP
    + "    fill<<<1, 256>>>(d, 256);\n"
    + END,
    "free and what looks like a clock start no work": program(
        """\
    fill<<<1, 256>>>(d, 256);
    say("%d", 1);
    free(other());
    CHECK(cudaDeviceSynchronize());//-
""",
        "#include <cstdarg>\nvoid* other() { return nullptr; }\n"
        "void say(const char* f, ...) { va_list a; va_start(a, f); vprintf(f, a); va_end(a); }\n",
    ),
    "a clock behind it": program("""\
    fill<<<1, 256>>>(d, 256);
    CHECK(cudaDeviceSynchronize());
    auto t = std::chrono::steady_clock::now();//!
"""),
    "times that were taken before, in another unit": program("""\
    auto t0 = std::chrono::steady_clock::now();
    for (int i = 0; i < 256; ++i) h[i] = i;
    auto t1 = std::chrono::steady_clock::now();
    fill<<<1, 256>>>(d, 256);
    CHECK(cudaDeviceSynchronize());//-
    std::chrono::duration<double, std::milli> took = t1 - t0;
    printf("%f %f", took.count(), std::chrono::duration<double>(t1 - t0).count());
"""),
    "a clock behind a copy that waits": program("""\
    fill<<<1, 256>>>(d, 256);
    CHECK(cudaDeviceSynchronize());//-
    CHECK(cudaMemcpy(h, d, 4, cudaMemcpyDeviceToHost));
    auto t = std::chrono::steady_clock::now();
"""),
    "a clock in a helper of the program": program(
        """\
    fill<<<1, 256>>>(d, 256);
    CHECK(cudaDeviceSynchronize());
    double t = stamp();//!
""",
        before="static double stamp() { return std::chrono::steady_clock::now().time_since_epoch().count(); }//!\n",
    ),
    "a pair of events": program("""\
    cudaEvent_t a, b; float ms; CHECK(cudaEventCreate(&a)); CHECK(cudaEventCreate(&b));
    CHECK(cudaEventRecord(a));
    fill<<<1, 256>>>(d, 256);
    CHECK(cudaEventRecord(b));
    CHECK(cudaEventSynchronize(b));
    CHECK(cudaEventElapsedTime(&ms, a, b));//!
"""),
    "a kernel that prints": program("""\
    loud<<<1, 1>>>(d);//!
    CHECK(cudaDeviceSynchronize());
    twice<<<1, 256>>>(d, 256);
"""),
    "a device pointer handed to code elsewhere": program(
        """\
    fill<<<1, 256>>>(d, 256);
    CHECK(cudaDeviceSynchronize());
    MPI_Send(d, 256, 0, 1);//!
""",
        before="extern int MPI_Send(void*, int, int, int);\n",
    ),
    "work that code elsewhere may have started": program(
        """\
    vendor_gemm(h);//!
    CHECK(cudaDeviceSynchronize());
    fill<<<1, 256>>>(d, 256);
""",
        before="extern void vendor_gemm(float*);\n",
    ),
    "a library algorithm that may not wait": program("""\
    thrust::transform(thrust::cuda::par_nosync, d, d + 256, d, thrust::negate<float>());//!
    CHECK(cudaDeviceSynchronize());
"""),
    "a staging buffer that is filled again": program("""\
    float* staging; CHECK(cudaMallocHost(&staging, 1024));
    CHECK(cudaMemcpyAsync(d, staging, 1024, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    staging[0] = 1;//!
    CHECK(cudaMemcpyAsync(d, staging, 1024, cudaMemcpyHostToDevice));
"""),
    "mapped memory that the host reads": program("""\
    float* m; CHECK(cudaHostAlloc(&m, 1024, cudaHostAllocMapped));
    fill<<<1, 256>>>(m, 256);
    CHECK(cudaDeviceSynchronize());
    if (m[0] > 1) { twice<<<1, 256>>>(d, 256); }//!
"""),
    "a loop whose test reads what the device wrote": program("""\
    float* m; CHECK(cudaMallocManaged(&m, 1024));
    do {
        twice<<<1, 256>>>(m, 256);
        CHECK(cudaDeviceSynchronize());
    } while (m[0] < 100);//!
"""),
    "a check in a loop, and a later one": program("""\
    for (int i = 0; i < argc; ++i) {
        twice<<<1, 256>>>(d, 256);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());//-
    }
"""),
    "a copy in a loop that may have no round": program("""\
    fill<<<1, 256>>>(d, 256);
    CHECK(cudaDeviceSynchronize());
    for (int i = 1; i < argc; ++i) { CHECK(cudaMemcpy(h, d, 1024, cudaMemcpyDeviceToHost)); }
    auto t = std::chrono::steady_clock::now();//!
"""),
    "a copy in a loop that has rounds": program("""\
    fill<<<1, 256>>>(d, 256);
    CHECK(cudaDeviceSynchronize());//-
    for (int i = 0; i < 8; ++i) { CHECK(cudaMemcpy(h, d, 1024, cudaMemcpyDeviceToHost)); }
    auto t = std::chrono::steady_clock::now();
"""),
    "a check that no later call repeats": PRELUDE
    + """\
int main() {
    float* d; cudaMalloc(&d, 1024); float h[256];
    fill<<<1, 256>>>(d, 256);
    CHECK(cudaDeviceSynchronize());//!
    cudaMemcpy(h, d, 1024, cudaMemcpyDeviceToHost);
    return h[0] > 0;
}
""",
    "a return between wait and copy": program("""\
    fill<<<1, 256>>>(d, 256);
    CHECK(cudaDeviceSynchronize());
    if (argc > 3) { return 2; }
""")
    .replace("int main", "int main//!")
    .replace("int main//!(int argc, char** argv) {", "int main(int argc, char** argv) {//!"),
    "an exception between them": program("""\
    fill<<<1, 256>>>(d, 256);
    CHECK(cudaDeviceSynchronize());
    if (argc > 3) { throw argc; }//!
"""),
    "a helper that is also called where it is needed": program(
        """\
    float* m; CHECK(cudaMallocManaged(&m, 1024));
    run(d);
    run(m);
    h[1] = m[0];//!
""",
        before="""\
static void run(float* p) {
    twice<<<1, 256>>>(p, 256);
    CHECK(cudaDeviceSynchronize());
}
""",
    ),
    "a helper whose callers all copy": program(
        """\
    run(d);
    run(d);
""",
        before="""\
static void run(float* p) {
    twice<<<1, 256>>>(p, 256);
    CHECK(cudaDeviceSynchronize());//-
}
""",
    ),
    "a macro that hides it": program(
        """\
    fill<<<1, 256>>>(d, 256);
    CHECK_KERNEL();//!
""",
        before="#define CHECK_KERNEL() do { CHECK(cudaGetLastError()); CHECK(cudaDeviceSynchronize()); } while (0)\n",
    ),
    "its status goes into a variable": program("""\
    fill<<<1, 256>>>(d, 256);
    cudaError_t status = cudaDeviceSynchronize();//!
    if (status != cudaSuccess) { return 1; }
"""),
    "the only statement of an if": program("""\
    fill<<<1, 256>>>(d, 256);
    if (argc > 3) CHECK(cudaDeviceSynchronize());//!
"""),
    "all that a helper does": program(
        """\
    fill<<<1, 256>>>(d, 256);
    finish();
""",
        before="static void finish() { CHECK(cudaDeviceSynchronize()); }//!\n",
    ),
    "one of two that cover the same read: the later stays": program("""\
    float* m; CHECK(cudaMallocManaged(&m, 1024));
    fill<<<1, 256>>>(m, 256);
    CHECK(cudaDeviceSynchronize());//-
    CHECK(cudaDeviceSynchronize());
    h[1] = m[0];//!
"""),
    "managed memory behind a function that may know it by another name": program(
        """\
    float* m; CHECK(cudaMallocManaged(&m, 1024));
    fill<<<1, 256>>>(m, 256);//!
    CHECK(cudaDeviceSynchronize());
    note(argc);
    CHECK(cudaDeviceSynchronize());//-
""",
        before="static int noted;\nstatic void note(int n) { noted = n; }\n",
    ),
    "memory released by cudaFreeHost": program("""\
    float* m; CHECK(cudaMallocHost(&m, 1024));
    CHECK(cudaMemcpyAsync(m, d, 1024, cudaMemcpyDeviceToHost));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFreeHost(m));//!
"""),
    "the end of the program": PRELUDE
    + """\
int main() {//!
    float* d; cudaMalloc(&d, 1024);
    fill<<<1, 256>>>(d, 256);
    cudaDeviceSynchronize();
    return 0;
}
""",
    "a program that is not whole": PRELUDE
    + """\
void step(float* d, float* h) {
    fill<<<1, 256>>>(d, 256);
    cudaDeviceSynchronize();//!
    cudaMemcpy(h, d, 1024, cudaMemcpyDeviceToHost);
}
""",
    "a comment of its own goes with it": program("""\
    fill<<<1, 256>>>(d, 256);

    // Wait for the kernel to finish.//-
    CHECK(cudaDeviceSynchronize());//-
//-
    twice<<<1, 256>>>(d, 256);
"""),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_waits(name: str, newline: str) -> None:
    marked = CASES[name].splitlines()
    plain = [line.replace("//-", "").replace("//!", "") for line in marked]
    expected = [text for text, line in zip(plain, marked, strict=True) if not line.endswith("//-")]
    source = (newline.join(plain) + newline).encode()
    before = analysed(source)
    outcome = remove_wait.find(Situation(before))
    changed = applied(source, outcome)
    assert changed.decode().split(newline) == [*expected, ""], outcome.refusals
    shown = {r.line for r in outcome.refusals}
    wanted = {k for k, line in enumerate(marked, 1) if line.endswith("//!")}
    assert shown <= wanted and bool(shown) == bool(wanted), outcome.refusals
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
