"""Statements by which threads choose one of them: `if (owner == NONE && mine == best) owner = my_id;`.

Several threads may find the place empty and store, and any of them may stay: each of the values is a good one, and who
finds the place taken has nothing to do. So the accesses of the statement need no order among themselves. A maximum
(`if (v > m) m = v;`) is something else: there one value is the right one, and it may be lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.kernel.conditions import Conditions, called_name
from stitchcuda.analysis.kernel.model import Access, Mode
from stitchcuda.analysis.kernel.updates import Spelling
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Function, Program, Span

_LIMITS = frozenset({"max", "min", "lowest", "infinity"})  # of std::numeric_limits


def emptiness(write: Access, conditions: Conditions, program: Program, spelled: Spelling) -> Span | None:
    """Where the condition of an election looks whether the place is empty; None when a write is no election.

    The branch does nothing but store, has no other side, and asks whether the place holds a value that is the same for
    all threads."""
    function = program.functions[write.site.function]
    node = conditions.assignment(write.site)
    if write.mode is not Mode.WRITE or node is None or node.op or node.target.span == node.span:
        return None
    branches = [branch for branch, stored in conditions.stores(function.uid) if stored is node]
    if not branches:
        return None
    if (
        not write.field and write.buffer.element.removeprefix("const ") in program.records
    ):  # what stays may be made of two threads' values
        return None
    target = spelled(node.target)
    if not target or not _settled(node.value, conditions, program):
        return None
    if any(
        isinstance(n, ir.Name | ir.Member | ir.Index | ir.Deref) and spelled(n) == target
        for n in conditions.values(function.uid, node.value)
    ):
        return None  # made of the old value
    for branch in branches:
        if not _settled(branch.condition, conditions, program):
            continue
        for part in _required(branch.condition):
            place = _asked(part, target, conditions, function, spelled)
            if place is not None:
                return place.span
    return None


def _required(condition: ir.Expr) -> Iterator[ir.Expr]:
    condition = ir.bare(condition)
    if isinstance(condition, ir.Binary) and condition.op == "&&":
        yield from _required(condition.left)
        yield from _required(condition.right)
    else:
        yield condition


def _asked(part: ir.Expr, target: str, conditions: Conditions, function: Function, spelled: Spelling) -> ir.Expr | None:
    """The place, in `place == NONE`, `place < 0` or `!place`."""
    if isinstance(part, ir.Unary):
        operand = ir.bare(part.operand)
        return operand if part.op == "!" and spelled(operand) == target else None
    if not isinstance(part, ir.Binary) or part.op not in ("==", "<", ">"):
        return None
    for side, other in ((part.left, part.right), (part.right, part.left)):
        side, other = ir.bare(side), ir.bare(other)
        if spelled(side) != target:
            continue
        if part.op == "==":
            return side if _same_for_all(other, conditions, function) else None
        zero = isinstance(other, ir.Const) and other.value == 0
        below = side is ir.bare(part.left) if part.op == "<" else side is ir.bare(part.right)
        return side if zero and below else None
    return None


def _same_for_all(value: ir.Expr, conditions: Conditions, function: Function) -> bool:
    """A value that all threads of the grid have, and that stays."""
    made_of = conditions.ingredients(function.uid, value)
    if made_of.loads or made_of.coordinates or made_of.stepped:
        return False
    kernel = function.space == "global"
    given = {p.name for p in function.params if not kernel or conditions.sets(function.uid, p.name)}
    empty = {
        n.name for n in conditions.nodes(function.uid) if isinstance(n, ir.Declare) and (n.space or n.init is None)
    }
    for part in conditions.values(function.uid, value):
        if isinstance(part, ir.Name) and (part.name in given or part.name in empty):
            return False
        if isinstance(part, ir.Opaque):
            return False
        if isinstance(part, ir.Call) and (part.args or called_name(part) not in _LIMITS):
            return False
    return True


def _settled(value: ir.Expr, conditions: Conditions, program: Program) -> bool:
    """Computing it changes nothing and asks no other thread."""
    for part in ir.walk(value):
        if isinstance(part, ir.Assign | ir.New | ir.Delete | ir.Lambda | ir.Opaque):
            return False
        if isinstance(part, ir.Call):
            name = called_name(part)
            quiet = name and (name == "__ldg" or not name.startswith(("_", "atomic", "fetch_", "exchange")))
            if not quiet or name in program.by_name:
                return False
    return True
