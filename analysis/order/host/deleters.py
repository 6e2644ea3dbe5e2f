"""What a smart pointer does with what it owns, and how objects of a class are copied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from stitchcuda.analysis.order.host import overloads, statics
from stitchcuda.analysis.order.host.host_calls import HostCalls, Outcome
from stitchcuda.analysis.order.host.names import EVENT_TYPES, NUMBERS, SMART_POINTERS, STREAM_TYPES, plain
from stitchcuda.analysis.order.recorder import Frame
from stitchcuda.analysis.order.state import Path, State, merge, merged_number
from stitchcuda.analysis.order.symbolic import ZERO
from stitchcuda.analysis.order.values import Num, Place, Pointer, Reference, Struct, Unknown, Value, either, solid
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import Expr, Function, Span, TypeRef
from stitchcuda.analysis.program.link import resolve

_FREES = ir.RELEASES | {ir.ApiKind.STREAM_DESTROY, ir.ApiKind.EVENT_DESTROY}
DELETER = "#deleter"  # a field of what a smart pointer owns: the deleter that it was given


class Deleters(HostCalls):
    """Layer of the executor: the deleters of smart pointers are run."""

    def bind_local(
        self, name: str, type: TypeRef, span: Span, value: Value, state: State, moved: bool = False
    ) -> Place:
        """A new local variable; the layer above makes it."""
        raise NotImplementedError

    def run_body(self, body: ir.Block, state: State) -> list[Outcome]:
        """Executes the body of the function on top of the frame stack; a layer above does."""
        raise NotImplementedError

    def joined(self, outcomes: list[Outcome], state: State) -> Value:
        if not outcomes:
            state.dead = True
            return Unknown("dead")
        current, value = outcomes[0]
        for other, other_value in outcomes[1:]:
            current = merge(current, other, self.fresh, self.number_from_before)
            if other_value != value:
                value = self._either(value, other_value)
        if current is not state:
            state.become(current)
        return value

    def _conditional(self, condition: Expr, then: Expr, otherwise: Expr, state: State) -> Value:
        """Of two expressions only one is evaluated. Where they release something it matters which: each is in a state of its
        own."""
        if not any(isinstance(n, ir.Api) and n.kind in _FREES for arm in (then, otherwise) for n in ir.walk(arm)):
            return super()._conditional(condition, then, otherwise, state)
        test = self.evaluate(condition, state)
        known = state.truth(test)
        if known is not None:
            return self.evaluate(then if known else otherwise, state)
        other = state.copy()
        state.assume(test, True)
        other.assume(test, False)
        outcomes = [(s, self.evaluate(arm, s)) for s, arm in ((state, then), (other, otherwise))]
        return self.joined([(s, value) for s, value in outcomes if not s.dead], state)

    def number_from_before(self, obj: int, path: Path) -> bool:
        """Whether a number stood there before anything was executed: in a global, or in what an entry is given."""
        held = self.objects[obj]
        if held.origin not in ("global", "parameter", "unknown"):
            return False
        type = self.names.resolve(self.type_of(Place(obj, path)))
        return type is not None and not type.pointer and not type.dims and type.name in NUMBERS

    def _either(self, a: Value, b: Value) -> Value:
        if isinstance(a, Struct) or isinstance(b, Struct):
            return a if isinstance(a, Struct) else b
        if solid(a) != solid(b):
            return a if solid(a) else b
        one_of = either((a, b))
        if one_of is not None:
            return one_of
        if isinstance(a, Num) and isinstance(b, Num):
            return Num(merged_number(a.value, b.value, self.fresh("phi")))
        return Unknown(self.fresh("phi"))

    def _methods(self, record: str, name: str, argc: int) -> tuple[Function, ...]:
        return self.meant(self.frame.function.path, name, argc, record)

    def types_of(self, args: tuple[Expr, ...], state: State) -> list[TypeRef | None]:
        """The types of arguments, as far as they are seen; a layer above looks."""
        raise NotImplementedError

    def class_types(self, function: Function, type: TypeRef | None) -> dict[str, TypeRef]:
        """What the template parameters of a class stand for; a layer above knows."""
        raise NotImplementedError

    def is_of_the_program(self, type: TypeRef) -> bool:
        return self.names.record(TypeRef(type.name)) is not None

    def class_of(self, function: Function, this: Place | None) -> dict[str, TypeRef | None]:
        """The template parameters of a method's class, for an object of it."""
        if not function.record or not function.template:
            return {}
        own = dict.fromkeys(statics.parameters(self.program, function))
        given = self.class_types(function, self.names.resolve(self.bound_type(self.type_of(this)))) if this else {}
        return {name: given.get(name) or self.frame.types.get(name) for name in own}

    def constructor_meant(
        self, found: tuple[Function, ...], place: Place, args: tuple[Expr, ...], state: State
    ) -> Function | None:
        """The one of several constructors that fits what is given; one that hands on to another does not mean itself."""
        running = {frame.function.uid for frame in self.frames if frame.this == place}
        found = tuple(f for f in found if f.uid not in running)
        if len(found) < 2:
            return found[0] if found else None
        return overloads.best(
            found, self.types_of(args, state), self.is_of_the_program, lambda f: self.class_of(f, place)
        )

    def meant(self, path: str, name: str, argc: int, record: str | None) -> tuple[Function, ...]:
        """What a call in a file means (see `link.resolve`), looked up once."""
        key = (path, name, argc, record)
        known = self._meant.get(key)
        if known is None:
            known = self._meant[key] = resolve(self.program, path, name, argc, record)
        return known

    @cached_property
    def _meant(self) -> dict[tuple[str, str, int, str | None], tuple[Function, ...]]:
        return {}

    def _copy_parameters(self, record: str, name: str) -> list[TypeRef]:
        """What the copy and move constructors of a class take; those that it deletes count. A copy that it asks for
        (`= default`) is the one that it would have without."""
        uids = self.program.by_name.get(name, ()) + self.program.declarations.get(name, ())
        found = [self.program.functions[u] for u in uids]
        one = [(f.params[0].type, f.defaulted) for f in found if f.record == record and len(f.params) == 1]
        return [t for t, as_is in one if t.reference and plain(t.name) == name and not (as_is and t.const)]

    def _constructed_by_base(self, record: ir.Record, type: TypeRef, args: tuple[Expr, ...]) -> TypeRef | None:
        """The base of a class without a constructor of its own whose constructor takes what is given."""
        braced = len(args) == 1 and isinstance(args[0], ir.InitList)
        if not args or braced or not record.base_types or self.program.by_name.get(plain(record.name)):
            return None
        for written in record.base_types:
            base = self.names.record(TypeRef(written.name))
            if base is None or base is record:
                continue
            made = self._methods(base.name, plain(base.name), len(args))
            if any(f.body is not None and f.record == base.name for f in made):
                return self._as_base(type, base.name)
        return None

    def keep_deleter(self, values: list[Value], state: State) -> None:
        """`unique_ptr<T, D> p(memory, deleter)`: the deleter goes where the memory goes."""
        if len(values) != 2 or not isinstance(values[0], Pointer) or not isinstance(values[1], Struct):
            return
        owned, given = self.objects[values[0].place.object], values[1].place
        identity = replace(owned.identity, kind="deleter", extra=f"{owned.identity.kind}{owned.identity.extra}")
        kept = Place(self.object_for(identity, "deleter", type=self.type_of(given)).id)
        self.copy_record(state, given, kept)
        state.store(Place(owned.id).field(DELETER), Reference(kept))

    def run_deleter(self, place: Place, deleter: TypeRef, state: State, span: Span, whatever: bool) -> None:
        """A deleter of the program's own is called with what the pointer holds. That the pointer was moved away is not
        always seen: unless it is `whatever` it does, only one that waits is."""
        held = state.load(place)
        record = self.names.record(self.names.resolve(self.bound_type(deleter)))
        found = self._methods(record.name, "operator()", 1) if record is not None else ()
        function = next((f for f in found if f.body is not None), None)
        if held is None or held == Num(ZERO) or function is None or function.body is None:
            return
        waits = any(isinstance(n, ir.Api) and n.kind in ir.HOST_WAITS for n in ir.walk(function.body))
        if not waits and (not whatever or not solid(held)):
            return
        kept = state.load(Place(held.place.object).field(DELETER)) if isinstance(held, Pointer) else None
        this = kept.place if isinstance(kept, Reference) else None
        if len(self.frames) >= self.options.max_depth:
            return
        self.frames.append(Frame(function, (*self.frame.calls, self.site(span)), [{}], this))
        self.runs(function)
        try:
            param = function.params[0]
            self.bind_local(param.name, param.type, param.span, held, state, moved=True)
            outcomes = self.run_body(function.body, state)
        finally:
            self.frames.pop()
        self.joined(outcomes, state)

    def smart_pointer_method(self, state: State, place: Place, name: str, args: tuple[Expr, ...]) -> Value | None:
        if name == "reset":
            type = self.names.resolve(self.bound_type(self.type_of(place)))
            if type is not None and plain(type.name) in SMART_POINTERS and len(type.args) > 1 and not type.pointer:
                mine = not place.path and place.object in self.frame.own
                whatever = mine and self.stays(self.objects[place.object].name, self.frame.function)
                self.run_deleter(place, type.args[1], state, self.reset_at, whatever)
        return super().smart_pointer_method(state, place, name, args)

    reset_at: Span = (0, 0)  # the call of a smart pointer's method that runs

    def stays(self, name: str, function: Function) -> bool:
        """A variable of a function that is only looked into there, never handed on, moved or returned."""
        key = (function.uid, name)
        known = self._staying.get(key)
        if known is None:
            looked: set[int] = set()
            nodes = list(ir.walk(function.body)) if function.body is not None else []
            for _, given in function.initializers:
                nodes += ir.walk(given)
            for node in nodes:
                if isinstance(node, ir.Member):
                    looked.add(id(node.base))
                    if isinstance(node.base, ir.Deref):
                        looked.add(id(node.base.operand))
                elif isinstance(node, ir.Deref | ir.Unary):
                    looked.add(id(node.operand))
                elif isinstance(node, ir.Index):
                    looked.add(id(node.base))
            named = [n for n in nodes if isinstance(n, ir.Name) and n.name == name]
            released = any(isinstance(n, ir.Member) and n.name in ("release", "swap") for n in nodes)
            known = self._staying[key] = not released and all(id(n) in looked for n in named)
        return known

    @cached_property
    def _handed_on(self) -> frozenset[str]:
        """The names of members that some code of the program does more with than to look into what they hold: they may be moved,
        released or swapped there."""
        found: set[str] = set()
        for function in self.program.functions.values():
            found |= _handed_on(function)
        return frozenset(found)

    @cached_property
    def _staying(self) -> dict[tuple[str, str], bool]:
        return {}


def _handed_on(function: Function) -> set[str]:
    """Members, and names that may be members, with which a function does more than to look into them or to fill them."""
    nodes = list(ir.walk(function.body)) if function.body is not None else []
    for _, given in function.initializers:
        nodes += ir.walk(given)
    looked: set[int] = set()
    found: set[str] = set()
    for node in nodes:
        match node:
            case ir.Member(base=ir.Name(name=name) | ir.Member(name=name), name="release" | "swap"):
                found.add(name)
            case ir.Member(base=ir.Deref(operand=base)) | ir.Member(base=base) | ir.Index(base=base):
                looked.add(id(base))
            case ir.Assign(target=ir.Name() | ir.Member() as target, op=""):
                looked.add(id(target))
            case ir.Unary(operand=operand):
                looked.add(id(operand))
    kinds = ir.Name | ir.Member if function.record else ir.Member
    return found | {n.name for n in nodes if isinstance(n, kinds) and id(n) not in looked}


def is_nothing(init: Expr) -> bool:
    """`std::nullopt`, `{}`."""
    nothing = isinstance(init, ir.Name) and plain(init.name) == "nullopt"
    return nothing or (isinstance(init, ir.InitList) and not init.items)


def member_by_member(constructor: Function, record: ir.Record) -> bool:
    """A constructor or assignment takes something that another object of its class owns, as it is, and leaves it there."""
    if constructor.body is None or len(constructor.params) != 1:
        return False
    param = constructor.params[0]
    if plain(param.type.name) != plain(record.name) or not param.type.reference:
        return False
    taken: set[str] = set()
    left: set[str] = set()
    for _, value in constructor.initializers:
        given = value.args[0] if isinstance(value, ir.Construct) and len(value.args) == 1 else value
        taken.add(_member_of(given, param.name))
    for done in _assigned(constructor.body, param.name):
        if done is None or done.op or any(isinstance(n, ir.Call) for n in ir.walk(done)):
            return False
        left.add(_member_of(done.target, param.name))
        taken.add(_member_of(done.value, param.name))
    owning = {f.name for f in record.fields if f.type.pointer or f.type.name in STREAM_TYPES | EVENT_TYPES}
    return bool((taken - left) & owning)


def _assigned(stmt: ir.Stmt, other: str) -> Iterator[ir.Assign | None]:
    """The assignments of a body; None for what may do something else with what the `other` object owns."""
    match stmt:
        case ir.Block(body=body):
            for inner in body:
                yield from _assigned(inner, other)
        case ir.If(condition=condition, then=then, otherwise=otherwise):
            asks = not isinstance(condition, ir.Binary) or condition.op not in ("==", "!=")  # `this != &other`
            if asks and _mentions(condition, other):
                yield None
            yield from _assigned(then, other)
            if otherwise is not None:
                yield from _assigned(otherwise, other)
        case ir.Evaluate(expr=ir.Assign() as done):
            yield done
        case ir.Evaluate(expr=ir.Api(kind=kind)) if kind in _FREES and not _mentions(stmt, other):
            return  # what the object had before
        case ir.Return() if not _mentions(stmt, other):
            return
        case _:
            yield None


def _mentions(node: ir.Stmt | Expr, name: str) -> bool:
    return any(isinstance(n, ir.Name) and n.name == name for n in ir.walk(node))


def _member_of(expr: Expr, name: str) -> str:
    """`f` of `name.f`."""
    known = isinstance(expr, ir.Member) and isinstance(expr.base, ir.Name) and expr.base.name == name
    return expr.name if known and isinstance(expr, ir.Member) else ""
