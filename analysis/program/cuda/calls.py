"""Calls: kernel launches, API calls by table, casts spelled as calls, macros, and everything else."""

from __future__ import annotations

from stitchcuda.analysis.program import api
from stitchcuda.analysis.program.cuda import grammar as g
from stitchcuda.analysis.program.cuda import macros
from stitchcuda.analysis.program.cuda.context import Context
from stitchcuda.analysis.program.cuda.declarators import base_type, described_type
from stitchcuda.analysis.program.cuda.expressions import arguments
from stitchcuda.analysis.program.ir import (
    AddressOf,
    Api,
    ApiKind,
    Call,
    Cast,
    Const,
    Construct,
    Deref,
    Expr,
    Launch,
    Member,
    Name,
    Opaque,
    Span,
    TypeRef,
)
from tree_sitter import Node

_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast"})
# Types whose constructor call is recognised without seeing a declaration.
_KNOWN_TYPES = frozenset({"dim3", "std::string", "std::thread", "std::vector", "std::runtime_error", "CUdeviceptr"})
_WORDS = frozenset({"unsigned", "signed", "long", "short"})  # of C++ itself: no function has such a name
_NUMBERS = frozenset({"uint", "ushort", "uchar", "ulong"})
_SCALARS = frozenset({"size_t", "ssize_t", "ptrdiff_t", "uintptr_t", "intptr_t", "half", "CUdeviceptr"})
_MAX_ALIASES = 8
DIM3 = TypeRef("dim3")


def call(cx: Context, node: Node) -> Expr:
    function = node.child_by_field_id(g.F_FUNCTION)
    given = node.child_by_field_id(g.F_ARGUMENTS)
    if function is None or given is None:
        return cx.opaque(node, "call")
    if node.child_count > 2:
        config = next((c for c in node.children if c.kind_id == g.KERNEL_CALL), None)
        if config is not None:
            return _launch(cx, node, function, config, given)
    kind = function.kind_id
    if kind == g.IDENTIFIER:
        return _named(cx, node, function, cx.read(function), given)
    if kind == g.FIELD_EXPRESSION:
        callee = cx.expr(function)
        if isinstance(callee, Member):
            cx.tally.called.add(callee.name)
        return Call(cx.span(node), callee, arguments(cx, given))
    if kind == g.TEMPLATE_FUNCTION:
        return _templated(cx, node, function, given)
    if kind == g.QUALIFIED:
        text = cx.read(function)
        if text.startswith("::"):
            row = api.lookup(text[2:].strip(), _count(cx, given))
            if row is not None:
                return _api(cx, node, function, text[2:].strip(), row, arguments(cx, given))
        callee = cx.expr(function)
        args = arguments(cx, given)
        if (
            isinstance(callee, Name)
            and callee.name.startswith("std::")
            and callee.name.endswith("_t")
            and len(args) == 1
        ):
            return Cast(cx.span(node), TypeRef(callee.name), args[0])  # `std::size_t(n)`
        if isinstance(callee, Name) and _is_type(cx, callee.name):
            return Construct(cx.span(node), base_type(cx, function), args)
        return Call(cx.span(node), callee, args)
    if kind in (g.PRIMITIVE_TYPE, g.SIZED_TYPE):
        args = arguments(cx, given)
        target = base_type(cx, function)
        if len(args) == 1:
            return Cast(cx.span(node), target, args[0])
        return Construct(cx.span(node), target, args)
    if kind == g.PARENTHESIZED and (cast := _cast(cx, node, function, given)) is not None:
        return cast
    cx.tally.called.add("operator()")  # what is called may be an object
    return Call(cx.span(node), cx.expr(function), arguments(cx, given))


def _cast(cx: Context, node: Node, function: Node, given: Node) -> Expr | None:
    """`(T)(value)`, which the grammar takes for a call while it does not know that T is a type."""
    inner = function.named_children[0] if function.named_child_count == 1 else None
    if inner is None or inner.kind_id != g.IDENTIFIER or _count(cx, given) != 1:
        return None
    name = cx.read(inner)
    if name in cx.tally.locals or name in cx.env.functions or (cx.bindings is not None and name in cx.bindings):
        return None
    if name in _SCALARS or name in cx.env.records or name.endswith("_t"):
        return Cast(cx.span(node), TypeRef(name), arguments(cx, given)[0])
    return None


def _count(cx: Context, given: Node) -> int:
    listed = [c for c in given.named_children if c.kind_id != g.COMMENT]
    return sum(macros.several(cx, c) if c.kind_id == g.IDENTIFIER else 1 for c in listed)


def _is_type(cx: Context, name: str) -> bool:
    return name in _KNOWN_TYPES or name.rpartition("::")[2] in cx.env.records


def _named(cx: Context, node: Node, function: Node, name: str, given: Node) -> Expr:
    if cx.bindings is not None and name in cx.bindings:
        bound = cx.bindings[name]
        if len(bound) == 1 and cx.binder is not None:
            if bound[0].kind_id != g.IDENTIFIER:
                return Call(cx.span(node), cx.binder.expr(bound[0]), arguments(cx, given))
            name = cx.binder.read(bound[0])
            return _resolved(cx, node, bound[0], name, given, cx.binder)
    return _resolved(cx, node, function, name, given, cx)


def _resolved(cx: Context, node: Node, function: Node, name: str, given: Node, owner: Context) -> Expr:
    """A call of a plain name; `owner` is the text the name itself stands in."""
    number = name in _WORDS or (name in _NUMBERS and name not in cx.env.functions)
    if number and _count(cx, given) == 1:  # `unsigned(n)`, which the grammar takes for a call
        return Cast(cx.span(node), TypeRef(name), arguments(cx, given)[0])
    table = cx.env.macros
    spelled = name
    for _ in range(_MAX_ALIASES):  # `#define gpuMalloc cudaMalloc`
        macro = table.get(name)
        if macro is None:
            break
        if macro.params is not None:
            if name not in cx.active:
                return macros.expand_call(cx, node, macro, given)
            break
        if not macro.alias:
            break
        name = macro.alias
    if name not in cx.env.functions:
        row = api.lookup(name, _count(cx, given))
        if row is not None:
            return _api(cx, node, function, spelled, row, arguments(cx, given), owner)
        if api.looks_like_cuda(name):
            args = arguments(cx, given)
            cx.tally.cuda_calls += 1
            cx.tally.called.add(name)
            roles = tuple((f"arg{i}", value) for i, value in enumerate(args))
            span = cx.span(node)
            return Api(span, spelled, ApiKind.UNMODELLED, roles, frozenset(), owner.span(function))
    cx.tally.called.add(name)
    args = arguments(cx, given)
    if name in _SCALARS and len(args) == 1:
        return Cast(cx.span(node), TypeRef(name), args[0])
    if _is_type(cx, name) or (name.endswith("_t") and len(args) <= 1):
        return Construct(cx.span(node), TypeRef(name), args)
    return Call(cx.span(node), Name(owner.span(function), name), args)


def _templated(cx: Context, node: Node, function: Node, given: Node) -> Expr:
    name_node = function.child_by_field_id(g.F_NAME)
    name = cx.read(name_node) if name_node is not None else ""
    if name in _CASTS:
        target = function.child_by_field_id(g.F_ARGUMENTS)
        descriptor = target.named_children[0] if target is not None and target.named_children else None
        args = arguments(cx, given)
        if descriptor is not None and len(args) == 1:
            if descriptor.kind_id == g.TYPE_DESCRIPTOR:
                type_ = described_type(cx, descriptor)
            else:
                type_ = TypeRef(cx.read(descriptor))
            return Cast(cx.span(node), type_, args[0])
        return Opaque(cx.span(node), name, args)
    if name not in cx.env.functions and name_node is not None:
        row = api.lookup(name, _count(cx, given))
        if row is not None:
            return _api(cx, node, name_node, name, row, arguments(cx, given))
    args = arguments(cx, given)
    if _is_type(cx, name):
        return Construct(cx.span(node), base_type(cx, function), args)
    return Call(cx.span(node), cx.expr(function), args)


def _launch(cx: Context, node: Node, function: Node, config: Node, given: Node) -> Expr:
    cx.tally.cuda_calls += 1
    if function.kind_id == g.IDENTIFIER:
        cx.tally.called.add(cx.read(function))
    parts = arguments(cx, config)
    return Launch(
        cx.span(node),
        cx.expr(function),
        parts[0] if parts else None,
        parts[1] if len(parts) > 1 else None,
        parts[2] if len(parts) > 2 else None,
        parts[3] if len(parts) > 3 else None,
        arguments(cx, given),
    )


def _api(
    cx: Context,
    node: Node,
    function: Node,
    spelled: str,
    row: api.ApiRow,
    args: tuple[Expr, ...],
    owner: Context | None = None,
) -> Expr:
    if row.kind is not ApiKind.NEUTRAL or "graph-node" in row.flags or "fetched" in row.flags:
        cx.tally.cuda_calls += 1
    if not api.is_listed(row.name):
        cx.tally.called.add(row.name)  # the program may define a function of that name itself
    span = cx.span(node)
    if row.kind is ApiKind.LAUNCH:
        return _launch_call(span, spelled, row, args)
    roles = tuple(zip(api.assign_roles(row, len(args)), args, strict=True))
    return Api(span, spelled, row.kind, roles, row.flags, (owner or cx).span(function))


def _launch_call(span: Span, name: str, row: api.ApiRow, args: tuple[Expr, ...]) -> Expr:
    """`cudaLaunchKernel` and its relatives. A launch configuration structure is read through its fields."""
    by_role = dict(zip(row.roles, args, strict=False))
    kernel = by_role.get("kernel")
    if kernel is None:
        return Opaque(span, name, args)
    cooperative = "cooperative" in row.flags
    packed = by_role.get("packed")
    rest = args[len(row.roles) :]
    config = by_role.get("config")
    if config is not None:
        structure = config.operand if isinstance(config, AddressOf) else Deref(config.span, config)
        driver = "driver" in row.flags
        at = config.span
        if driver:
            grid: Expr = _dim3(at, tuple(Member(at, structure, f"gridDim{a}") for a in "XYZ"))
            block: Expr = _dim3(at, tuple(Member(at, structure, f"blockDim{a}") for a in "XYZ"))
        else:
            grid, block = Member(at, structure, "gridDim"), Member(at, structure, "blockDim")
        shared = Member(at, structure, "sharedMemBytes" if driver else "dynamicSmemBytes")
        stream = Member(at, structure, "hStream" if driver else "stream")
        return Launch(span, _function(kernel), grid, block, shared, stream, rest, name, packed, cooperative)
    if "driver" in row.flags:
        if len(args) < 9:
            return Opaque(span, name, args)
        return Launch(
            span,
            _function(kernel),
            _dim3(args[1].span, args[1:4]),
            _dim3(args[4].span, args[4:7]),
            by_role.get("shared"),
            by_role.get("stream"),
            (),
            name,
            packed,
            cooperative,
        )
    return Launch(
        span,
        _function(kernel),
        by_role.get("grid"),
        by_role.get("block"),
        by_role.get("shared"),
        by_role.get("stream"),
        rest,
        name,
        packed,
        cooperative,
    )


def _function(expr: Expr) -> Expr:
    """`(void*)kernel` and `&kernel` are the kernel."""
    while isinstance(expr, Cast | AddressOf):
        expr = expr.operand
    return expr


def _dim3(span: Span, parts: tuple[Expr, ...]) -> Expr:
    return Construct(span, DIM3, parts or (Const(span, 1),))
