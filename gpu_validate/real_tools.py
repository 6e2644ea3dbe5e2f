"""The hub's tools on this machine: the analysis, the builder, the tracer, the sanitizer and the GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.analysis.proof.prove import prove
from stitchcuda.gpu_validate.analysed import analyse
from stitchcuda.gpu_validate.building.builder import Builder
from stitchcuda.gpu_validate.building.model import Built
from stitchcuda.gpu_validate.gates.g0_structure import g0
from stitchcuda.gpu_validate.gates.g1_order import g1
from stitchcuda.gpu_validate.gates.g2_build import g2
from stitchcuda.gpu_validate.gates.g4_memory import MemoryCheck
from stitchcuda.gpu_validate.health import probe_gpu
from stitchcuda.gpu_validate.machine_state import read_machine
from stitchcuda.gpu_validate.runs import Case
from stitchcuda.gpu_validate.toolchain import find_nvcc, find_sanitizer
from stitchcuda.gpu_validate.tools import Builds, Tools
from stitchcuda.gpu_validate.trace.library import tracer_library
from stitchcuda.gpu_validate.trace.session import run_traced
from stitchcuda.gpu_validate.verdict import GateResult
from stitchcuda.gpu_validate.version import Version


def real_tools(nvcc: str = "") -> Tools:
    """`nvcc` is the user's setting for the compiler, as in `find_nvcc`."""
    checks: dict[Path, MemoryCheck] = {}

    def order(before: Analysis, after: Analysis, declared: Declared) -> GateResult:
        return g1(prove(before, after, declared))

    def make_builder(
        baseline: Version, project: Project, *, scratch: Path, arch: str | None, cancel: Callable[[], bool]
    ) -> Builds:
        return Builder(baseline, project, scratch=scratch, arch=arch, nvcc_setting=nvcc, cancel=cancel)

    def memory(
        builder: Builds,
        baseline: Built,
        candidate: Built,
        project: Project,
        tools: tuple[str, ...],
        case: Case,
        new_shapes: frozenset[str] | None,
        *,
        scratch: Path,
        cancelled: Callable[[], bool],
    ) -> GateResult:
        if scratch not in checks:  # one for a hub: it keeps what it found of the original
            compiler, _ = find_nvcc(nvcc)
            checks[scratch] = MemoryCheck(find_sanitizer(compiler.root if compiler else None), scratch, cancelled)
        return checks[scratch](builder, baseline, candidate, project, tools, case, new_shapes)

    return Tools(
        analyse=analyse,
        structure=g0,
        order=order,
        builder=make_builder,
        build=g2,
        memory=memory,
        run_traced=run_traced,
        library=lambda: tracer_library(nvcc),
        gpu=probe_gpu,
        machine=read_machine,
    )
