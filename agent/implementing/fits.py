"""Does a definition do what its declaration allows, and nothing beside it? Then the order of everything is as it was.

The rest of the program is the same text. The analysis has taken a declared kernel for one that reads what it is given and writes what
is not const; a definition that stays within that moves no operation and no access. A host stage may launch, copy and wait as it likes,
as long as no caller can tell but by the results (`strictest.py`). Which values are written, the runs show.
"""

from __future__ import annotations

from dataclasses import replace

from stitchcuda.agent import versions
from stitchcuda.agent.implementing import strictest
from stitchcuda.agent.implementing.parameters import flat
from stitchcuda.agent.implementing.placing import edits_of
from stitchcuda.agent.implementing.stages import Stage
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.order.timeline import Mode
from stitchcuda.analysis.program import cuda
from stitchcuda.analysis.program.effects import KernelEffects, kernel_effects
from stitchcuda.analysis.program.ir import Function
from stitchcuda.gpu_validate.verdict import GateFinding, GateResult, GateState

_WRITES = frozenset({Mode.WRITE, Mode.ATOMIC})


def gate(before: Analysis, after: Analysis, stage: Stage, definition: bytes) -> GateResult:
    """G1 of a version in which the stage is defined, `before` being the program without it."""
    edits = edits_of(stage, before.sources[stage.file], before.sources[stage.path], definition)
    if {**before.sources, **versions.edited(before.sources, edits)} != after.sources:
        return _result(GateState.FAILED, f"more than the definition of the {stage.what} was changed", stage)
    if not stage.is_kernel:
        return _of_host_stage(after, stage, definition)
    kernel = next(
        (f for f in after.program.functions.values() if f.qualified == stage.function.qualified and f.body is not None),
        None,
    )
    if kernel is None:
        return _result(GateState.UNTESTED, f"the definition of `{stage.name}` was not understood", stage)
    line = after.sources[kernel.path].count(b"\n", 0, kernel.base) + 1
    effects = kernel_effects(after.program, kernel.uid)
    state, reason = _judged(stage, kernel, effects, _constants(definition))
    shown = {
        p.name: sorted({m.value for e in effects.of(p.name) for m in e.modes})
        for p in kernel.params
        if effects.of(p.name)
    }
    return _result(state, reason, stage, {"accesses": shown}, (kernel.path, line))


def _of_host_stage(after: Analysis, stage: Stage, definition: bytes) -> GateResult:
    looked = strictest.looked_at(after, stage, _constants(definition))
    result = _result(looked.state, looked.reason, stage, {"accesses": looked.accesses})
    return replace(result, findings=looked.findings)


def _constants(definition: bytes) -> frozenset[str]:
    return frozenset(g.name for g in cuda.lower_module("", definition).globals if g.space == "constant")


def _judged(stage: Stage, kernel: Function, effects: KernelEffects, constants: frozenset[str]) -> tuple[GateState, str]:
    if kernel.has_error:
        return GateState.UNTESTED, f"`{stage.name}` could not be parsed completely"
    for declared, given in zip(stage.parameters, kernel.params, strict=True):
        modes = frozenset(m for e in effects.of(given.name) for m in e.modes)
        if flat(declared.type).const and modes & _WRITES:
            return GateState.FAILED, f"it writes through `{given.name}`, which is declared const"
        if declared.name in stage.outputs and not modes & _WRITES and not effects.calls_unknown:
            return GateState.FAILED, f"it never writes `{given.name}`, an output of the kernel"
    if beside := [name for name, mode in effects.symbols if name not in constants or mode in _WRITES]:
        name = beside[0]
        return (
            GateState.FAILED,
            f"it uses `{name}`, which the declaration does not give it: pass what it needs as a parameter",
        )
    if effects.supplied or effects.calls_unknown:
        return GateState.UNTESTED, "it calls code that is not known, or uses an address that no parameter gives"
    if effects.prints:
        return GateState.FAILED, "it prints, which the declaration does not say"
    return GateState.PASSED, ""


def _result(
    state: GateState,
    reason: str,
    stage: Stage,
    evidence: dict[str, object] | None = None,
    place: tuple[str, int] | None = None,
) -> GateResult:
    """Passed, not proved: it is the order that is shown here, the values are for G3."""
    findings = (GateFinding(reason, *place),) if reason and place else ()
    how = {"stage": stage.function.qualified, "reference": stage.reference.qualified, "outputs": list(stage.outputs)}
    return GateResult("G1", state, reason, {**how, **(evidence or {})}, findings)
