"""G4 of a version that defines a stage: compute-sanitizer on it and on the reference version.

initcheck looks at the version alone. A stand-in reads the buffers that the kernel is to fill, with all that nobody wrote yet: reports
of that say nothing and take minutes. What the tool says of the stage's own kernels is new, what it says of others is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from stitchcuda.analysis.contract.project import Project
from stitchcuda.gpu_validate.building.model import Built
from stitchcuda.gpu_validate.runs import Case
from stitchcuda.gpu_validate.sanitizer import TOOLS
from stitchcuda.gpu_validate.tools import Builds, MemoryGate
from stitchcuda.gpu_validate.verdict import GateResult, GateState

ALONE = "initcheck"


NewShapes: TypeAlias = frozenset[str] | None


def memory_of(
    inner: MemoryGate,
    kernels: Callable[[], Collection[str]],
    shapes: Callable[[NewShapes], NewShapes] = lambda known: known,
) -> MemoryGate:
    """The gate for versions that define those kernels: the stage's own. `shapes` adds the kernels that it launches to those that were
    seen to be launched otherwise."""

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
        def asked(original: Built, wanted: tuple[str, ...]) -> GateResult:
            return inner(
                builder,
                original,
                candidate,
                project,
                wanted,
                case,
                shapes(new_shapes),
                scratch=scratch,
                cancelled=cancelled,
            )

        wanted = tools or TOOLS
        both = tuple(tool for tool in wanted if tool != ALONE)
        parts = [asked(baseline, both)] if both else []
        if ALONE in wanted and not any(part.state is GateState.FAILED for part in parts):
            parts.append(_of_kernels(asked(candidate, (ALONE,)), kernels()))
        return _together(parts, complete=set(wanted) == set(TOOLS))

    return memory


def _of_kernels(alone: GateResult, kernels: Collection[str]) -> GateResult:
    """What was compared with itself."""
    names = "|".join(map(re.escape, kernels)) or "(?!)"
    named = re.compile(rf"\bin (?:[\w:() ]*::)?(?:{names})\b")
    findings = tuple(replace(f, baseline=not named.search(f.what)) for f in alone.findings)
    new = [f for f in findings if not f.baseline]
    if not new:
        return alone
    return replace(alone, state=GateState.FAILED, reason=f"new report: {new[0].what}", findings=findings)


def _together(parts: list[GateResult], *, complete: bool) -> GateResult:
    """One result: the worst of them, passed when all tools ran."""
    findings = tuple(f for part in reversed(parts) for f in part.findings)
    for state in (GateState.FAILED, GateState.INCONCLUSIVE):
        worst = next((part for part in parts if part.state is state), None)
        if worst is not None:
            return replace(worst, findings=findings)
    not_run = next((p for p in parts if p.state is GateState.UNTESTED and "tools" not in p.evidence), None)
    if not_run is not None:
        return not_run
    ran = {name: seen for part in parts for name, seen in part.evidence.get("tools", {}).items()}
    spared = {
        name: why
        for part in parts
        for name, why in part.evidence.get("not_run", {}).items()
        if name not in ran and not why.startswith("not asked for")
    }
    evidence = {"tools": ran, "not_run": spared}
    if complete:
        return GateResult("G4", GateState.PASSED, "", evidence, findings)
    missing = ", ".join(tool for tool in TOOLS if tool not in ran and tool not in spared)
    return GateResult("G4", GateState.UNTESTED, f"only a part was asked for; not run: {missing}", evidence, findings)
