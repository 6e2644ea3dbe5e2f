"""Abstract walk over device code: which memory each pointer parameter reaches, and how it is touched.

Locals hold `Value`s; calls of functions with a body are walked in place (bounded); branches are walked one by one and
joined. An access is `must` when only guards on the thread's coordinates stand before it (`if (i < n)`): some thread is
assumed to pass them. Behind a condition on memory content or on a parameter it is `may`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from operator import is_not

from stitchcuda.analysis.order.symbolic import symbol
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device.calls import DeviceCalls, typed
from stitchcuda.analysis.program.device.environment import is_scalar
from stitchcuda.analysis.program.device.guards import either
from stitchcuda.analysis.program.device.memory import Budget, Exit, Frame, Location
from stitchcuda.analysis.program.device.values import (
    UNKNOWN,
    Place,
    Touch,
    Value,
    extreme,
)


class DeviceWalk(DeviceCalls):
    def kernel(
        self, function: ir.Function, functors: Mapping[str, tuple[ir.Lambda, tuple[str, ...]]] | None = None
    ) -> None:
        """`functors`: lambdas by the parameter that receives them, with the names that they captured."""
        self._reach(function)
        scope: dict[str, int | tuple[Location, ...]] = {}
        for param in function.params:
            value = self._parameter(param)
            if function.space == "host" and _view(param.type) and param.type.name in self.program.records:
                value = Value(places=frozenset({Place(f"p:{param.name}", value=True)}))  # its members lead to memory
            if functors is not None and param.name in functors:
                given, captured = functors[param.name]
                value = Value(function=given)
                self.captured[id(given)] = {name: self._captured(param, name) for name in captured}
            scope[param.name] = self._new_cell(param.type, value)
        self._frames.append(Frame(function, [scope], UNKNOWN))
        try:
            assert function.body is not None
            self._statement(function.body)
        except (Budget, RecursionError):
            self.incomplete = self.calls_unknown = True
        finally:
            self._frames.pop()

    def _captured(self, param: ir.Param, name: str) -> int:
        held = Value(number=symbol(f"{param.name}.{name}"), places=frozenset({Place(f"p:{param.name}", name)}))
        return self._new_cell(ir.TypeRef(""), held)

    def _statement(self, node: ir.Stmt) -> Exit:
        self._step()
        match node:
            case ir.Declare():
                self._declare(node)
            case ir.Evaluate(expr=expr):
                self._value(expr)
            case ir.Block(body=body, scope=scope):
                if scope:
                    self._frames[-1].scopes.append({})
                bounds = self._bounds.copy()
                try:
                    return self._sequence(body)
                finally:
                    if scope:
                        self._frames[-1].scopes.pop()
                        self._bounds = bounds
            case ir.If():
                return self._if(node)
            case ir.Loop():
                return self._loop(node)
            case ir.Switch(subject=subject, cases=cases):
                return self._switch(subject, cases)
            case ir.Return(value=value):
                if value is not None:
                    frame = self._frames[-1]
                    result = self._value(value)
                    frame.returned = result if frame.returned is None else frame.returned.join(result)
                return "function"
            case ir.Break() | ir.Continue():
                return "loop"
            case ir.Goto():
                return "?function"
            case ir.PreprocIf(branches=branches, complete=complete):
                recorded = []
                for _, block in branches:
                    outer, self.touches = self.touches, []
                    self._sequence(block.body)
                    recorded.append(self.touches)
                    self.touches = outer
                if not complete:
                    recorded.append([])
                self.touches.extend(either(recorded))
            case ir.Try(body=body):
                return self._statement(body)
            case ir.Throw() | ir.Label():
                pass
        return ""

    def _sequence(self, body: Sequence[ir.Stmt]) -> Exit:
        """Statements in order. What follows a statement that may have left on a data condition is `may`."""
        for k, statement in enumerate(body):
            left = self._statement(statement)
            if left.startswith("?"):
                outer, self.touches = self.touches, []
                rest = self._sequence(body[k + 1 :])
                self.touches = outer + [t.perhaps() for t in self.touches]
                return "?function" if "function" in left + rest else "?loop"
            if left:
                return left
        return ""

    def _declare(self, node: ir.Declare) -> None:
        scope = self._frames[-1].scopes[-1]
        init = node.init
        if node.space in ("shared", "constant", "device", "managed"):
            scope[node.name] = self._new_cell(node.type, UNKNOWN, shared=True)
            return
        if node.type.reference and init is not None:
            locations, _ = self._locations(init)
            if locations:
                scope[node.name] = locations
                return
        value = UNKNOWN
        if init is not None:
            if isinstance(init, ir.Construct) and init.type.name.endswith("atomic_ref") and init.args:
                locations, _ = self._locations(init.args[0])
                value = Value(places=frozenset(x for x in locations if isinstance(x, Place)))
            else:
                value = self._value(init)
            if node.type.pointer and not node.type.dims and node.type.name != "auto":
                value = replace(value, places=frozenset(typed(p, node.type) for p in value.places))
        scope[node.name] = self._new_cell(node.type, value, array=bool(node.type.dims))

    def _if(self, node: ir.If) -> Exit:
        self._frames[-1].scopes.append({})
        if node.init is not None:
            self._statement(node.init)
        test = self._value(node.condition)
        if isinstance(node.condition, ir.Const):  # `if constexpr` on a literal
            chosen = node.then if node.condition.value else node.otherwise
            return self._statement(chosen) if chosen is not None else ""
        start = dict(self._store)
        bounds = self._bounds.copy()
        self._assume(node.condition, True)
        first, exit_then = self._recorded_statement(node.then)
        after_then, self._store = self._store, dict(start)
        self._bounds = bounds.copy()
        second: list[Touch] = []
        exit_else = ""
        self._assume(node.condition, False)
        if node.otherwise is not None:
            second, exit_else = self._recorded_statement(node.otherwise)
        self._frames[-1].scopes.pop()
        self._merge(first, second, test, node.condition)
        leaves_then, leaves_else = _leaves(exit_then), _leaves(exit_else)
        if not leaves_then:
            self._bounds = bounds.copy()
            if leaves_else:
                self._assume(node.condition, True)
                self._store = after_then
            else:
                self._store = _join_stores(self._store, after_then)
        if leaves_then and leaves_else:
            return exit_then if exit_then == exit_else else "function"
        partial = next((e for e in (exit_then, exit_else) if e), "")
        if not partial:
            return ""
        if test.thread and not test.data and _leaves(partial):
            return ""  # `if (i >= n) return;`: the threads that stay are the ones meant
        return "?" + partial.lstrip("?")

    def _switch(self, subject: ir.Expr, cases: Sequence[ir.Case]) -> Exit:
        self._value(subject)
        start, ends, recorded = dict(self._store), [], []
        exits: list[Exit] = []
        for case in cases:
            self._store = dict(start)
            outer, self.touches = self.touches, []
            exits.append(self._sequence(case.body))
            ends.append(self._store)
            recorded.append(self.touches)
            self.touches = outer
        if not any(not c.labels for c in cases):
            ends.append(start)
            recorded.append([])
        self.touches.extend(either(recorded))
        self._store = start
        for end in ends:
            self._store = _join_stores(self._store, end)
        return "?function" if any("function" in e for e in exits) else ""

    def _loop(self, node: ir.Loop) -> Exit:
        bounds = self._bounds.copy()
        self._frames[-1].scopes.append({})
        if node.init is not None:
            self._statement(node.init)
        if node.iterable is not None:
            self._value(node.iterable)
        if node.target is not None:
            self._declare(replace(node.target, init=None))
        heads = self._loop_heads(node)
        born = len(self._cells)
        test = UNKNOWN
        touched: list[Touch] = []
        left = ""
        for _ in range(3):
            self._store.update({c: v for c, v in heads.items() if not self._store.get(c, UNKNOWN).places})
            before = dict(self._store)
            if node.condition is not None:
                test = self._value(node.condition)
                self._assume(node.condition, True)
            seen, left = self._recorded_statement(node.body)
            outer, self.touches = self.touches, seen
            if node.step is not None:
                self._value(node.step)
            touched.extend(self.touches)
            self.touches = outer
            self._forget_round(born)
            self._store = _join_stores(before, self._store)
            if _same_places(before, self._store):
                break
        if node.form != "do" and test.data:
            touched = [t.perhaps() for t in touched]
        self.touches.extend(touched)
        for cell in heads:
            value = self._store.get(cell, UNKNOWN)
            self._store[cell] = replace(value, number=None, data=value.data or test.data)
        self._frames[-1].scopes.pop()
        self._bounds = bounds
        return "?function" if "function" in left else ""

    def _forget_round(self, born: int) -> None:
        """The variables that a round of a loop declared are gone: the next has its own. Members of what was there before
        stay, and what a pointer leads to that does."""
        store = self._store
        left: set[int] = set()
        for owner, members in self._fields.items():  # an owner is older than its members
            if owner < born or owner in left:
                left.update(members.values())
        waiting = [v for cell, v in store.items() if (cell < born or cell in left) and v.places]
        while waiting:
            for place in waiting.pop().places:
                if place.local and (cell := int(place.root[2:])) >= born and cell not in left:
                    left.add(cell)
                    left.update(self._fields.get(cell, {}).values())
                    if (held := store.get(cell)) is not None and held.places:
                        waiting.append(held)
        for cell in [c for c in store if c >= born and c not in left]:
            del store[cell]
            self._fields.pop(cell, None)

    def _loop_heads(self, node: ir.Loop) -> dict[int, Value]:
        """What the variables that a loop changes hold at the start of any round. An integer becomes a symbol of its own:
        it is bounded below by its start when the loop only adds to it, and above by the loop's condition."""
        changed: dict[str, bool] = {}  # name -> only grows
        for part in (node.condition, node.body, node.step):
            if part is None:
                continue
            for inner in ir.walk(part):
                if isinstance(inner, ir.Assign) and isinstance(inner.target, ir.Name):
                    name = inner.target.name
                    changed[name] = changed.get(name, True) and inner.op in ("+", "*", "<<")
        heads: dict[int, Value] = {}
        for name, grows in changed.items():
            cell = self._find(name)
            if not isinstance(cell, int):
                continue
            start = self._store.get(cell, UNKNOWN)
            if start.places:
                loose = frozenset(replace(p, offset=None) for p in start.places)
                self._store[cell] = replace(start, places=loose, number=None)
                continue
            if start.number is None and not is_scalar(self._cells[cell].type):
                continue
            head = f"@{name}{len(self._bounds.lower)}"
            if grows and start.number is not None:
                lowest = extreme(self._bounds.fold(start.number), self._bounds.lower, self._bounds.upper, highest=False)
                if lowest is not None:
                    self._bounds.lower[head] = lowest
            else:
                self._bounds.lower.pop(head, None)
            heads[cell] = Value(symbol(head), data=start.data, thread=start.thread)
        return heads


def _leaves(status: Exit) -> bool:
    return bool(status) and not status.startswith("?")


def _same_places(a: dict[int, Value], b: dict[int, Value]) -> bool:
    """Whether the cells of `b` lead where those of `a` do."""
    for cell, value in b.items():
        known = a.get(cell, UNKNOWN)
        if known is not value and (known.places != value.places or known.function != value.function):
            return False
    return True


def _join_stores(a: dict[int, Value], b: dict[int, Value]) -> dict[int, Value]:
    joined = {**b, **a}
    for cell, value in compress(b.items(), map(is_not, b.values(), map(joined.get, b))):
        joined[cell] = value.join(joined[cell])
    return joined


def _view(type_: ir.TypeRef) -> bool:
    """An object that the caller holds, which is only looked at."""
    return type_.reference and type_.const and not (type_.pointer or type_.dims)
