"""Calls of the host library, and calls that cannot be followed."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from stitchcuda.analysis.order.arithmetic import NULL, key_of, short
from stitchcuda.analysis.order.cuda.clocks import FILLS, PASSED_ON, VALUES
from stitchcuda.analysis.order.cuda.copy_blocks import MAKERS
from stitchcuda.analysis.order.cuda.device_vectors import DeviceVectors
from stitchcuda.analysis.order.cuda.host_functions import AWAITS, TELLS
from stitchcuda.analysis.order.host import aggregates, host_library, host_ranges, threads
from stitchcuda.analysis.order.host.containers import RESIZES
from stitchcuda.analysis.order.host.names import plain
from stitchcuda.analysis.order.host.places import ANYWHERE
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ZERO, at_least, integer, symbol
from stitchcuda.analysis.order.timeline import Memory, Mode
from stitchcuda.analysis.order.values import (
    SIZE,
    Clock,
    Closure,
    Code,
    Handle,
    Instance,
    Num,
    Place,
    Pointer,
    Reference,
    Struct,
    Truth,
    Unknown,
    Value,
)
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr, Site, Span, TypeRef

Outcome = tuple[State, Value]
_TRANSPARENT = frozenset({"move", "forward", "ref", "cref", "launder", "addressof", "as_const"})
# of its first argument
_CHANGES_LENGTH = frozenset({"back_inserter", "front_inserter", "inserter", "erase", "erase_if"})


class HostCalls(DeviceVectors):
    """Layer of the executor: calls of host functions without a body in the program."""

    def call_backs(self, values: list[Value], span: Span, state: State, calls: tuple[Site, ...] | None = None) -> None:
        """Follows functions that were handed to a call that is not followed itself."""
        raise NotImplementedError

    def register(self, values: list[Value], span: Span) -> None:
        raise NotImplementedError

    def run_registered(self, state: State) -> None:
        raise NotImplementedError

    def _malloc(self, name: str, expr: ir.Call, state: State) -> Value:
        values = [self.evaluate(a, state) for a in expr.args]
        polys = [v.value for v in values if isinstance(v, Num)]
        size = polys[-1] if polys else None
        if name == "calloc" and len(polys) == 2:
            size = polys[0] * polys[1]
        if name in ("_mm_malloc",) and polys:
            size = polys[0]
        obj = self.object_for(
            self.identity("alloc", expr.span), name, origin="alloc", memory=Memory.PAGEABLE, size=size
        )
        self.awaits_name(obj, name)
        state.clear_below(Place(obj.id))
        self.revive(state, ("memory", obj.id, 0))
        return Pointer(Place(obj.id), True, ZERO, 1)

    def _transparent(self, name: str, arg: Expr, state: State) -> Value:
        if name == "addressof":
            return self.evaluate(ir.AddressOf(arg.span, arg), state)
        place, found = self.place_or_value(arg, state)
        if place is not None:
            value = state.load(place)
            value = self.load(state, place) if value is None else value
            if name in ("move", "forward"):
                self.give_away(place, value)
            return value
        return self.evaluate(arg, state) if found is None else found

    def _swap(self, left: Expr, right: Expr, state: State) -> None:
        a, b = self.locate(left, state), self.locate(right, state)
        if a is None or b is None:
            return
        x, y = self.load(state, a), self.load(state, b)
        if isinstance(x, Struct) or isinstance(y, Struct):
            held = list(state.below(a))
            state.copy_below(b, a)
            state.clear_below(b)
            for path, value in held:
                state.store(Place(b.object, b.path + path), value)
            return
        state.store(a, y)
        state.store(b, x)

    def _exchange(self, target: Expr, value: Expr, state: State) -> Value:
        """`std::exchange(target, value)`: what the target held."""
        place = self.locate(target, state)
        new = self.evaluate(value, state)
        if place is None:
            return Unknown(self.fresh("exchange"))
        held = self.load(state, place)
        if isinstance(held, Struct):
            return Unknown(self.fresh("exchange"))
        self.store_value(state, place, new)
        return held

    def _get(self, expr: ir.Call, state: State) -> Value | None:
        """`std::get<1>(t)` of a pair or tuple."""
        wanted = expr.callee.template[0] if isinstance(expr.callee, ir.Name) and expr.callee.template else None
        number_ = wanted.value if isinstance(wanted, ir.Const) else None
        if isinstance(wanted, TypeRef):
            number_ = integer(wanted.name)
        place, found = self.place_or_value(expr.args[0], state)
        if place is None and found is not None:
            place = self.place_of_value(found)
        if place is None or not isinstance(number_, int):
            return None
        field = aggregates.part(self.names.resolve(self.bound_type(self.type_of(place))), number_, self.names)
        return None if field is None else Reference(self.follow(state, place.field(field)))

    def _make(self, expr: ir.Call, state: State) -> Value:
        callee = expr.callee
        given = callee.template[0] if isinstance(callee, ir.Name) and callee.template else None
        type = (
            given if isinstance(given, TypeRef) else TypeRef(given.name) if isinstance(given, ir.Name) else TypeRef("?")
        )
        if type.dims:
            return self.evaluate(
                ir.New(expr.span, TypeRef(type.name, type.args), expr.args[0] if expr.args else None), state
            )
        return self.evaluate(ir.New(expr.span, type, None, expr.args), state)

    def _extreme(self, name: str, values: list[Value]) -> Value:
        a, b = values
        if isinstance(a, Num) and isinstance(b, Num):
            larger = at_least(a.value, b.value)
            if larger is not None:
                return a if larger == name.endswith("max") else b
            first, second = sorted((str(a.value), str(b.value)))
            return Num(symbol(short(f"{name}({first},{second})")))
        return Unknown(short(f"{name}({key_of(a)},{key_of(b)})"))

    def loop(self, stmt: ir.Loop, states: list[State]) -> list[State]:
        """Executes a loop; a layer above does."""
        raise NotImplementedError

    def _for_each(self, expr: ir.Call) -> ir.Loop | None:
        """`std::for_each(x.begin(), x.end(), f)` as `for (auto& each : x) f(each);`."""
        known = self._loops_over.get(id(expr))
        if known is None or known[0] is not expr:
            known = self._loops_over[id(expr)] = (expr, _as_loop(expr))
        return known[1]

    @cached_property
    def _loops_over(self) -> dict[int, tuple[ir.Call, ir.Loop | None]]:
        return {}

    def _library(self, name: str, expr: ir.Call, state: State) -> list[Outcome]:
        short_name = plain(name)
        if short_name in _TRANSPARENT and len(expr.args) == 1:
            return [(state, self._transparent(short_name, expr.args[0], state))]
        bare = name.removeprefix("::").removeprefix("std::")
        self.watch_library(name, expr, state)
        computed = self.thrust_call(name, expr, state)
        if computed is not None:
            return [(state, computed)]
        each = self._for_each(expr) if short_name == "for_each" and name.startswith("std::") else None
        if each is not None:
            return [(after, NULL) for after in self.loop(each, [state])]
        if short_name in host_library.ENDS:
            for a in expr.args:
                self.evaluate(a, state)
            return []
        if short_name in host_library.ALLOCATORS:
            return [(state, self._malloc(short_name, expr, state))]
        if short_name == "posix_memalign" and len(expr.args) == 3:
            target = self.pointed(self.evaluate(expr.args[0], state), state)
            if target is not None:
                self.store_value(state, target, self._malloc(short_name, expr, state))
            return [(state, NULL)]
        if short_name == "free" and len(expr.args) == 1:
            value = self.evaluate(expr.args[0], state)
            for pointer in self.pointers_in(value, state):
                if self.visible_to_device(state, self.objects[pointer.place.object]):
                    self.host_access(state, pointer.place.object, Mode.WRITE, expr.span, api=short_name)
            if isinstance(value, Pointer) and self.certain_object(value.place.object):
                self.end_of_life(state, value.place.object, expr.span, name)
            return [(state, NULL)]
        if short_name == "swap" and len(expr.args) == 2:
            self._swap(expr.args[0], expr.args[1], state)
            return [(state, NULL)]
        if short_name == "exchange" and len(expr.args) == 2:
            return [(state, self._exchange(expr.args[0], expr.args[1], state))]
        if short_name in ("make_pair", "make_tuple"):
            return [(state, self.temporary(TypeRef(f"std::{short_name[5:]}"), expr.args, state, expr.span))]
        if short_name == "get" and len(expr.args) == 1:
            part = self._get(expr, state)
            if part is not None:
                return [(state, part)]
        timed = self._clock(name, short_name, expr, state)
        if timed is not None:
            return [(state, timed)]
        if short_name in ("make_unique", "make_shared"):
            made = self._make(expr, state)
            if short_name == "make_unique" and isinstance(made, Pointer):
                self.owned_by_one.add(made.place.object)
            return [(state, made)]
        if short_name in ("raw_pointer_cast", "device_pointer_cast", "device_ptr") and len(expr.args) == 1:
            return [(state, self.evaluate(expr.args[0], state))]
        values = [self.evaluate(a, state) for a in expr.args]
        if short_name in _CHANGES_LENGTH and values and isinstance(values[0], Instance):
            self.length_unknown(state, values[0].object)
        if short_name in MAKERS:
            return [(state, self.made_structure(short_name, expr, values, state))]
        if short_name in ("min", "max", "fmin", "fmax") and len(values) == 2:
            return [(state, self._extreme(short_name, values))]
        if short_name in TELLS | AWAITS and isinstance(values[0] if values else None, Pointer):
            self.signal(self.pointed(values[0], state), short_name, state)
        if short_name == "async" and values:
            handed = next((k for k, v in enumerate(values) if isinstance(v, Code | Closure)), 0)
            result = self.start_thread(values[handed:], threads.ANSWERS, expr.span, state)
            named = isinstance(result, Pointer | Handle)  # kept as what the future is: `get` gives it
            return [(state, result if named else Unknown(self.fresh("future")))]
        if not (host_library.known(bare) or host_library.known(short_name)) and not name.startswith("std::"):
            return self.unresolved(name, expr, state, values)
        self.call_backs(values, expr.span, state)
        for position, value in enumerate(values):
            if host_library.may_write(short_name, position):
                for pointer in self.pointers_in(value, state):
                    self.forget_behind(state, pointer)
            where = host_ranges.touched(short_name, position, values)
            for mode in host_library.modes_of(short_name, position) if where is not None else ():
                for pointer in self.pointers_in(value, state):
                    obj = self.objects[pointer.place.object]
                    if self.visible_to_device(state, obj):
                        self.host_access(state, obj.id, mode, expr.span, where or ANYWHERE)
        if short_name in ("max_element", "min_element", "find", "copy", "begin", "end", "data", "next") and values:
            if isinstance(values[0], Pointer):
                return [(state, Pointer(values[0].place, values[0].array, None, values[0].element))]
            if isinstance(values[0], Instance):
                found = self.container_method(state, values[0], short_name, (), expr.span)
                if found is not None:
                    return [(state, found)]
        return [(state, Unknown(self.fresh(short_name)))]

    def _clock(self, name: str, short_name: str, expr: ir.Call, state: State) -> Value | None:
        """A look at a host clock, or a conversion of one; None when the call is neither."""
        if short_name in FILLS and len(expr.args) > FILLS[short_name]:
            values = [self.evaluate(a, state) for a in expr.args]
            place = self.pointed(values[FILLS[short_name]], state)
            if place is not None:
                self.fill_clock(state, place, expr.span, short_name)
            return NULL
        if short_name in VALUES and (short_name != "now" or "::" in name):
            for a in expr.args:
                self.evaluate(a, state)
            return self.read_clock(state, expr.span, short_name)
        if short_name == "difftime" and len(expr.args) == 2:
            end, start = (self.evaluate(a, state) for a in expr.args)
            return self.clock_arithmetic("-", end, start, expr.span)
        if short_name in PASSED_ON and len(expr.args) == 1:
            value = self.evaluate(expr.args[0], state)
            return value if isinstance(value, Clock) else Unknown(self.fresh(short_name))
        return None

    def transferred(self, name: str, values: list[Value], span: Span, state: State) -> None:
        """`in.read(p, n)` and `out.write(p, n)` of a file stream."""
        pointer = values[0] if len(values) > 1 else None
        if name not in host_library.TRANSFERS or not isinstance(pointer, Pointer):
            return
        obj = self.objects[pointer.place.object]
        for mode in host_library.TRANSFERS[name]:
            if mode is Mode.WRITE:
                self.forget_behind(state, pointer)
            if self.visible_to_device(state, obj):
                self.host_access(state, obj.id, mode, span, host_ranges.counted(pointer, values[1]))

    def unresolved(self, name: str, expr: ir.Call, state: State, values: list[Value] | None = None) -> list[Outcome]:
        """A call that cannot be followed. It may wait for the device and may touch what it is given, unless it merely
        wraps the status of an API call (`checkCudaErrors(cudaMalloc(...))`)."""
        if self.cached_memory(name, expr, state):
            return [(state, Unknown(self.fresh("status")))]
        wraps_status = any(isinstance(a, ir.Api) for a in expr.args)
        if values is None:
            values = [self.evaluate(a, state) for a in expr.args]
        if wraps_status:
            return [(state, NULL)]
        self.unfollowed.add(self.site(expr.span))
        self.handed_on |= {v.id for value in values for v in self._handles_in(value, state) if v.kind == "event"}
        messages = host_library.message_buffers(name)
        for position, value in enumerate(values):
            for pointer in self.pointers_in(value, state):
                self.forget_behind(state, pointer)
                obj = self.objects[pointer.place.object]
                mode, known = messages.get(position, Mode.READ), position in messages
                on_device = known and obj.memory == Memory.DEVICE.value and obj.buffer in state.touched
                if self.visible_to_device(state, obj) or on_device:
                    where = host_ranges.message(name, position, values, expr.args) if known else ANYWHERE
                    self.host_access(state, obj.id, mode, expr.span, where, certain=known)
        if not host_library.is_message_call(name):
            self.machine.may_have_waited(state.order)
        if host_library.REGISTERS.search(name):
            self.register(values, expr.span)
        else:
            if host_library.EVENT_LOOPS.search(name):
                self.run_registered(state)
            self.call_backs(values, expr.span, state)
        for position, value in enumerate(values):
            if isinstance(value, Struct):
                self.lengths_unknown(state, value.place)
            elif isinstance(value, Instance) and self.may_fill(state, value.object, name, position):
                self.length_unknown(state, value.object)
        for arg in expr.args:
            if isinstance(arg, ir.AddressOf):
                place = self.locate(arg.operand, state)
                if place is not None:
                    self._forget(state, place)
                    if state.load(place) is None and self.names.record(self.type_of(place)) is None:
                        state.store(place, Unknown(self.fresh(name)))
        return [(state, Unknown(self.fresh(name)))]

    def lengths_unknown(self, state: State, place: Place) -> None:
        """Code that is not in sight may have put anything into the containers of an object, and taken it out."""
        for _, value in list(state.below(place)):
            if isinstance(value, Instance):
                self.length_unknown(state, value.object)

    def length_unknown(self, state: State, obj: int) -> None:
        self.set_count(state, obj, symbol(self.fresh("count")))

    def lengths_changed(self, state: State, elsewhere: State) -> None:
        """What ran aside may have put something into containers, or taken it out, before the host goes on."""
        for obj in self.containers:
            known, there = state.memory.get(obj), elsewhere.memory.get(obj)
            if known is None or there is None or known is there:
                continue
            if known.get((SIZE,)) != there.get((SIZE,)) or self.is_map(obj) and known.keys() != there.keys():
                self.length_unknown(state, obj)

    def forget_written(self, closure: Closure, state: State) -> None:
        """A lambda that is not followed may have assigned to what it captured, and put something into containers."""
        places = dict(closure.scope)
        this = self.frame.this
        for node in ir.walk(closure.node.body):
            written: Expr | None = None
            if isinstance(node, ir.Assign):
                written = node.target
            elif isinstance(node, ir.Call) and isinstance(node.callee, ir.Member) and node.callee.name in RESIZES:
                written = node.callee.base
            while isinstance(written, ir.Member | ir.Index):
                written = written.base
            if isinstance(written, ir.Name):
                own = None if this is None else this if written.name == "this" else this.field(written.name)
                place = places.get(written.name, own)
                if place is not None:
                    self._forget(state, place)

    def may_fill(self, state: State, obj: int, name: str, position: int) -> bool:
        """A function that is not in sight may put something into an empty container that it is given."""
        if self.count_of(state, obj).constant != 0:
            return False
        short_name = plain(name)
        uids = (*self.program.declarations.get(short_name, ()), *self.program.by_name.get(short_name, ()))
        params = [self.program.functions[uid].params[position : position + 1] for uid in uids]
        return not uids or any(not p or (p[0].type.reference and not p[0].type.const) for p in params)

    def _handles_in(self, value: Value, state: State) -> list[Handle]:
        """The streams, events and graphs that a value carries or leads to."""
        if isinstance(value, Handle):
            return [value]
        place = self.place_of_value(value) if not isinstance(value, Pointer) else value.place
        return [] if place is None else [v for _, v in state.below(place) if isinstance(v, Handle)]

    def _forget(self, state: State, place: Place) -> None:
        """What a function may have changed behind a reference: plain values go, handles stay."""
        for path, value in list(state.below(place)):
            if isinstance(value, Num | Unknown | Truth):
                state.store(Place(place.object, place.path + path), Unknown(self.fresh("changed")))
            elif isinstance(value, Instance):
                self.length_unknown(state, value.object)


def _as_loop(expr: ir.Call) -> ir.Loop | None:
    """None when the two ends are not those of one variable."""
    if len(expr.args) != 3:
        return None
    first, last, function = expr.args
    ends = [
        a.callee for a in (first, last) if isinstance(a, ir.Call) and isinstance(a.callee, ir.Member) and not a.args
    ]
    if (
        len(ends) != 2
        or (ends[0].name, ends[1].name) not in _WHOLE
        or not isinstance(ends[0].base, ir.Name | ir.Member)
    ):
        return None
    if ends[0].base != replace(ends[1].base, span=ends[0].base.span):
        return None
    target = ir.Declare(expr.span, "#each", TypeRef("auto", reference=True))
    body = ir.Evaluate(expr.span, ir.Call(expr.span, function, (ir.Name(expr.span, "#each"),)))
    return ir.Loop(expr.span, "range", body, target=target, iterable=ends[0].base)


_WHOLE = frozenset({("begin", "end"), ("cbegin", "cend"), ("rbegin", "rend"), ("crbegin", "crend")})
