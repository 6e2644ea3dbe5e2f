"""Expanding macro invocations like inline code.

Two ways to expand. When every parameter of the body stands where an expression stands, the body is parsed once and
lowered with its parameters *bound* to the argument nodes of the invocation, which keep their own positions. Otherwise
(types, names, pasted tokens or whole statements as arguments) the text is substituted, parsed and lowered, with a table
of segments that maps positions inside arguments back. Everything else in an expansion has the span of the invocation.
"""

from __future__ import annotations

import re

from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda.context import EXPANSION_BUDGET, Context, Segment
from stitchcuda.analysis.program.cuda.macro_bodies import (
    HEAD_STATEMENT,
    HEAD_VALUE,
    MAX_BODY,
    Body,
    MacroDef,
    parse_body,
    template,
)
from stitchcuda.analysis.program.cuda.macro_text import closing_parenthesis, split_arguments, split_range, substitute
from stitchcuda.analysis.program.ir import Binary, Call, Evaluate, Expr, Name, Opaque, Span, Stmt
from tree_sitter import Node

MAX_NESTING = 8


def expand_statement(cx: Context, node: Node, out: list[Stmt]) -> bool:
    """Expand an expression statement that is a macro invocation. False when `node` is none."""
    if node.kind_id == g.CALL:
        function = node.child_by_field_id(g.F_FUNCTION)
        given = node.child_by_field_id(g.F_ARGUMENTS)
        if function is None or given is None or function.kind_id != g.IDENTIFIER:
            return False
        macro = cx.env.macros.get(cx.read(function))
        if macro is None or macro.params is None:
            return False
        pieces = _expand(cx, node, macro, given)
    else:
        name = cx.read(node)
        if cx.bindings is not None and name in cx.bindings and cx.binder is not None:
            for bound in cx.bindings[name]:
                if not (bound.kind_id in (g.CALL, g.IDENTIFIER) and expand_statement(cx.binder, bound, out)):
                    out.append(Evaluate(cx.binder.span(bound), cx.binder.expr(bound)))
            return True
        macro = cx.env.macros.get(name)
        if macro is None or macro.params is not None or not macro.body:
            return macro is not None and macro.params is None and not macro.body
        if not macro.acts:
            return False
        pieces = _expand(cx, node, macro, None)
    if pieces is None:
        return False
    if isinstance(pieces, list):
        out.extend(pieces)
    else:
        out.append(Evaluate(cx.span(node), pieces))
    return True


def open_statement(cx: Context, call: Node) -> tuple[Context, Body] | None:
    """The opened body of a call that is a macro invocation."""
    function, given = call.child_by_field_id(g.F_FUNCTION), call.child_by_field_id(g.F_ARGUMENTS)
    if function is None or given is None or function.kind_id != g.IDENTIFIER:
        return None
    macro = cx.env.macros.get(cx.read(function))
    if macro is None or macro.params is None or not macro.body:
        return None
    return open_body(cx, call, macro, given)


def expand_call_text(cx: Context, node: Node, out: list[Stmt]) -> bool:
    """Expand an invocation that parsed as a function declarator."""
    function, given = node.child_by_field_id(g.F_DECLARATOR), node.child_by_field_id(g.F_PARAMETERS)
    if function is None or given is None:
        return False
    macro = cx.env.macros.get(cx.read(function))
    if macro is None or macro.params is None:
        return False
    pieces = _expand(cx, node, macro, given)
    if isinstance(pieces, list):
        out.extend(pieces)
    elif pieces is not None:
        out.append(Evaluate(cx.span(node), pieces))
    return pieces is not None


def expand_declaration(cx: Context, node: Node, out: list[Stmt]) -> bool:
    """`ONE(float);` parses as a declaration of type `ONE`: expand it when it is a macro."""
    typed = node.child_by_field_id(g.F_TYPE)
    if typed is None or typed.kind_id != g.TYPE_IDENTIFIER or typed.start_byte != node.start_byte:
        return False
    macro = cx.env.macros.get(cx.read(typed))
    if macro is None or macro.name in cx.active:
        return False
    rest = cx.text[typed.end_byte : node.end_byte]
    if macro.params is None:
        return macro.acts and _expand_before(cx, node, macro, typed, rest, out)
    opening = typed.end_byte + len(rest) - len(rest.lstrip())
    if cx.text[opening : opening + 1] != b"(":
        return False
    closing = closing_parenthesis(cx.text, opening, node.end_byte)
    if closing < 0 or cx.text[closing + 1 : node.end_byte].strip(b"; \t\r\n"):
        return False
    text, segments = substitute(macro, cx.text, split_range(cx.text, opening + 1, closing))
    opened = _open_text(cx, cx.map(node.start_byte, closing + 1), text, segments, cx.active | {macro.name})
    if opened is None:
        return False
    pieces = _lower_body(*opened)
    out.extend(pieces if isinstance(pieces, list) else [Evaluate(cx.span(node), pieces)])
    return True


def _expand_before(cx: Context, node: Node, macro: MacroDef, typed: Node, rest: bytes, out: list[Stmt]) -> bool:
    """`CUERR` and a statement on the next line parse as one declaration: expand the macro, lower the rest."""
    body = macro.body.encode()
    segment = Segment(len(body), len(body) + len(rest), typed.end_byte, node.end_byte)
    opened = _open_text(
        cx, cx.span(node), macro.body + rest.decode("utf-8", "replace"), [segment], cx.active | {macro.name}
    )
    if opened is None or opened[1].has_error:
        return False
    pieces = _lower_body(*opened)
    out.extend(pieces if isinstance(pieces, list) else [Evaluate(cx.span(node), pieces)])
    return True


_DEFINES = re.compile(r"\)\s*(?:const\b\s*)?\{|__global__|__device__")


def expand_item(cx: Context, node: Node) -> tuple[bytes, tuple[Segment, ...]] | None:
    """The text of an invocation at file level whose macro looks like it defines a function, with a body after it when
    there is one."""
    first = node
    body: Node | None = None
    if node.kind_id == g.FUNCTION_DEFINITION:
        if node.child_by_field_id(g.F_TYPE) is not None:
            return None
        body = node.child_by_field_id(g.F_BODY)
    while first.child_count:
        first = first.children[0]
    macro = cx.env.macros.get(cx.read(first))
    if macro is None or macro.params is None or not _DEFINES.search(macro.body):
        return None
    limit = body.start_byte if body is not None else node.end_byte
    gap = cx.text[first.end_byte : limit]
    opening = first.end_byte + len(gap) - len(gap.lstrip())
    closing = closing_parenthesis(cx.text, opening, limit) if cx.text[opening : opening + 1] == b"(" else -1
    if closing < 0:
        return None
    text, segments = substitute(macro, cx.text, split_range(cx.text, opening + 1, closing))
    made = text.encode()
    if body is not None:
        tail = cx.text[body.start_byte : body.end_byte]
        segments.append(Segment(len(made) + 1, len(made) + 1 + len(tail), body.start_byte, body.end_byte))
        made += b" " + tail
    return made + b"\n", tuple(segments)


def expand_call(cx: Context, node: Node, macro: MacroDef, given: Node) -> Expr:
    """The value of a function-like macro invocation."""
    pieces = _expand(cx, node, macro, given)
    if pieces is None:
        from stitchcuda.analysis.program.cuda.expressions import arguments

        return Call(cx.span(node), Name(cx.span(node), macro.name), arguments(cx, given))
    return _as_value(cx, node, pieces)


def expand_value(cx: Context, node: Node, macro: MacroDef, given: tuple[()]) -> Expr:
    """The value of an object-like macro whose body does something."""
    pieces = _expand(cx, node, macro, None)
    if pieces is None:
        return Name(cx.span(node), macro.name)
    return _as_value(cx, node, pieces)


def several(cx: Context, node: Node) -> int:
    """How many arguments a name in an argument list stands for: an object-like macro may be a list of them."""
    macro = cx.env.macros.get(cx.read(node)) if cx.env.macros else None
    if macro is None or macro.params is not None or macro.name in cx.active:
        return 1
    depth, count = 0, 1
    for character in macro.body if "," in macro.body else "":
        depth += (character in "([{") - (character in ")]}")
        count += character == "," and depth == 0
    return count


def expand_list(cx: Context, node: Node) -> list[Expr]:
    """The arguments that such a macro stands for."""
    found: list[Expr] = []
    waiting = [expand_value(cx, node, cx.env.macros[cx.read(node)], ())]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Binary) and one.op == ",":
            waiting += [one.right, one.left]
        else:
            found.append(one)
    return found


def _as_value(cx: Context, node: Node, pieces: Expr | list[Stmt]) -> Expr:
    if not isinstance(pieces, list):
        return pieces
    from stitchcuda.analysis.program.cuda.expressions import run_now

    if not pieces:
        return Opaque(cx.span(node), "empty macro")
    return run_now(cx, node, pieces)


def _expand(cx: Context, node: Node, macro: MacroDef, given: Node | None) -> Expr | list[Stmt] | None:
    """The expression or the statements an invocation stands for; None when it is not expanded."""
    if not macro.body and macro.name not in cx.active:
        return []
    opened = open_body(cx, node, macro, given)
    return _lower_body(*opened) if opened is not None else None


def open_body(cx: Context, node: Node, macro: MacroDef, given: Node | None) -> tuple[Context, Body] | None:
    """The parsed body of an invocation, and the context to lower it in. None when it must not be expanded."""
    if macro.name in cx.active or len(cx.active) >= MAX_NESTING:
        return None
    tally = cx.tally
    tally.expanded += len(macro.body)
    if tally.expanded > EXPANSION_BUDGET:
        return None
    arguments = [c for c in given.named_children if c.kind_id != g.COMMENT] if given is not None else []
    active = cx.active | {macro.name}
    span = cx.span(node)
    bound = _bind(macro, arguments) if given is None or given.kind_id == g.ARGUMENT_LIST else None
    if bound is not None and not (given is not None and given.has_error):
        body = template(macro).body
        if body is not None:
            inner = Context(body.text, 0, cx.env, tally, fixed=span, bindings=bound, binder=cx, outer=cx, active=active)
            return inner, body
    pieces = split_arguments(cx.text, given) if given is not None else []
    text, segments = substitute(macro, cx.text, pieces)
    return _open_text(cx, span, text, segments, active)


def _open_text(
    cx: Context, span: Span, text: str, segments: list[Segment], active: frozenset[str]
) -> tuple[Context, Body] | None:
    """Parse substituted text; None when it is too long, or broken and of no interest."""
    cx.tally.expanded += len(text)
    if len(text) > MAX_BODY * 4:
        return None
    body = parse_body(text)
    if body.has_error and not _MATTERS.search(text):
        return None
    shift = len(HEAD_VALUE if body.text.startswith(HEAD_VALUE) else HEAD_STATEMENT)
    moved = tuple(Segment(s.start + shift, s.end + shift, s.origin, s.origin_end, s.exact) for s in segments)
    inner = Context(body.text, 0, cx.env, cx.tally, fixed=span, segments=moved, outer=cx, active=active)
    # The arguments' text may name parameters of the macro around this one.
    inner.bindings, inner.binder = cx.bindings, cx.binder
    return inner, body


_HEADER = re.compile(r"(?:.*[;{]\s*)?(?:for|while|if|switch|else)\b.*\)$|.*\belse$", re.DOTALL)


def expand_header(cx: Context, node: Node, body: Node, out: list[Stmt]) -> bool:
    """Expand a macro that is the head of a statement (`#define FOR(i, n) for (int i = 0; i < n; ++i)`) together with the
    statement `body` after it. False when `node` is no such invocation."""
    if node.kind_id == g.EXPRESSION_STATEMENT and node.named_child_count == 1:
        node = node.named_children[0]
    if node.kind_id == g.CALL:
        function, given = node.child_by_field_id(g.F_FUNCTION), node.child_by_field_id(g.F_ARGUMENTS)
    elif node.kind_id == g.FUNCTION_DECLARATOR:
        function, given = node.child_by_field_id(g.F_DECLARATOR), node.child_by_field_id(g.F_PARAMETERS)
    else:
        return False
    if function is None or given is None or function.kind_id != g.IDENTIFIER:
        return False
    macro = cx.env.macros.get(cx.read(function))
    if macro is None or macro.params is None or macro.name in cx.active or not _HEADER.match(macro.body):
        return False
    text, segments = substitute(macro, cx.text, split_arguments(cx.text, given))
    head = len(text.encode()) + 1
    tail = cx.text[body.start_byte : body.end_byte]
    segments.append(Segment(head, head + len(tail), body.start_byte, body.end_byte))
    whole = cx.map(node.start_byte, body.end_byte)
    opened = _open_text(cx, whole, f"{text} {tail.decode('utf-8', 'replace')}", segments, cx.active)
    if opened is None:
        return False
    inner, parsed = opened
    for each in parsed.nodes:
        inner.stmt(each, out)
    return True


_MATTERS = re.compile(r"<<<|\bcu(?:da|[A-Z]|blas|fft|dnn|rand|sparse|solver)|\bnccl|\b(?:return|goto|break|continue)\b")


def _lower_body(cx: Context, body: Body) -> Expr | list[Stmt]:
    if body.is_value and body.nodes:
        node = body.nodes[0]
        # A value macro that wraps a statement macro: `#define CHECK(x) CHECK_AT(x, __FILE__)`.
        out: list[Stmt] = []
        if node.kind_id in (g.CALL, g.IDENTIFIER) and expand_statement(cx, node, out):
            if len(out) == 1 and isinstance(out[0], Evaluate):
                return out[0].expr
            return out
        return cx.expr(node)
    statements: list[Stmt] = []
    for node in body.nodes:
        cx.stmt(node, statements)
    return statements


def _bind(macro: MacroDef, arguments: list[Node]) -> dict[str, tuple[Node, ...]] | None:
    """Parameters to argument nodes; None when they do not match one to one."""
    names = macro.params or ()
    if macro.variadic:
        fixed = len(names) - 1
        if len(arguments) < fixed:
            return None
        bound: dict[str, tuple[Node, ...]] = {n: (arg,) for n, arg in zip(names[:fixed], arguments, strict=False)}
        bound[names[-1]] = tuple(arguments[fixed:])
    else:
        if len(arguments) != len(names):
            return None
        bound = {n: (arg,) for n, arg in zip(names, arguments, strict=True)}
    for parts in bound.values():
        if any(
            p.has_error or p.kind_id in (g.TYPE_DESCRIPTOR, g.PRIMITIVE_TYPE, g.SIZED_TYPE, g.COMPOUND) for p in parts
        ):
            return None
    return bound
