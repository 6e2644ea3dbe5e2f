"""Lambdas: captures, parameters, body."""

from __future__ import annotations

from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda.context import Context
from stitchcuda.analysis.program.cuda.declarators import (
    params,
)
from stitchcuda.analysis.program.ir import (
    Block,
    Expr,
    Lambda,
    Param,
    Stmt,
)
from tree_sitter import Node


def capture_lists(cx: Context, node: Node | None) -> tuple[str, list[str], list[str], list[tuple[str, Expr]]]:
    """Default capture, names by reference, names by copy, and captures with an initialiser."""
    default = ""
    by_reference: list[str] = []
    by_copy: list[str] = []
    initialised: list[tuple[str, Expr]] = []
    by_ref_next = False
    for child in node.children if node is not None else ():
        kind = child.kind_id
        text = cx.read(child)
        if child.type == "lambda_default_capture":
            default = text
        elif text == "&":
            by_ref_next = True
        elif kind == g.IDENTIFIER:
            (by_reference if by_ref_next else by_copy).append(text)
            by_ref_next = False
        elif kind == g.THIS:
            by_reference.append("this")
        elif child.type == "lambda_capture_initializer":
            left = child.child_by_field_id(g.F_LEFT)
            right = child.child_by_field_id(g.F_RIGHT)
            if left is not None and right is not None:
                initialised.append((cx.read(left).lstrip("& "), cx.expr(right)))
            by_ref_next = False
        elif child.is_named and text == "*this":
            by_copy.append("this")
    return default, by_reference, by_copy, initialised


def lambda_(cx: Context, node: Node) -> Expr:
    default, by_reference, by_copy, initialised = capture_lists(cx, node.child_by_field_id(g.F_CAPTURES))
    parameters: tuple[Param, ...] = ()
    declarator = node.child_by_field_id(g.F_DECLARATOR)
    body_node = node.child_by_field_id(g.F_BODY)
    if declarator is not None:
        listed = declarator.child_by_field_id(g.F_PARAMETERS)
        if listed is not None:
            parameters = params(cx, listed)
    header_end = body_node.start_byte if body_node is not None else node.end_byte
    header = cx.text[node.start_byte : header_end]
    space = "host"
    if b"__device__" in header:
        space = "host_device" if b"__host__" in header else "device"
    statements: list[Stmt] = []
    if body_node is not None:
        cx.stmt(body_node, statements)
    body = statements[0] if len(statements) == 1 and isinstance(statements[0], Block) else None
    if body is None:
        body = Block(cx.span(body_node or node), tuple(statements))
    return Lambda(
        cx.span(node),
        parameters,
        body,
        tuple(by_reference),
        tuple(by_copy),
        default,
        space,
        tuple(initialised),
    )
