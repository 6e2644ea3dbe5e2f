"""Host reads that watch memory change on purpose."""

from __future__ import annotations

from stitchcuda.analysis.findings.edits import contains
from stitchcuda.analysis.findings.outline import outline
from stitchcuda.analysis.order.timeline import Op
from stitchcuda.analysis.program.ir import Call, Name, Program, walk


def polls(program: Program, op: Op) -> bool:
    """The read decides a `while` or `do` loop that waits for the device to change the memory (C12)."""
    function = program.functions.get(op.function)
    if function is None or function.body is None:
        return False
    return any(
        loop.form in ("while", "do") and loop.condition is not None and contains(loop.condition.span, op.site.span)
        for loop in outline(function.body).loops
    )


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


_ATOMICS = ("__sync_", "__atomic_", "_Interlocked", "std::atomic", "cuda::atomic", "cuda::std::atomic")
