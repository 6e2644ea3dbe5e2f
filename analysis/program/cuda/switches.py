"""`switch` and its cases, cases written by macros included."""

from __future__ import annotations

from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda import macros
from stitchcuda.analysis.program.cuda.context import STATEMENTS, Context
from stitchcuda.analysis.program.cuda.statements import condition_of
from stitchcuda.analysis.program.ir import (
    Block,
    Case,
    Evaluate,
    Expr,
    Opaque,
    Stmt,
    Switch,
)
from tree_sitter import Node


def switch(cx: Context, node: Node, out: list[Stmt]) -> None:
    init, subject = condition_of(cx, node.child_by_field_id(g.F_CONDITION))
    cases: list[Case] = []
    loose: list[Stmt] = []
    body = node.child_by_field_id(g.F_BODY)
    if body is not None:
        _cases(cx, body, cases, loose)
    switch_ = Switch(cx.span(node), subject, tuple(cases))
    before = [*([init] if init is not None else []), *loose]
    out.append(Block(cx.span(node), (*before, switch_)) if before else switch_)


def _cases(cx: Context, node: Node, cases: list[Case], loose: list[Stmt]) -> None:
    for child in node.named_children:
        kind = child.kind_id
        if kind == g.CASE:
            _case(cx, child, cases)
        elif kind in (g.PREPROC_IF, g.PREPROC_IFDEF, g.PREPROC_ELSE, g.PREPROC_ELIF, g.PREPROC_ELIFDEF):
            _cases(cx, child, cases, loose)
        elif kind == g.EXPRESSION_STATEMENT and _case_macro(cx, child, cases):
            continue
        elif kind != g.COMMENT and child.kind_id in STATEMENTS:
            target: list[Stmt] = []
            cx.stmt(child, target)
            if cases:
                last = cases[-1]
                cases[-1] = Case(last.span, last.labels, (*last.body, *target))
            else:
                loose.extend(target)


def _case_macro(cx: Context, node: Node, cases: list[Case]) -> bool:
    """`CASE(X);` where the macro's body is `case X: ...`."""
    call = node.named_children[0] if node.named_child_count == 1 else None
    if call is None or call.kind_id != g.CALL:
        return False
    opened = macros.open_statement(cx, call)
    if opened is None or not any(n.kind_id == g.CASE for n in opened[1].nodes):
        return False
    inner, body = opened
    for each in body.nodes:
        if each.kind_id == g.CASE:
            _case(inner, each, cases)
        elif cases:
            extra: list[Stmt] = []
            inner.stmt(each, extra)
            cases[-1] = Case(cases[-1].span, cases[-1].labels, (*cases[-1].body, *extra))
    return True


def _case_macro_inside(
    cx: Context, node: Node, cases: list[Case], index: int, labels: tuple[Expr, ...], body: list[Stmt]
) -> bool:
    """A case macro after another case's statements: `case 1: f(); CASE(2);`."""
    cases[index] = Case(cases[index].span, labels, tuple(body))
    return _case_macro(cx, node, cases)


def stray_case(cx: Context, node: Node, out: list[Stmt]) -> None:
    """A `case` outside the body of its switch (a macro, a jump into a block): its label is kept as an unknown."""
    cases: list[Case] = []
    _case(cx, node, cases)
    for case in cases:
        out.append(Evaluate(case.span, Opaque(case.span, "case label", case.labels)))
        out.extend(case.body)


def _case(cx: Context, node: Node, cases: list[Case]) -> None:
    """Nested cases (`case 1: case 2:` may nest) are laid out side by side."""
    value = node.child_by_field_id(g.F_VALUE)
    labels: tuple[Expr, ...] = (cx.expr(value),) if value is not None else ()
    body: list[Stmt] = []
    index = len(cases)
    cases.append(Case(cx.span(node), labels, ()))
    after_colon = False
    for child in node.children:
        if not after_colon:
            after_colon = child.type == ":"
            continue
        if child.kind_id == g.EXPRESSION_STATEMENT and _case_macro_inside(cx, child, cases, index, labels, body):
            index, labels, body = len(cases) - 1, cases[-1].labels, list(cases[-1].body)
        elif child.kind_id == g.CASE:
            cases[index] = Case(cx.span(node), labels, tuple(body))
            _case(cx, child, cases)
            index, labels, body = len(cases) - 1, cases[-1].labels, list(cases[-1].body)
        elif child.is_named and child.kind_id != g.COMMENT:
            cx.stmt(child, body)
    cases[index] = Case(cases[index].span, labels, tuple(body))
