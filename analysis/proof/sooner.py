"""Waits that a change adds or moves forward: a kernel that itself waits for the host, or for other work, may never end then,
and a clock measures something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.waits import callee_name, last_name, members
from stitchcuda.analysis.program.ir import (
    ApiKind,
    Call,
    Deref,
    Function,
    Index,
    Loop,
    Name,
    Program,
    Site,
    walk,
)
from stitchcuda.analysis.proof.correspond import Correspondence
from stitchcuda.analysis.proof.matching import Pairing, where
from stitchcuda.analysis.proof.model import ProofFinding
from stitchcuda.analysis.proof.points import TIME


def sooner(both: Correspondence, made: Pairing, reasons: Mapping[Site, tuple[str, str]]) -> Iterator[ProofFinding]:
    """Findings where work is complete earlier than in the original. `reasons` are points of the changed version."""
    line, other = made.before, made.after
    frees = [op for op in other.ops if op.kind is ApiKind.FREE and op.stream is None]  # may wait for all before (W8)
    patient: dict[str, bool] = {}
    for a, b in sorted(made.pairs.items()):
        done = other.before[b]
        for free in frees:
            partner = made.back.get(free.id)
            if other.earlier[b] >> free.id & 1 and (partner is None or not line.earlier[a] >> partner & 1):
                done |= other.earlier[free.id]
        gained = [other.ops[n] for n in members(done & ~made.images(made.done_before(a)))]
        gained = [op for op in gained if op.id in made.back and op.stream is not None]
        if not gained:
            continue
        clock = reasons.get(other.ops[b].site, ("", ""))
        explicit = [op for op in gained if other.before[b] >> op.id & 1]
        if clock[0] == TIME and other.ops[b].kind is ApiKind.NEUTRAL and explicit:
            what = f"`{clock[1]}` takes a time here, and {wording.operation(explicit[0])} is now waited for before"
            yield where(both, other.ops[b], what)
            return
        for op in gained:
            if op.kind is not ApiKind.LAUNCH:
                continue
            if op.kernel not in patient:
                patient[op.kernel] = may_wait(both.after.program, op.kernel)
            if patient[op.kernel] and not line.ordered(made.back[op.id], a):
                what = f"{wording.operation(op)} may wait for what comes later, and is now waited for before"
                yield where(both, other.ops[b], what)
                return


def may_wait(program: Program, kernel: str) -> bool:
    """A kernel may run until memory changes: it, or a function that it calls, holds a loop without a counter that looks at
    memory."""
    uids = [u for u in program.by_name.get(last_name(kernel), ()) if program.functions[u].space == "global"]
    return not uids or any(_waits(program, program.functions[u], set()) for u in uids)


def _waits(program: Program, function: Function, seen: set[str]) -> bool:
    if function.uid in seen:
        return False
    seen.add(function.uid)
    if function.body is None:
        return True
    for node in walk(function.body):
        if isinstance(node, Loop) and node.form in ("while", "do", "for") and _looks_at_memory(node):
            return True
        if isinstance(node, Call) and isinstance(node.callee, Name):
            called = (program.functions[u] for u in program.by_name.get(last_name(callee_name(node)), ()))
            if any(f.space != "host" and _waits(program, f, seen) for f in called):
                return True
    return False


def _looks_at_memory(loop: Loop) -> bool:
    if loop.step is not None and loop.condition is not None:
        stepped = {n.name for n in walk(loop.step) if isinstance(n, Name)}
        if stepped & {n.name for n in walk(loop.condition) if isinstance(n, Name)}:
            return False  # it counts
    parts = [p for p in (loop.condition, loop.body) if p is not None]
    return any(isinstance(n, (Index, Deref, Call)) for part in parts for n in walk(part)) or loop.condition is None
