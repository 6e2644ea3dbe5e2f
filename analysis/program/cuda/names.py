"""Names and literals."""

from __future__ import annotations

from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda import literals, macro_bodies, macros
from stitchcuda.analysis.program.cuda.context import Context
from stitchcuda.analysis.program.cuda.declarators import (
    scope_name,
    template_values,
)
from stitchcuda.analysis.program.ir import (
    Const,
    Expr,
    Name,
    Opaque,
    TypeRef,
)
from tree_sitter import Node

_MAX_ALIASES = 8


def identifier(cx: Context, node: Node) -> Expr:
    name = cx.read(node)
    if not name:  # put in by the parser where one is missing
        return Opaque(cx.span(node), "parse error")
    if cx.bindings is not None:
        bound = cx.bindings.get(name)
        if bound is not None and cx.binder is not None:
            if len(bound) == 1:
                return cx.binder.expr(bound[0])
            return Opaque(cx.span(node), "macro arguments", tuple(cx.binder.expr(each) for each in bound))
    macro = cx.env.macros.get(name)
    if macro is not None and macro.params is None and macro.acts and name not in cx.active:
        return macros.expand_value(cx, node, macro, ())
    for _ in range(_MAX_ALIASES):  # `#define KERNEL saxpy`
        if macro is None or not macro.alias or macro.params is not None:
            break
        name = macro.alias
        macro = cx.env.macros.get(name)
    cx.tally.used.add(name)
    return Name(cx.span(node), name)


def plain_name(cx: Context, node: Node) -> Expr:
    return Name(cx.span(node), cx.read(node))


def this(cx: Context, node: Node) -> Expr:
    return Name(cx.span(node), "this")


def qualified(cx: Context, node: Node) -> Expr:
    name, template = _qualified_parts(cx, node)
    cx.tally.called.add(name)
    return Name(cx.span(node), name, template)


def _qualified_parts(cx: Context, node: Node) -> tuple[str, tuple[Expr | TypeRef, ...]]:
    """The name, and the template arguments of its scopes and its own: what binds the parameters of a member, in order."""
    scopes: list[str] = []
    template: tuple[Expr | TypeRef, ...] = ()
    current: Node | None = node
    while current is not None and current.kind_id == g.QUALIFIED:
        scope = current.child_by_field_id(g.F_SCOPE)
        scopes.append(scope_name(cx, scope))
        of_scope = (
            scope.child_by_field_id(g.F_ARGUMENTS) if scope is not None and scope.kind_id == g.TEMPLATE_TYPE else None
        )
        if of_scope is not None:
            template += template_values(cx, of_scope)
        current = current.child_by_field_id(g.F_NAME)
    last = ""
    if current is not None:
        if current.kind_id == g.DEPENDENT_NAME:
            current = current.named_children[-1] if current.named_children else current
        if current.kind_id in (g.TEMPLATE_FUNCTION, g.TEMPLATE_METHOD, g.TEMPLATE_TYPE):
            inner = current.child_by_field_id(g.F_NAME)
            arguments = current.child_by_field_id(g.F_ARGUMENTS)
            last = cx.read(inner) if inner is not None else ""
            template += template_values(cx, arguments) if arguments is not None else ()
        else:
            last = cx.read(current)
    return "::".join([*scopes, last]), template


def template_function(cx: Context, node: Node) -> Expr:
    name = node.child_by_field_id(g.F_NAME)
    arguments = node.child_by_field_id(g.F_ARGUMENTS)
    text = cx.read(name) if name is not None else ""
    cx.tally.called.add(text)
    return Name(
        cx.span(node),
        text,
        template_values(cx, arguments) if arguments is not None else (),
    )


def number(cx: Context, node: Node) -> Expr:
    text = cx.read(node)
    if '"' in text:  # `"..."s`
        return Const(cx.span(node), literals.string(text[: text.rfind('"') + 1]))
    value = literals.number(text)
    return Const(cx.span(node), value) if value is not None else cx.opaque(node, "number")


def string(cx: Context, node: Node) -> Expr:
    value = literals.string(cx.read(node))
    if value.startswith(macro_bodies.STRINGIFIED) and cx.bindings is not None and cx.binder is not None:
        value = ", ".join(cx.binder.read(each) for each in cx.bindings.get(value[1:], ()))
    return Const(cx.span(node), value)


def concatenated(cx: Context, node: Node) -> Expr:
    parts = [literals.string(cx.read(c)) for c in node.named_children if "string" in c.type]
    return Const(cx.span(node), "".join(parts))


def character(cx: Context, node: Node) -> Expr:
    return Const(cx.span(node), literals.character(cx.read(node)))


def true(cx: Context, node: Node) -> Expr:
    return Const(cx.span(node), True)


def false(cx: Context, node: Node) -> Expr:
    return Const(cx.span(node), False)


def null(cx: Context, node: Node) -> Expr:
    return Const(cx.span(node), None)
