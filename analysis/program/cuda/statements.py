"""Statements, one function a node kind. Each appends what it lowers to: a declaration of three names is three."""

from __future__ import annotations

from dataclasses import replace

from stitchcuda.analysis.program.cuda import declare, macros
from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda.context import STATEMENTS, Context
from stitchcuda.analysis.program.cuda.declarators import declared, params, specifiers
from stitchcuda.analysis.program.ir import (
    Assign,
    Block,
    Break,
    Const,
    Continue,
    Declare,
    Evaluate,
    Expr,
    Goto,
    If,
    Label,
    Lambda,
    Loop,
    Name,
    Opaque,
    PreprocIf,
    Return,
    Stmt,
    Switch,
    Throw,
    Try,
)
from tree_sitter import Node


def one(cx: Context, node: Node | None) -> Stmt:
    """A statement that stands alone (a branch, a loop body)."""
    if node is None:
        return Block((0, 0), ())
    out: list[Stmt] = []
    cx.stmt(node, out)
    if len(out) == 1:
        return out[0]
    return Block(cx.span(node), tuple(out), scope=any(isinstance(s, Declare) for s in out))


def compound(cx: Context, node: Node, out: list[Stmt]) -> None:
    out.append(block(cx, node))


def block(cx: Context, node: Node) -> Block:
    body: list[Stmt] = []
    _sequence(cx, [c for c in node.named_children if c.kind_id != g.COMMENT], body)
    return Block(cx.span(node), tuple(body))


def _sequence(cx: Context, nodes: list[Node], out: list[Stmt]) -> None:
    """Statements in a row. A macro that is the head of a loop takes the statement after it."""
    skip = False
    for position, child in enumerate(nodes):
        if skip:
            skip = False
        elif child.kind_id == g.EXPRESSION_STATEMENT and child.has_error and position + 1 < len(nodes):
            skip = macros.expand_header(cx, child, nodes[position + 1], out)
            if not skip:
                cx.stmt(child, out)
        else:
            cx.stmt(child, out)


def headed_block(cx: Context, node: Node, out: list[Stmt]) -> None:
    """`NAME(args) { ... }` inside a function parses as a function definition: a macro in front of a block."""
    declarator = node.child_by_field_id(g.F_DECLARATOR)
    body = node.child_by_field_id(g.F_BODY)
    if body is None or declarator is None or node.child_by_field_id(g.F_TYPE) is not None:
        # Not run here: braces went wrong before it. A lambda that nobody calls keeps what is in it.
        inside = (
            (Lambda(cx.span(node), (), block(cx, body)),) if body is not None and body.kind_id == g.COMPOUND else ()
        )
        out.append(Evaluate(cx.span(node), Opaque(cx.span(node), "function definition", inside)))
        return
    if macros.expand_header(cx, declarator, body, out):
        return
    if not macros.expand_call_text(cx, declarator, out):
        out.append(Evaluate(cx.span(declarator), cx.opaque(declarator, "macro")))
    cx.stmt(body, out)


def expression_statement(cx: Context, node: Node, out: list[Stmt]) -> None:
    for child in node.named_children:
        kind = child.kind_id
        if kind == g.COMMENT:
            continue
        if (kind == g.CALL or kind == g.IDENTIFIER) and macros.expand_statement(cx, child, out):
            continue
        if child.is_error:
            out.append(Evaluate(cx.span(child), cx.opaque(child, "parse error")))
            continue
        out.append(Evaluate(cx.span(child), cx.expr(child)))


def declaration(cx: Context, node: Node, out: list[Stmt]) -> None:
    if not (cx.env.macros and macros.expand_declaration(cx, node, out)):
        declare.declaration(cx, node, out)


def alias(cx: Context, node: Node, out: list[Stmt]) -> None:
    """A type named inside a function belongs to the file: names of local types are seldom used twice."""
    cx.tally.local_types.append((cx, node))


def nothing(cx: Context, node: Node, out: list[Stmt]) -> None:
    """Syntax without effect: `using namespace`, `static_assert`, attributes."""


# Links of an else-if chain kept as nested `If`s; the tests of a longer one are laid out one after another.
_MAX_LINKS = 40


def if_(cx: Context, node: Node, out: list[Stmt]) -> None:
    # A loop: else-if chains nest without bound.
    links: list[tuple[Node, Stmt | None, Expr, Stmt]] = []
    current: Node | None = node
    last: Node | None = None
    while current is not None:
        init, condition = condition_of(cx, current.child_by_field_id(g.F_CONDITION))
        links.append((current, init, condition, one(cx, current.child_by_field_id(g.F_CONSEQUENCE))))
        clause = current.child_by_field_id(g.F_ALTERNATIVE)
        current = None
        if clause is not None:
            inner = next((c for c in clause.named_children if c.kind_id != g.COMMENT), None)
            if inner is not None and inner.kind_id == g.IF:
                current = inner
            else:
                last = inner
    rest = [If(cx.span(link), condition, then, None, init) for link, init, condition, then in links[_MAX_LINKS:]]
    otherwise = one(cx, last) if last is not None else None
    if rest:
        tail: list[Stmt] = [*rest, *([otherwise] if otherwise is not None else [])]
        otherwise = Block(rest[0].span, tuple(tail))
    for link, init, condition, then in reversed(links[:_MAX_LINKS]):
        otherwise = If(cx.span(link), condition, then, otherwise, init)
    if otherwise is not None:
        out.append(otherwise)


def condition_of(cx: Context, node: Node | None) -> tuple[Stmt | None, Expr]:
    """The init statement and the condition of `if`, `while` or `switch`. A declared condition becomes both."""
    if node is None:
        return None, Opaque((0, 0), "condition")
    if node.kind_id != g.CONDITION_CLAUSE:
        return None, cx.expr(node)
    init: list[Stmt] = []
    condition: Expr | None = None
    for child in node.named_children:
        kind = child.kind_id
        if kind == g.INIT_STATEMENT:
            for inner in child.named_children:
                cx.stmt(inner, init)
        elif kind == g.DECLARATION:
            before = len(init)
            declare.declaration(cx, child, init)
            new = init[before:]
            named = new[-1] if new else None
            condition = Name(named.name_span, named.name) if isinstance(named, Declare) else None
        elif kind != g.COMMENT:
            condition = cx.expr(child)
    if condition is None:
        condition = cx.opaque(node, "condition")
    if not init:
        return None, condition
    return (init[0] if len(init) == 1 else Block(cx.span(node), tuple(init), scope=False)), condition


def while_(cx: Context, node: Node, out: list[Stmt]) -> None:
    init, condition = condition_of(cx, node.child_by_field_id(g.F_CONDITION))
    body = one(cx, node.child_by_field_id(g.F_BODY))
    span = cx.span(node)
    if isinstance(init, Declare) and init.init is not None:
        # `while (T x = f())`: declared once here, assigned anew in each round.
        first = Declare(init.span, init.name, init.type, None, init.static, init.space, init.name_span)
        test = Assign(init.span, Name(init.name_span, init.name), init.init)
        out.append(Block(span, (first, Loop(span, "while", body, condition=test))))
        return
    out.append(Loop(span, "while", body, init, condition))


def do(cx: Context, node: Node, out: list[Stmt]) -> None:
    body = one(cx, node.child_by_field_id(g.F_BODY))
    condition = node.child_by_field_id(g.F_CONDITION)
    test = cx.expr(condition) if condition is not None else Const(cx.span(node), False)
    if isinstance(test, Const) and not test.value and not leaves(body):
        out.append(body)  # `do { ... } while (0)` is a block
        return
    out.append(Loop(cx.span(node), "do", body, condition=test))


def leaves(node: Stmt) -> bool:
    """Whether a statement holds a `break` or `continue` of the loop around it."""
    match node:
        case Break() | Continue():
            return True
        case Block(body=body):
            return any(leaves(s) for s in body)
        case If(then=then, otherwise=otherwise):
            return leaves(then) or (otherwise is not None and leaves(otherwise))
        case Switch(cases=cases):
            return any(isinstance(s, Continue) for case in cases for s in case.body)
        case Try(body=body, handlers=handlers):
            return leaves(body) or any(leaves(h) for h in handlers)
        case PreprocIf(branches=branches):
            return any(leaves(b) for _, b in branches)
    return False


def for_(cx: Context, node: Node, out: list[Stmt]) -> None:
    initializer = node.child_by_field_id(g.F_INITIALIZER)
    init: list[Stmt] = []
    if initializer is not None:
        if initializer.kind_id == g.DECLARATION:
            declare.declaration(cx, initializer, init)
        else:
            cx.stmt(initializer, init)
    condition = node.child_by_field_id(g.F_CONDITION)
    step = node.child_by_field_id(g.F_UPDATE)
    test = cx.expr(condition) if condition is not None else None
    next_ = cx.expr(step) if step is not None else None
    first: Stmt | None = None
    if init:
        first = init[0] if len(init) == 1 else Block(cx.span(initializer or node), tuple(init), scope=False)
    body = one(cx, node.child_by_field_id(g.F_BODY))
    out.append(Loop(cx.span(node), "for", body, first, test, next_))


def range_for(cx: Context, node: Node, out: list[Stmt]) -> None:
    spec = specifiers(cx, node)
    declarator = node.child_by_field_id(g.F_DECLARATOR)
    right = node.child_by_field_id(g.F_RIGHT)
    iterable = cx.expr(right) if right is not None else Opaque(cx.span(node), "range")
    init = node.child_by_field_id(g.F_INITIALIZER)
    before: list[Stmt] = []
    if init is not None:
        for child in init.named_children if init.kind_id == g.INIT_STATEMENT else [init]:
            cx.stmt(child, before)
    names = declare.binding_names(declarator)
    body = one(cx, node.child_by_field_id(g.F_BODY))
    span = cx.span(node)
    if names:
        where = cx.span(declarator or node)
        named = replace(spec.type, reference=True)  # a copy of an element would not be told from the element
        target = Declare(where, declare.hidden_name(cx, names), named, name_span=where)
        body = Block(body.span, (*declare.bound_names(cx, names, spec.type), body))
    else:
        what = declared(cx, declarator, spec.type)
        where = cx.span(what.name) if what.name is not None else span
        target = Declare(where, cx.read(what.name) if what.name is not None else "", what.type, name_span=where)
    first = before[0] if len(before) == 1 else (Block(span, tuple(before), scope=False) if before else None)
    out.append(Loop(span, "range", body, first, target=target, iterable=iterable))


def labeled(cx: Context, node: Node, out: list[Stmt]) -> None:
    label = node.child_by_field_id(g.F_LABEL)
    if label is not None:
        out.append(Label(cx.span(label), cx.read(label)))
    for child in node.named_children:
        if child.kind_id != g.COMMENT and (label is None or child.start_byte != label.start_byte):
            cx.stmt(child, out)


def return_(cx: Context, node: Node, out: list[Stmt]) -> None:
    value = next((c for c in node.named_children if c.kind_id != g.COMMENT), None)
    out.append(Return(cx.span(node), cx.expr(value) if value is not None else None))


def break_(cx: Context, node: Node, out: list[Stmt]) -> None:
    out.append(Break(cx.span(node)))


def continue_(cx: Context, node: Node, out: list[Stmt]) -> None:
    out.append(Continue(cx.span(node)))


def goto(cx: Context, node: Node, out: list[Stmt]) -> None:
    label = node.child_by_field_id(g.F_LABEL)
    if label is None:
        out.append(Evaluate(cx.span(node), cx.opaque(node, "computed goto")))
        return
    out.append(Goto(cx.span(node), cx.read(label)))


def throw(cx: Context, node: Node, out: list[Stmt]) -> None:
    value = next((c for c in node.named_children if c.kind_id != g.COMMENT), None)
    out.append(Throw(cx.span(node), cx.expr(value) if value is not None else None))


def try_(cx: Context, node: Node, out: list[Stmt]) -> None:
    body = node.child_by_field_id(g.F_BODY)
    handlers: list[Block] = []
    for child in node.named_children:
        if child.kind_id == g.CATCH:
            caught: list[Stmt] = []
            listed = child.child_by_field_id(g.F_PARAMETERS)
            for param in params(cx, listed) if listed is not None else ():
                if param.name and param.name != "...":
                    caught.append(Declare(param.span, param.name, param.type, name_span=param.span))
            inner = child.child_by_field_id(g.F_BODY)
            if inner is not None:
                caught.extend(block(cx, inner).body)
            handlers.append(Block(cx.span(child), tuple(caught)))
    out.append(Try(cx.span(node), block(cx, body) if body is not None else Block(cx.span(node), ()), tuple(handlers)))


def attributed(cx: Context, node: Node, out: list[Stmt]) -> None:
    """`[[attribute]] statement`."""
    for child in node.named_children:
        if child.kind_id in STATEMENTS:
            cx.stmt(child, out)


def co_return(cx: Context, node: Node, out: list[Stmt]) -> None:
    return_(cx, node, out)
