"""`2 * (w) + (x)` is a product and a sum, but the grammar takes `(w)+(x)` for a cast to a type `w`. Macros that put their
arguments in parentheses are full of it: such a chain is taken apart and put together again by precedence."""

from __future__ import annotations

import re

from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda.context import Context
from stitchcuda.analysis.program.ir import Binary, Expr
from tree_sitter import Node

CAST = g.kind("cast_expression")
_UNARY = g.kind("unary_expression")
_PRECEDENCE = {
    op: level
    for level, ops in enumerate(
        (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"))
        + (("*", "/", "%"),)
    )
    for op in ops
}


def misread(cx: Context, node: Node) -> tuple[Node, str, Node] | None:
    """The value, the operator and the operand of what looks like a cast of a signed number to a type that is none."""
    if node.kind_id != CAST:
        return None
    target, value = node.child_by_field_id(g.F_TYPE), node.child_by_field_id(g.F_VALUE)
    if target is None or value is None or value.kind_id != _UNARY or target.named_child_count != 1:
        return None
    name = target.named_children[0]
    operator, operand = value.child_by_field_id(g.F_OPERATOR), value.child_by_field_id(g.F_ARGUMENT)
    if name.kind_id != g.TYPE_IDENTIFIER or operator is None or operand is None:
        return None
    op = cx.read(operator)
    if op not in ("+", "-") or not _is_value(cx, cx.read(name), op, operand):
        return None
    return name, op, operand


def _is_value(cx: Context, name: str, op: str, operand: Node) -> bool:
    if cx.bindings is not None and name in cx.bindings:
        bound = cx.bindings[name]
        if len(bound) != 1 or bound[0].kind_id == g.TYPE_DESCRIPTOR:
            return False
        if bound[0].kind_id not in (g.IDENTIFIER, g.TYPE_IDENTIFIER):
            return True
        return cx.binder is not None and _is_value(cx.binder, cx.binder.read(bound[0]), op, operand)
    if name in cx.tally.locals:
        return True
    if name in cx.env.records:
        return False
    if op == "+":
        return True  # nobody casts with a plus sign
    macro = cx.env.macros.get(name)
    if macro is not None and macro.params is None:
        return re.fullmatch(r"[A-Za-z_][\w\s:<>]*", macro.body) is None
    return operand.kind_id == g.PARENTHESIZED and name[:1].islower() and not name.endswith("_t")


def regrouped(spans: list[tuple[int, int]], operands: list[Expr], operators: list[str]) -> Expr:
    """A flat chain of operators as a tree by precedence; each operand comes with its span."""
    return _climb(list(zip(spans, operands, strict=True)), operators, 0, 0)[0]


def _climb(
    operands: list[tuple[tuple[int, int], Expr]], operators: list[str], position: int, least: int
) -> tuple[Expr, tuple[int, int], int]:
    """What begins at an operand and is held together by operators of at least a level; its span, and the operand where it ends."""
    span, left = operands[position]
    while position < len(operators) and _PRECEDENCE.get(operators[position], -1) >= least:
        op = operators[position]
        right, end, position = _climb(operands, operators, position + 1, _PRECEDENCE[op] + 1)
        span = (min(span[0], end[0]), max(span[1], end[1]))
        left = Binary(span, op, left, right)
    return left, span, position
