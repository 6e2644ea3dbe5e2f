"""Host reads that watch memory change on purpose."""

from __future__ import annotations

import re

from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.edits import contains
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.findings.outline import outline
from stitchcuda.analysis.order.timeline import Op
from stitchcuda.analysis.program.ir import ApiKind, Call, Loop, Name, Program, walk


def polls(program: Program, op: Op) -> bool:
    """The read decides a `while` or `do` loop that waits for the device to change the memory (C12)."""
    return _decided(program, op) is not None


def steers(given: RuleInput, earlier: Op, read: Op) -> bool:
    """The loop that the read decides does not wait for the memory to change: each round launches more work, the earlier
    op among it, so the read asks for the result of that round. Not where the function reads something as volatile."""
    loop = _decided(given.program, read)
    body = edits.body_of(given, read.function)
    if loop is None or body is None or _VOLATILE.search(body.slice(body.function.span)):
        return False
    return _each_round(loop, earlier, read) and any(
        op.kind in _LAUNCHES and _each_round(loop, op, read) for op in given.timeline.ops
    )


def _decided(program: Program, op: Op) -> Loop | None:
    function = program.functions.get(op.function)
    if function is None or function.body is None:
        return None
    for loop in outline(function.body).loops:
        if loop.form in ("while", "do") and loop.condition is not None and contains(loop.condition.span, op.site.span):
            return loop
    return None


def _each_round(loop: Loop, op: Op, read: Op) -> bool:
    """The op is issued in the loop, on no condition but those of the read."""
    places = (*op.calls, op.site)
    inside = any(p.function == read.function and contains(loop.body.span, p.span) for p in places)
    return inside and set(op.conditions) <= set(read.conditions)


def watches(program: Program, op: Op) -> bool:
    """The read is made again and again, in a loop that does not count its rounds: it may look at work in progress."""
    function = program.functions.get(op.function)
    if function is None or function.body is None:
        return False
    return any(
        (loop.form in ("while", "do") or (loop.form == "for" and loop.condition is None))
        and contains(loop.span, op.site.span)
        for loop in outline(function.body).loops
    )


def shares(program: Program, op: Op) -> bool:
    """The host uses atomics of its own, in the function of the access or in the one that is called there: both sides are
    meant to work on the memory at once."""
    function = program.functions.get(op.function)
    if function is None or function.body is None:
        return False
    called = [
        program.functions[uid]
        for node in walk(function.body)
        if isinstance(node, Call) and node.span == op.site.span and isinstance(node.callee, Name)
        for uid in program.by_name.get(node.callee.name.rpartition("::")[2], ())
    ]
    return any(name.startswith(_ATOMICS) for each in (function, *called) for name in each.mentions)


_VOLATILE = re.compile(r"\bvolatile\b")
_LAUNCHES = (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH, ApiKind.LIBRARY_CALL)
_ATOMICS = ("__sync_", "__atomic_", "_Interlocked", "std::atomic", "cuda::atomic", "cuda::std::atomic")
