"""Launches composed otherwise, and kernels written otherwise, in which nothing is lost: the order is kept."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.proof.model import Declared, May, ProofState

from tests.pure.proof.recomposing import DEVICE_DECLARED, FUSED, KERNELS, NEW, OLD, added, program, proof_of

TILED = """\
__global__ void bias_gelu(const float* x, const float* b, float* y, int n) {
    __shared__ float part[256];
    for (int base = blockIdx.x * blockDim.x; base < n; base += gridDim.x * blockDim.x) {
        int i = base + threadIdx.x;
        part[threadIdx.x] = i < n ? x[i] + b[i] : 0.0f;
        __syncthreads();
        float t = part[threadIdx.x];
        if (i < n) y[i] = 0.5f * t * (1.0f + erff(t * 0.70710678f));
        __syncthreads();
    }
}
"""
HELPER = """\
void forward(const float* x, const float* b, float* y, int n) {
    dim3 threads(THREADS);
    dim3 blocks(blocks_for(n, THREADS));
    bias_gelu<<<blocks, threads>>>(x, b, y, n);
    CHECK(cudaGetLastError());
}
"""
WRAPPERS = """\
void run_bias(const float* x, const float* b, float* t, int n) {
    bias<<<blocks_for(n, THREADS), THREADS>>>(x, b, t, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}
void run_gelu(const float* t, float* y, int n) {
    dim3 blocks(blocks_for(n, THREADS));
    gelu<<<blocks, THREADS>>>(t, y, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
}
"""
IN_LOOP = "    for (int k = 0; k < STEPS; ++k) {\n{}    copy<<<n / 256, 256>>>(y, x, n);\n    }\n"

HONEST = {
    "two kernels become one": program(OLD + NEW),
    "one launch becomes two halves": program(
        "    copy<<<n / 256, 256>>>(x, y, n); //-\n"
        "    copy<<<n / 512, 256>>>(x, y, n / 2); //+\n    copy<<<n / 512, 256>>>(x + n / 2, y + n / 2, n / 2); //+\n"
    ),
    "one kernel becomes two": program(
        "    bias_gelu<<<n / 256, 256>>>(x, b, y, n); //-\n"
        "    bias<<<n / 256, 256>>>(x, b, t, n); //+\n    gelu<<<n / 256, 256>>>(t, y, n); //+\n",
        kernels=KERNELS + FUSED,
    ),
    "another tiling, in shared memory": program(
        "    dim3 grid(blocks_for(n, 256)); //+\n    dim3 block(256); //+\n"
        "    bias_gelu<<<n / 256, 256>>>(x, b, y, n); //-\n    bias_gelu<<<grid, block>>>(x, b, y, n); //+\n",
        kernels=KERNELS
        + "".join(f"{line} //-\n" for line in FUSED.splitlines())
        + "".join(f"{line} //+\n" for line in TILED.splitlines()),
    ),
    "fused in every round of a loop": program(IN_LOOP.replace("{}", OLD + NEW, 1)),
    "fused on a stream of its own": program(
        OLD.replace("THREADS>>>", "THREADS, 0, s>>>") + NEW.replace("THREADS>>>", "THREADS, 0, s>>>")
    ),
    "fused on a stream that a function makes": program(
        "    step(x, b, t, y, n);\n",
        """\
void step(float* x, float* b, float* t, float* y, int n) {
    cudaStream_t own;
    CHECK(cudaStreamCreate(&own));
    bias<<<n / 256, 256, 0, own>>>(x, b, t, n); //-
    gelu<<<n / 256, 256, 0, own>>>(t, y, n); //-
    bias_gelu<<<n / 256, 256, 0, own>>>(x, b, y, n); //+
    CHECK(cudaStreamSynchronize(own));
    CHECK(cudaStreamDestroy(own));
}
""",
    ),
    "fused in a branch": program("    if (h[0] > 1) {\n" + OLD + NEW + "    }\n"),
    "fused, with the waits and checks between": program(
        "".join(line.replace(" //-", " CHECK(cudaGetLastError()); CHECK(cudaDeviceSynchronize()); //-\n") for line in OLD.splitlines())
        + NEW
        + "    CHECK(cudaGetLastError()); //+\n    CHECK(cudaDeviceSynchronize()); //+\n"
    ),
    "fused in a function of its own": program(OLD + "    forward(x, b, y, n); //+\n", added(HELPER)),
    "wrappers are called no more": program(
        "    run_bias(x, b, t, n); //-\n    run_gelu(t, y, n); //-\n" + NEW + "    CHECK(cudaGetLastError()); //+\n",
        WRAPPERS,
    ),
    "the fused kernel writes what was between, too": program(
        OLD + "    bias_gelu<<<n / 256, 256>>>(x, b, t, y, n); //+\n    copy<<<n / 256, 256>>>(t, z, n);\n",
        kernels=KERNELS + added(FUSED.replace("float* y", "float* kept, float* y").replace("; y[i]", "; kept[i] = t; y[i]")),
    ),
    "what was between is allocated no more": program(OLD + NEW)
    .replace(" CHECK(cudaMalloc(&t, n * 4));\n", "\n    CHECK(cudaMalloc(&t, n * 4)); //-\n")
    .replace(" CHECK(cudaFree(t));", "\n    CHECK(cudaFree(t)); //-\n   ")
    .replace("*x, *b, *t, *y, *z;", "*x, *b, *y, *z; float* t;"),
    "another number of threads": program(
        "    bias<<<n / 256, 256>>>(x, b, t, n); //-\n    bias<<<n / 128, 128>>>(x, b, t, n); //+\n"
        "    gelu<<<n / 256, 256>>>(t, y, n);\n"
    ),
    "a constant that only launches use": program(OLD.replace(" //-", "")).replace(
        "constexpr int THREADS = 256;", "constexpr int THREADS = 256; //-\nconstexpr int THREADS = 512; //+"
    ),
    "a kernel written otherwise": program(
        OLD.replace(" //-", ""),
        kernels=KERNELS.replace(
            "    if (i < n) t[i] = x[i] + b[i];",
            "    if (i < n) t[i] = x[i] + b[i]; //-\n    float v = i < n ? x[i] : 0.0f; //+\n    if (i < n) t[i] = b[i] + v; //+",
        ),
    ),
    "a device function in between": program(
        OLD.replace(" //-", ""),
        kernels=KERNELS.replace(
            "__global__ void bias(", "__device__ float sum(float a, float b) { return a + b; } //+\n__global__ void bias("
        ).replace("t[i] = x[i] + b[i];", "t[i] = x[i] + b[i]; //-\n    if (i < n) t[i] = sum(x[i], b[i]); //+\n", 1),
    ),
    "new constants and types": program(
        OLD + NEW.replace("THREADS", "WIDE"),
        added("constexpr int WIDE = 128;\n#define UNROLL 4\nstruct Tile { float v[4]; };"),
    ),
    "a kernel that is left out": program(
        OLD.replace(" //-", ""), kernels=KERNELS + "".join(f"{line} //-\n" for line in FUSED.splitlines())
    ),
    "more shared memory for the new kernel": program(
        OLD
        + "    CHECK(cudaFuncSetAttribute(bias_gelu, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536)); //+\n"
        + NEW.replace("THREADS>>>", "THREADS, 65536>>>")
    ),
    "a function for sizes": program(
        OLD + NEW.replace("blocks_for(n, THREADS)", "tiles(n)"),
        added("__host__ __device__ inline int tiles(int n) { return (n + THREADS - 1) / THREADS; }"),
    ),
    "checks by a macro of their own": program(
        "".join(line.replace(" //-", " ASKED(); //-\n") for line in OLD.splitlines()) + NEW + "    ASKED(); //+\n",
        "#define ASKED() do { cudaError_t s = cudaGetLastError(); if (s != cudaSuccess) { std::exit(2); } } while (0)\n",
    ),
    "two pairs that stand side by side": program(
        "    bias<<<n / 256, 256>>>(x, b, t, n); //-\n    gelu<<<n / 256, 256>>>(t, y, n); //-\n"
        "    bias_gelu<<<n / 256, 256>>>(x, b, y, n); //+\n    copy<<<n / 256, 256>>>(y, x, n);\n"
        "    bias<<<n / 256, 256>>>(x, b, t, n); //-\n    gelu<<<n / 256, 256>>>(t, y, n); //-\n"
        "    bias_gelu<<<n / 256, 256>>>(x, b, y, n); //+\n"
    ),
    "sizes of launches in variables": program(
        "    const int wide = blocks_for(n, 256); //-\n    const int wide = blocks_for(n, 512); //+\n"
        "    bias<<<wide, 256>>>(x, b, t, n); //-\n    bias<<<wide, 512>>>(x, b, t, n); //+\n"
        "    gelu<<<blocks_for(n, THREADS), THREADS>>>(t, y, n);\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST.keys())
def test_the_order_is_kept(text: str) -> None:
    proof = proof_of(text)
    assert proof.state is ProofState.KEPT, [(f.what, f.line) for f in proof.findings]
    assert proof.reason == "" and proof.evidence["left_to_G3"]


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST.keys())
def test_none_of_it_passes_undeclared(text: str) -> None:
    declared = Declared(("test",), waits=May.ANY, copies=May.FEWER, allocations=May.ANY, launches=May.ANY)
    assert proof_of(text, declared).state not in (ProofState.PROVED, ProofState.KEPT)


def test_a_group_says_what_stands_for_what() -> None:
    proof = proof_of(program(OLD + NEW))
    groups = proof.evidence["groups"]
    assert isinstance(groups, list)
    (group,) = groups
    assert (group["before"], group["after"]) == (["bias", "gelu"], ["bias_gelu"])
    assert group["path"] == "a.cu" and group["line"] > 0
    assert proof.evidence["added_kernels"] == ["bias_gelu"] and proof.evidence["changed_kernels"] == []
    assert {q.name: (q.before, q.after) for q in proof.quantities}["launches"] == ("1", "1")


def test_what_changes_no_device_code_is_proved_still() -> None:
    text = program(OLD.replace(" //-", "") + "    CHECK(cudaDeviceSynchronize()); //-\n", kernels=KERNELS)
    proof = proof_of(text)
    assert proof.state is ProofState.PROVED, proof.findings
    assert "groups" not in proof.evidence


def test_waits_count_as_before() -> None:
    """A wait that goes with the launches must be declared like any other."""
    text = HONEST["fused, with the waits and checks between"]
    proof = proof_of(text, Declared(("model",), allocations=May.ANY, device=May.ANY))
    assert proof.state is ProofState.FAILED and "waits" in proof.reason
    assert proof_of(text, DEVICE_DECLARED).state is ProofState.KEPT


LOOPED = """\
constexpr int ROUNDS = 64;
#define HALF_ROUNDS 32
__global__ void relax(float* a, int n, int steps) {
    for (int k = 0; k < ROUNDS; ++k) {
        a[threadIdx.x] = 0.5f * a[threadIdx.x] + 1.0f;
    }
    for (int k = 0; k < steps; k += 1) {
        a[threadIdx.x] += a[threadIdx.x + 1];
    }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("k < ROUNDS", "k < HALF_ROUNDS", "`k < HALF_ROUNDS`, and before `k < ROUNDS`"),
        ("k < ROUNDS", "k < ROUNDS / 2", "before `k < ROUNDS`"),
        ("ROUNDS = 64", "ROUNDS = 48", "(`k < ROUNDS`)"),
        ("k < steps", "k < steps / 2", "before `k < steps`"),
        ("k < steps", "k < steps - 1", "before `k < steps`"),
        ("k < steps", "k < min(steps, 8)", "before `k < steps`"),
        ("k += 1", "k += 2", "(`k < steps`)"),
        ("k < ROUNDS", "k < ROUNDS * 2", ""),
        ("k < steps", "k < n", ""),
        ("0.5f * a[threadIdx.x] + 1.0f", "0.5f * (a[threadIdx.x] + 2.0f)", ""),
    ],
)
def test_fewer_iterations_are_told(old: str, new: str, told: str) -> None:
    lines = []
    for line in LOOPED.splitlines():
        lines += [f"{line} //-", f"{line.replace(old, new)} //+"] if old in line else [line]
    proof = proof_of(program("    relax<<<1, 64>>>(x, n, 16);\n", "", "\n".join(lines) + "\n" + KERNELS))
    assert proof.state is ProofState.KEPT and not proof.reason
    said = [f.what for f in proof.findings]
    assert said == [] if not told else len(said) == 1 and said[0].startswith("fewer iterations") and told in said[0]
