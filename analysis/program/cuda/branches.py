"""`#if` inside functions, and what is left of statements that did not parse."""

from __future__ import annotations

from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda import macros
from stitchcuda.analysis.program.cuda.context import EXPRESSIONS, STATEMENTS, Context
from stitchcuda.analysis.program.ir import (
    Block,
    Evaluate,
    Opaque,
    PreprocIf,
    Stmt,
)
from tree_sitter import Node


def preproc(cx: Context, node: Node, out: list[Stmt]) -> None:
    """`#if` inside a function. `#if 0` and `#if 1` are decided here."""
    branches: list[tuple[str, Block]] = []
    negated: list[str] = []
    complete = False
    current: Node | None = node
    while current is not None:
        condition = preproc_condition(cx, current)
        skip = _condition_nodes(current)
        body: list[Stmt] = []
        for child in current.named_children:
            if child.kind_id != g.COMMENT and child.start_byte not in skip:
                cx.stmt(child, body)
        spelled = " && ".join(
            [*(f"!({c})" for c in negated), *([f"({condition})" if negated else condition] if condition else [])]
        )
        complete = condition is None
        branches.append((spelled, Block(cx.span(current), tuple(body), scope=False)))
        if condition is not None:
            negated.append(condition)
        current = current.child_by_field_id(g.F_ALTERNATIVE)
    first = preproc_condition(cx, node)
    if first is not None and first.strip() in ("0", "1") and len(branches) <= 2:
        live = 0 if first.strip() == "1" else 1
        if live < len(branches):
            out.extend(branches[live][1].body)
        return
    out.append(PreprocIf(cx.span(node), tuple(branches), complete))


def _condition_nodes(node: Node) -> set[int]:
    found = {
        n.start_byte for n in (node.child_by_field_id(g.F_CONDITION), node.child_by_field_id(g.F_NAME)) if n is not None
    }
    alternative = node.child_by_field_id(g.F_ALTERNATIVE)
    if alternative is not None:
        found.add(alternative.start_byte)
    return found


def preproc_condition(cx: Context, node: Node) -> str | None:
    """The condition of one branch as written; None for `#else`."""
    if node.kind_id == g.PREPROC_ELSE:
        return None
    condition = node.child_by_field_id(g.F_CONDITION)
    if condition is not None:
        return " ".join(cx.read(condition).replace("\\\n", " ").split())
    name = node.child_by_field_id(g.F_NAME)
    if name is None:
        return "1"
    positive = f"defined({cx.read(name)})"
    word = cx.text[node.start_byte : name.start_byte]
    return f"!{positive}" if b"ndef" in word else positive


def preproc_stray(cx: Context, node: Node, out: list[Stmt]) -> None:
    """`#define`, `#pragma`, `#include` inside a function."""


def error(cx: Context, node: Node, out: list[Stmt]) -> None:
    """What is left of a statement that did not parse: statements and calls inside are kept, the rest is Opaque."""
    stack = list(reversed(node.named_children))
    while stack:
        child = stack.pop()
        kind = child.kind_id
        if kind == g.CALL:
            if not macros.expand_statement(cx, child, out):
                out.append(Evaluate(cx.span(child), cx.expr(child)))
        elif kind in STATEMENTS and kind != g.ERROR:
            cx.stmt(child, out)
        elif kind in EXPRESSIONS and child.named_child_count:
            out.append(Evaluate(cx.span(child), cx.expr(child)))
        else:
            stack.extend(reversed(child.named_children))
    out.append(Evaluate(cx.span(node), Opaque(cx.span(node), "parse error")))
    cx.tally.opaque += 1
