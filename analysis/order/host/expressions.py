"""Evaluation of IR expressions on one group of paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

from stitchcuda.analysis.order import arithmetic
from stitchcuda.analysis.order.arithmetic import NULL, TRUE, key_of, short
from stitchcuda.analysis.order.host import aggregates, allocators, traits
from stitchcuda.analysis.order.host.names import CONTAINERS, CUDA_CONSTANTS, NUMBERS, plain, template_number
from stitchcuda.analysis.order.host.places import Places, pointee_of_container
from stitchcuda.analysis.order.recorder import LEGACY_STREAM, LoopFrame
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ZERO, Poly, number, symbol
from stitchcuda.analysis.order.timeline import Mode, StreamKind
from stitchcuda.analysis.order.values import (
    Clock,
    Closure,
    Code,
    Either,
    Handle,
    Identity,
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
    either,
    options_of,
    size_of,
)
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr, Span, TypeRef

LOST = frozenset({"parse error", "nested too deeply", "long chain"})  # syntax of which parts were not lowered


WHERE_WRITTEN = frozenset({"__FILE__", "__LINE__", "__func__", "__FUNCTION__", "__PRETTY_FUNCTION__"})


class Expressions(Places):
    """Evaluates; calls, launches and API calls are left to the layer above (`call`, `launch`, `api`)."""

    _constant_depth = 0

    def call(self, expr: ir.Call, state: State) -> Value:
        raise NotImplementedError

    def expanded(self, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """With parameter packs written out."""
        raise NotImplementedError

    def construct(self, place: Place, type: TypeRef, args: tuple[Expr, ...], state: State, span: Span) -> None:
        raise NotImplementedError

    def delete(self, value: Value, array: bool, span: Span, state: State) -> None:
        raise NotImplementedError

    def launch(self, expr: ir.Launch, state: State) -> Value:
        raise NotImplementedError

    def api(self, expr: ir.Api, state: State) -> Value:
        raise NotImplementedError

    def evaluate(self, expr: Expr, state: State) -> Value:
        """The value of an expression; its effects happen in `state`."""
        effort = self.effort
        effort.steps += 1
        if effort.steps > effort.look:
            self.look()
        return self._evaluators[type(expr)](expr, state)

    @cached_property
    def _evaluators(self) -> dict[type, Callable[[Any, State], Value]]:
        """What evaluates each kind of expression."""
        return {
            ir.Const: self._constant,
            ir.Name: self._name,
            ir.Member: self._read,
            ir.Index: self._read,
            ir.Deref: self._read,
            ir.AddressOf: lambda e, s: self._address(e.operand, s),
            ir.Unary: lambda e, s: self._unary(e.op, self.evaluate(e.operand, s)),
            ir.Binary: self._binary,
            ir.Conditional: lambda e, s: self._conditional(e.condition, e.then, e.otherwise, s),
            ir.Assign: self.assign,
            ir.Call: self.call,
            ir.Construct: lambda e, s: self.temporary(e.type, e.args, s, e.span),
            ir.New: self._new,
            ir.Delete: self._delete,
            ir.Cast: lambda e, s: self.cast(self.evaluate(e.operand, s), e.type),
            ir.InitList: self._init_list,
            ir.Lambda: self._lambda,
            ir.SizeOf: lambda e, s: Num(self._sizeof(e.type, e.operand, s)),
            ir.Launch: self.launch,
            ir.Api: self.api,
            ir.Opaque: self._opaque,
        }

    def subscript(self, held: Value, index: Expr | None, span: Span, state: State) -> Value | None:
        """`x[i]` of a class with an `operator[]` of its own, `*x` and `x->` (no index); a layer above does."""
        raise NotImplementedError

    def _read(self, expr: ir.Member | ir.Index | ir.Deref, state: State) -> Value:
        if isinstance(expr, ir.Index):
            held = self._held(expr.base, state)
            own = self.subscript(held, expr.index, expr.span, state) if type(held) is Struct else None
            if isinstance(own, Reference):
                self.touch(state, own.place, Mode.READ, expr.span)
                return self.load(state, own.place)
            if own is not None:
                return own
            at = self.evaluate(expr.index, state)
            place = self.element_of(held, self.step_to(held, at), state)
        else:
            place = self.locate(expr, state)
        if place is None:
            return self._one_of_several(expr, state) or Unknown(self._unknown_key(expr))
        self.touch(state, place, Mode.READ, expr.span)
        return self.load(state, place)

    def _delete(self, expr: ir.Delete, state: State) -> Value:
        deleted = self.evaluate(expr.operand, state)
        self.delete(deleted, expr.array, expr.span, state)
        if isinstance(deleted, Pointer) and self.certain_object(deleted.place.object):
            self.end_of_life(state, deleted.place.object, expr.span, "delete")
        return NULL

    def _init_list(self, expr: ir.InitList, state: State) -> Value:
        values = [self.evaluate(item, state) for item in expr.items]
        return values[0] if len(values) == 1 else Unknown(self.fresh("list"))

    def _opaque(self, expr: ir.Opaque, state: State) -> Value:
        parts = self.expanded(expr.children) if expr.what == "fold" else expr.children
        for k, part in enumerate(parts):
            if parts is not expr.children:  # what one element of a pack makes is not what another makes
                self.loop_stack.append(LoopFrame(-1, number(k), k, element=True))
            self.evaluate(part, state)
            if parts is not expr.children:
                self.loop_stack.pop()
        if expr.what in LOST:  # a call may have been lost with it
            self.machine.may_have_waited(state.order)
            self.cut(expr.span, expr.what)
        return Unknown(self.fresh("opaque"))

    def _one_of_several(self, expr: ir.Member | ir.Index | ir.Deref, state: State) -> Value | None:
        """What is read through a pointer that may be one of several."""
        if any(isinstance(n, ir.Call | ir.Assign | ir.Api | ir.Launch | ir.New) for n in ir.walk(expr)):
            return None  # nothing is done twice
        places = self._places(expr, state)
        return either(self.load(state, p) for p in places) if len(places) > 1 else None

    def _places(self, expr: Expr, state: State) -> list[Place]:
        """The places that an lvalue expression may denote."""
        match expr:
            case ir.Member(base=base, name=name):
                return [self.follow(state, p.field(name)) for p in self._places(base, state)]
            case ir.Deref(operand=operand):
                found = [self.pointed(v, state) for v in options_of(self.evaluate(operand, state))]
            case ir.Index(base=base, index=index):
                at = self.evaluate(index, state)
                found = [self.element_of(v, self.step_to(v, at), state) for v in options_of(self.evaluate(base, state))]
            case _:
                found = [self.locate(expr, state)]
        return [p for p in found if p is not None]

    def _constant(self, expr: ir.Const, state: State) -> Value:
        value = expr.value
        if value is None:
            return NULL
        if isinstance(value, bool):
            return TRUE if value else NULL
        if isinstance(value, int):
            return Num(number(value))
        if isinstance(value, float):
            return Num(number(int(value))) if value.is_integer() and abs(value) < 1 << 40 else Unknown(repr(value))
        return Text(value)

    def _unknown_key(self, expr: Expr) -> str:
        return f"{self.frame.function.uid}@{expr.span[0]}.{len(self.frame.calls)}.{self.fresh('x')}"

    def _unary(self, op: str, value: Value) -> Value:
        match op:
            case "!" | "not":
                return arithmetic.negate(value)
            case "-" if isinstance(value, Clock):
                return Clock(value.reading, not value.negative)
            case "-":
                return Num(-value.value) if isinstance(value, Num) else Unknown(short(f"-{key_of(value)}"))
            case "+":
                return value
        if op == "~" and isinstance(value, Num) and value.value.constant is not None:
            return Num(number(~value.value.constant))
        return Unknown(short(f"{op}{key_of(value)}"))

    def _binary(self, expr: ir.Binary, state: State) -> Value:
        op, left, right = expr.op, expr.left, expr.right
        if op in ("&&", "||", "and", "or"):
            op = {"and": "&&", "or": "||"}.get(op, op)
            first = self.evaluate(left, state)
            known = state.truth(first)
            if known is not None and known == (op == "||"):
                return TRUE if known else NULL
            second = self.evaluate(right, state)
            if state.dead and known is None:  # `n > 0 || (fail(), 0)`: who goes on has not come there
                state.dead = False
                return TRUE if op == "||" else NULL
            if known is not None:
                return second
            return arithmetic.combine(op, first, second)
        first = self.evaluate(left, state)
        second = self.evaluate(right, state)
        if op == ",":
            return second
        if op in ("==", "!=") and self.of_two_objects(left, right, first, second):
            return TRUE if op == "!=" else NULL
        if op in ("==", "!=") and isinstance(first, Handle) and isinstance(second, Handle):
            same = self.one_stream(first, second)
            if same is not None:
                return TRUE if same == (op == "==") else NULL
        if isinstance(first, Clock) or isinstance(second, Clock):
            time = self.clock_arithmetic(op, first, second, (left.span[0], right.span[1]))
            if time is not None:
                return time
        return arithmetic.binary(op, first, second)

    def _conditional(self, condition: Expr, then: Expr, otherwise: Expr, state: State) -> Value:
        test = self.evaluate(condition, state)
        known = state.truth(test)
        if known is not None:
            return self.evaluate(then if known else otherwise, state)
        a = self.evaluate(then, state)
        if state.dead:
            state.dead = False
            return self.evaluate(otherwise, state)
        b = self.evaluate(otherwise, state)
        if state.dead:
            state.dead = False
            return a
        if a == b:
            return a
        chosen = either(v for v in (a, b) if v != NULL)
        if chosen is not None:
            return Either((chosen,)) if NULL in (a, b) and not isinstance(chosen, Either) else chosen
        if isinstance(a, Num) and isinstance(b, Num):
            return Num(symbol(short(f"({key_of(test)}?{a.value}:{b.value})")))
        return Unknown(short(f"({key_of(test)}?{key_of(a)}:{key_of(b)})"))

    def _new(self, expr: ir.New, state: State) -> Value:
        count = None
        if expr.count is not None:
            value = self.evaluate(expr.count, state)
            count = value.value if isinstance(value, Num) else symbol(self.fresh("count"))
        element = size_of(self.names.resolve(expr.type))
        size = count * number(element) if count is not None and element is not None else None
        name = "new " + expr.type.name
        type = self.bound_type(expr.type) or expr.type
        record = self.names.record(self.names.resolve(type)) if count is None else None
        obj = self.object_for(
            self.identity("new", expr.span),
            name,
            type=type,
            origin="alloc",
            memory=allocators.of_new(record, self.names),
            size=size,
            count=count,
        )
        self.awaits_name(obj, name)
        place = Place(obj.id)
        state.clear_below(place)
        self.revive(state, ("memory", obj.id, 0))
        if count is not None:
            return Pointer(place, True, ZERO, element)
        self.construct(place, type, expr.args, state, expr.span)
        return Pointer(place, False, ZERO, element)

    def _lambda(self, expr: ir.Lambda, state: State) -> Value:
        frame = self.frame
        frame.captured = True
        scope = {name: place for names in frame.scopes for name, place in names.items()}
        copies: list[tuple[str, Value]] = []
        for name, place in scope.items():
            if name in expr.by_copy or (expr.default_capture == "=" and name not in expr.by_reference):
                copies.append((name, self.load(state, place)))
        copies += [(name, self.evaluate(value, state)) for name, value in expr.init_captures]
        given = (tuple(frame.types.items()), tuple(frame.packs.items()))
        return Closure(expr, frame.function.uid, tuple(scope.items()), tuple(copies), frame.this, *given)

    def _sizeof(self, type: TypeRef | None, operand: Expr | None, state: State) -> Poly:
        if type is None and operand is not None:
            type = self.static_type(operand, state)
            if type is None and isinstance(operand, ir.Name):  # a type that could have been a variable
                type = TypeRef(operand.name)
        return self.size(type) or symbol(f"sizeof({type.name if type else '?'})")

    def static_type(self, expr: Expr, state: State) -> TypeRef | None:
        """The declared type of an lvalue expression, as far as known."""
        if isinstance(expr, ir.Name | ir.Member | ir.Index | ir.Deref):
            place = self.locate(expr, state)
            return None if place is None else self.type_of(place)
        if isinstance(expr, ir.Cast):
            return expr.type
        return None

    def _name(self, expr: ir.Name, state: State) -> Value:
        name = expr.name
        place = self.variable(name, expr.template)
        if place is not None:
            if name == "this":
                return Pointer(place)
            held = state.load(place)
            if held is not None and not isinstance(held, Reference):
                self.touch(state, place, Mode.READ, expr.span)
                return held
            if held is None and self.objects[place.object].origin == "global" and not place.path:
                initial = self._global_initial(place, state)
                if initial is not None:
                    return initial
            target = self.follow(state, place)
            self.touch(state, target, Mode.READ, expr.span)
            return self.load(state, target)
        given = self.frame.types.get(name) if self.frame.types else None
        if given is not None and not given.pointer and not given.args:  # `template <int N>`
            if (written := template_number(given.name)) is not None:
                return Num(number(written))
            if given.name in self.names.constants and given.name != name:
                return self._name(ir.Name(expr.span, given.name), state)
        if name in WHERE_WRITTEN:
            return Text(name)
        if name in CUDA_CONSTANTS:
            return Num(number(CUDA_CONSTANTS[name]))
        if name in ("cudaStreamLegacy", "CU_STREAM_LEGACY"):
            return Handle("stream", LEGACY_STREAM)
        if name in ("cudaStreamPerThread", "CU_STREAM_PER_THREAD"):
            identity = Identity("per-thread", "", "", 0, 0, (), ())
            return Handle("stream", self.stream_for(identity, "per-thread default", StreamKind.PER_THREAD, True))
        found = self.names.constants.get(name) or self.names.constants.get(plain(name))
        if found:
            _, value = self.names.seen_from(self.frame.function.path, found)
            if self._constant_depth < 12:
                self._constant_depth += 1
                try:
                    return self.evaluate(value, state)
                finally:
                    self._constant_depth -= 1
        uids = self.functions_named(expr)
        if uids:
            return Code(uids, None, name)
        if expr.template:
            return self.trait(expr)
        return Num(symbol(name)) if name.isupper() else Unknown(name)

    def trait(self, expr: ir.Name) -> Value:
        """What a template of the C++ library, or one that is not seen, says about types."""
        given = [TypeRef(t.name) if isinstance(t, ir.Name) else t for t in expr.template]
        types = [self.names.resolve(self.bound_type(t)) for t in given if isinstance(t, TypeRef)]
        known = [t for t in types if t is not None]
        library = len(known) == len(given) and traits.of_the_library(expr.name, self.program.records)
        answer = traits.told(expr.name, known) if library else None
        if answer is not None:
            return TRUE if answer else NULL
        open_ = any(t.name in self.frame.function.template for t in known)  # another type in another call
        told_of = known if len(known) == len(given) else given
        return Unknown(short(f"{expr.name}<{','.join(map(str, told_of))}>{self.frame.calls if open_ else ''}"))

    def functions_named(self, expr: ir.Name) -> tuple[str, ...]:
        name = plain(expr.name)
        return self.program.by_name.get(name) or self.program.declarations.get(name, ())

    def _global_initial(self, place: Place, state: State) -> Value | None:
        """The value of a global that was not written yet: its initialiser when it cannot change."""
        found = self.names.global_seen_from(self.frame.function.path, self.objects[place.object].name)
        if found is None:
            return None
        declaration = found[1]
        if declaration.init is None or not declaration.type.const or declaration.type.pointer or declaration.type.dims:
            return None
        if self.names.record(self.names.resolve(declaration.type)) is not None or self._constant_depth > 12:
            return None
        self._constant_depth += 1
        try:
            return self.evaluate(declaration.init, state)
        finally:
            self._constant_depth -= 1

    def _function_table(self, place: Place, state: State) -> None:
        """A global array of functions begins with those that it is initialised with."""
        obj = self.objects[place.object]
        if obj.origin != "global" or obj.type is None or not obj.type.dims:
            return
        found = self.names.global_seen_from(self.frame.function.path, obj.name)
        if found is not None and isinstance(found[1].init, ir.InitList):
            self._functions_listed(place, found[1].init, state)

    def _functions_listed(self, place: Place, listed: ir.InitList, state: State) -> None:
        for k, item in enumerate(listed.items):
            named = item.operand if isinstance(item, ir.AddressOf) else item
            if isinstance(named, ir.InitList):
                self._functions_listed(place.element(number(k)), named, state)
            elif isinstance(named, ir.Name) and (uids := self.functions_named(named)):
                state.store(place.element(number(k)), Code(uids, None, named.name))

    def locate(self, expr: Expr, state: State) -> Place | None:
        """The place that an lvalue expression denotes; None when it is not known."""
        match expr:
            case ir.Name(name=name, template=template):
                place = self.variable(name, template)
                if place is not None and not place.path and place.object not in state.memory:
                    self._function_table(place, state)
                return None if place is None else self.follow(state, place)
            case ir.Member(base=base, name=name):
                inner = self._base_of_member(base, state)
                return None if inner is None else self.follow(state, inner.field(name))
            case ir.Index(base=base, index=index):
                held = self._held(base, state)
                own = self.subscript(held, index, expr.span, state) if type(held) is Struct else None
                if own is not None:
                    return self.place_of_value(own)
                return self.element_of(held, self.step_to(held, self.evaluate(index, state)), state)
            case ir.Deref(operand=operand):
                held = self.evaluate(operand, state)
                own = self.subscript(held, None, expr.span, state) if type(held) is Struct else None
                return self.pointed(held if own is None else own, state)
            case ir.Cast(operand=operand) | ir.Opaque(children=(operand,)):
                return self.locate(operand, state)
            case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
                known = state.truth(self.evaluate(condition, state))
                return None if known is None else self.locate(then if known else otherwise, state)
            case ir.Assign():
                self.assign(expr, state)
                return self.locate(expr.target, state)
            case ir.Binary(op=",", left=left, right=right):
                self.evaluate(left, state)
                return self.locate(right, state)
            case ir.Call() | ir.Construct() | ir.Api():
                value = self.evaluate(expr, state)
                return self.place_of_value(value)
            case ir.Unary(op="*", operand=operand):
                return self.pointed(self.evaluate(operand, state), state)
        return None

    def place_or_value(self, expr: Expr, state: State) -> tuple[Place | None, Value | None]:
        """Where what an expression denotes is stored, or its value when that is stored nowhere; for one of them, it is not
        evaluated a second time. (None, None): no place, and not evaluated yet."""
        if isinstance(ir.bare(expr), ir.Call | ir.Construct | ir.Api):
            value = self.evaluate(expr, state)
            return self.place_of_value(value), value
        return self.locate(expr, state), None

    def _base_of_member(self, base: Expr, state: State) -> Place | None:
        place = self.locate(base, state)
        if place is None:
            return self.place_of_value(self.evaluate(base, state)) if isinstance(base, ir.Name) else None
        held = state.load(place)
        if isinstance(held, Instance):  # a smart pointer or container held in a variable
            return Place(held.object)
        if isinstance(held, Pointer):  # `p->x` where the frontend could not tell
            return self.pointed(held, state)
        if isinstance(held, Struct):
            return held.place
        return place

    def step_to(self, held: Value, at: Value) -> Step:
        """The way to the element of `held` at an index or a key; a layer above does."""
        raise NotImplementedError

    def _held(self, base: Expr, state: State) -> Value:
        """The value of what is indexed."""
        if not isinstance(base, ir.Name | ir.Member | ir.Index | ir.Deref):
            return self.evaluate(base, state)
        place = self.locate(base, state)
        return Unknown("") if place is None else self.load(state, place)

    def _address(self, operand: Expr, state: State) -> Value:
        if isinstance(operand, ir.Index):
            base, found = self.place_or_value(operand.base, state)
            if base is not None:
                value = self.load(state, base)
            else:
                value = self.evaluate(operand.base, state) if found is None else found
            at = self.evaluate(operand.index, state)
            index = at.value if isinstance(at, Num) else None
            if isinstance(value, Instance):
                element = pointee_of_container(self.objects[value.object].type)
                size = self.size(element)
                value = Pointer(Place(value.object), True, ZERO, size.constant if size is not None else None)
            if isinstance(value, Pointer) and value.array:
                shifted = None if index is None or value.index is None else value.index + index
                return replace(value, index=shifted)
        place, held = self.place_or_value(operand, state)
        if place is None:
            value = self.evaluate(operand, state) if held is None else held
            return value if isinstance(value, Pointer | Code) else Unknown(self._unknown_key(operand))
        type = self.names.resolve(self.bound_type(self.type_of(place)))
        size = self.size(type)
        return Pointer(place, False, ZERO, size.constant if size is not None else None)

    def temporary(self, type: TypeRef, args: tuple[Expr, ...], state: State, span: Span) -> Value:
        """`T(args)`."""
        resolved = self.names.resolve(self.bound_type(type))
        if resolved is not None and len(args) == 1 and (resolved.pointer or resolved.name in NUMBERS):
            return self.cast(self.evaluate(args[0], state), type)
        obj = self.object_for(self.identity("temporary", span), resolved.name if resolved else type.name, type=resolved)
        place = Place(obj.id)
        state.clear_below(place)
        self.construct(place, type, args, state, span)
        return self.load(state, place)

    def assign_object(self, expr: ir.Assign, state: State) -> Value | None:
        """`x = y` of a class with an `operator=` of its own; a layer above does."""
        raise NotImplementedError

    def assigns_object(self, expr: ir.Assign, state: State) -> bool:
        """Whether more than one value is assigned, or an object by its class's own `operator=`."""
        return _tied(expr.target) is not None

    def assign(self, expr: ir.Assign, state: State) -> Value:
        if "operator=" in self.program.by_name and not expr.op:
            done = self.assign_object(expr, state)
            if done is not None:
                return done
        value = self._assigned_list(expr, state) or self.evaluate(expr.value, state)
        tied = _tied(expr.target)
        if tied is not None:
            return self._tie(tied, value, state)
        return self.assign_value(expr, value, state)

    def _assigned_list(self, expr: ir.Assign, state: State) -> Value | None:
        """`x = {a, b}` of a record that nobody has to destroy, or of a container; None for anything else."""
        if not isinstance(expr.value, ir.InitList) or expr.op or self.frame.function.language == "python":
            return None
        if any(isinstance(n, ir.Call | ir.Assign | ir.Api | ir.Opaque) for n in ir.walk(expr.target)):
            return None  # nothing is done twice
        place = self.locate(expr.target, state)
        type = self.names.resolve(self.bound_type(self.type_of(place))) if place is not None else None
        if type is None or type.pointer or type.dims:
            return None
        record = self.names.record(type)
        if record is None and plain(type.name) not in CONTAINERS:
            return None
        if record is not None and f"~{plain(record.name)}" in self.program.by_name:
            return None
        return self.temporary(TypeRef(type.name, type.args), (expr.value,), state, expr.value.span)

    def _tie(self, targets: tuple[Expr, ...], value: Value, state: State) -> Value:
        """`std::tie(a, b) = f()`."""
        whole = self.place_of_value(value)
        type = self.names.resolve(self.bound_type(self.type_of(whole))) if whole is not None else None
        for position, target in enumerate(targets):
            field = aggregates.part(type, position, self.names)
            place = self.locate(target, state)
            if place is None:
                continue
            if whole is None or field is None:
                self.store_value(state, place, Unknown(self.fresh("tied")))
            else:
                self.store_value(state, place, self.load(state, whole.field(field)))
        return value

    def _other_side(self, a: Value | None, b: Value) -> bool:
        """Two containers, of which one lives on the device."""
        if not isinstance(a, Instance) or not isinstance(b, Instance):
            return False
        return self.objects[a.object].memory != self.objects[b.object].memory

    def assign_value(self, expr: ir.Assign, value: Value, state: State) -> Value:
        place = self.locate(expr.target, state)
        if place is None:
            return value
        if expr.op:
            self.touch(state, place, Mode.READ, expr.target.span)
            old = self.load(state, place)
            time = None
            if isinstance(old, Clock) or isinstance(value, Clock):
                time = self.clock_arithmetic(expr.op, old, value, expr.span)
            value = arithmetic.binary(expr.op, old, value) if time is None else time
        else:
            old = value
        self.touch(state, place, Mode.WRITE, expr.target.span)
        mine = state.load(place)
        if self._other_side(mine, value):
            self.machine.may_have_waited(state.order)  # thrust copies between host and device
            return value
        self.store_value(state, place, value)
        return old if expr.post else value


def _tied(target: Expr) -> tuple[Expr, ...] | None:
    """The variables of `std::tie(a, b)`."""
    if isinstance(target, ir.Call) and isinstance(target.callee, ir.Name) and plain(target.callee.name) == "tie":
        return target.args
    return None
