"""CUDA programs compiled for real: what the versions' device code is called, what kernels take, which flags change nothing."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from stitchcuda.analysis.contract.project import Project
from stitchcuda.gpu_validate.building.builder import Builder
from stitchcuda.gpu_validate.building.device_code import read_device_code
from stitchcuda.gpu_validate.building.elf import read_elf
from stitchcuda.gpu_validate.building.model import BuildFailed, Built
from stitchcuda.gpu_validate.building.steps import APPENDED
from stitchcuda.gpu_validate.gates.g2_build import g2
from stitchcuda.gpu_validate.toolchain import find_nvcc
from stitchcuda.gpu_validate.verdict import GateState
from stitchcuda.gpu_validate.version import Version

pytestmark = pytest.mark.nvcc

KERNELS = """\
#pragma once
namespace {
__global__ void hidden(float* x) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[63 - threadIdx.x];
}
}
static __device__ float table[4] = {1, 2, 3, 4};
template <int N> __global__ void scale(float* x) { x[threadIdx.x] *= N * table[threadIdx.x % 4]; }
"""
MAIN = """\
#include "kernels.cuh"
int main() {
    float* p;
    cudaMalloc(&p, 256);
    hidden<<<1, 64>>>(p);
    scale<3><<<1, 64>>>(p);
    return cudaDeviceSynchronize();
}
"""
MOVED = MAIN.replace(
    "int main() {", "int helper(int x) { return 3 * x; }\n\nint main() {\n    if (helper(1) == 4) return 9;"
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "program"
    root.mkdir()
    (root / "main.cu").write_text(MAIN)
    (root / "kernels.cuh").write_text(KERNELS)
    return root


def built(result: Built | BuildFailed) -> Built:
    assert isinstance(result, Built), result
    return result


def test_one_file_and_what_it_includes(tree: Path, tmp_path: Path) -> None:
    """Host code moves the kernels' lines and the hash in hidden's name: its device code has the same name; a kernel's own
    change gives another."""
    (tree / "unrelated.bin").write_bytes(b"x")
    build = Builder(Version(tree / "main.cu"), Project(), scratch=tmp_path / "scratch", arch="sm_90")
    original = built(build.build(Version(tree / "main.cu")))
    moved = built(
        build.build(Version(tree / "main.cu", {"main.cu": MOVED.encode(), "kernels.cuh": b"\n\n" + KERNELS.encode()}))
    )
    changed = built(build.build(Version(tree / "main.cu", {"kernels.cuh": KERNELS.replace("63 -", "62 -").encode()})))
    assert original.device_code and original.device_code == moved.device_code != changed.device_code
    assert original.program_digest != moved.program_digest
    with build.placed(original) as folder:
        assert not (folder / "unrelated.bin").exists() and original.run_command == (str(folder / "build" / "main"),)
    hidden = next(r for name, r in original.resources.items() if "hidden" in name)
    assert (hidden.shared, hidden.stack, hidden.spilled) == (256, 0, 0) and hidden.registers > 0
    assert any("scale<3>(float*)" in name for name in original.resources) or shutil.which("c++filt") is None
    same, other = g2(original, moved), g2(original, changed)
    assert (same.state, same.evidence["device_code"], same.evidence["resources"]) == (GateState.PASSED, "the same", {})
    assert other.evidence["device_code"] == "changed"


def test_errors_and_new_warnings(tree: Path, tmp_path: Path) -> None:
    build = Builder(Version(tree), Project(), scratch=tmp_path / "scratch", arch="sm_90")
    original = build.build(Version(tree))
    noisy = g2(
        original, build.build(Version(tree, {"main.cu": MAIN.replace("float* p;", "float* p; int unused;").encode()}))
    )
    assert noisy.state is GateState.PASSED and noisy.evidence["new_warnings"] == 1
    assert (noisy.findings[0].path, noisy.findings[0].line) == (str(tree / "main.cu"), 3)
    wrong = g2(original, build.build(Version(tree, {"main.cu": MAIN.replace("scale<3>", "scael<3>").encode()})))
    assert wrong.state is GateState.FAILED and wrong.findings[0].line == 6 and "scael" in wrong.reason


def test_code_for_another_gpu_is_no_build(tree: Path, tmp_path: Path) -> None:
    nvcc, _ = find_nvcc()
    assert nvcc is not None
    (tree / "Makefile").write_text("app:\n\tnvcc -gencode arch=compute_80,code=sm_80 main.cu -o app\n")
    result = Builder(Version(tree), Project(), scratch=tmp_path / "scratch", arch="sm_90").build(Version(tree))
    assert isinstance(result, BuildFailed) and "code for sm_80 and none that runs on sm_90" in result.reason


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake")
def test_cmake_and_the_database_that_it_writes(tree: Path, tmp_path: Path) -> None:
    (tree / "part.cpp").write_text("int part() { return 1; }\n")
    (tree / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(app LANGUAGES CXX CUDA)\nadd_executable(app main.cu part.cpp)\n"
    )
    build = Builder(Version(tree), Project(), scratch=tmp_path / "scratch", arch="sm_90")
    original = built(build.build(Version(tree)))
    changed = built(build.build(Version(tree, {"kernels.cuh": KERNELS.replace("63 -", "62 -").encode()})))
    assert original.device_code != changed.device_code and original.run_command == changed.run_command
    assert changed.log is not None and "part.cpp" not in changed.log.read_text()

    entries = [
        {
            "directory": str(tree / "obj"),
            "file": "../main.cu",
            "command": f"nvcc -O2 -I{tree} -arch=sm_90 -c ../main.cu -o main.o",
        },
        {"directory": str(tree), "file": "part.cpp", "arguments": ["g++", "-O2", "-c", "part.cpp", "-o", "obj/part.o"]},
    ]
    (tree / "CMakeLists.txt").unlink()
    (tree / "compile_commands.json").write_text(json.dumps(entries))
    build = Builder(Version(tree), Project(), scratch=tmp_path / "second", arch="sm_90")
    original = built(build.build(Version(tree)))
    changed = built(build.build(Version(tree, {"kernels.cuh": KERNELS.replace("63 -", "62 -").encode()})))
    assert original.device_code != changed.device_code
    assert changed.log is not None and "part.cpp" not in changed.log.read_text()
    assert not (tree / "obj").exists()


def test_what_we_append_to_the_command_changes_no_code(tmp_path: Path) -> None:
    """Lines, debug information and resources are asked for beside the user's flags: kernels and host code stay as they are."""
    nvcc, _ = find_nvcc()
    assert nvcc is not None
    source = Path(__file__).parents[2] / "examples" / "vit" / "kernels.cu"
    images = {}
    for name, flags in (("plain", ["--no-compress"]), ("ours", APPENDED.split())):
        out = tmp_path / name
        command = [str(nvcc.path), "-arch=sm_90", "-O3", "-std=c++17", *flags, "-c", str(source), "-o", str(out)]
        subprocess.run(command, check=True, capture_output=True)
        images[name] = out.read_bytes()
    kernels = {}
    for name, image in images.items():
        found = read_device_code({"kernels.o": image}, 90).kernels
        assert len(found) > 5
        kernels[name] = {k: dataclasses.replace(r, code="") for k, r in found.items()}
    assert kernels["plain"] == kernels["ours"]
    assert _machine_code(images["plain"]) == _machine_code(images["ours"])


def _machine_code(image: bytes) -> dict[str, bytes]:
    """Instructions of kernels (inside of the container, found by their own header) and of host functions."""
    found = {}
    start = image.find(b"\x7fELF", 1)
    while start > 0:
        found.update({s.name: s.data for s in read_elf(image[start:]).sections if s.name.startswith(".text")})
        start = image.find(b"\x7fELF", start + 1)
    host = read_elf(image)
    return {**found, "host .text": next(s.data for s in host.sections if s.name == ".text")}
