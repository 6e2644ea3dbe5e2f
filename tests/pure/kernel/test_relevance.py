"""Kernels that hold nothing a rule could tell of are not walked; all others are."""

from __future__ import annotations

from pathlib import Path

import pytest
from stitchcuda.analysis.findings.finding import KernelInput
from stitchcuda.analysis.kernel.relevance import asks_nothing
from stitchcuda.analysis.program import cuda
from stitchcuda.analysis.program.ir import Program
from stitchcuda.analysis.program.link import link
from stitchcuda.analysis.rules import KERNEL_RULES

TESTS = Path(__file__).parents[2]


def programs(text: bytes) -> Program:
    return link([cuda.lower_module("k.cu", text)])


def kernel(body: str, before: str = "") -> bool:
    text = f"{before}\n__global__ void k(float* out, const float* in, int n) {{ {body} }}\n"
    program = programs(text.encode())
    return asks_nothing(program, next(f for f in program.functions.values() if f.name == "k")) is not None


@pytest.mark.parametrize(
    ("body", "before"),
    [
        ("int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = 2 * in[i];", ""),
        ("float sum = 0; for (int k = 0; k < n; ++k) sum += in[k]; out[threadIdx.x] = sum;", ""),
        ("float own[4]; own[n & 3] += in[0]; out[threadIdx.x] = own[0];", ""),
        ("float4 v; v.x += in[0]; out[threadIdx.x] = v.x;", ""),
        ("out[threadIdx.x] = twice(in[threadIdx.x]);", "__device__ float twice(float x) { x *= 2; return x; }"),
    ],
)
def test_nothing_to_ask(body: str, before: str) -> None:
    assert kernel(body, before)


@pytest.mark.parametrize(
    ("body", "before"),
    [
        ("out[threadIdx.x / 2] += in[threadIdx.x];", ""),
        ("out[0] = out[0] + 1;", ""),
        ("float old = out[0]; out[0] = old + 1;", ""),
        ("if (out[0] < in[threadIdx.x]) out[0] = in[threadIdx.x];", ""),
        ("float* p = out; *p += 1;", ""),
        ("float& total = out[0]; total = total + 1;", ""),
        ("total++;", "__device__ int total;"),
        ("__shared__ float s[32]; s[threadIdx.x] = in[0]; out[threadIdx.x] = s[0];", ""),
        ("if (threadIdx.x < 4) __syncthreads();", ""),
        ("atomicAdd(out, 1.0f);", ""),
        ("while (in[0] == 0) {}", ""),
        ("add(out, 1);", "__device__ void add(float* x, float v) { *x += v; }"),
        ("out[threadIdx.x] = far(in);", "__device__ float far(const float* x);"),
        (
            "Add add; out[threadIdx.x] = add(1);",
            "__device__ int t; struct Add { __device__ int operator()(int v) { return t += v; } };",
        ),
        ('asm volatile("bar.sync 0;");', ""),
    ],
)
def test_something_to_ask(body: str, before: str) -> None:
    assert not kernel(body, before)


def test_the_rules_find_nothing_in_what_is_not_walked() -> None:
    skipped = 0
    for path in sorted((TESTS / "fixtures" / "rules").rglob("*.cu")):
        text = path.read_bytes()
        program = programs(text)
        for uid, function in program.functions.items():
            if function.space == "global" and function.body is not None and asks_nothing(program, function) is not None:
                skipped += 1
                given = KernelInput(uid, program, {"k.cu": text})
                assert [f for rule in KERNEL_RULES for f in rule.check(given)] == [], path
    assert skipped > 20
