"""Kernels that a version brings in files of its own."""

from __future__ import annotations

import pytest
from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.analysis.proof.model import Declared, May, Proof, ProofState
from stitchcuda.analysis.proof.prove import prove

from tests.pure.proof.recomposing import DEVICE_DECLARED, FUSED, KERNELS, NEW, OLD, program
from tests.pure.proof.twins import versions

MAIN = program(OLD + NEW, kernels=KERNELS)
GUARDED = f"#ifndef FUSED_CUH\n#define FUSED_CUH\n#include <cuda_runtime.h>\n{FUSED}#endif\n"
ONCE = f"#pragma once\n{FUSED}"
STEP = "    fused_step(x, b, y, n); //+\n"
DECLARED_STEP = "#pragma once\nvoid fused_step(const float* x, const float* b, float* y, int n);\n"
SOURCE = f"""\
#include "fused.cuh"
{FUSED}
void fused_step(const float* x, const float* b, float* y, int n) {{
    bias_gelu<<<n / 256, 256>>>(x, b, y, n);
}}
"""


def analysed(files: dict[str, str]) -> Analysis:
    index = Index(strict=True)
    for path, text in files.items():
        index.put(path, text.encode())
    return index.analyse()


def proof_of(main: str, files: dict[str, str], include: bool = True, declared: Declared = DEVICE_DECLARED) -> Proof:
    old, new = versions(main)
    if include:
        new = new.replace("#include <vector>\n", '#include <vector>\n#include "fused.cuh"\n')
    return prove(analysed({"a.cu": old}), analysed({"a.cu": new, **files}), declared)


@pytest.mark.parametrize(
    ("main", "files"),
    [
        (MAIN, {"fused.cuh": ONCE}),
        (MAIN, {"fused.cuh": GUARDED}),
        (MAIN, {"fused.cuh": "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n" + ONCE}),
        (program(OLD + STEP, kernels=KERNELS), {"fused.cuh": DECLARED_STEP, "fused.cu": SOURCE}),
    ],
)
def test_a_file_of_kernels_may_come(main: str, files: dict[str, str]) -> None:
    proof = proof_of(main, files)
    assert proof.state is ProofState.KEPT, proof.findings
    undeclared = proof_of(main, files, declared=Declared(("test",), waits=May.ANY, allocations=May.ANY))
    assert undeclared.state is ProofState.UNTESTED


@pytest.mark.parametrize(
    "more",
    [
        "static int started = std::rand();\n",
        "struct Runs { Runs() { cudaDeviceReset(); } };\nstatic Runs runs;\n",
        "int blocks_for(double n, int threads) { return 1; }\n",
        "#define printf(...) 0\n",
        "#define __CUDA_ARCH__ 900\n",
        "#include <whatever.h>\n",
        "__device__ int calls;\n",
        "namespace std { template <> struct hash<float*> { }; }\n",
        "using namespace std;\n",
    ],
)
def test_a_file_that_brings_more_does_not_pass(more: str) -> None:
    proof = proof_of(MAIN, {"fused.cuh": ONCE + more})
    assert proof.state in (ProofState.UNTESTED, ProofState.FAILED), more


def test_a_file_that_goes_does_not_pass() -> None:
    old, new = versions(MAIN)
    both = {"fused.cuh": ONCE, "left.cuh": "#pragma once\n"}
    proof = prove(analysed({"a.cu": old, **both}), analysed({"a.cu": new, "fused.cuh": ONCE}), DEVICE_DECLARED)
    assert proof.state is ProofState.UNTESTED and "removed" in proof.reason
