"""compute-sanitizer on a real GPU: planted errors are new at their line, the original's own are not held against a version."""

from __future__ import annotations

from pathlib import Path

import pytest
from stitchcuda.analysis.contract.project import Project
from stitchcuda.gpu_validate.building.builder import Builder
from stitchcuda.gpu_validate.building.model import Built
from stitchcuda.gpu_validate.gates.g4_memory import MemoryCheck
from stitchcuda.gpu_validate.processes import run_limited
from stitchcuda.gpu_validate.runs import Case
from stitchcuda.gpu_validate.toolchain import find_nvcc, find_sanitizer
from stitchcuda.gpu_validate.verdict import GateResult, GateState
from stitchcuda.gpu_validate.version import Version

pytestmark = [pytest.mark.gpu, pytest.mark.nvcc]

PROGRAM = """\
#include <cstdio>
__global__ void fill(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = i;
}
__global__ void reverse(float* x) {
    __shared__ float s[128];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[127 - threadIdx.x];
}
int main() {
    float *p, host[128];
    cudaMalloc(&p, sizeof host);
    fill<<<2, 64>>>(p, 128);
    reverse<<<1, 128>>>(p);
    cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost);
    std::printf("%g\\n", host[0]);
    cudaFree(p);
    return 0;
}
"""


class World:
    """The program, and the gate on versions of it."""

    def __init__(self, root: Path, text: str = PROGRAM) -> None:
        nvcc, _ = find_nvcc()
        assert nvcc is not None
        tool = find_sanitizer(nvcc.root)
        if tool is None:
            pytest.skip("no compute-sanitizer")
        self.file, self.text = root / "program" / "main.cu", text
        self.file.parent.mkdir()
        self.file.write_text(text)
        self.builder = Builder(Version(self.file), Project(), scratch=root / "builds")
        self.gate = MemoryCheck(tool, root)

    def build(self, text: str) -> Built:
        built = self.builder.build(Version(self.file, {"main.cu": text.encode()}))
        assert isinstance(built, Built), built
        return built

    def judge(self, old: str, new: str, *tools: str, new_shapes: frozenset[str] | None = None) -> GateResult:
        assert old in self.text
        before, after = self.build(self.text), self.build(self.text.replace(old, new))
        return self.gate(self.builder, before, after, Project(), tools, Case(), new_shapes)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    ("tool", "old", "new", "line"),
    [
        ("memcheck", "fill<<<2, 64>>>(p, 128)", "fill<<<1 << 16, 64>>>(p, 1 << 22)", 4),
        ("memcheck", "    cudaFree(p);\n", "", 14),
        ("initcheck", "fill<<<2, 64>>>(p, 128);", "fill<<<2, 64>>>(p, 64);", 8),
        ("racecheck", "    __syncthreads();\n", "", 8),
        ("synccheck", "__syncthreads();", "if (threadIdx.x % 2) __syncthreads();", 9),
    ],
    ids=["out of bounds", "leak", "uninitialised", "race", "divergent barrier"],
)
def test_a_planted_error_is_found_at_its_line(world: World, tool: str, old: str, new: str, line: int) -> None:
    result = world.judge(old, new, tool)
    assert result.state is GateState.FAILED, result
    assert (result.findings[0].path, result.findings[0].line) == (str(world.file), line)


def test_a_good_version_passes_and_kernels_that_stayed_are_not_run_again(world: World) -> None:
    result = world.judge("std::printf", 'std::puts("more"); std::printf', new_shapes=frozenset())
    assert result.state is GateState.PASSED, result
    assert set(result.evidence["not_run"]) == {"racecheck", "synccheck"}
    assert all(tool["reports"] == [0, 0] for tool in result.evidence["tools"].values())


def test_what_the_original_does_wrong_is_told(tmp_path: Path) -> None:
    world = World(tmp_path, PROGRAM.replace("(p, 128)", "(p, 64)"))
    result = world.judge("int main() {", "// moved\nint main() {", "initcheck")
    assert result.state is GateState.UNTESTED  # a part of the tools: no failure, and no pass
    assert result.findings and all(f.baseline for f in result.findings)


def test_cuda_works_without_the_network(world: World) -> None:
    built = world.build(world.text)
    with world.builder.placed(built) as folder:
        assert built.run_command is not None
        cut, free = (run_limited(built.run_command, cwd=folder, network=network) for network in (False, True))
    assert (cut.code, cut.stdout) == (free.code, free.stdout) == (0, b"127\n")
    assert cut.isolated or cut.not_isolated
