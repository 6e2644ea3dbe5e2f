"""Versions that compose launches otherwise and lose something: none of them may pass.

Each program is wrong, or may be. `//!` marks a line where the reason is found.
"""

from __future__ import annotations

import pytest
from stitchcuda.analysis.proof.model import ProofState

from tests.pure.proof.recomposing import CLOSING, FUSED, KERNELS, NEW, OLD, added, program, proof_of
from tests.pure.proof.twins import line_text

COPY_BACK = "    CHECK(cudaMemcpyAsync(r.data(), y, n * 4, cudaMemcpyDeviceToHost, s));\n"
ON_S = [text.replace("THREADS>>>", "THREADS, 0, s>>>") for text in (OLD, NEW)]
OLD_LINES = OLD.splitlines(keepends=True)
KEPT = OLD.replace(" //-", "")


def marked(line: str) -> str:
    return line.replace(" //+", " //! //+")


def kernel(text: str) -> str:
    """In place of the fused kernel."""
    return KERNELS + added(text)


WRONG = {
    "the result is not written": (
        program(OLD + marked(NEW).replace("b, y", "b, t")),
        "leaves `y` unwritten",
    ),
    "the result goes elsewhere": (program(OLD + marked(NEW).replace("b, y", "b, z")), "which the launches"),
    "what was between is read later": (
        program(OLD + marked(NEW) + "    copy<<<n / 256, 256>>>(t, z, n);\n"),
        "leaves `t` unwritten",
    ),
    "what was between is copied to the host": (
        program(OLD + marked(NEW) + "    CHECK(cudaMemcpy(h.data(), t, n * 4, cudaMemcpyDeviceToHost));\n"),
        "leaves `t` unwritten",
    ),
    "what was between is read in the next round": (
        program(
            "    CHECK(cudaMemset(t, 0, n * 4));\n    for (int k = 0; k < STEPS; ++k) {\n"
            "    copy<<<n / 256, 256>>>(t, z, n);\n" + OLD + marked(NEW) + "    }\n"
        ),
        "leaves `t` unwritten",
    ),
    "one of two results is lost": (
        program(
            "    pair<<<n / 256, 256>>>(x, y, z, n); //-\n    bias_gelu<<<n / 256, 256>>>(x, x, y, n); //! //+\n"
            "    CHECK(cudaMemcpy(h.data(), z, n * 4, cudaMemcpyDeviceToHost));\n"
        ),
        "leaves `z` unwritten",
    ),
    "written in some cases only": (
        program(
            OLD + marked(NEW).replace("y, n)", "y, z, n)"),
            kernels=kernel(
                FUSED.replace("float* y,", "float* y, const float* z,").replace("y[i] =", "if (x[0] > 1) y[i] =")
            ),
        ),
        "may leave `y`",
    ),
    "on another stream": (program(ON_S[0] + marked(ON_S[1]).replace(", s>", ", s2>") + COPY_BACK), "stream `s2`"),
    "on the default stream": (program(ON_S[0] + marked(NEW) + COPY_BACK), "stream `default`"),
    "from two streams onto one": (
        program(
            OLD_LINES[0].replace("THREADS>>>", "THREADS, 0, s>>>")
            + "    CHECK(cudaStreamSynchronize(s)); //-\n"
            + OLD_LINES[1].replace("THREADS>>>", "THREADS, 0, s2>>>")
            + marked(ON_S[1]).replace(", s>", ", s2>")
        ),
        "",
    ),
    "behind the copy of the result": (program(ON_S[0] + COPY_BACK + marked(ON_S[1])), ""),
    "in front of the upload": (
        program(
            NEW
            + "    CHECK(cudaMemcpy(x, h.data(), n * 4, cudaMemcpyHostToDevice));\n"
            + OLD
            + "    CHECK(cudaDeviceSynchronize());\n"
        ),
        "",
    ),
    "it writes what it only read": (
        program(
            OLD + NEW + "    copy<<<n / 256, 256>>>(x, z, n);\n",
            kernels=kernel(FUSED.replace("const float* x", "float* x").replace("y[i] =", "x[i] = t; y[i] =")),
        ),
        "writes `x`",
    ),
    "it reads memory of others": (
        program(
            OLD + marked(NEW).replace("y, n)", "y, z, n)"),
            kernels=kernel(FUSED.replace("float* y,", "float* y, const float* z,").replace("x[i] +", "z[i] +")),
        ),
        "uses `z`",
    ),
    "it reads what an earlier launch left": (
        program(
            OLD + marked(NEW).replace("b, y", "t, y"),
        ),
        "before it is written",
    ),
    "it adds to what was written plainly": (
        program(OLD + marked(NEW), kernels=kernel(FUSED.replace("y[i] = 0.5f", "atomicAdd(&y[i], 0.5f").replace("));", ")));"))),
        "before it is written",
    ),
    "gone in one branch": (
        program("    if (h[0] > 1) {\n" + OLD.replace(" //-", " //! //-") + "    }\n"),
        "",
    ),
    "fused in one branch, forgotten in the other": (
        program("    if (h[0] > 1) {\n" + OLD + NEW + "    } else {\n" + OLD.replace(" //-", " //! //-") + "    }\n"),
        "",
    ),
    "moved out of the branch": (program("    if (h[0] > 1) {\n" + OLD + "    }\n" + NEW), ""),
    "moved out of the loop": (
        program("    for (int k = 0; k < STEPS; ++k) {\n" + OLD + "    copy<<<n / 256, 256>>>(y, x, n);\n    }\n" + NEW),
        "",
    ),
    "a loop with fewer rounds": (
        program(
            "    for (int k = 0; k < STEPS; ++k) { //-\n    for (int k = 0; k < STEPS - 1; ++k) { //! //+\n"
            + OLD + NEW + "    copy<<<n / 256, 256>>>(y, x, n);\n    }\n"
        ),
        "control flow",
    ),
    "fewer rounds by a constant": (
        program("    for (int k = 0; k < STEPS; ++k) { //!\n" + KEPT + "    copy<<<n / 256, 256>>>(y, x, n);\n    }\n").replace(
            "constexpr int STEPS = 4;", "constexpr int STEPS = 4; //-\nconstexpr int STEPS = 3; //+"
        ),
        "`STEPS`",
    ),
    "a smaller copy by a constant": (
        program(KEPT + "    CHECK(cudaMemcpy(h.data(), y, THREADS * 4, cudaMemcpyDeviceToHost)); //!\n").replace(
            "constexpr int THREADS = 256;", "constexpr int THREADS = 256; //-\nconstexpr int THREADS = 128; //+"
        ),
        "`THREADS`",
    ),
    "another branch by a macro": (
        program("    if (LIMIT > 3) { //!\n" + KEPT + "    }\n", "#define LIMIT 4 //-\n#define LIMIT 2 //+\n"),
        "`LIMIT`",
    ),
    "a macro that a macro uses": (
        program(
            KEPT + "    for (int k = 0; k < TWICE; ++k) CHECK(cudaMemset(z, k, 4)); //!\n",
            "#define HALF 4 //-\n#define HALF 2 //+\n#define TWICE (HALF * 2)\n",
        ),
        "`TWICE`",
    ),
    "an array of another size": (
        program(KEPT, "float kept[STEPS]; //!\n").replace(
            "constexpr int STEPS = 4;", "constexpr int STEPS = 4; //-\nconstexpr int STEPS = 3; //+"
        ),
        "`STEPS`",
    ),
    "over an event that others wait for": (
        program(
            ON_S[0].replace("    gelu", "    CHECK(cudaEventRecord(e, s));\n    CHECK(cudaStreamWaitEvent(s2, e, 0));\n"
                            "    copy<<<n / 256, 256, 0, s2>>>(t, z, n);\n    gelu")
            + ON_S[1]
        ),
        "",
    ),
    "behind an event that others wait for": (
        program(
            ON_S[0] + "    CHECK(cudaEventRecord(e, s));\n" + ON_S[1]
            + "    CHECK(cudaStreamWaitEvent(s2, e, 0));\n    copy<<<n / 256, 256, 0, s2>>>(y, z, n);\n"
        ),
        "",
    ),
    "beside a copy that it races with": (
        program(
            "    bias<<<n / 256, 256, 0, s>>>(x, b, t, n); //-\n    CHECK(cudaStreamSynchronize(s)); //-\n"
            "    gelu<<<n / 256, 256, 0, s>>>(t, y, n); //-\n    bias_gelu<<<n / 256, 256, 0, s>>>(x, b, y, n); //+\n"
            "    CHECK(cudaMemcpyAsync(x, z, n * 4, cudaMemcpyDeviceToDevice, s2));\n"
        ),
        "",
    ),
    "two streams share scratch memory": (
        program(
            "    bias_gelu<<<n / 256, 256, 0, s>>>(x, b, y, n); //-\n    bias<<<n / 256, 256, 0, s>>>(x, b, t, n); //! //+\n"
            "    gelu<<<n / 256, 256, 0, s>>>(t, y, n); //+\n    CHECK(cudaMemsetAsync(r.data(), 0, 0, s));\n"
            "    bias_gelu<<<n / 256, 256, 0, s2>>>(x, b, z, n); //-\n    bias<<<n / 256, 256, 0, s2>>>(x, b, t, n); //! //+\n"
            "    gelu<<<n / 256, 256, 0, s2>>>(t, z, n); //! //+\n",
            kernels=KERNELS + FUSED,
        ),
        "at the same time",
    ),
    "state that lasts from launch to launch": (
        program(
            OLD + NEW,
            added("__device__ int done;"),
            kernels=kernel("__device__ int calls;\n" + FUSED.replace("if (i < n)", "if (calls++ == 0 && i < n)")),
        ),
        "code outside functions",
    ),
    "a static variable in a kernel": (
        program(OLD + NEW, kernels=kernel(FUSED.replace("    if (i", "    static __device__ int calls;\n    if (calls++ == 0 && i"))),
        "`static`",
    ),
    "assembly": (
        program(OLD + NEW, kernels=kernel(FUSED.replace("    if (i", '    asm volatile("exit;");\n    if (i'))),
        "`asm`",
    ),
    "a launch from the device": (
        program(OLD + NEW, kernels=kernel(FUSED.replace("    if (i", "    if (i == 0) copy<<<1, 1>>>(x, y, 1);\n    if (i"))),
        "",
    ),
    "code that is not here": (
        program(
            OLD + NEW,
            kernels=kernel("__device__ void mystery(float* y);\n" + FUSED.replace("    if (i", "    mystery(y);\n    if (i")),
        ),
        "",
    ),
    "a kernel that prints": (
        program(OLD + marked(NEW), kernels=kernel(FUSED.replace("    if (i", '    if (i == 0) printf("hello");\n    if (i'))),
        "print",
    ),
    "a kernel that waits for memory": (
        program(
            OLD + marked(NEW),
            kernels=kernel(FUSED.replace("    if (i", "    while (((volatile const float*)x)[0] != 1.0f) { }\n    if (i")),
        ),
        "",
    ),
    "pointers kept in memory": (
        program(
            OLD + NEW.replace("b, y", "b, (float**)z, y"),
            kernels=kernel(FUSED.replace("float* y", "float** w, float* y").replace("y[i] =", "w[0][i] = y[i] =")),
        ),
        "",
    ),
    "an input through a cast": (
        program(
            OLD + NEW + "    copy<<<n / 256, 256>>>(x, z, n);\n",
            kernels=kernel(FUSED.replace("y[i] =", "((float*)x)[i] = y[i] =")),
        ),
        "`x`",
    ),
    "the kernel that stays writes less": (
        program(
            "    pair<<<n / 256, 256>>>(x, y, z, n); //!\n    CHECK(cudaMemcpy(h.data(), z, n * 4, cudaMemcpyDeviceToHost));\n",
            kernels=KERNELS.replace("u[i] = x[i] + 1; v[i] = x[i] - 1;", "u[i] = x[i] + 1; /* nothing */"),
        )
        .replace("    if (i < n) { u[i] = x[i] + 1; /* nothing */ }\n", "    if (i < n) { u[i] = x[i] + 1; v[i] = x[i] - 1; } //-\n    if (i < n) { u[i] = x[i] + 1; } //+\n"),
        "leaves `z` unwritten",
    ),
    "the kernel that stays writes its input": (
        program(
            "    copy<<<n / 256, 256>>>(x, y, n); //!\n    copy<<<n / 256, 256>>>(x, z, n); //!\n",
            kernels=KERNELS,
        ).replace(
            "__global__ void copy(const float* a, float* b, int n) {\n",
            "__global__ void copy(const float* a, float* b, int n) { //-\n__global__ void copy(float* a, const float* b, int n) { //+\n",
        ).replace("    if (i < n) b[i] = a[i];", "    if (i < n) b[i] = a[i]; //-\n    if (i < n) a[i] = b[i]; //+"),
        "writes `x`",
    ),
    "other memory for the same kernel": (
        program("    bias<<<n / 256, 256>>>(x, b, t, n); //-\n    bias<<<n / 256, 256>>>(x, z, t, n); //! //+\n    gelu<<<n / 256, 256>>>(t, y, n);\n"),
        "",
    ),
    "fused over a fill": (
        program(
            OLD_LINES[0] + "    CHECK(cudaMemset(t, 0, 4));\n" + OLD_LINES[1] + NEW
        ),
        "",
    ),
    "fused over a copy": (
        program(
            OLD_LINES[0] + "    CHECK(cudaMemcpy(t, z, 4, cudaMemcpyDeviceToDevice));\n" + OLD_LINES[1] + NEW
        ),
        "",
    ),
    "fused over something that the host does": (
        program(OLD_LINES[0] + '    std::printf("between");\n' + OLD_LINES[1] + NEW),
        "",
    ),
    "a fill goes as well": (
        program("    CHECK(cudaMemset(z, 0, n * 4)); //! //-\n" + OLD + NEW + "    copy<<<n / 256, 256>>>(z, x, n);\n"),
        "",
    ),
    "nobody asks whether it was accepted": (
        program(OLD.replace("n); //-", "n); CHECK(cudaGetLastError()); //-") + marked(NEW)),
        "no longer asked",
    ),
    "a function with a side effect of the host": (
        program(
            OLD + "    forward(x, b, y, n); //+\n",
            added('void forward(const float* x, const float* b, float* y, int n) {\n    std::printf("fast");\n    bias_gelu<<<n / 256, 256>>>(x, b, y, n);\n}'),
        ),
        "`forward` was added",
    ),
    "a function that may return early": (
        program(
            OLD + "    forward(x, b, y, n); //+\n",
            added("void forward(const float* x, const float* b, float* y, int n) {\n    if (n > 4) return;\n    bias_gelu<<<n / 256, 256>>>(x, b, y, n);\n}"),
        ),
        "`forward` was added",
    ),
    "a function that captures another call": (
        program(OLD + NEW + "    log(1);\n", 'void log(double v) { std::printf("%f", v); }\n' + added('void log(int v) { std::printf("%d", v); }')),
        "`log`",
    ),
    "a number that the host prints": (
        program("    const int shown = n / 256; //-\n    const int shown = n / 512; //+\n" + OLD + NEW + '    std::printf("%d", shown); //!\n'),
        "",
    ),
    "a number that hides another": (
        program(OLD + "    const int STEPS = 2; //+\n" + NEW.replace("THREADS>>>", "STEPS>>>") + "    for (int k = 0; k < STEPS; ++k) CHECK(cudaMemset(z, k, 4));\n"),
        "`STEPS`",
    ),
    "arguments that do something": (
        program(OLD + NEW.replace("y, n)", "y, count++)") + '    std::printf("%d", count);\n').replace("    float *x,", "    int count = n; float *x,"),
        "",
    ),
    "a macro that headers read": (
        program(OLD + NEW, added("#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1")),
        "headers mean",
    ),
    "a function is redefined by a macro": (
        program(OLD + NEW, added("#define printf(...) 0")),
        "code outside functions",
    ),
    "a header that brings anything": (
        program(OLD + NEW).replace("#include <vector>\n", "#include <vector>\n#include <anything.h> //+\n"),
        "anything.h",
    ),
    "a global object": (program(OLD + NEW, added("static Timer timer;")), "code outside functions"),
    "the host reads what it never did": (
        program(OLD + NEW + "    CHECK(cudaMemcpy(h.data(), t, n * 4, cudaMemcpyDeviceToHost)); //! //+\n"),
        "",
    ),
    "the other half of one allocation is not written": (
        program(
            "    copy<<<n / 512, 256>>>(x, y, n / 2); //-\n    copy<<<n / 512, 256>>>(x, y + n / 2, n / 2); //-\n"
            "    bias_gelu<<<n / 512, 256>>>(x, x, y, n / 2); //! //+\n"
        ),
        "unwritten",
    ),
    "the second half of the result is not written": (
        program("    copy<<<n / 256, 256>>>(x, y, n); //-\n    copy<<<n / 512, 256>>>(x, y, n / 2); //! //+\n"),
        "unwritten",
    ),
    "the first half of the result is not written": (
        program("    copy<<<n / 256, 256>>>(x, y, n); //-\n    copy<<<n / 512, 256>>>(x, y + n / 2, n / 2); //! //+\n"),
        "",
    ),
    "half of what was between is not written": (
        program(
            "    copy<<<n / 256, 256>>>(x, t, n); //-\n    copy<<<n / 256, 256>>>(t, y, n); //-\n"
            "    copy<<<n / 512, 256>>>(x, t, n / 2); //+\n    gelu<<<n / 256, 256>>>(t, y, n); //! //+\n"
        ),
        "before it is written",
    ),
    "the other half of one allocation is read": (
        program(
            "    copy<<<n / 512, 256>>>(x, t, n / 2); //-\n    copy<<<n / 512, 256>>>(t, y, n / 2); //-\n"
            "    copy<<<n / 512, 256>>>(x, t, n / 2); //+\n    copy<<<n / 512, 256>>>(t + n / 2, y, n / 2); //! //+\n"
        ),
        "before it is written",
    ),
    "a check that always tells": (
        program(
            OLD + NEW + "    TELL(); //+\n",
            added('#define TELL() do { cudaGetLastError(); printf("fast"); } while (0)'),
        ),
        "",
    ),
    "a check that always ends": (
        program(
            OLD + NEW + "    DONE(); //+\n",
            added("#define DONE() do { cudaGetLastError(); exit(0); } while (0)"),
        ),
        "",
    ),
    "a function that runs by itself": (
        program(
            OLD + "    forward(x, b, y, n); //+\n",
            added(
                "__attribute__((constructor)) void forward(const float* x, const float* b, float* y, int n) {\n"
                "    bias_gelu<<<n / 256, 256>>>(x, b, y, n);\n}"
            ),
        ),
        "`forward` was added",
    ),
    "a type whose members run": (
        program(OLD + NEW, added("struct Tile { inline static int ran = std::rand(); };")),
        "by itself",
    ),
    "a constant that runs": (program(OLD + NEW, added("const int WIDE = std::rand();")), "code outside functions"),
    "a macro that acts in an argument": (
        program(OLD + NEW.replace("y, n)", "y, MORE)"), added('#define MORE (std::printf("x"), n)')),
        "",
    ),
    "a value that became an action": (
        program(OLD + NEW + "    copy<<<WIDTH, 256>>>(y, z, n);\n", "#define WIDTH 4 //-\n#define WIDTH std::rand() //+\n"),
        "code outside functions",
    ),
    "a value that counts": (
        program(
            "    int turns = 4;\n" + OLD + NEW + '    copy<<<WIDTH, 256>>>(y, z, n);\n    std::printf("%d", turns);\n',
            "#define WIDTH 4 //-\n#define WIDTH turns++ //+\n",
        ),
        "",
    ),
    "a default value": (
        program(
            "    idle();\n" + KEPT,
            "void idle(int rounds = STEPS); //!\nvoid idle(int rounds) { for (int k = 0; k < rounds; ++k) cudaDeviceSynchronize(); }\n",
        ).replace("constexpr int STEPS = 4;", "constexpr int STEPS = 4; //-\nconstexpr int STEPS = 3; //+"),
        "`STEPS`",
    ),
    "the preprocessor asks": (
        program(KEPT, "#if STEPS_ > 3\nvoid more() { cudaDeviceReset(); }\n#endif\n#define STEPS_ 4 //-\n#define STEPS_ 2 //+\n"),
        "`STEPS_`",
    ),
    "a pointer that leads elsewhere": (
        program("    float* out = y; //-\n    float* out = z; //+\n    copy<<<n / 256, 256>>>(x, out, n);\n"),
        "",
    ),
    "a size that is a pointer": (
        program("    auto out = y + 0; //-\n    auto out = z + 0; //+\n    copy<<<n / 256, 256>>>(x, out, n);\n"),
        "",
    ),
    "freed before the fused kernel": (
        program(OLD + "    CHECK(cudaFree(b)); //+\n" + NEW).replace(" CHECK(cudaFree(b));", "\n    CHECK(cudaFree(b)); //-\n   ", 1),
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "what"), WRONG.values(), ids=WRONG.keys())
def test_what_loses_something_does_not_pass(text: str, what: str) -> None:
    proof = proof_of(text)
    assert proof.state not in (ProofState.KEPT, ProofState.PROVED)
    assert any(what in f.what for f in proof.findings), [(f.what, f.line) for f in proof.findings]
    if "//!" in text:
        told = [line_text(text, f) for f in proof.findings if f.line]
        assert any("//!" in line for line in told), [(f.what, f.line) for f in proof.findings]


def test_they_are_many() -> None:
    assert len(WRONG) >= 45 and CLOSING.count("cudaFree") == 5


@pytest.mark.parametrize(
    "name",
    [
        "the result is not written",
        "what was between is read later",
        "what was between is copied to the host",
        "one of two results is lost",
        "it writes what it only read",
        "the kernel that stays writes less",
        "a loop with fewer rounds",
    ],
)
def test_what_is_sure_is_named(name: str) -> None:
    """What is known to be lost fails, but for what is no matter of order."""
    state = proof_of(WRONG[name][0]).state
    assert state is (ProofState.UNTESTED if "loop" in name else ProofState.FAILED)
