"""Host reads that watch memory change on purpose."""

from __future__ import annotations

from stitchcuda.analysis.order.timeline import Op
from stitchcuda.analysis.program.ir import Expr, Loop, Program, Span, Stmt, children


def polls(program: Program, op: Op) -> bool:
    """The read decides a `while` or `do` loop that waits for the device to change the memory (C12)."""
    function = program.functions.get(op.function)
    if function is None or function.body is None:
        return False
    return any(
        loop.form in ("while", "do") and loop.condition is not None and _within(op.site.span, loop.condition.span)
        for loop in _loops_around(function.body, op.site.span)
    )


def _loops_around(node: Stmt | Expr, span: Span) -> list[Loop]:
    found = [node] if isinstance(node, Loop) else []
    for child in children(node):
        if _within(span, child.span):
            found += _loops_around(child, span)
    return found


def _within(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
