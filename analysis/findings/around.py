"""The parts of a node that hold a span: found by halving in a long block, which fixes look through once for each finding."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

from stitchcuda.analysis.kept import KeptWith
from stitchcuda.analysis.program.ir import Block, Expr, Span, Stmt, children

_LONG = 32  # statements


def holding(node: Stmt | Expr, span: Span) -> list[Stmt | Expr]:
    """The direct sub-nodes that hold a span, in order; of macros that were expanded several may."""
    if type(node) is Block and len(node.body) > _LONG:
        edges = _edges.get(node)
        if edges is None:
            edges = _edges.keep(node, _edges_of(node))
        if edges:
            starts, ends = edges
            return [*node.body[bisect_left(ends, span[1]) : bisect_right(starts, span[0])]]
    return [child for child in children(node) if child.span[0] <= span[0] and span[1] <= child.span[1]]


def _edges_of(block: Block) -> tuple[tuple[int, ...], ...]:
    """Where its statements begin and end; nothing when they do not stand in order."""
    starts, ends = tuple([s.span[0] for s in block.body]), tuple([s.span[1] for s in block.body])
    return (starts, ends) if all(a <= b for edge in (starts, ends) for a, b in pairwise(edge)) else ()


_edges: KeptWith[tuple[tuple[int, ...], ...]] = KeptWith()
