"""Host reads that watch memory change on purpose."""

from __future__ import annotations

from stitchcuda.analysis.findings.edits import contains
from stitchcuda.analysis.findings.outline import outline
from stitchcuda.analysis.order.timeline import Op
from stitchcuda.analysis.program.ir import Program


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
