"""How many elements containers hold while a loop of many rounds puts some in or takes some out, and after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from stitchcuda.analysis.order.host.containers import ONE_MORE, RESIZES
from stitchcuda.analysis.order.host.statements import Statements
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import Poly, symbol
from stitchcuda.analysis.order.values import SIZE, Instance, Num
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr

_SIZE = (SIZE,)
_LEAVES = (ir.Break, ir.Continue, ir.Goto, ir.Throw)


@dataclass(frozen=True, slots=True)
class Changing:
    """A container that a loop changes the length of: one more in each round, when `one_more`."""

    written: Expr
    one_more: bool


class Lengths(Statements):
    """Layer of the executor: lengths of containers in loops."""

    def lengths(self, state: State) -> Mapping[int, Poly]:
        """The lengths that are known before a loop."""
        known: dict[int, Poly] = {}
        memory = state.memory
        for obj in self.containers:  # all there ever were
            entries = memory.get(obj)
            held = entries.get(_SIZE) if entries else None
            if isinstance(held, Num):
                known[obj] = held.value
        return known

    def lengths_at_head(
        self, stmt: ir.Loop, state: State, before: Mapping[int, Poly], done: Poly | None, iteration: int
    ) -> None:
        """At the head of an arbitrary round; `done`: how many rounds there were, where that can be told."""
        told = set()
        for changing in self._changing(stmt):
            obj = self._container_named(changing.written, state)
            if obj is None:
                continue
            told.add(obj)
            first = before.get(obj) if changing.one_more else None
            self.set_count(state, obj, self._some() if first is None or done is None else first + done)
        if iteration:  # also in functions that the round called
            self._forget_lengths((o for o in self._differing(state, before) if o not in told), state)

    def lengths_after(
        self, stmt: ir.Loop, states: Iterable[State], before: Mapping[int, Poly], trip: Poly | None
    ) -> None:
        """After the loop, of `trip` rounds where that is known."""
        for state in states:
            told = set()
            for changing in self._changing(stmt):
                obj = self._container_named(changing.written, state)
                if obj is None:
                    continue
                told.add(obj)
                first = before.get(obj)
                if changing.one_more:
                    self.set_count(state, obj, self._some() if first is None or trip is None else first + trip)
            self._forget_lengths((o for o in self._differing(state, before) if o not in told), state)

    def _some(self) -> Poly:
        return symbol(self.fresh("count"))

    def _differing(self, state: State, before: Mapping[int, Poly]) -> list[int]:
        found = []
        memory = state.memory
        for obj, count in before.items():
            entries = memory.get(obj)
            held = entries.get(_SIZE) if entries else None
            if isinstance(held, Num) and held.value is not count and held.value != count:
                found.append(obj)
        return found

    def _forget_lengths(self, objects: Iterable[int], state: State) -> None:
        for obj in list(objects):
            self.set_count(state, obj, self._some())

    def _container_named(self, written: Expr, state: State) -> int | None:
        """The object of a container that is a variable or a member, as it is now."""
        place = self.locate(written, state)
        held = state.load(place) if place is not None else None
        return held.object if isinstance(held, Instance) else None

    def _changing(self, stmt: ir.Loop) -> tuple[Changing, ...]:
        known = self._changing_memo.get(id(stmt))
        if known is None:
            known = self._changing_memo[id(stmt)] = _changed_in(stmt)
        return known

    @cached_property
    def _changing_memo(self) -> dict[int, tuple[Changing, ...]]:
        return {}


def rounds_before(index: Poly, start: Poly | None, step: int) -> Poly | None:
    """How many rounds a counter that begins at `start` has made when it is `index`."""
    if start is None or abs(step) != 1:
        return None
    return index - start if step == 1 else start - index


def _changed_in(stmt: ir.Loop) -> tuple[Changing, ...]:
    calls: dict[str, list[ir.Call]] = {}
    named: dict[str, Expr] = {}
    for node in ir.walk(stmt):
        if isinstance(node, ir.Call) and isinstance(node.callee, ir.Member) and node.callee.name in RESIZES:
            base = node.callee.base
            name = _name_of(base)
            if name is not None:
                calls.setdefault(name, []).append(node)
                named[name] = base
    if not calls:
        return ()
    each_round = _in_each_round(stmt.body)
    leaves = any(isinstance(n, _LEAVES) for n in ir.walk(stmt.body))
    return tuple(
        Changing(
            named[name],
            not leaves
            and len(made) == 1
            and any(made[0] is s for s in each_round)
            and isinstance(made[0].callee, ir.Member)
            and made[0].callee.name in ONE_MORE,
        )
        for name, made in calls.items()
    )


def _in_each_round(body: ir.Stmt) -> list[Expr]:
    """The expressions that are statements of the body under no condition."""
    if isinstance(body, ir.Evaluate):
        return [body.expr]
    if isinstance(body, ir.Block):
        return [e for s in body.body for e in _in_each_round(s)]
    return []


def _name_of(expr: Expr) -> str | None:
    """`v`, `this->v`, `(*p).v`: something that is the same in each round of most loops, and costs nothing to look at."""
    match expr:
        case ir.Name(name=name):
            return name
        case ir.Member(base=base, name=name):
            inner = _name_of(base)
            return None if inner is None else f"{inner}.{name}"
        case ir.Deref(operand=operand):
            inner = _name_of(operand)
            return None if inner is None else f"*{inner}"
    return None
