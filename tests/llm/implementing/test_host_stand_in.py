"""Host stages in the toolkit that is here: reference versions and what is written between marks compile, link and warn of nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from stitchcuda.agent import versions
from stitchcuda.agent.implementing import placing
from stitchcuda.agent.implementing.reference import Written, reference_texts
from stitchcuda.agent.implementing.stages import Stage, find_stages

from tests.llm.implementing.test_stand_in import built
from tests.pure.implementing import programs
from tests.pure.implementing.host_programs import MAIN, MARK, REFERENCE, RIGHT, STAGE, program
from tests.pure.implementing.programs import analysed, referred, stage_of

pytestmark = pytest.mark.nvcc
WARN = ("-Xcompiler", "-Wall,-Wextra", "-std=c++17")

OTHERS = """\
#include <cstddef>
#include <cuda_runtime.h>
struct Scale { float by; int first; };
namespace model {
static void all_cpu(const Scale s, const double *x, float y[], const unsigned short *counts, const void *raw, int) { y[0] = s.by + *x + counts[0] + (raw != nullptr); }
// stitchcuda: implement reference=all_cpu outputs=y host=y[n*2+1],counts
static cudaError_t all(const Scale s, const double * __restrict__ x,
    float y[],  // what it gives
    const unsigned short *counts, const void *raw, int n = 3, cudaStream_t = nullptr);
}
/* stitchcuda: implement reference=fill_cpu */
extern "C" void fill(double *z);
static void fill_cpu(double *z) { z[0] = 1; }
namespace { // stitchcuda: implement reference=::fill_cpu
void hidden(double *const z, cudaStream_t stream); }
typedef struct cublasContext *cublasHandle_t;
void blas_cpu(const float *x, float *y) { y[0] = x[0]; }
// stitchcuda: implement reference=blas_cpu host=y[1],x
void blas(cublasHandle_t handle, const float *x, float *y, cudaStream_t stream);
int main() {
    float one = 1, other;
    blas(nullptr, &one, &other, nullptr);
    double z = 0; float y[7] = {}; unsigned short counts = 0;
    ::fill(&z);
    hidden(&z, 0);
    return model::all(Scale{1, 2}, &z, y, &counts, nullptr) == cudaSuccess;
}
"""


def between_marks(files: dict[str, str], definition: str) -> dict[str, str]:
    """The version that is built of a definition."""
    stage = stage_of(files)
    texts = {path: text.encode() for path, text in files.items()}
    after = versions.edited(texts, placing.edits_of(stage, texts[stage.file], texts[stage.path], definition.encode()))
    made = reference_texts(after, [], Written(stage, definition.encode()))
    return {path: text.decode() for path, text in {**texts, **after, **made}.items()}


def test_whatever_the_declaration_looks_like(tmp_path: Path) -> None:
    said = built(tmp_path, referred({"main.cu": OTHERS}), *WARN)
    assert "stitchcuda" not in said and "stand_in" not in said


def test_beside_a_kernel_that_is_missing_too(tmp_path: Path) -> None:
    """The host stage is written, the kernel still stands in for itself."""
    text = program(main="").replace("#include <cuda_runtime.h>\n", f"#include <cuda_runtime.h>\n{programs.REFERENCE}")
    text += f"{programs.MARK}\n{programs.KERNEL}\n\n" + MAIN.replace(
        "    cudaMemcpyAsync(&first", "    saxpy<<<16, 256, 0, stream>>>(4096, 2.0f, x, y);\n    cudaMemcpyAsync(&first"
    )
    assert "stand_in" not in built(tmp_path, referred({"main.cu": text}), *WARN)
    texts = {"main.cu": text.encode()}
    stage, _ = (s for s in find_stages(analysed({"main.cu": text})) if isinstance(s, Stage))
    after = versions.edited(texts, placing.edits_of(stage, texts["main.cu"], texts["main.cu"], RIGHT.encode()))
    rest = [s for s in find_stages(analysed({"main.cu": after["main.cu"].decode()})) if isinstance(s, Stage)]
    assert [s.name for s in rest] == ["saxpy"]
    made = reference_texts(after, rest, Written(stage, RIGHT.encode()))["main.cu"].decode()
    assert "stand_in" not in built(tmp_path, {"main.cu": made}, *WARN)
    assert 'Span stitchcuda_span("scale", 1);' in made and 'stitchcuda_launch("saxpy", 0);' in made


def test_what_is_written_runs_under_its_own_name(tmp_path: Path) -> None:
    said = built(tmp_path, between_marks({"main.cu": program()}, RIGHT), *WARN)
    assert "stitchcuda" not in said and "stand_in" not in said
    named = subprocess.run(["nm", "-C", str(tmp_path / "program")], capture_output=True, text=True, check=True).stdout
    assert " scale(int, " in named and " stitchcuda_own_scale(int, " in named and " doubled(int, " in named


def test_a_status_is_handed_on(tmp_path: Path) -> None:
    text = program(stage=STAGE.replace("void", "cudaError_t"))
    definition = RIGHT.replace("void scale", "cudaError_t scale").replace("    cudaStreamSynchronize(stream);\n", "    return cudaStreamSynchronize(stream);\n")  # fmt: skip
    built(tmp_path, between_marks({"main.cu": text}, definition), *WARN)
    done = subprocess.run([str(tmp_path / "program")], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in (0, -6)


def test_a_header_that_several_files_include(tmp_path: Path) -> None:
    header = f"#pragma once\n#include <cuda_runtime.h>\nvoid scale_cpu(int n, const float* x, float* y, float* total);\nnamespace a {{\n{MARK}\n{STAGE}\n}}\n"
    files = {
        "s.cuh": header.replace("host=", "in=s.cu host="),
        "s.cu": f'#include "s.cuh"\n{REFERENCE}',
        "main.cu": f'#include <cstdio>\n#include "s.cuh"\n#include "s.cuh"\nusing namespace a;\n{MAIN}',
    }
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    assert "stand_in" not in built(tmp_path / "one", referred(files), *WARN)
    assert "stand_in" not in built(tmp_path / "other", between_marks(files, RIGHT), *WARN)


def test_what_does_not_compile_is_told_at_its_own_line(tmp_path: Path) -> None:
    broken = RIGHT.replace("    cudaFreeAsync", "    int size = x;\n    cudaFreeAsync")
    with pytest.raises(AssertionError) as error:
        built(tmp_path, between_marks({"main.cu": program()}, broken))
    before = program()[: program().index(STAGE)].count("\n") + 1
    line = before + 2 + broken[: broken.index("int size")].count("\n")
    assert f"main.cu({line}): error" in str(error.value)


def test_without_a_gpu_it_says_what_it_cannot_do(tmp_path: Path) -> None:
    """Whatever the machine: an address of nowhere is no memory of the device."""
    main = "int main() { float total = 0; scale(1, (float *)64, nullptr, &total, nullptr); }\n"
    built(tmp_path, referred({"main.cu": program(main=main)}))
    done = subprocess.run([str(tmp_path / "program")], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -6 and "stitchcuda: the reference cannot stand for `scale`: " in done.stderr
