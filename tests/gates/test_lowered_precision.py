"""Row 10: fewer bits than the original has, which the contract does not name, fail G0 whatever a run shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from stitchcuda.analysis.contract.types import Contract, Tolerance
from stitchcuda.gpu_validate.analysed import analyse
from stitchcuda.gpu_validate.gates.lowered_precision import uses, with_precision
from stitchcuda.gpu_validate.primary import primary_of
from stitchcuda.gpu_validate.verdict import GateResult, GateState
from stitchcuda.gpu_validate.version import Version

BASE = """\
#include <cuda_runtime.h>
#include <cublas_v2.h>
#define SCALE 2.0f
__global__ void soft(const float* x, float* y, int n) {
    int i = threadIdx.x;
    for (int half = n / 2; half > 0; half /= 2) {
        if (i < half) y[i] = expf(x[i]) / (half * SCALE);
    }
}
__global__ void sum(const float* x, double* y) {
    double total = 0;
    for (int i = 0; i < 8; ++i) total += (double)x[i];
    *y = total;
}
int main() {
    cublasHandle_t handle;
    cublasCreate(&handle);
    float* x; cudaMalloc(&x, 4);
    soft<<<1, 32>>>(x, x, 1);
    cudaDeviceSynchronize();
}
"""


def judged(
    folder: Path, new: Mapping[str, str], contract: Contract | None = None, base: Mapping[str, str] | None = None
) -> GateResult:
    for path, text in (base or {"a.cu": BASE}).items():
        (folder / path).write_text(text)
    original = Version(folder)
    version = original.with_texts({path: text.encode() for path, text in new.items()})
    passed = GateResult("G0", GateState.PASSED)
    return with_precision(passed, analyse(original), analyse(version), (original, version), contract or Contract())


def edited(*pairs: tuple[str, str]) -> str:
    text = BASE
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


EXP = "expf(x[i])"
LOWERED = {
    "half": ((EXP, "__half2float(__float2half(expf(x[i])))"), "fp16"),
    "a variable of type half": (("    int i = threadIdx.x;\n", "    int i = threadIdx.x;\n    half h = x[i];\n"), "fp16"),
    "half in a cast": ((EXP, "(float)(half)expf(x[i])"), "fp16"),
    "half as a template argument": ((EXP, "static_cast<half>(expf(x[i]))"), "fp16"),
    "half pointers": ((EXP, "*reinterpret_cast<const half*>(x)"), "fp16"),
    "half parameters": (("__global__ void sum", "__device__ float wide(const half *v) { return v[0]; }\n__global__ void sum"), "fp16"),
    "half under another name": (("#define SCALE", "using real = __half;\n#define SCALE"), "fp16"),
    "half by a macro": (("#define SCALE", "#define real half\n#define SCALE"), "fp16"),
    "bf16": ((EXP, "__bfloat162float(__float2bfloat16(expf(x[i])))"), "bf16"),
    "fp8": (("    int i = threadIdx.x;\n", "    int i = threadIdx.x;\n    __nv_fp8_e4m3 q(x[i]);\n"), "fp8"),
    "int8 products": ((EXP, "__dp4a(1, 2, 3)"), "int8"),
    "tf32": ((EXP, "nvcuda::wmma::__float_to_tf32(x[i])"), "tf32"),
    "tf32 fragments": (("    int i = threadIdx.x;\n", "    int i = threadIdx.x;\n    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> f;\n"), "tf32"),
    "tf32 in cublas": (("    cublasCreate(&handle);\n", "    cublasCreate(&handle);\n    cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH);\n"), "tf32"),
    "tf32 by the environment": (("    cublasCreate(&handle);\n", '    setenv("NVIDIA_TF32_OVERRIDE", "1", 1);\n    cublasCreate(&handle);\n'), "tf32"),
    "a compute type": (("    cublasCreate(&handle);\n", "    cublasCreate(&handle);\n    auto type = CUBLAS_COMPUTE_32F_FAST_16BF;\n"), "bf16"),
    "an approximate exponential": ((EXP, "__expf(x[i])"), "approximate functions"),
    "an approximate quotient": ((EXP + " / (half * SCALE)", "__fdividef(expf(x[i]), half * SCALE)"), "approximate functions"),
    "an approximate function by a macro": (("#define SCALE", "#define expf __expf\n#define SCALE"), "approximate functions"),
    "a name put together": (("#define SCALE", "#define FAST(f) __ ## expf(f)\n#define SCALE"), "approximate functions"),
    "a name over two lines": ((EXP, "__ex\\\npf(x[i])"), "approximate functions"),
    "in assembly": ((EXP, 'x[i]; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y[i]) : "f"(x[i]))'), "approximate functions"),
    "tensor cores in assembly": ((EXP, 'x[i]; asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {}, {}, {}, {};")'), "tf32"),
    "float for double": (("double total = 0", "float total = 0"), "fp32"),
}  # fmt: skip


@pytest.mark.parametrize(("pair", "kind"), LOWERED.values(), ids=LOWERED.keys())
def test_lower_precision_fails_also_under_a_tolerance(tmp_path: Path, pair: tuple[str, str], kind: str) -> None:
    new = {"a.cu": edited(pair)}
    for contract in (Contract(), Contract(tolerance=Tolerance("relative", rtol=0.1))):
        result = judged(tmp_path, new, contract)
        assert result.state is GateState.FAILED
        assert result.reason.startswith("precision is lowered") and f"({kind})" in result.reason
        assert result.findings[0].path == "a.cu" and result.findings[0].line > 0
        assert result.evidence["lower_precision"][0]["precision"] == kind
    primary = primary_of([result])
    assert primary is not None and "precise" in primary.fix


@pytest.mark.parametrize(("pair", "kind"), LOWERED.values(), ids=LOWERED.keys())
def test_what_the_contract_names_may_be_used(tmp_path: Path, pair: tuple[str, str], kind: str) -> None:
    named = "fp16" if kind == "approximate functions" else kind
    new = {"a.cu": edited(pair)}
    assert judged(tmp_path, new, Contract(precision=(named,))).state is GateState.PASSED
    forbidden = judged(tmp_path, new, Contract(precision_forbidden=(named,)))
    assert forbidden.state is GateState.FAILED
    assert kind == "approximate functions" or "forbids it" in forbidden.reason


@pytest.mark.parametrize(
    "pair",
    [
        (EXP, "exp(x[i])"),
        ("half > 0", "half >= 1"),
        ("half * SCALE", "(half) * SCALE"),
        ("y[i] = expf(x[i]) / (half * SCALE)", "y[i] = fmaxf(expf(x[i]), half) / (SCALE * half)"),
        ("    int i = threadIdx.x;\n", "    int i = threadIdx.x;  // no __expf here, and no half either\n"),
        ("    int i = threadIdx.x;\n", "    int i = threadIdx.x; /* __half */\n"),
        ("__global__ void soft", "__device__ int middle(int half) { return half * 2 + half; }\n__global__ void soft"),
        ("double total = 0;", "double total = 0, more = 0;"),
        ("cublasCreate(&handle);", 'cublasCreate(&handle); puts("half of it");'),
    ],
)
def test_other_code_is_no_lower_precision(tmp_path: Path, pair: tuple[str, str]) -> None:
    assert judged(tmp_path, {"a.cu": edited(pair)}).state is GateState.PASSED


def test_what_the_original_uses_stays_allowed_where_it_is(tmp_path: Path) -> None:
    base = edited((EXP, "__expf(x[i])"))
    same = judged(tmp_path, {"a.cu": base.replace("half > 0", "half >= 1")}, base={"a.cu": base})
    assert same.state is GateState.PASSED and not same.findings
    elsewhere = judged(tmp_path, {"a.cu": base.replace("(double)x[i]", "(double)__logf(x[i])")}, base={"a.cu": base})
    assert elsewhere.state is GateState.FAILED
    beside = base.replace("int main", "__global__ void more(float* y) { y[0] = __sinf(y[0]); }\nint main")
    told = judged(tmp_path, {"a.cu": beside}, base={"a.cu": base})
    assert told.state is GateState.PASSED and "as elsewhere in the original" in told.findings[0].what


@pytest.mark.parametrize(
    "flag", ["-use_fast_math", "--use_fast_math", "-ftz=true", "-prec-div=false", "-Ofast", "-ffast-math"]
)
def test_flags_of_the_build(tmp_path: Path, flag: str) -> None:
    make = "NVCC_FLAGS = -O3\nall:\n\tnvcc $(NVCC_FLAGS) a.cu\n"
    base = {"a.cu": BASE, "Makefile": make}
    result = judged(tmp_path, {"Makefile": make.replace("-O3", f"-O3 {flag}")}, base=base)
    assert result.state is GateState.FAILED and result.findings[0].path == "Makefile"
    faster = make.replace("-O3", f"-O3 {flag}")
    assert judged(tmp_path, {"a.cu": BASE + "\n"}, base={"a.cu": BASE, "Makefile": faster}).state is GateState.PASSED


def test_a_macro_of_a_header_that_changed(tmp_path: Path) -> None:
    """The function's text is the same, and what it means is not."""
    base = {
        "a.cu": '#include "m.h"\n' + BASE.replace("expf(x[i])", "CALL(exp, x[i])"),
        "m.h": "#define CALL(name, v) name##f(v)\n",
    }
    result = judged(tmp_path, {"m.h": "#define CALL(name, v) __##name##f(v)\n"}, base=base)
    assert result.state is GateState.FAILED and "__expf" in result.reason
    assert result.findings[0].path == "a.cu"


def test_the_examples_use_none(tmp_path: Path) -> None:
    vit = Path(__file__).parents[2] / "examples" / "vit"
    assert uses(analyse(Version(vit))) == []
