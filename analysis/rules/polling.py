"""Host reads that watch memory change on purpose."""

from __future__ import annotations

from stitchcuda.analysis.order.timeline import Op
from stitchcuda.analysis.program.ir import Loop, Program, walk
from stitchcuda.analysis.rules.edits import contains


def polls(program: Program, op: Op) -> bool:
    """The read decides a `while` or `do` loop that waits for the device to change the memory (C12)."""
    function = program.functions.get(op.function)
    if function is None or function.body is None:
        return False
    return any(
        isinstance(node, Loop)
        and node.form in ("while", "do")
        and node.condition is not None
        and contains(node.condition.span, op.site.span)
        for node in walk(function.body)
    )
