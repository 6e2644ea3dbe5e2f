"""How many slots a loop goes through: the number by which its body takes a remainder of the counter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from stitchcuda.analysis.order.host.lengths import Lengths
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import Poly, integer
from stitchcuda.analysis.order.values import Num
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr

MAX_PERIOD = 4

# An operation or a call, and the names in each of its operands or arguments.
Division: TypeAlias = tuple[ir.Binary | ir.Call | ir.Index, tuple[frozenset[str], ...]]


@dataclass(frozen=True, slots=True)
class Counter:
    """`for (i = start; i < bound; i += step)`."""

    name: str
    start: Poly | None
    step: int
    trip: Poly | None  # number of iterations
    part: Expr | None = None  # of what the loop does between its rounds: that which counts
    scale: int = 1  # the counter is so many times the index of the round


class Periods(Lengths):
    """Layer of the executor: the slots of a loop."""

    def period_of(self, stmt: ir.Loop, counter: Counter | None, state: State) -> int:
        """The K of `counter % K` in the body, or of `counter / step % K`; 1 without one."""
        if counter is None or counter.step < 1:
            return 1
        if counter.step == 1:
            found = self._moduli(stmt.body, counter.name, {}, state, 0)
        elif counter.start is None or counter.start.constant is None or counter.start.constant % counter.step:
            return 1
        else:
            sizes = [
                (op, self._constant_of(size, state))
                for op, divisor, size in _quotients(stmt.body, counter.name)
                if self._constant_of(divisor, state) == counter.step
            ]
            found = [k + 1 if op == "&" else k for op, k in sizes if k is not None]
        return max((k for k in found if 1 < k <= MAX_PERIOD), default=1)

    def _moduli(self, body: ir.Stmt, name: str, types: Mapping[str, ir.TypeRef], state: State, depth: int) -> list[int]:
        """The constants K of `name % K`, also in what the program's own functions do with a parameter that they are given
        for it. `types`: what the template parameters there stand for."""
        found = []
        for node, parts in self._divisions(body):
            if not any(name in names for names in parts):
                continue
            if isinstance(node, ir.Binary):
                given = types.get(node.right.name) if isinstance(node.right, ir.Name) else None
                right = node.right if given is None else ir.Name(node.span, given.name)
                value = self._constant_of(right, state)
                if value is not None:
                    found.append(value + 1 if node.op == "&" else value)
            elif depth < 3:
                for function, inner in self._callees(node, state):
                    for param, names in zip(function.params, parts, strict=False):
                        if function.body is not None and name in names:
                            found += self._moduli(function.body, param.name, inner, state, depth + 1)
        return found

    def _divisions(self, body: ir.Stmt) -> list[Division]:
        """The operations of a body that take something modulo something, and the calls that may."""
        known = self._divisions_in.get(id(body))
        if known is None:
            known = self._divisions_in[id(body)] = []
            for node in ir.walk(body):
                if isinstance(node, ir.Binary) and node.op in ("%", "&"):
                    known.append((node, (_names_in(node.left),)))
                elif isinstance(node, ir.Index):
                    known.append((node, (_names_in(node.index),)))
                elif isinstance(node, ir.Call):
                    known.append((node, tuple([_names_in(arg) for arg in node.args])))
        return known

    @cached_property
    def _divisions_in(self) -> dict[int, list[Division]]:
        """By the `id` of bodies of the program, which stay."""
        return {}

    def _constant_of(self, expr: Expr, state: State) -> int | None:
        if isinstance(expr, ir.Name) and (written := integer(expr.name)) is not None:
            return written
        called = [n for n in ir.walk(expr) if isinstance(n, ir.Call | ir.Api | ir.Assign | ir.Launch | ir.New)]
        if not all(isinstance(n, ir.Call) and _asks_length(n) for n in called):
            return None
        value = self.evaluate(expr, state.copy())
        return value.value.constant if isinstance(value, Num) else None

    def _callees(self, node: ir.Call | ir.Index, state: State) -> list[tuple[ir.Function, Mapping[str, ir.TypeRef]]]:
        """The program's own function that a call may mean, when its name says which, and its template parameters."""
        callee = node.callee if isinstance(node, ir.Call) else node
        name = callee.name if isinstance(callee, ir.Name | ir.Member) else "operator[]"
        uids = self.program.by_name.get(name.rsplit("::", 1)[-1], ())
        if len(uids) != 1:
            return []
        function = self.program.functions[uids[0]]
        base = callee.base if isinstance(callee, ir.Member | ir.Index) else None
        place = self.locate(base, state.copy()) if isinstance(base, ir.Name) and function.template else None
        type = self.names.resolve(self.bound_type(self.type_of(place))) if place is not None else None
        return [(function, self.class_types(function, type))]


def _asks_length(call: ir.Call) -> bool:
    """`items.size()` of a variable or member."""
    callee = call.callee
    return isinstance(callee, ir.Member) and callee.name == "size" and isinstance(callee.base, ir.Name | ir.Member)


def _names_in(expr: Expr) -> frozenset[str]:
    return frozenset([n.name for n in ir.walk(expr) if isinstance(n, ir.Name)])


def _quotients(body: ir.Stmt, name: str) -> Iterator[tuple[str, Expr, Expr]]:
    """`%` or `&`, the divisor and the other side of each `name / divisor % slots` in a body."""
    for node in ir.walk(body):
        if isinstance(node, ir.Binary) and node.op in ("%", "&"):
            for inner in ir.walk(node.left):
                match inner:
                    case ir.Binary(op="/", left=ir.Name(name=counted), right=divisor) if counted == name:
                        yield node.op, divisor, node.right
