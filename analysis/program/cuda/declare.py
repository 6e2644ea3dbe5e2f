"""Local, global and member variable declarations."""

from __future__ import annotations

from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda.context import Context, Segment
from stitchcuda.analysis.program.cuda.declarators import Specifiers, declared, specifiers
from stitchcuda.analysis.program.cuda.expressions import arguments, constructed
from stitchcuda.analysis.program.ir import Const, Construct, Declare, Evaluate, Expr, Opaque, Stmt, TypeRef
from stitchcuda.analysis.program.ir import Name as IrName
from stitchcuda.analysis.syntax.parse import parse_tree
from tree_sitter import Node


def declaration(cx: Context, node: Node, out: list[Stmt], *, local: bool = True) -> None:
    """Append a `Declare` for each declared variable; function prototypes declare nothing here."""
    spec = specifiers(cx, node)
    if spec.thread and local:
        spec = spec._replace(static=True)  # it lives as long as its thread
    if spec.record is not None and local:
        cx.tally.local_types.append((cx, spec.record))
    pending: Declare | None = None
    after_equals = False
    seen_type = node.child_by_field_id(g.F_TYPE) is None
    type_start = -1 if seen_type else node.child_by_field_id(g.F_TYPE).start_byte  # type: ignore[union-attr]
    for child in node.children:
        kind = child.kind_id
        if not seen_type:
            seen_type = child.start_byte == type_start
            continue
        if after_equals and child.is_named and pending is not None:
            # `if (auto p = q())` and class members put the value beside the declarator.
            out[-1] = pending = _with_init(pending, cx.expr(child))
            after_equals = False
        elif kind == g.INIT_DECLARATOR:
            pending = _init_declarator(cx, child, spec, out)
        elif kind in g.DECLARATORS and kind != g.TYPE_QUALIFIER:
            pending = _declarator(cx, child, spec, out, local)
        elif kind == g.INITIALIZER_LIST and pending is not None:
            value = Construct(cx.span(child), pending.type, constructed(cx, child, pending.type))
            out[-1] = pending = _with_init(pending, value)
        elif not child.is_named and cx.text[child.start_byte : child.end_byte] == b"=":
            after_equals = True
        elif kind == g.ERROR:
            out.append(Evaluate(cx.span(child), cx.opaque(child, "parse error")))
            pending = None


def _with_init(declare: Declare, value: Expr) -> Declare:
    return Declare(declare.span, declare.name, declare.type, value, declare.static, declare.space, declare.name_span)


def _declarator(cx: Context, node: Node, spec: Specifiers, out: list[Stmt], local: bool) -> Declare | None:
    names = binding_names(node)
    if names:
        return _bindings(cx, names, spec, None, out)
    what = declared(cx, node, spec.type)
    if what.name is None:
        return None
    init: Expr | None = None
    if what.function is not None:
        init = _constructor(cx, what.function, spec.type) if local else None
        if init is None:
            return None  # a function prototype
    if spec.extern and init is None and local and spec.space != "shared":
        return None  # declared elsewhere; `extern __shared__ float s[];` is memory of the launch
    text = cx.read(what.name)
    if not what.type.pointer:
        cx.tally.called.add(what.type.name)
    cx.tally.locals.add(text)
    made = Declare(cx.span(node), text, what.type, init, spec.static, spec.space, cx.span(what.name))
    out.append(made)
    return made


def _init_declarator(cx: Context, node: Node, spec: Specifiers, out: list[Stmt]) -> Declare | None:
    declarator = node.child_by_field_id(g.F_DECLARATOR)
    value = node.child_by_field_id(g.F_VALUE)
    names = binding_names(declarator)
    if names:
        return _bindings(cx, names, spec, cx.expr(value) if value is not None else None, out)
    what = declared(cx, declarator, spec.type)
    init: Expr | None = None
    if value is not None:
        kind = value.kind_id
        if kind == g.ARGUMENT_LIST or kind == g.INITIALIZER_LIST and not _has_equals(node):
            init = Construct(cx.span(value), what.type, constructed(cx, value, what.type))
        else:
            init = cx.expr(value)
    name = what.name
    text = cx.read(name) if name is not None else ""
    if not what.type.pointer and not what.type.reference:
        cx.tally.called.add(what.type.name)
    cx.tally.locals.add(text)
    made = Declare(
        cx.span(node),
        text,
        what.type,
        init,
        spec.static,
        spec.space,
        cx.span(name) if name is not None else cx.span(node),
    )
    out.append(made)
    return made


def _has_equals(node: Node) -> bool:
    return any(not c.is_named and c.type == "=" for c in node.children)


def binding_names(declarator: Node | None) -> list[Node]:
    """The names of `[a, b]`."""
    node = declarator
    while node is not None and node.kind_id == g.REFERENCE_DECLARATOR:
        node = next((c for c in node.named_children), None)
    if node is None or node.kind_id != g.STRUCTURED_BINDING:
        return []
    return [c for c in node.named_children if c.kind_id == g.IDENTIFIER]


def _bindings(cx: Context, names: list[Node], spec: Specifiers, value: Expr | None, out: list[Stmt]) -> Declare | None:
    """Structured bindings: the value is evaluated once, into a variable without a name, and the names hold its parts."""
    whole = cx.span(names[0])
    if value is not None:
        hidden = Declare(whole, hidden_name(cx, names), spec.type, value, spec.static, name_span=whole)
        cx.tally.locals.add(hidden.name)
        out.append(hidden)
    bound = bound_names(cx, names, spec.type)
    cx.tally.locals.update(b.name for b in bound)
    out.extend(bound)
    return bound[-1]


def hidden_name(cx: Context, names: list[Node]) -> str:
    """What the variable behind structured bindings is called: `[a, b]`."""
    return f"[{', '.join(cx.read(n) for n in names)}]"


def bound_names(cx: Context, names: list[Node], type: TypeRef) -> list[Declare]:
    """`[a, b]`: the variables that name the parts of a value."""
    hidden = hidden_name(cx, names)
    made: list[Declare] = []
    for position, name in enumerate(names):
        span = cx.span(name)
        part = Opaque(span, "structured binding", (IrName(span, hidden), Const(span, position)))
        made.append(Declare(span, cx.read(name), type, part, name_span=span))
    return made


# Words that make a parenthesised list a parameter list for certain.
_PARAMETER_KINDS = frozenset({g.PRIMITIVE_TYPE, g.SIZED_TYPE, g.DEPENDENT_TYPE})


def _constructor(cx: Context, function: Node, type_: TypeRef) -> Expr | None:
    """`dim3 grid(a, b)` parses as a prototype: if every parameter can be read as an expression, it is a constructor
    call. None when it is a prototype."""
    listed = function.child_by_field_id(g.F_PARAMETERS)
    if listed is None or listed.named_child_count == 0:
        return None
    for child in listed.named_children:
        if child.kind_id == g.COMMENT:
            continue
        if child.kind_id != g.PARAMETER:
            return None
        typed = child.child_by_field_id(g.F_TYPE)
        if typed is None or typed.kind_id in _PARAMETER_KINDS or typed.kind_id in g.RECORDS:
            return None
        declarator = child.child_by_field_id(g.F_DECLARATOR)
        if declarator is not None and declarator.kind_id in (g.IDENTIFIER,):
            return None  # `T name`: two names in a row are no expression
        if any(c.kind_id == g.TYPE_QUALIFIER for c in child.children):
            return None
    return reparse_arguments(cx, listed, type_)


def reparse_arguments(cx: Context, listed: Node, type_: TypeRef) -> Expr | None:
    """The text between two parentheses, parsed as arguments of a constructor call."""
    head = b"void f(){x"
    piece = cx.text[listed.start_byte : listed.end_byte]
    tree = parse_tree(head + piece + b";}\n")
    if tree.root_node.has_error:
        return None
    stack = [tree.root_node]
    while stack:
        node = stack.pop()
        if node.kind_id == g.ARGUMENT_LIST:
            segment = Segment(len(head), len(head) + len(piece), listed.start_byte, listed.end_byte)
            inner = Context(
                head + piece,
                0,
                cx.env,
                cx.tally,
                fixed=cx.span(listed),
                segments=(segment,),
                outer=cx,
                bindings=cx.bindings,
                binder=cx.binder,
                active=cx.active,
            )
            return Construct(cx.span(listed), type_, arguments(inner, node))
        stack.extend(reversed(node.children))
    return None
