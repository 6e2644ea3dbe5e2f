"""Statements, one function a node kind. Each appends what it lowers to: a declaration of three names is three."""

from __future__ import annotations

from stitchcuda.analysis.program.cuda import declare, macros
from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda.context import EXPRESSIONS, STATEMENTS, Context
from stitchcuda.analysis.program.cuda.declarators import declared, params, specifiers
from stitchcuda.analysis.program.ir import (
    Assign,
    Block,
    Break,
    Case,
    Const,
    Continue,
    Declare,
    Evaluate,
    Expr,
    Goto,
    If,
    Label,
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
        out.append(Evaluate(cx.span(node), cx.opaque(node, "function definition")))
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
        init, condition = _condition(cx, current.child_by_field_id(g.F_CONDITION))
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


def _condition(cx: Context, node: Node | None) -> tuple[Stmt | None, Expr]:
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
    init, condition = _condition(cx, node.child_by_field_id(g.F_CONDITION))
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
        target = Declare(where, "", spec.type, name_span=where)
        bound = tuple(
            Declare(cx.span(n), cx.read(n), spec.type, Opaque(cx.span(n), "structured binding"), name_span=cx.span(n))
            for n in names
        )
        body = Block(body.span, (*bound, body))
    else:
        what = declared(cx, declarator, spec.type)
        where = cx.span(what.name) if what.name is not None else span
        target = Declare(where, cx.read(what.name) if what.name is not None else "", what.type, name_span=where)
    first = before[0] if len(before) == 1 else (Block(span, tuple(before), scope=False) if before else None)
    out.append(Loop(span, "range", body, first, target=target, iterable=iterable))


def switch(cx: Context, node: Node, out: list[Stmt]) -> None:
    init, subject = _condition(cx, node.child_by_field_id(g.F_CONDITION))
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


def preproc(cx: Context, node: Node, out: list[Stmt]) -> None:
    """`#if` inside a function. `#if 0` and `#if 1` are decided here."""
    branches: list[tuple[str, Block]] = []
    negated: list[str] = []
    complete = False
    current: Node | None = node
    while current is not None:
        condition = _preproc_condition(cx, current)
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
    first = _preproc_condition(cx, node)
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


def _preproc_condition(cx: Context, node: Node) -> str | None:
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


def attributed(cx: Context, node: Node, out: list[Stmt]) -> None:
    """`[[attribute]] statement`."""
    for child in node.named_children:
        if child.kind_id in STATEMENTS:
            cx.stmt(child, out)


def co_return(cx: Context, node: Node, out: list[Stmt]) -> None:
    return_(cx, node, out)
