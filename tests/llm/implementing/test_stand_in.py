"""Reference versions compile with the toolkit that is here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from stitchcuda.gpu_validate.toolchain import find_nvcc

from tests.pure.implementing.programs import KERNEL, MAIN, MARK, REFERENCE, program, referred

pytestmark = pytest.mark.nvcc

WRAPPED = """\
#include <cstdio>
#include <cuda_fp16.h>
#include <vector>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) std::printf("%s\\n", cudaGetErrorString(e)); } while (0)
#define LAUNCH(kernel, grid, ...) do { kernel<<<grid, 256>>>(__VA_ARGS__); CHECK(cudaGetLastError()); } while (0)
struct Scale { float by; int first; };
namespace model {
void all_cpu(const Scale s, const __half *x, float y[], unsigned long long *counts, const void *raw, int);
// stitchcuda: implement reference=all_cpu outputs=y,counts
__global__ void __launch_bounds__(256)
all(const Scale s, const __half * __restrict__ x,
    float y[],  // what it gives
    unsigned long long *counts, const void *raw, int);
}
/* stitchcuda: implement reference=fill_cpu */
extern "C" __global__ void fill(double *z);
static void fill_cpu(double *z) { z[0] = 1; }
namespace { // stitchcuda: implement reference=::fill_cpu
__global__ void hidden(double *const z); }
template <class F, class... A> void go(F f, dim3 grid, cudaStream_t stream, A... a) { f<<<grid, 32, 0, stream>>>(a...); }
namespace model {
void all_cpu(const Scale s, const __half *x, float y[], unsigned long long *counts, const void *raw, int) { y[0] = s.by; counts[0] = 1; }
void run(cudaStream_t stream) {
    __half *x = nullptr; float *y = nullptr; unsigned long long *counts = nullptr;
    all<<<dim3(1, 2), 256, 16, stream>>>(Scale{1, 2}, x, y, counts, nullptr, 3);
    LAUNCH(all, 4, Scale{1, 2}, x, y, counts, x, 3);
    for (int k = 0; k < 2; ++k) LAUNCH(model::all, 4, Scale{1, 2}, x, y, counts, x, k);
    go(all, 3, stream, Scale{1, 2}, x, y, counts, nullptr, 3);
}
}
int main() {
    double *z = nullptr;
    ::fill<<<1, 1>>>(z);
    hidden<<<1, 1>>>(z);
    model::run(nullptr);
}
"""


def built(folder: Path, files: dict[str, str], *words: str) -> str:
    """Compiles and links the .cu files; gives what the compiler says."""
    nvcc, why = find_nvcc("")
    if nvcc is None:
        pytest.skip(f"no CUDA compiler: {why}")
    for path, text in files.items():
        (folder / path).write_text(text, encoding="utf-8")
    sources = [path for path in files if path.endswith(".cu")]
    command = [str(nvcc.path), "-o", "program", *words, *sources]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_it_compiles_and_links_whatever_the_launches_look_like(tmp_path: Path) -> None:
    said = built(tmp_path, referred({"main.cu": WRAPPED}), "-Xcompiler", "-Wall,-Wextra", "-std=c++17")
    assert "stitchcuda" not in said and "stand_in" not in said


def test_a_header_that_several_files_include(tmp_path: Path) -> None:
    header = f"#pragma once\nvoid saxpy_cpu(int n, float a, const float* x, float* y);\n{MARK} in=other.cu\n{KERNEL}\n"
    files = {
        "saxpy.cuh": header.replace(" : y = a*x + y, one thread per element in=other.cu", " in=other.cu"),
        "other.cu": f'#include "saxpy.cuh"\n{REFERENCE}void again(float *y) {{ saxpy<<<1, 1>>>(1, 2, y, y); }}\n',
        "main.cu": f'#include <cstdio>\n#include "saxpy.cuh"\n#include "saxpy.cuh"\n{MAIN}',
    }
    built(tmp_path, referred(files))


def test_a_wrong_reference_is_told_at_the_declaration(tmp_path: Path) -> None:
    text = program(
        reference=REFERENCE.replace("void saxpy_cpu", "static int saxpy_cpu(int) { return 0; }\nvoid saxpy_cpu")
    )
    broken = referred({"main.cu": text})["main.cu"].replace("saxpy_cpu(n, a, ", "saxpy_cpu(n, ")
    with pytest.raises(AssertionError) as error:
        built(tmp_path, {"main.cu": broken})
    line = text[: text.index(KERNEL)].count("\n") + 1
    assert f"main.cu({line}): error" in str(error.value)


def test_without_a_gpu_it_says_what_it_cannot_do(tmp_path: Path) -> None:
    """Whatever the machine: an address of nowhere is no memory of the device."""
    main = "int main() { saxpy<<<1, 1>>>(1, 2.0f, nullptr, (float *)64); }\n"
    built(tmp_path, referred({"main.cu": program(main=main)}))
    done = subprocess.run([str(tmp_path / "program")], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -6 and "stitchcuda: the reference cannot stand for `saxpy`: " in done.stderr
