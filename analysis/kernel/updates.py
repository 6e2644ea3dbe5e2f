"""Statements that read a place in memory, compute, and write the place again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from stitchcuda.analysis.kernel.arithmetic import COMPARISONS
from stitchcuda.analysis.kernel.conditions import Conditions
from stitchcuda.analysis.kernel.model import Access
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Function
from stitchcuda.analysis.quick_init import quick_init

Spelling: TypeAlias = Callable[[ir.Expr], str]  # an expression as written; "" when that is not known


class Kind(StrEnum):
    """What the new value is made of."""

    SUM = "sum"  # the old value and something added or taken away
    CHOICE = "choice"  # the old value or another one: `if (v < x) x = v`
    OTHER = "other"


@quick_init
@dataclass(frozen=True, slots=True)
class Update:
    """`node` is the assignment; `kind` what it makes of the old value. With `idempotent`, all who do it at once leave the
    same: `flags |= 4`, `if (x < 0) x = 0`."""

    node: ir.Assign
    kind: Kind
    idempotent: bool = False


def update_of(access: Access, conditions: Conditions, function: Function, spelled: Spelling) -> Update | None:
    """The update that a write belongs to; None when the old value plays no part in it."""
    node = conditions.assignment(access.site)
    if node is None or node.target.span == node.span:  # made by a macro: the text is that of the macro's call
        return None
    if node.op:
        fixed = node.op in ("|", "&") and isinstance(node.value, ir.Const | ir.Name)
        return Update(node, Kind.SUM if node.op in ("+", "-") else Kind.OTHER, fixed)
    target = spelled(node.target)
    if not target:
        return None
    old = {target, *_copies(conditions, access.site.function, node.value, target, spelled)}
    if any(spelled(part) in old for part, positive in terms(node.value) if positive):
        return Update(node, Kind.SUM)
    if any(spelled(part) in old for part in _operands(node.value)):
        logical = isinstance(node.value, ir.Binary) and node.value.op in ("||", "&&", "|", "&")
        return Update(node, Kind.CHOICE if isinstance(node.value, ir.Conditional) else Kind.OTHER, logical)
    for guard in access.guards:
        if guard.site.function == access.site.function and conditions.condition(
            guard, lambda part: _compares(part, old, spelled)
        ):
            return Update(node, Kind.CHOICE, _same_for_all(node.value, function))
    return None


def _compares(part: ir.Expr | ir.Stmt, old: set[str], spelled: Spelling) -> bool:
    sides = (part.left, part.right) if isinstance(part, ir.Binary) and part.op in COMPARISONS else ()
    return any(spelled(ir.bare(side)) in old for side in sides)


def _copies(conditions: Conditions, function: str, value: ir.Expr, target: str, spelled: Spelling) -> Iterator[str]:
    """Variables in a value that were declared with the old one: `int old = *x;`."""
    for part in _operands(value):
        init = conditions.initial(function, part.name) if isinstance(part, ir.Name) else None
        if isinstance(part, ir.Name) and init is not None and spelled(init) == target:
            yield part.name


def terms(value: ir.Expr) -> Iterator[tuple[ir.Expr, bool]]:
    """The terms of a sum, each with whether it is added (not taken away); nothing when it is no sum."""
    value = ir.bare(value)
    if not isinstance(value, ir.Binary) or value.op not in ("+", "-"):
        return
    for side, positive in ((value.left, True), (value.right, value.op == "+")):
        inner = [(part, sign is positive) for part, sign in terms(side)]
        yield from inner or [(ir.bare(side), positive)]


def _operands(value: ir.Expr) -> Iterator[ir.Expr]:
    """What a value is computed from, without what only selects an element."""
    value = ir.bare(value)
    match value:
        case ir.Binary(left=left, right=right):
            yield from _operands(left)
            yield from _operands(right)
        case ir.Conditional(then=then, otherwise=otherwise):
            yield from _operands(then)
            yield from _operands(otherwise)
        case ir.Call(args=args):
            for arg in args:
                yield ir.bare(arg)
        case _:
            yield value


def _same_for_all(value: ir.Expr, function: Function) -> bool:
    """A constant, or a scalar parameter of the function."""
    value = ir.bare(value)
    if isinstance(value, ir.Unary):
        value = ir.bare(value.operand)
    scalars = {p.name for p in function.params if not p.type.pointer and not p.type.reference}
    return isinstance(value, ir.Const) or isinstance(value, ir.Name) and value.name in scalars
