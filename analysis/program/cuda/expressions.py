"""Expressions, one small function a node kind. Calls are in `calls.py`, names and literals in `names.py`."""

from __future__ import annotations

from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda.context import Context
from stitchcuda.analysis.program.cuda.declarators import (
    base_type,
    described_type,
    template_values,
)
from stitchcuda.analysis.program.cuda.macros import expand_list, several
from stitchcuda.analysis.program.cuda.misread_casts import CAST, misread, regrouped
from stitchcuda.analysis.program.cuda.names import identifier
from stitchcuda.analysis.program.ir import (
    AddressOf,
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Conditional,
    Const,
    Construct,
    Delete,
    Deref,
    Evaluate,
    Expr,
    Index,
    InitList,
    Lambda,
    Member,
    New,
    Opaque,
    Return,
    SizeOf,
    Stmt,
    TypeRef,
    Unary,
)
from tree_sitter import Node

# A chain such as a + b + c + ... longer than this is Opaque: its tree would be as deep as it is long.
_MAX_CHAIN = 120
_OPERATORS: dict[int, str] = {}  # by kind of token
# containers that braces fill: what stands in them are elements
_LISTED = frozenset({"vector", "deque", "array", "map", "unordered_map"})
_WORDS = {"and": "&&", "or": "||", "not_eq": "!=", "bitand": "&", "bitor": "|", "xor": "^"}


def parenthesized(cx: Context, node: Node) -> Expr:
    inner: Node | None = node
    while inner is not None and inner.kind_id == g.PARENTHESIZED:  # a loop: parentheses nest without bound
        inner = next((c for c in inner.named_children if c.kind_id != g.COMMENT), None)
    if inner is None:
        return cx.opaque(node, "empty parentheses")
    if inner.kind_id == g.COMPOUND:
        return statement_expression(cx, inner)
    return cx.expr(inner)


def statement_expression(cx: Context, node: Node) -> Expr:
    """GNU `({ ...; value; })`: a lambda by reference, called on the spot."""
    body: list[Stmt] = []
    for child in node.named_children:
        cx.stmt(child, body)
    return run_now(cx, node, body)


def run_now(cx: Context, node: Node, body: list[Stmt]) -> Expr:
    """Statements where a value is wanted: the value is that of the last one."""
    span = cx.span(node)
    if body and isinstance(body[-1], Evaluate):
        if len(body) == 1:
            return body[-1].expr
        body[-1] = Return(body[-1].span, body[-1].expr)
    return Call(span, Lambda(span, (), Block(span, tuple(body)), default_capture="&"), ())


def binary(cx: Context, node: Node) -> Expr:
    chain: list[tuple[Node, str, Node]] = []
    current = node
    while current.kind_id == g.BINARY:  # a loop: a + b + c + ... nests to the left without bound
        left = current.child_by_field_id(g.F_LEFT)
        right = current.child_by_field_id(g.F_RIGHT)
        operator = current.child_by_field_id(g.F_OPERATOR)
        if left is None or right is None or operator is None:
            break
        chain.append((current, _OPERATORS.get(operator.kind_id) or _operator(cx, operator), right))
        current = left
    if not chain:
        return cx.opaque(node, "binary expression")
    result = cx.expr(current)
    if len(chain) > _MAX_CHAIN:
        return Opaque(cx.span(node), "long chain", (result, *(cx.expr(right) for _, _, right in reversed(chain))))
    for n in (current, *[right for _, _, right in chain]):
        if n.kind_id == CAST and misread(cx, n) is not None:
            return _regrouped(cx, current, chain)
    for whole, op, right in reversed(chain):
        result = Binary(cx.span(whole), op, result, cx.expr(right))
    return result


def _operator(cx: Context, node: Node) -> str:
    """The operator that a token is; a token of a kind has always the same text."""
    text = cx.read(node)
    op = _WORDS.get(text, text)
    if text == node.type:
        _OPERATORS[node.kind_id] = op
    return op


def _regrouped(cx: Context, first: Node, chain: list[tuple[Node, str, Node]]) -> Expr:
    operands: list[Node] = []
    operators: list[str] = []
    for op, node in [("", first), *((op, right) for _, op, right in reversed(chain))]:
        if op:
            operators.append(op)
        split = misread(cx, node)
        if split is None:
            operands.append(node)
            continue
        operands += [split[0], split[2]]
        operators.append(split[1])
    return regrouped([cx.span(n) for n in operands], [_operand(cx, n) for n in operands], operators)


def _operand(cx: Context, node: Node) -> Expr:
    """What the grammar took for a type is a variable, or stands for an argument of a macro."""
    return identifier(cx, node) if node.kind_id == g.TYPE_IDENTIFIER else cx.expr(node)


def comma(cx: Context, node: Node) -> Expr:
    rights: list[Node] = []
    lefts: list[Node] = []
    current = node
    while current.type == "comma_expression":  # nests to the right
        left = current.child_by_field_id(g.F_LEFT)
        right = current.child_by_field_id(g.F_RIGHT)
        if left is None or right is None:
            break
        lefts.append(left)
        rights.append(right)
        current = right
    if not lefts:
        return cx.opaque(node, "comma expression")
    parts = [*(cx.expr(left) for left in lefts), cx.expr(rights[-1])]
    if len(parts) > _MAX_CHAIN:
        return Opaque(cx.span(node), "long chain", tuple(parts))
    result = parts[0]
    span = cx.span(node)
    for part in parts[1:]:
        result = Binary(span, ",", result, part)
    return result


def unary(cx: Context, node: Node) -> Expr:
    operator = node.child_by_field_id(g.F_OPERATOR)
    argument = node.child_by_field_id(g.F_ARGUMENT)
    if operator is None or argument is None:
        return cx.opaque(node, "unary expression")
    op = cx.read(operator)
    operand = cx.expr(argument)
    if op == "-" and isinstance(operand, Const) and type(operand.value) in (int, float):
        return Const(cx.span(node), -operand.value)  # type: ignore[operator]
    return Unary(cx.span(node), {"not": "!", "compl": "~"}.get(op, op), operand)


def pointer(cx: Context, node: Node) -> Expr:
    operator = node.child_by_field_id(g.F_OPERATOR)
    argument = node.child_by_field_id(g.F_ARGUMENT)
    if operator is None or argument is None:
        return cx.opaque(node, "pointer expression")
    operand = cx.expr(argument)
    return (Deref if cx.read(operator) == "*" else AddressOf)(cx.span(node), operand)


def update(cx: Context, node: Node) -> Expr:
    operator = node.child_by_field_id(g.F_OPERATOR)
    argument = node.child_by_field_id(g.F_ARGUMENT)
    if operator is None or argument is None:
        return cx.opaque(node, "update expression")
    span = cx.span(node)
    post = operator.start_byte > argument.start_byte
    return Assign(span, cx.expr(argument), Const(cx.span(operator), 1), cx.read(operator)[:1], post)


def assignment(cx: Context, node: Node) -> Expr:
    left = node.child_by_field_id(g.F_LEFT)
    right = node.child_by_field_id(g.F_RIGHT)
    operator = node.child_by_field_id(g.F_OPERATOR)
    if left is None or right is None or operator is None:
        return cx.opaque(node, "assignment")
    return Assign(cx.span(node), cx.expr(left), cx.expr(right), cx.read(operator)[:-1])


def conditional(cx: Context, node: Node) -> Expr:
    condition = node.child_by_field_id(g.F_CONDITION)
    then = node.child_by_field_id(g.F_CONSEQUENCE)
    otherwise = node.child_by_field_id(g.F_ALTERNATIVE)
    if condition is None or otherwise is None:
        return cx.opaque(node, "conditional")
    test = cx.expr(condition)
    return Conditional(cx.span(node), test, cx.expr(then) if then is not None else test, cx.expr(otherwise))


def member(cx: Context, node: Node) -> Expr:
    argument = node.child_by_field_id(g.F_ARGUMENT)
    name = node.child_by_field_id(g.F_FIELD)
    if argument is None or name is None:
        return cx.opaque(node, "member access")
    operator = node.child_by_field_id(g.F_OPERATOR)
    op = cx.read(operator) if operator is not None else "."
    base = cx.expr(argument)
    if op.endswith("*"):
        return Opaque(cx.span(node), "pointer to member", (base,))
    if op == "->":
        base = Deref(cx.span(argument), base)
    template: tuple[Expr | TypeRef, ...] = ()
    if name.kind_id == g.DEPENDENT_NAME and name.named_children:
        name = name.named_children[-1]
    if name.kind_id in (g.TEMPLATE_METHOD, g.TEMPLATE_FUNCTION):
        arguments = name.child_by_field_id(g.F_ARGUMENTS)
        template = template_values(cx, arguments) if arguments is not None else ()
        name = name.child_by_field_id(g.F_NAME) or name
    return Member(cx.span(node), base, "".join(cx.read(name).split()), template)


def subscript(cx: Context, node: Node) -> Expr:
    argument = node.child_by_field_id(g.F_ARGUMENT)
    indices = node.child_by_field_id(g.F_INDICES)
    if argument is None or indices is None:
        return cx.opaque(node, "subscript")
    result = cx.expr(argument)
    span = cx.span(node)
    for index in indices.named_children:
        if index.kind_id != g.COMMENT:
            result = Index(span, result, cx.expr(index))
    return result


def cast(cx: Context, node: Node) -> Expr:
    target = node.child_by_field_id(g.F_TYPE)
    value = node.child_by_field_id(g.F_VALUE)
    if target is None or value is None:
        return cx.opaque(node, "cast")
    split = misread(cx, node)
    if split is not None:
        return Binary(cx.span(node), split[1], _operand(cx, split[0]), cx.expr(split[2]))
    return Cast(cx.span(node), described_type(cx, target), cx.expr(value))


def sizeof(cx: Context, node: Node) -> Expr:
    if cx.text.startswith(b"typeid", node.start_byte):  # masked as sizeof
        return Opaque(cx.span(node), "typeid")
    target = node.child_by_field_id(g.F_TYPE)
    if target is not None:
        return SizeOf(cx.span(node), described_type(cx, target))
    value = node.child_by_field_id(g.F_VALUE)
    return SizeOf(cx.span(node), None, cx.expr(value) if value is not None else None)


def alignof(cx: Context, node: Node) -> Expr:
    return Opaque(cx.span(node), "alignof")


def new(cx: Context, node: Node) -> Expr:
    target = node.child_by_field_id(g.F_TYPE)
    declarator = declarator_node = node.child_by_field_id(g.F_DECLARATOR)
    count: Expr | None = None
    base = base_type(cx, target) if target is not None else TypeRef("")
    pointers = 0
    while declarator is not None:
        length = declarator.child_by_field_id(g.F_LENGTH)
        if length is not None:
            count = cx.expr(length) if count is None else Binary(cx.span(declarator), "*", count, cx.expr(length))
        if declarator.type in ("abstract_pointer_declarator", "pointer_declarator"):
            pointers += 1
        declarator = next((c for c in declarator.named_children if c.type.endswith("declarator")), None)
    if target is not None and declarator_node is not None:  # masked: the grammar has no `new T*[n]`
        pointers += cx.text.count(b"*", target.end_byte, declarator_node.start_byte)
    if pointers:
        base = TypeRef(base.name, base.args, base.pointer + pointers, base.reference, base.const, base.dims)
    given = node.child_by_field_id(g.F_ARGUMENTS)
    cx.tally.called.add(base.name)
    made = New(cx.span(node), base, count, arguments(cx, given) if given is not None else ())
    placement = node.child_by_field_id(g.F_PLACEMENT)
    if placement is not None:
        return Opaque(cx.span(node), "placement new", (*arguments(cx, placement), *made.args))
    return made


def delete(cx: Context, node: Node) -> Expr:
    operand = next((c for c in reversed(node.named_children) if c.kind_id != g.COMMENT), None)
    if operand is None:
        return cx.opaque(node, "delete")
    array = any(not c.is_named and c.type == "[" for c in node.children)
    return Delete(cx.span(node), cx.expr(operand), array)


def compound_literal(cx: Context, node: Node) -> Expr:
    target = node.child_by_field_id(g.F_TYPE)
    value = node.child_by_field_id(g.F_VALUE)
    type_ = base_type(cx, target) if target is not None else TypeRef("")
    cx.tally.called.add(type_.name)
    return Construct(cx.span(node), type_, constructed(cx, value, type_) if value is not None else ())


def initializer_list(cx: Context, node: Node) -> Expr:
    items: list[Expr] = []
    names: list[str | None] = []
    for child in node.named_children:
        if child.kind_id == g.INITIALIZER_PAIR:
            value = child.child_by_field_id(g.F_VALUE)
            designator = child.child_by_field_id(g.F_DESIGNATOR)
            items.append(cx.expr(value) if value is not None else cx.opaque(child, "initializer"))
            names.append(cx.read(designator).strip(" .") if designator is not None else None)
        elif child.kind_id != g.COMMENT:
            items.append(cx.expr(child))
            names.append(None)
    return InitList(cx.span(node), tuple(items), tuple(names) if any(names) else ())


def arguments(cx: Context, node: Node) -> tuple[Expr, ...]:
    """The arguments of an argument list or the items of a braced one; a bound `__VA_ARGS__` becomes several."""
    found: list[Expr] = []
    for child in node.named_children:
        kind = child.kind_id
        if kind == g.IDENTIFIER and cx.bindings is not None and cx.binder is not None:
            bound = cx.bindings.get(cx.read(child))
            if bound is not None:
                found.extend(cx.binder.expr(each) for each in bound)
                continue
        if kind == g.IDENTIFIER and several(cx, child) > 1:
            found.extend(expand_list(cx, child))
        elif kind == g.INITIALIZER_PAIR:
            value = child.child_by_field_id(g.F_VALUE)
            found.append(cx.expr(value) if value is not None else cx.opaque(child, "initializer"))
        elif kind != g.COMMENT and not child.is_extra:
            found.append(cx.expr(child))
    return tuple(found)


def constructed(cx: Context, node: Node, type_: TypeRef) -> tuple[Expr, ...]:
    """What `T(...)` and `T{...}` give a constructor: `std::vector<int>{0, 4}` gets one list of two elements, not two numbers."""
    args = arguments(cx, node)
    name = type_.name.rpartition("::")[2]
    if not args or node.kind_id != g.INITIALIZER_LIST or name not in _LISTED or type_.pointer or type_.dims:
        return args
    if name == "array" and len(args) == 1 and isinstance(args[0], InitList):  # `{{1, 2}}`
        return args
    return (InitList(cx.span(node), args),)


def pack_expansion(cx: Context, node: Node) -> Expr:
    inner = next((c for c in node.named_children if c.kind_id != g.COMMENT), None)
    return Opaque(cx.span(node), "pack expansion", (cx.expr(inner),) if inner is not None else ())


def fold(cx: Context, node: Node) -> Expr:
    """`(f(args), ...)`: the pattern once for each element of the pack."""
    inner = next((c for c in node.named_children if c.kind_id != g.COMMENT), None)
    pattern = Opaque(cx.span(node), "pack expansion", (cx.expr(inner),) if inner is not None else ())
    return Opaque(cx.span(node), "fold", (pattern,))


def type_as_value(cx: Context, node: Node) -> Expr:
    """A type where a value is expected (a macro argument, a template argument)."""
    return Opaque(cx.span(node), "type")


def offsetof(cx: Context, node: Node) -> Expr:
    return Opaque(cx.span(node), "offsetof")


def assembly(cx: Context, node: Node) -> Expr:
    return Opaque(cx.span(node), "asm", cx.opaque(node, "asm").children)
