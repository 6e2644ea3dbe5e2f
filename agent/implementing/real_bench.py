"""The bench on this machine: real compilers, GPU and tools, as `gpu_validate/real_tools.py` has them."""

from __future__ import annotations

from collections.abc import Callable

from stitchcuda.agent.implementing.bench import Bench
from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.gpu_validate.hub import Progress
from stitchcuda.gpu_validate.real_tools import real_tools
from stitchcuda.gpu_validate.verdict import GATES


def real_bench(
    project: Project, contract: Contract, tell: Callable[[str], None], cancelled: Callable[[], bool]
) -> Bench:
    """What tries definitions of missing stages with the real parts."""

    def progress(step: Progress) -> None:
        tell(f"{step.gate} {GATES[step.gate]}: {step.sentence}" if step.gate else step.sentence)

    return Bench(real_tools(), project, contract, progress, cancelled)
