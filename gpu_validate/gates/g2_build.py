"""G2: does the version compile as the user compiles, for the target architecture? New warnings and what kernels take are
evidence, compared with the original's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stitchcuda.gpu_validate.building.diagnostics import new_warnings
from stitchcuda.gpu_validate.building.model import BuildFailed, Built, Resources
from stitchcuda.gpu_validate.verdict import GateFinding, GateResult, GateState

_FIGURES = ("registers", "stack", "shared", "spilled")


def g2(baseline: Built | BuildFailed, candidate: Built | BuildFailed) -> GateResult:
    """Only errors of the candidate itself fail it; a machine or an original that does not build says nothing about it."""
    for built in (baseline, candidate):
        if isinstance(built, BuildFailed) and built.missing_tool:
            return GateResult("G2", GateState.UNTESTED, built.reason)
    for built in (baseline, candidate):
        if isinstance(built, BuildFailed) and (built is baseline or built.of_baseline):
            reason = f"the original does not build: {built.reason}"
            return GateResult("G2", GateState.INCONCLUSIVE, reason, _evidence_of(built))
    assert isinstance(baseline, Built)
    if isinstance(candidate, BuildFailed):
        state = GateState.INCONCLUSIVE if candidate.limit else GateState.FAILED
        findings = tuple(GateFinding(d.message, d.path, d.line) for d in candidate.diagnostics)
        return GateResult("G2", state, candidate.reason, _evidence_of(candidate), findings)
    warnings = new_warnings(candidate.warnings, baseline.warnings)
    evidence: dict[str, Any] = {
        "seconds": round(candidate.seconds, 3),
        "new_warnings": len(warnings),
        "device_code": _compared(baseline, candidate),
        "resources": _changed(baseline.resources, candidate.resources),
    }
    if candidate.notes:
        evidence["notes"] = list(candidate.notes)
    if candidate.program_digest == baseline.program_digest:
        evidence["program"] = "byte for byte the original's"
    findings = tuple(GateFinding(f"new warning: {d.message}", d.path, d.line) for d in warnings)
    return GateResult("G2", GateState.PASSED, "", evidence, findings)


def _evidence_of(built: Built | BuildFailed) -> dict[str, Any]:
    return {"seconds": round(built.seconds, 3), **({"log": str(built.log)} if built.log else {})}


def _compared(baseline: Built, candidate: Built) -> str:
    if baseline.compiles_at_run_time or candidate.compiles_at_run_time:
        return "made as the program runs: not compared"
    if not baseline.device_code and not candidate.device_code:
        return "none found"
    return "the same" if baseline.device_code == candidate.device_code else "changed"


def _changed(before: Mapping[str, Resources], after: Mapping[str, Resources]) -> dict[str, Any]:
    """Kernels that take something else than before, `[before, after]`; those that only one version has."""
    changed: dict[str, Any] = {}
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            there = after.get(name) or before[name]
            kind = "only_in_candidate" if name in after else "only_in_baseline"
            changed[name] = {kind: {figure: getattr(there, figure) for figure in _FIGURES}}
            continue
        pairs = {f: [getattr(before[name], f), getattr(after[name], f)] for f in _FIGURES}
        if different := {f: pair for f, pair in pairs.items() if pair[0] != pair[1]}:
            changed[name] = different
    return changed
