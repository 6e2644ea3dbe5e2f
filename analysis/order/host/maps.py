"""Maps of the C++ library: what they hold, by key. Keys that are texts or numbers are told apart; others are like the
indexes of arrays that are not known."""

from __future__ import annotations

from stitchcuda.analysis.order.arithmetic import key_of, short
from stitchcuda.analysis.order.host.containers import Containers
from stitchcuda.analysis.order.host.names import MAPS, plain
from stitchcuda.analysis.order.host.places import pointee_of_container
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ONE, ZERO, Poly, symbol
from stitchcuda.analysis.order.values import (
    SIZE,
    Instance,
    Num,
    Place,
    Pointer,
    Reference,
    Step,
    Struct,
    Text,
    Unknown,
    Value,
)
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr, Span, TypeRef


class Maps(Containers):
    """Layer of the executor: maps."""

    def is_map(self, obj: int) -> bool:
        type = self.names.resolve(self.objects[obj].type)
        return type is not None and plain(type.name) in MAPS

    def step_to(self, held: Value, at: Value) -> Step:
        """The way to the element of `held` at an index or a key."""
        if isinstance(at, Num):
            return at.value
        if isinstance(at, Text) and isinstance(held, Instance) and self.is_map(held.object):
            return f'["{at.value}"]'
        return symbol(short(f"[{key_of(at)}]"))

    def entries(self, state: State, obj: int) -> list[Step] | None:
        """The keys under which a map holds something; None when they are not all known."""
        steps = dict.fromkeys(path[0] for path, _ in state.below(Place(obj)) if path and path[0] != SIZE)
        if not steps or any(isinstance(s, Poly) and s.constant is None for s in steps):
            return None
        return list(steps)

    def entry(self, state: State, obj: int, step: Step) -> Place:
        """The pair of a key and what the map holds for it."""
        map_type = self.names.resolve(self.objects[obj].type)
        kinds = map_type.args if map_type is not None else ()
        identity = self.objects[obj].identity
        made = self.object_for(
            self.identity("entry", (identity.start, identity.end), f"{obj}{step}"),
            f"{self.objects[obj].name}[{step}]", type=TypeRef("std::pair", kinds), origin="local",
        )  # fmt: skip
        place = Place(made.id)
        state.store(place.field("first"), Num(step) if isinstance(step, Poly) else Text(step[2:-2]))
        state.store(place.field("second"), Reference(self.follow(state, Place(obj, (step,)))))
        return place

    def container_method(
        self, state: State, instance: Instance, name: str, args: tuple[Expr, ...], span: Span
    ) -> Value | None:
        if not self.is_map(instance.object):
            return super().container_method(state, instance, name, args, span)
        obj = instance.object
        match name:
            case "at" | "operator[]":
                return Reference(self.follow(state, Place(obj, (self._key(instance, args, state),))))
            case "find":
                step = self._key(instance, args, state)
                known = self._holds(state, obj, step)
                return Pointer(self.entry(state, obj, step)) if known else Unknown(self.fresh("found"))
            case "count" | "contains":
                step = self._key(instance, args, state)
                return Num(ONE) if self._holds(state, obj, step) else Unknown(self.fresh(name))
            case "emplace" | "try_emplace" | "insert" | "insert_or_assign" | "emplace_hint":
                return self._put(instance, name, args, state, span)
            case "erase" | "extract":
                self._take_out(instance, [self.evaluate(a, state) for a in args], state)
                return Unknown(self.fresh(name))
            case "swap":
                return super().container_method(state, instance, name, args, span)
            case "clear":
                state.clear_below(Place(obj))
                self.set_count(state, obj, ZERO)
                return Num(ZERO)
            case "end" | "cend":
                return Num(ZERO)  # what nothing that is found is equal to
            case "size" | "begin" | "cbegin" | "empty" | "reserve":
                return Unknown(self.fresh(name))
        return None

    def fill_container(self, state: State, instance: Instance, args: tuple[Expr, ...], span: Span) -> None:
        if not self.is_map(instance.object) or not (len(args) == 1 and isinstance(args[0], ir.InitList)):
            super().fill_container(state, instance, args, span)
            return
        for item in args[0].items:
            self._put(instance, "insert", (item,), state, span)

    def _holds(self, state: State, obj: int, step: Step) -> bool:
        known = isinstance(step, str) or step.constant is not None
        return known and next(state.below(Place(obj, (step,))), None) is not None

    def _key(self, instance: Instance, args: tuple[Expr, ...], state: State) -> Step:
        at: Value = self.evaluate(args[0], state) if args else Unknown(self.fresh("key"))
        return self.step_to(instance, at)

    def _take_out(self, instance: Instance, values: list[Value], state: State) -> None:
        """`erase(key)`, `erase(iterator)`: where it is not known which one goes, none is known to stay."""
        obj = instance.object
        at = values[0] if len(values) == 1 else Unknown(self.fresh("range"))
        step = self._step_of_entry(at, obj, state)
        if step is None:
            step = self.step_to(instance, at)
        held = self._held_where(state, obj, step)
        for gone in [step] if step in held else held:
            state.clear_below(Place(obj, (gone,)))

    def _step_of_entry(self, at: Value, obj: int, state: State) -> Step | None:
        """The key of the entry that an iterator of this map leads to."""
        held = state.load(at.place.field("second")) if isinstance(at, Pointer) else None
        return held.place.path[0] if isinstance(held, Reference) and held.place.object == obj else None

    def _put(self, instance: Instance, name: str, args: tuple[Expr, ...], state: State, span: Span) -> Value:
        """`emplace(key, ...)`, `insert({key, value})`: what is held already stays, but for `insert_or_assign`."""
        obj = instance.object
        if name == "emplace_hint":
            args = args[1:]
        if len(args) == 1 and isinstance(args[0], ir.InitList):
            args = args[0].items
        element = pointee_of_container(self.objects[obj].type)
        pair = None
        if len(args) == 1 and name != "try_emplace":
            pair = self.place_of_value(self.evaluate(args[0], state))
            if pair is None:
                return Unknown(self.fresh(name))
            step = self.step_to(instance, self.load(state, pair.field("first")))
        else:
            step = self._key(instance, args, state)
        place = Place(obj, (step,))
        record = self.names.record(self.names.resolve(element))
        others = self._held_where(state, obj, step)
        new: Value = Unknown(self.fresh("new"))
        if not others and self.count_of(state, obj).constant == 0:  # it began empty, and nobody unseen had it
            new = Num(ONE)
        elif others == [step] and self._holds(state, obj, step):
            new = Num(ZERO)
        if others and name != "insert_or_assign":
            for arg in args[1:]:
                self.evaluate(arg, state)
            if step not in others:
                state.clear_below(place)
                if record is None:
                    state.store(place, Unknown(self.fresh(name)))
        elif pair is not None:
            self.store_value(state, place, self.load(state, pair.field("second")), element)
        elif record is not None and element is not None:
            self.construct(place, element, args[1:], state, span)
        else:
            for arg in args[1:2]:
                self.store_value(state, place, self.evaluate(arg, state), element)
            if len(args) == 1:
                state.store(place, Num(ZERO))  # a null handle or pointer
        return self._put_at(state, obj, step, new, span)

    def _held_where(self, state: State, obj: int, step: Step) -> list[Step]:
        """The keys that are held and that may be this one."""
        held = dict.fromkeys(path[0] for path, _ in state.below(Place(obj)) if path and path[0] != SIZE)
        return [key for key in held if _may_be(key, step)]

    def _put_at(self, state: State, obj: int, step: Step, new: Value, span: Span) -> Value:
        """What `emplace` returns: an iterator to the entry, and whether it is new."""
        identity = self.identity("placed", span)
        result = self.object_for(identity, "placed", type=TypeRef("std::pair"), origin="temporary")
        place = Place(result.id)
        state.clear_below(place)
        state.store(place.field("first"), Pointer(self.entry(state, obj, step)))
        state.store(place.field("second"), new)
        return Struct(place)


def _may_be(a: Step, b: Step) -> bool:
    """Whether two keys may be the same one."""
    if isinstance(a, str) and isinstance(b, str):
        return a == b
    if isinstance(a, Poly) and isinstance(b, Poly):
        return (a - b).constant in (None, 0)
    known = a if isinstance(a, Poly) else b
    return isinstance(known, Poly) and known.constant is None
