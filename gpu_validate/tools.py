"""What the hub uses of the machine, as forms: `real_tools.py` fills them in, tests put others in their place."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.proof.model import Declared
from stitchcuda.gpu_validate.building.model import BuildFailed, Built
from stitchcuda.gpu_validate.machine_state import MachineState
from stitchcuda.gpu_validate.runs import Case, RunTraced
from stitchcuda.gpu_validate.verdict import GateResult
from stitchcuda.gpu_validate.version import Version


class Builds(Protocol):
    """`building.builder.Builder`."""

    def build(self, version: Version) -> Built | BuildFailed: ...

    def placed(self, built: Built) -> AbstractContextManager[Path]: ...


class MemoryGate(Protocol):
    """G4: what the sanitizer reports of the candidate and not of the original (`gates.g4_memory.MemoryCheck`). `new_shapes`:
    the kernels that the candidate was seen to launch otherwise, None when that is not known."""

    def __call__(
        self,
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
    ) -> GateResult: ...


class MakesBuilder(Protocol):
    """Makes what builds the versions of one program, `arch` for the contract's architecture."""

    def __call__(
        self,
        baseline: Version,
        project: Project,
        *,
        scratch: Path,
        arch: str | None,
        cancel: Callable[[], bool],
    ) -> Builds: ...


@dataclass(frozen=True)
class Tools:
    """What the hub uses of the machine. `library` raises NoTracer; `gpu` says why nothing can be run on a GPU, "" when it
    can."""

    analyse: Callable[[Version], Analysis]
    structure: Callable[[Analysis, Analysis], GateResult]
    order: Callable[[Analysis, Analysis, Declared], GateResult]
    builder: MakesBuilder
    build: Callable[[Built | BuildFailed, Built | BuildFailed], GateResult]
    memory: MemoryGate
    run_traced: RunTraced
    library: Callable[[], Path]
    gpu: Callable[[], str]
    machine: Callable[[], MachineState]
