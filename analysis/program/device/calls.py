"""Calls in device code: walked in place when the callee has a body, else by table, else as an escape."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import replace

from stitchcuda.analysis.order.timeline import Mode
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device import known_calls as calls
from stitchcuda.analysis.program.device.expressions import DeviceExpressions, arithmetic
from stitchcuda.analysis.program.device.guards import either
from stitchcuda.analysis.program.device.memory import DEPTH, Frame, Location
from stitchcuda.analysis.program.device.pure import Pure
from stitchcuda.analysis.program.device.values import (
    UNKNOWN,
    Place,
    Touch,
    Value,
    combine,
)


class DeviceCalls(DeviceExpressions, ABC):
    def __init__(self, program: ir.Program) -> None:
        super().__init__(program)
        self._only_compute: dict[str, bool] = {}

    def _may_mean(self, name: str, count: int) -> list[ir.Function]:
        """The functions that a call may mean, from whatever file it is made."""
        found = [self.program.functions[uid] for uid in self._lookup(calls.bare(name))]
        found = [f for f in found if f.body is not None and f.space != "host" and not f.record and _accepts(f, count)]
        self.visited.update(f.uid for f in found)
        return found or self._static_methods(name, count)

    def _call(self, node: ir.Call) -> Value:
        callee = node.callee
        if isinstance(callee, ir.Name):
            known = self._known_call(callee.name, node)
            if known is not None:
                return known
        values = [self._value(a) for a in node.args]
        return self._invoke(callee, node.args, values)

    def _known_call(self, name: str, node: ir.Call) -> Value | None:
        bare = calls.bare(name)
        if self._find(name) is not None:
            return None
        if bare in calls.PRINTS:
            self.prints = True
            for arg in node.args:
                self._value(arg)
            return UNKNOWN
        if calls.is_atomic(bare) or bare in calls.ACCESSES or bare in calls.COPY_CALLS:
            values = [self._value(a) for a in node.args]
            flags = combine(values)
            if calls.is_atomic(bare):
                accesses: tuple[tuple[int, Mode], ...] = ((0, Mode.ATOMIC),)
            elif bare in calls.ACCESSES:
                accesses = calls.ACCESSES[bare]
            else:
                pointers = [k for k, v in enumerate(values) if v.places]
                accesses = tuple(zip(pointers, (Mode.WRITE, Mode.READ), strict=False))
            single = bare.startswith(("__ld", "__st")) or calls.is_atomic(bare)
            for position, mode in accesses:
                for place in values[position].places if position < len(values) else ():
                    spot = replace(place, value=False) if single else replace(place, offset=None, value=False)
                    if spot.local and mode is not Mode.READ:
                        self._write(spot, replace(flags, data=True))
                    self._touch(spot, mode)
            return Value(data=True, thread=True)
        if bare in calls.PRODUCTS and len(node.args) == 2:
            a, b = self._value(node.args[0]), self._value(node.args[1])
            return combine([a, b], arithmetic("*", a.number, b.number))
        if bare in calls.PURE_POINTER_CALLS or name in calls.IDENTITIES:
            values = [self._value(a) for a in node.args]
            return values[0] if values and name in calls.IDENTITIES else combine(values)
        return None

    def _invoke(self, callee: ir.Expr, args: Sequence[ir.Expr], values: list[Value]) -> Value:
        if isinstance(callee, ir.Name):
            found = self._find(callee.name)
            if isinstance(found, int) and (function := self._store.get(found, UNKNOWN).function) is not None:
                return self._inline_lambda(function, values)
            if isinstance(found, int):
                this = Value(places=frozenset({Place(f"c:{found}")}))
                method = self._methods(self._cells[found].type.name, "operator()", len(args))
                if method:
                    return self._alternatives(method, args, values, this)
                self.supplied |= self._from_template(self._cells[found].type.name)
            candidates = self._functions(callee.name, len(args)) or self._static_methods(callee.name, len(args))
            if candidates:
                return self._alternatives(candidates, args, values, UNKNOWN)
            converts = any(p.type.name == callee.name for f in self._frames for p in f.function.params)  # `T(x)`
            self.supplied |= (self._from_template(callee.name) and not converts) or self._declared(callee.name)
        elif isinstance(callee, ir.Lambda):
            return self._inline_lambda(callee, values)
        elif isinstance(callee, ir.Member):
            return self._method_call(callee, args, values)
        else:
            values = [*values, self._value(callee)]
            if isinstance(callee, ir.Construct) and not self._methods(callee.type.name, "operator()", len(args)):
                self.supplied |= self._from_template(callee.type.name)
        if isinstance(callee, ir.Name) and calls.bare(callee.name).startswith(calls.CURAND_STATE_PREFIX):
            for place in (p for v in values[:1] for p in v.places):
                self._touch(place, Mode.READ)
                self._touch(place, Mode.WRITE)
            return Value(data=True, thread=True)
        for value in values:
            self._escape(value)
        flags = combine(values)
        return replace(flags, thread=flags.thread or not values, data=flags.data)

    def _method_call(self, callee: ir.Member, args: Sequence[ir.Expr], values: list[Value]) -> Value:
        locations, flags = self._locations(callee.base)
        base_type = ""
        if len(locations) == 1 and isinstance(locations[0], int):
            base_type = self._cells[locations[0]].type.name
        elif locations and all(isinstance(x, Place) and not x.field for x in locations):
            base_type = next(x.element for x in locations if isinstance(x, Place))
        this = Value(places=frozenset(Place(f"c:{x}") if isinstance(x, int) else x for x in locations))
        methods = self._methods(base_type, callee.name, len(args))
        if methods:
            return self._alternatives(methods, args, values, this)
        self.supplied |= self._from_template(base_type)
        bound = self._read_all([x for x in locations if isinstance(x, int)], flags) if locations else UNKNOWN
        if base_type.endswith("atomic_ref") or callee.name.startswith("fetch_"):
            for place in bound.places | frozenset(x for x in locations if isinstance(x, Place)):
                self._touch(place, Mode.ATOMIC)
            return Value(data=True, thread=True)
        if callee.name in ("thread_rank", "block_rank", "meta_group_rank"):
            return Value(thread=True)
        touched = Value(places=frozenset(x for x in locations if isinstance(x, Place)))
        for value in [bound, touched, *values]:
            self._escape(value)
        return replace(combine([bound, *values]), data=True, thread=True)

    def _escape(self, value: Value) -> None:
        """A pointer reaches code that is not known: it may be read there, and written unless its target is const."""
        for place in value.places:
            if place.local or place.value:
                continue
            self.calls_unknown = True
            start = len(self.touches)
            self._touch(replace(place, offset=None), Mode.READ)
            if not place.const:
                self._touch(replace(place, offset=None), Mode.WRITE)
            self.touches[start:] = [t.perhaps() for t in self.touches[start:]]

    def _lookup(self, name: str) -> tuple[str, ...]:
        return self.lookups.setdefault(name, self.program.by_name.get(name, ()))

    def _functions(self, name: str, count: int) -> list[ir.Function]:
        found = [self.program.functions[uid] for uid in self._lookup(calls.bare(name))]
        usable = [f for f in found if f.body is not None and f.space != "host" and not f.record and _accepts(f, count)]
        here = [f for f in usable if f.path == self._frames[-1].function.path]
        return here or usable

    def _static_methods(self, name: str, count: int) -> list[ir.Function]:
        """What `Record::name` means."""
        owner, _, bare = name.rpartition("::")
        return self._methods(owner, bare, count) if owner else []

    def _declared(self, name: str) -> bool:
        """A device function whose body is in a file that is not here."""
        if self._lookup(calls.bare(name)):
            return False
        found = self.program.declarations.get(calls.bare(name), ())
        return any(self.program.functions[uid].space in ("device", "host_device") for uid in found)

    def _from_template(self, name: str) -> bool:
        """A name that starts at a template parameter of the code around it."""
        root = name.removeprefix("typename ").split("::", 1)[0].split("<", 1)[0].strip()
        return any(root in frame.function.template for frame in self._frames)

    def _methods(self, type_name: str, name: str, count: int) -> list[ir.Function]:
        record = calls.bare(type_name)
        if not record:
            return []
        found = [self.program.functions[uid] for uid in self._lookup(name)]
        return [f for f in found if f.body is not None and calls.bare(f.record) == record and _accepts(f, count)]

    def _construct(self, type_: ir.TypeRef, args: Sequence[ir.Expr], values: list[Value]) -> Value:
        found = self._methods(type_.name, calls.bare(type_.name), len(args))
        if len(found) == 1 and any(v.places for v in values):
            return self._inline(found[0], args, values, UNKNOWN)
        return replace(combine(values), places=frozenset(p for v in values for p in v.places))

    def _alternatives(
        self, functions: Sequence[ir.Function], args: Sequence[ir.Expr], values: list[Value], this: Value
    ) -> Value:
        """Overloads that arguments alone do not tell apart: each may be the one."""
        if len(functions) == 1:
            return self._inline(functions[0], args, values, this)
        result: Value | None = None
        recorded: list[list[Touch]] = []
        for function in functions[:6]:
            outer, self.touches = self.touches, []
            value = self._inline(function, args, values, this)
            result = value if result is None else result.join(value)
            recorded.append(self.touches)
            self.touches = outer
        self.touches.extend(either(recorded))
        return result or UNKNOWN

    def _inline(self, function: ir.Function, args: Sequence[ir.Expr], values: list[Value], this: Value) -> Value:
        self._reach(function)
        # Made for each question: an object that is kept and asks this one would make a cycle that only a collection frees.
        pure = Pure(self._environment, self._may_mean, self._declared, self._only_compute)
        if this == UNKNOWN and pure.makes_no_index(function) and _only_values(values):
            return combine(values)
        for frame in self._frames:
            if frame.function.uid == function.uid:  # recursion: its first round showed the accesses
                self._broken_off += 1
                return Value(data=True, thread=True)
        if len(self._frames) > DEPTH:
            self.calls_unknown = self.incomplete = True
            return UNKNOWN
        key = (function.uid, *values) if this == UNKNOWN and _only_computes(function, values) else None
        if key is None:
            return self._walk_into(function, args, values, this)
        known = self._computed.get(key)
        if known is not None:
            return known
        before = self._seen()
        made = self._walk_into(function, args, values, this)
        if before == self._seen() and (made.number is None or made.number.symbols <= _symbols(values)):
            self._computed[key] = made
        return made

    def _seen(self) -> tuple[int | bool, ...]:
        """What changes when a function does more than to compute a value from values."""
        return len(self.touches), self._broken_off, self.prints, self.supplied, self.calls_unknown, self.incomplete

    def _walk_into(self, function: ir.Function, args: Sequence[ir.Expr], values: list[Value], this: Value) -> Value:
        first = len(self._cells)
        scope: dict[str, int | tuple[Location, ...]] = {}
        for k, param in enumerate(function.params):
            value = values[k] if k < len(values) else UNKNOWN
            if param.type.reference and k < len(args):
                start = len(self.touches)
                locations, _ = self._locations(args[k])
                del self.touches[start:]
                if locations:
                    scope[param.name] = locations
                    continue
            if param.type.pointer and param.type.name != "void":
                value = replace(value, places=frozenset(typed(p, param.type) for p in value.places))
            scope[param.name] = self._new_cell(param.type, value)
        frame = Frame(function, [scope], this)
        self._frames.append(frame)
        try:
            assert function.body is not None
            self._statement(function.body)
        finally:
            self._frames.pop()
        self._forget_cells(first, frame.returned or UNKNOWN)
        return frame.returned or UNKNOWN

    def _inline_lambda(self, function: ir.Lambda, values: list[Value]) -> Value:
        frame = self._frames[-1]
        if len(frame.scopes) > 40 or len(self._frames) > DEPTH:
            return UNKNOWN
        scope: dict[str, int | tuple[Location, ...]] = {**self.captured.get(id(function), {})}
        scope |= {
            p.name: self._new_cell(p.type, values[k] if k < len(values) else UNKNOWN)
            for k, p in enumerate(function.params)
        }
        inner = Frame(frame.function, [*frame.scopes, scope], frame.this)
        self._frames.append(inner)
        try:
            self._statement(function.body)
        finally:
            self._frames.pop()
        return inner.returned or UNKNOWN


def _only_computes(function: ir.Function, values: list[Value]) -> bool:
    """It is given no memory, and nothing to call."""
    return _only_values(values) and not any(p.type.reference for p in function.params)


def _only_values(values: Sequence[Value]) -> bool:
    return not any(v.places or v.function is not None for v in values)


def _symbols(values: list[Value]) -> frozenset[str]:
    return frozenset(s for v in values if v.number is not None for s in v.number.symbols)


def typed(place: Place, type_: ir.TypeRef) -> Place:
    """A place seen through a declared pointer type. A template parameter says nothing about the element."""
    element = type_.name + "*" * max(0, type_.pointer - 1)
    if place.element in ("", "void") or place.element == element:
        return replace(place, element=element if place.value is False else "", const=place.const or type_.const)
    return replace(place, const=place.const or type_.const)


def _accepts(function: ir.Function, count: int) -> bool:
    required = sum(1 for p in function.params if p.default is None)
    return required <= count <= len(function.params) or count == 0
