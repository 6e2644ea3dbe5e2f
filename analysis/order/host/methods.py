"""Calls of methods: on containers and smart pointers, on objects whose class is known, and virtual ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property

from stitchcuda.analysis.order.arithmetic import TRUE
from stitchcuda.analysis.order.host import host_library
from stitchcuda.analysis.order.host.construction import Outcome
from stitchcuda.analysis.order.host.names import FUTURES, OPTIONALS, SMART_POINTERS, plain
from stitchcuda.analysis.order.host.summaries import Summaries
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import Poly, integer, number
from stitchcuda.analysis.order.values import (
    Clock,
    Closure,
    Code,
    Either,
    Handle,
    Instance,
    Num,
    Place,
    Pointer,
    Reference,
    Struct,
    Unknown,
    Value,
)
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr, Function, TypeRef

MAX_OVERRIDERS = 6  # classes that a call through a base class is followed into


class Methods(Summaries):
    """Layer of the executor: method calls."""

    def invoke(
        self,
        functions: tuple[Function, ...],
        this: Place | None,
        expr: ir.Call,
        state: State,
        template: tuple[Expr | TypeRef, ...] = (),
    ) -> list[Outcome]:
        raise NotImplementedError

    def call_value(self, value: Value, expr: ir.Call, state: State) -> list[Outcome]:
        raise NotImplementedError

    def limited(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Few enough ways of ending; a layer above merges them."""
        raise NotImplementedError

    def each(
        self, options: Iterable[Value], state: State, run: Callable[[Value, State], list[Outcome]]
    ) -> list[Outcome]:
        """A call of one of several things: each on paths of its own."""
        out: list[Outcome] = []
        for option in options:
            out += run(option, state.copy())
        return self.limited(out)

    def own_record(self, function: Function) -> str:
        """The class of `this` in a method: the one it was made as, when that is derived from the method's."""
        this = self.frame.this
        made = self.names.record(self.names.resolve(self.type_of(this))) if this is not None else None
        return made.name if made is not None and made.name in self._derived_from(function.record) else function.record

    def method_outcomes(self, expr: ir.Call, callee: ir.Member, state: State) -> list[Outcome]:
        policy = self.thrust_policy(callee, expr, state)
        if policy is not None:
            return [(state, policy)]
        place, found = self.place_or_value(callee.base, state)
        if place is not None:
            if callee.name == "value_or" and len(expr.args) == 1:
                return [(state, self._value_or(place, expr, state))]
            held = state.load(place)
            value: Value = held if held is not None else self.load(state, place)
        else:
            value = self.evaluate(callee.base, state) if found is None else found
        if isinstance(value, Either):
            return self.each(value.options, state, lambda option, s: self._method_of(expr, callee, None, option, s))
        return self._method_of(expr, callee, place, value, state)

    def _method_of(
        self, expr: ir.Call, callee: ir.Member, place: Place | None, value: Value, state: State
    ) -> list[Outcome]:
        if isinstance(value, Reference):
            place, value = value.place, self.load(state, value.place)
        if isinstance(value, Clock):  # `t.time_since_epoch().count()`
            return [(state, value)]
        if callee.name == "operator()" and isinstance(value, Code | Closure):  # `f.template operator()<4>(x)`
            return self.call_value(value, expr, state)
        told = self.signal(place, callee.name, state)
        if told is not None:
            return [(state, told)]
        if isinstance(value, Instance):
            result = self.container_method(state, value, callee.name, expr.args, expr.span)
            if result is not None:
                return [(state, result)]
        target = place
        if isinstance(value, Struct):
            target = value.place
        type = self.names.resolve(self.bound_type(self.type_of(target))) if target is not None else None
        inferred = type is not None and type.name == "auto" and not type.pointer and isinstance(value, Pointer | Handle)
        if (
            callee.name == "get"
            and type is not None
            and plain(type.name) in FUTURES
            and isinstance(value, Pointer | Handle)
        ):
            return [(state, value)]
        if type is not None and (inferred or plain(type.name) in SMART_POINTERS) and place is not None:
            self.reset_at = expr.span
            result = self.smart_pointer_method(state, place, callee.name, expr.args)
            if result is not None:
                return [(state, result)]
        if isinstance(value, Pointer) and (place is None or (type is not None and type.pointer)):
            target = self.pointed(value, state)
            type = self.names.resolve(self.type_of(target)) if target is not None else None
        record = self.names.record(type)
        if record is not None and target is not None:
            declared = self.type_of(target)
            if declared is not None and declared.name in OPTIONALS and declared.args:
                result = self._optional_method(target, declared.args[0], callee.name, expr, record, state)
                if result is not None:
                    return [(state, result)]
        if record is not None:
            over = self._overriders(record, callee.name, len(expr.args)) if self._made_elsewhere(target) else ()
            if over and target is not None:
                return self._virtual(over, record, target, expr, callee, state)
            methods = self._methods(record.name, callee.name, len(expr.args))
            if methods:
                return self.invoke(methods, target, expr, state, callee.template)
            field = target.field(callee.name) if target is not None else None
            if field is not None:
                held = state.load(field)
                if isinstance(held, Code | Closure | Either):
                    return self.call_value(held, expr, state)
        if callee.name in host_library.QUIET_METHODS or (type is not None and type.name.startswith("std::")):
            self.transferred(callee.name, [self.evaluate(a, state) for a in expr.args], expr.span, state)
            return [(state, Unknown(self.fresh(callee.name)))]
        if target is not None:
            self.lengths_unknown(state, target)
        return self.unresolved(callee.name, expr, state)

    def _optional_method(
        self, place: Place, held: TypeRef, name: str, expr: ir.Call, record: ir.Record, state: State
    ) -> Value | None:
        """The methods of `std::optional` itself."""
        present = next(state.below(place), None) is not None
        match name:
            case "emplace" | "reset":
                if present:
                    self.destroy_object(place, record, state, expr.span)
                    state.clear_below(place)
                if name == "emplace":
                    self.construct(place, held, expr.args, state, expr.span)
                return Reference(place)
            case "value" | "operator*" | "operator->":
                return Reference(place)
            case "has_value":
                return TRUE if present else Unknown(self.fresh(name))
        return None

    def _value_or(self, place: Place, expr: ir.Call, state: State) -> Value:
        """`x.value_or(y)`: what `x` was given. Where nothing is seen to be stored, a copy of what comes from outside may hold
        something all the same."""
        given = next(state.below(place), None) is not None
        self.evaluate(expr.args[0], state)
        return self.load(state, place) if given else Unknown(self.fresh("value_or"))

    def number_given(self, type: TypeRef) -> Poly | None:
        """A template argument that is a number, written or by the name of a constant."""
        type = self.bound_type(type) or type
        written = integer(type.name)
        if written is not None:
            return number(written)
        value = self.evaluate(ir.Name((0, 0), type.name), State())
        return value.value if isinstance(value, Num) else None

    # ------------------------------------------------------------------------------------------------------ overriding

    def _made_elsewhere(self, place: Place | None) -> bool:
        """An object that was not made in sight may be of a class derived from the one that its type says."""
        return place is not None and self.objects[place.object].origin in ("parameter", "unknown")

    @cached_property
    def _subclasses(self) -> dict[str, list[ir.Record]]:
        children: dict[str, list[ir.Record]] = {}
        for record in self.program.records.values():
            for base in record.bases:
                parent = self.names.record(TypeRef(base))
                if parent is not None and parent is not record:
                    children.setdefault(parent.name, []).append(record)
        return children

    def _derived_from(self, name: str) -> dict[str, ir.Record]:
        known = self._descendants.get(name)
        if known is None:
            known = self._descendants[name] = {}
            waiting = [name]
            while waiting:
                for child in self._subclasses.get(waiting.pop(), ()):
                    if child.name not in known:
                        known[child.name] = child
                        waiting.append(child.name)
        return known

    @cached_property
    def _descendants(self) -> dict[str, dict[str, ir.Record]]:
        return {}

    def _overriders(self, record: ir.Record, name: str, argc: int) -> tuple[tuple[ir.Record, Function], ...]:
        """The classes below one that define the method themselves, each with its definition."""
        found = []
        for child in self._derived_from(record.name).values():
            for function in self._methods(child.name, name, argc):
                if plain(function.record) == plain(child.name) and function.body is not None:
                    found.append((child, function))
                    break
        return tuple(found)

    def _virtual(
        self,
        over: tuple[tuple[ir.Record, Function], ...],
        record: ir.Record,
        target: Place,
        expr: ir.Call,
        callee: ir.Member,
        state: State,
    ) -> list[Outcome]:
        """A call through a base class of an object that was made elsewhere: it is of any of the classes below."""
        own = tuple(f for f in self._methods(record.name, callee.name, len(expr.args)) if f.body is not None)
        out: list[Outcome] = []
        if own:
            out += self.invoke(own, target, expr, state.copy(), callee.template)
        if len(over) > MAX_OVERRIDERS:
            self.cut(expr.span, f"{callee.name} is overridden in more than {MAX_OVERRIDERS} classes")
        for child, function in over[:MAX_OVERRIDERS]:
            out += self.invoke((function,), self._seen_as(target, child), expr, state.copy(), callee.template)
        return self.limited(out)

    def _seen_as(self, place: Place, record: ir.Record) -> Place:
        """The object of a base class as one of the derived class, with the fields that such an object has."""
        obj = self.objects[place.object]
        identity = replace(obj.identity, extra=f"{obj.identity.extra}:{record.name}")
        return Place(self.object_for(identity, obj.name, type=TypeRef(record.name), origin=obj.origin).id, place.path)
