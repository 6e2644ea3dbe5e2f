"""Guards and branches of device code: bounds that conditions give, and joining what branches do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace

from stitchcuda.analysis.order.symbolic import ONE, Poly
from stitchcuda.analysis.order.timeline import Certainty, Mode
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device.memory import DeviceMemory, Exit
from stitchcuda.analysis.program.device.values import (
    Touch,
    Value,
    extreme,
    is_inner,
)


class DeviceGuards(DeviceMemory, ABC):
    @abstractmethod
    def _value(self, node: ir.Expr) -> Value: ...

    @abstractmethod
    def _statement(self, node: ir.Stmt) -> Exit: ...

    def _recorded(self, node: ir.Expr) -> tuple[list[Touch], Value]:
        outer, self.touches = self.touches, []
        value = self._value(node)
        recorded, self.touches = self.touches, outer
        return recorded, value

    def _recorded_statement(self, node: ir.Stmt) -> tuple[list[Touch], Exit]:
        outer, self.touches = self.touches, []
        left = self._statement(node)
        recorded, self.touches = self.touches, outer
        return recorded, left

    def _merge(self, first: list[Touch], second: list[Touch], test: Value, condition: ir.Expr) -> None:
        """Accesses of two branches. A guard on the thread's coordinates keeps them; a null check keeps those through the
        pointer it checks."""
        if test.thread and not test.data:
            self.touches.extend(first + second)
            return
        merged = either([first, second])
        checked = {p.root for e in _null_checked(condition) for p in self._quiet(e).places}
        self.touches.extend(replace(t, certainty=Certainty.MUST) if t.root in checked else t for t in merged)

    def _quiet(self, node: ir.Expr) -> Value:
        outer, self.touches = self.touches, []
        value = self._value(node)
        self.touches = outer
        return value

    def _assume(self, node: ir.Expr, holds: bool) -> None:
        """Takes bounds from a guard: `a < b` bounds `a`, conjunctions both sides, a negated disjunction likewise."""
        if not isinstance(node, ir.Binary):
            if isinstance(node, ir.Unary) and node.op == "!":
                self._assume(node.operand, not holds)
            elif isinstance(node, ir.Cast):
                self._assume(node.operand, holds)
            return
        if node.op == ("&&" if holds else "||"):
            self._assume(node.left, holds)
            self._assume(node.right, holds)
            return
        flipped = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
        op = node.op if holds else flipped.get(node.op, "")
        if op not in ("<", "<=", ">", ">=", "=="):
            return
        left, right = self._quiet(node.left).number, self._quiet(node.right).number
        if left is None or right is None:
            return
        if op in (">", ">="):
            left, right, op = right, left, {">": "<", ">=": "<="}[op]
        self._bound(self._bounds.fold(left), right - ONE if op == "<" else right, self._bounds.upper)
        self._bound(self._bounds.fold(right), left + ONE if op == "<" else left, self._bounds.lower)
        if op == "==":
            self._bound(self._bounds.fold(left), right, self._bounds.lower)

    def _bound(self, subject: Poly, bound: Poly, side: dict[str, Poly]) -> None:
        bound = self._bounds.fold(bound)
        if len(subject.terms) == 1 and len(subject.terms[0][0]) == 1 and subject.terms[0][1] == 1:
            name = subject.terms[0][0][0]
            if is_inner(name) and name not in bound.symbols:
                side[name] = bound
        elif side is self._bounds.upper and any(is_inner(s) for s in subject.symbols):
            lowest = extreme(subject, self._bounds.lower, self._bounds.upper, highest=False)
            name = self._bounds.named.setdefault(subject, f"@guard{len(self._bounds.named)}")
            self._bounds.upper[name] = bound
            if lowest is not None:
                self._bounds.lower[name] = lowest


def either(branches: Sequence[list[Touch]]) -> list[Touch]:
    """Accesses of which one branch's happen: `must` only where every branch must."""
    shared: set[tuple[str, str, Mode]] | None = None
    for touches in branches:
        keys = {t.key for t in touches if t.certainty is Certainty.MUST}
        shared = keys if shared is None else shared & keys
    return [
        t if t.certainty is Certainty.MAY or t.key in (shared or ()) else t.perhaps()
        for touches in branches
        for t in touches
    ]


def _null_checked(condition: ir.Expr) -> Iterator[ir.Expr]:
    """The expressions that a condition tests as pointers: `p`, `p != nullptr`, and conjunctions of them."""
    match condition:
        case ir.Name() | ir.Member():
            yield condition
        case ir.Binary(op="!=", left=left, right=ir.Const(value=None | 0)):
            yield left
        case ir.Binary(op="&&", left=left, right=right):
            yield from _null_checked(left)
            yield from _null_checked(right)
