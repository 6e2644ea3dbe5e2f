"""Expressions as the ways through a function see them: which variable is meant, what is null, what success."""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.program.ir import (
    AddressOf,
    Api,
    Assign,
    Binary,
    Cast,
    Conditional,
    Const,
    Construct,
    Deref,
    Expr,
    Index,
    InitList,
    Member,
    Name,
    bare,
    walk,
)

SUCCESS = ("cudaSuccess", "CUDA_SUCCESS")


def slot(expr: object) -> str | None:
    """A variable, or a member of one, as a name: "p", "c.p"."""
    if isinstance(expr, Name):
        return expr.name
    if isinstance(expr, Member) and isinstance(expr.base, Name):
        return f"{expr.base.name}.{expr.name}"
    return None


def is_null(expr: Expr) -> bool:
    written = bare(expr)
    return (isinstance(written, Const) and written.value in (None, 0) and written.value is not False) or (
        isinstance(written, Name) and written.name == "NULL"
    )


def is_success(expr: object) -> bool:
    """The name of a call's success."""
    written = bare(expr) if isinstance(expr, Cast) else expr
    return isinstance(written, Name) and written.name.rsplit("::", 1)[-1] in SUCCESS


def out_name(expr: Api) -> str | None:
    """The variable whose address the call gets to put its result into."""
    out = expr.role("out")
    written = bare(out) if out is not None else None
    return slot(written.operand) if isinstance(written, AddressOf) else None


def polarity(value: Expr) -> bool | None:
    """Of a status kept in a variable: whether the variable is true when the call failed."""
    written = bare(value)
    if isinstance(written, Api):
        return True
    if isinstance(written, Binary) and (is_success(written.left) or is_success(written.right)):
        return written.op == "!="
    return None


def flowing(expr: Expr) -> Iterator[str]:
    """The variables whose value an expression may pass on as it is, or moved by an offset."""
    match expr:
        case Name() | Member() if (name := slot(expr)) is not None:
            yield name
        case Cast(operand=operand):
            yield from flowing(operand)
        case Binary(op="+" | "-", left=left, right=right) | Binary(op=",", left=left, right=right):
            yield from flowing(left)
            yield from flowing(right)
        case Conditional(then=then, otherwise=otherwise):
            yield from flowing(then)
            yield from flowing(otherwise)
        case AddressOf(operand=Index(base=base)):
            yield from flowing(base)
        case AddressOf(operand=Deref(operand=operand)):
            yield from flowing(operand)
        case Assign(value=value):
            yield from flowing(value)
        case InitList(items=items):
            for item in items:
                yield from flowing(item)
        case Construct(args=args):
            for arg in args:
                yield from flowing(arg)


def shape_of(expr: Expr) -> str:
    """An expression without its positions."""
    parts = []
    for node in walk(expr):
        detail = getattr(node, "name", getattr(node, "op", getattr(node, "value", "")))
        parts.append(f"{type(node).__name__}:{detail if isinstance(detail, str | int | float) else ''}")
    return " ".join(parts)
