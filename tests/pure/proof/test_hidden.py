"""Kernels that reach memory which no Timeline lists, checks that do more than check, launches that start early."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.proof.model import ProofState

from tests.pure.proof.twins import HEAD, in_main, proof_of

KERNELS = """\
struct Node { float* data; Node* next; };
__device__ float* shared_table;
__global__ void by_table(float** rows, int n) { rows[blockIdx.x][threadIdx.x] = n; }
__global__ void by_variable(int n) { shared_table[threadIdx.x] = n; }
__global__ void by_list(Node* first) { first->next->data[0] = 1; }
__global__ void by_texture(cudaTextureObject_t image, float* out) { out[threadIdx.x] = tex1Dfetch<float>(image, 0); }
__global__ void elsewhere(float* a);
"""
STREAMS = """\
    cudaStream_t s, r;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaStreamCreate(&r));
"""


@pytest.mark.parametrize(
    "launch",
    [
        "by_table<<<1, 32, 0, s>>>((float**)a, n);",
        "by_variable<<<1, 32, 0, s>>>(n);",
        "by_list<<<1, 1, 0, s>>>((Node*)a);",
        "by_texture<<<1, 32, 0, s>>>(0, a);",
        "elsewhere<<<1, 32, 0, s>>>(a);",
    ],
)
def test_memory_that_is_not_listed_may_be_any(launch: str) -> None:
    """The two launches name different buffers, and may meet all the same."""
    wait = "    CHECK(cudaDeviceSynchronize());  //-\n"
    behind = "    fill<<<1, 32, 0, r>>>(b, n);\n    CHECK(cudaDeviceSynchronize());\n"
    text = in_main(f"{STREAMS}    {launch}\n{wait}{behind}").replace(HEAD, HEAD + KERNELS)
    assert proof_of(text).state is ProofState.UNTESTED
    listed = text.replace(launch, "fill<<<1, 32, 0, s>>>(a, n);")
    assert proof_of(listed).state is ProofState.PROVED


@pytest.mark.parametrize(
    "check",
    [
        "do { cudaError_t e = (call); ++calls; if (e != cudaSuccess) std::exit(1); } while (0)",
        "do { cudaError_t e = (call); if (e == cudaSuccess) ++calls; else std::exit(1); } while (0)",
        "do { cudaError_t e = (call); if (e == cudaSuccess) ++calls; } while (0)",
        "do { clock_t t = clock(); cudaError_t e = (call); if (e != cudaSuccess) std::exit(1); calls += clock() - t; } while (0)",
    ],
)
def test_a_check_that_does_more_is_not_taken_out(check: str) -> None:
    body = (
        "    fill<<<1, 32>>>(a, n);\n    COUNTED(cudaDeviceSynchronize());  //-\n    CHECK(cudaDeviceSynchronize());\n"
    )
    text = in_main(body).replace(HEAD, f"{HEAD}static int calls;\n#define COUNTED(call) {check}\n")
    assert proof_of(text).state is ProofState.UNTESTED


def test_a_launch_that_may_start_early_is_not_ordered_by_its_stream() -> None:
    body = """\
    cudaLaunchConfig_t config = {};
    fill<<<1, 32>>>(a, n);
    CHECK(cudaDeviceSynchronize());  //-
    CHECK(cudaLaunchKernelEx(&config, twice, a, b, n));
    CHECK(cudaDeviceSynchronize());
"""
    assert proof_of(in_main(body)).state is not ProofState.PROVED


def test_a_size_that_changes_is_not_the_size_before_the_loop() -> None:
    text = """\
int main(int n, char** argv) {
    float *t, *out;
    CHECK(cudaMalloc(&out, 1 << 20));
    CHECK(cudaMalloc(&t, n * 4));  //+
    for (int i = 0; i < 9; ++i) {
        CHECK(cudaMalloc(&t, n * 4));  //-
        fill<<<1, 32>>>(t, n);
        twice<<<1, 32>>>(t, out, n);
        CHECK(cudaFree(t));  //-
        n = n * 2;
    }
    CHECK(cudaFree(t));  //+
    CHECK(cudaDeviceSynchronize());
}
"""
    assert proof_of(HEAD + text).state is ProofState.UNTESTED
    assert proof_of(HEAD + text.replace("        n = n * 2;\n", "")).state is ProofState.PROVED


def test_a_global_object_may_look_when_main_has_ended() -> None:
    text = in_main("    fill<<<1, 32>>>(a, n);\n    cudaDeviceSynchronize();  //-\n").replace(
        "    CHECK(cudaFree(a));\n    CHECK(cudaFree(b));\n", ""
    )
    assert proof_of(text).state is ProofState.PROVED
    guard = "struct Guard { float* p; ~Guard() { cudaMemcpy(p, p, 4, cudaMemcpyDefault); } };\nstatic Guard guard;\n"
    assert proof_of(text.replace(HEAD, HEAD + guard)).state is ProofState.UNTESTED


@pytest.mark.parametrize(
    ("declaration", "state"),
    [
        ("float *x, *y = nullptr;", ProofState.PROVED),
        ("float *x, *y = nullptr, z = 1;", ProofState.UNTESTED),
        ("float *x, *y = pick();", ProofState.UNTESTED),
        ("static float *x, *y;", ProofState.UNTESTED),
        ("float *x, *a;", ProofState.UNTESTED),  # hides the one that is used
    ],
)
def test_pointers_of_one_declaration_come_alone_when_they_point_nowhere(declaration: str, state: ProofState) -> None:
    body = f"    {{\n        {declaration}  //+\n        fill<<<1, 32>>>(a, n);\n    }}\n    CHECK(cudaDeviceSynchronize());\n"
    text = in_main(body).replace(HEAD, f"{HEAD}float* pick();\n")
    assert proof_of(text).state is state
