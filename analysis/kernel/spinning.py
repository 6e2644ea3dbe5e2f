"""Loops in which a thread waits for another one: which memory they poll."""

from __future__ import annotations

from stitchcuda.analysis.kernel.conditions import Conditions, called_name
from stitchcuda.analysis.kernel.model import Access, KernelTrace, Memory, Mode
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device.known_calls import is_atomic

_IDLE = frozenset({"__nanosleep", "__threadfence", "__threadfence_block"})


def polls(trace: KernelTrace, conditions: Conditions) -> list[Access]:
    """The accesses to global memory that loops repeat until another thread has changed it."""
    loops: dict[str, list[ir.Span]] = {}
    out = []
    for access in trace.accesses:
        if access.buffer.memory is not Memory.GLOBAL or access.mode not in (Mode.READ, Mode.ATOMIC):
            continue
        function = access.site.function
        if function not in loops:
            loops[function] = [n.span for n in conditions.nodes(function) if isinstance(n, ir.Loop) and _waits(n)]
        if any(low <= access.site.span[0] and access.site.span[1] <= high for low, high in loops[function]):
            out.append(access)
    return out


def _waits(loop: ir.Loop) -> bool:
    """It does nothing but look: `while (*flag == 0) {}`, `do { v = *flag; } while (v == 0);`."""
    statements = [n for n in ir.walk(loop.body) if not isinstance(n, ir.Block)]
    idle = all(
        isinstance(n, ir.Continue | ir.Evaluate | ir.Const)
        or isinstance(n, ir.Call)
        and called_name(n) in _IDLE
        or isinstance(n, ir.Name)
        and n.name in _IDLE
        for n in statements
    )
    condition = list(ir.walk(loop.condition)) if loop.condition is not None else []
    if idle:  # a name may be that of a variable in global memory; of others there are no such accesses
        return any(
            isinstance(n, ir.Index | ir.Deref | ir.Name) or isinstance(n, ir.Call) and _asks(n) for n in condition
        )
    # one variable takes what is read, and decides whether to look again
    taken = [n for n in statements if isinstance(n, ir.Assign)]
    names = {n.name for n in condition if isinstance(n, ir.Name)}
    single = len(taken) == 1 and isinstance(taken[0].target, ir.Name) and taken[0].target.name in names
    small = not any(isinstance(n, ir.If | ir.Loop | ir.Switch | ir.Declare) for n in statements)
    reads = single and any(
        isinstance(n, ir.Index | ir.Deref) or isinstance(n, ir.Call) and _asks(n) for n in ir.walk(taken[0].value)
    )
    return loop.form in ("do", "while") and small and reads


def _asks(call: ir.Call) -> bool:
    """An atomic, or the `load` of an atomic object."""
    return is_atomic(called_name(call)) or isinstance(call.callee, ir.Member) and call.callee.name in ("load", "test")
