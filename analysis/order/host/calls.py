"""Calls of the program's own functions (followed into their bodies) and of the host library."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from stitchcuda.analysis.order.arithmetic import NULL, key_of
from stitchcuda.analysis.order.cuda.clocks import STOPWATCHES
from stitchcuda.analysis.order.cuda.thrust_effects import is_algorithm
from stitchcuda.analysis.order.host import overloads, packs, statics, threads, traits
from stitchcuda.analysis.order.host.construction import Outcome
from stitchcuda.analysis.order.host.deleters import member_by_member
from stitchcuda.analysis.order.host.foregone import Foregone
from stitchcuda.analysis.order.host.methods import Methods
from stitchcuda.analysis.order.host.names import (
    CONTAINERS,
    DEVICE_CONTAINERS,
    NUMBERS,
    SMART_POINTERS,
    mentions_device_vectors,
    plain,
)
from stitchcuda.analysis.order.recorder import Frame
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.values import (
    Closure,
    Code,
    Either,
    Instance,
    Place,
    Pointer,
    Struct,
    Unknown,
    Value,
    options_of,
)
from stitchcuda.analysis.program import api, ir
from stitchcuda.analysis.program.ir import Expr, Function, Site, Span, TypeRef

HOST_SPACES = ("host", "host_device")


@dataclass(frozen=True, slots=True)
class Handed:
    """A body that was handed to code that runs it."""

    function: Function
    body: ir.Block
    params: tuple[ir.Param, ...]
    this: Place | None
    closure: Closure | None = None


class Calls(Methods):
    def call(self, expr: ir.Call, state: State) -> Value:
        """A call inside an expression: its outcomes are merged into the one state."""
        return self.joined(self.call_outcomes(expr, state), state)

    def call_outcomes(self, expr: ir.Call, state: State) -> list[Outcome]:
        """Every way the call can end; none when it does not return."""
        if self.options.observed is not None:
            self.observe(state, expr.callee.name if isinstance(expr.callee, ir.Name | ir.Member) else "", expr.span)
        if self.frame.packs:
            args = self.expanded(expr.args)
            expr = expr if args is expr.args else replace(expr, args=args)
        callee = expr.callee
        if isinstance(callee, ir.Member):
            return self.method_outcomes(expr, callee, state)
        if isinstance(callee, ir.Name) and callee.name in STOPWATCHES and expr.args:
            place = self.pointed(self.evaluate(expr.args[0], state), state)
            if place is not None:
                self.stopwatch(state, place, STOPWATCHES[callee.name], expr.span, callee.name)
            return [(state, NULL)]
        if isinstance(callee, ir.Name):
            place = self.variable(callee.name)
            if place is not None:
                return self.call_value(self.load(state, place), expr, state)
            functions = self._resolve(callee.name, len(expr.args))
            if functions:
                return self.invoke(functions, self._own(functions[0]), expr, state, callee.template)
            if callee.template and not expr.args and traits.is_trait(callee.name):  # `std::is_same<T, float>()`
                return [(state, self.trait(callee))]
            if self._is_class(callee.name):  # `T(args)` that the frontend could not tell from a call
                return [(state, self.temporary(TypeRef(callee.name), expr.args, state, expr.span))]
            return self._library(callee.name, expr, state)
        inner: Expr = callee
        while isinstance(inner, ir.Deref):  # `(*f)(x)`
            inner = inner.operand
        if inner is not callee and isinstance(inner, ir.Name | ir.Member):
            held = self.evaluate(inner, state)
            if all(isinstance(option, Code | Closure) for option in options_of(held)):
                return self.call_value(held, expr, state)
        return self.call_value(self.evaluate(callee, state), expr, state)

    def _is_class(self, name: str) -> bool:
        """A class of the program, or one of the library whose objects are pointers."""
        known = self._classes.get(name)
        if known is None:
            named = self.names.resolve(TypeRef(name))
            owner = named is not None and (plain(named.name) in SMART_POINTERS or named.name.endswith("_iterator"))
            known = self._classes[name] = owner or self.names.record(named) is not None
        return known

    @cached_property
    def _classes(self) -> dict[str, bool]:
        return {}

    def _own(self, function: Function) -> Place | None:
        """The object whose method `f()` means within a method: the same one."""
        return self.frame.this if function.record and not function.static else None

    def _resolve(self, name: str, argc: int, record: str | None = None) -> tuple[Function, ...]:
        here = self.frame.function
        if record is None and self.frame.types and "::" in name:
            scope, _, last = name.rpartition("::")
            named = self.frame.types.get(scope)
            if named is not None and not named.pointer:  # `template <class Policy> ... Policy::run()`
                name = f"{named.name}::{last}"
        if record is None and here.record:
            own = self.meant(here.path, name, argc, self.own_record(here))
            if own:
                return own
        return self.meant(here.path, name, argc, record)

    def subscript(self, held: Value, index: Expr | None, span: Span, state: State) -> Value | None:
        names = ("operator->", "operator*") if index is None else ("operator[]",)
        args = () if index is None else (index,)
        if not isinstance(held, Struct):
            return None
        for name in names:
            method = self._operator(name, held.place, None, len(args)) if name in self.program.by_name else None
            made = self.names.resolve(self.bound_type(method.returns)) if method is not None else None
            if method is None or made is None:
                continue
            if made.name in NUMBERS and not made.pointer and not (made.reference and self._keeps_memory(method.record)):
                continue
            return self.joined(self.enter(method, held.place, args, (), span, state), state)
        return None

    def _keeps_memory(self, record: str) -> bool:
        """A class that allocates or releases by CUDA: its elements may be seen by the device."""
        known = self._keeping.get(record)
        if known is None:
            name = plain(record)
            makers = (*self.program.by_name.get(name, ()), *self.program.by_name.get(f"~{name}", ()))
            known = self._keeping[record] = any(u in self.program.reaches_cuda for u in makers)
        return known

    @cached_property
    def _keeping(self) -> dict[str, bool]:
        return {}

    def assign_value(self, expr: ir.Assign, value: Value, state: State) -> Value:
        if isinstance(value, Struct) and not expr.op:
            type = self.names.resolve(self.bound_type(self.static_type(expr.target, state)))
            value = value if type is None else self._converted(value, type, expr.span, state)
        return super().assign_value(expr, value, state)

    def assign_object(self, expr: ir.Assign, state: State) -> Value | None:
        method, place = self._assignment(expr, state)
        if method is None or place is None:
            return None
        self.joined(self.enter(method, place, (expr.value,), (), expr.span, state), state)
        record = self.names.record(TypeRef(method.record))
        if record is not None and member_by_member(method, record):
            self.copied_as_is(place, expr.value, state)
        return Struct(place)

    def assigns_object(self, expr: ir.Assign, state: State) -> bool:
        if super().assigns_object(expr, state):
            return True
        return "operator=" in self.program.by_name and not expr.op and self._assignment(expr, state)[0] is not None

    def _assignment(self, expr: ir.Assign, state: State) -> tuple[Function | None, Place | None]:
        """The `operator=` that an assignment calls, and on what."""
        if any(isinstance(n, ir.Call | ir.Assign | ir.Api | ir.Opaque) for n in ir.walk(expr.target)):
            return None, None  # nothing is done twice
        place = self.locate(expr.target, state)
        temporary = isinstance(expr.value, ir.Call | ir.Construct | ir.InitList)
        method = self._operator("operator=", place, temporary) if place is not None else None
        return (method, place) if method is not None and method.uid in self.program.reaches_cuda else (None, None)

    def _operator(self, name: str, place: Place, temporary: bool | None, argc: int = 1) -> Function | None:
        """The operator of the class of an object; of several assignments the one that takes a `temporary`, or not."""
        record = self.names.record(self.names.resolve(self.bound_type(self.type_of(place))))
        if record is None or len(self.frames) >= self.options.max_depth:
            return None
        found = [f for f in self._methods(record.name, name, argc) if f.body is not None and f.space in HOST_SPACES]
        if temporary is not None:
            found = [f for f in found if plain(f.params[0].type.name) == plain(record.name)]
            found.sort(key=lambda f: (f.params[0].type.reference and not f.params[0].type.const) != temporary)
        return found[0] if found else None

    def call_value(self, value: Value, expr: ir.Call, state: State) -> list[Outcome]:
        match value:
            case Either(options=options):
                return self.each(options, state, lambda option, s: self.call_value(option, expr, s))
            case Code(uids=uids, this=this):
                functions = tuple(self.program.functions[u] for u in uids)
                fitting = tuple(f for f in functions if len(f.params) >= len(expr.args)) or functions
                return self.invoke(fitting, this, expr, state)
            case Closure():
                return self._invoke_closure(value, expr, state)
            case Pointer() | Struct():
                place = value.place if isinstance(value, Struct) else self.pointed(value, state)
                if place is not None:
                    held = state.load(place)
                    if isinstance(held, Code | Closure):
                        return self.call_value(held, expr, state)
                    record = self.names.record(self.names.resolve(self.type_of(place)))
                    if record is not None:
                        methods = self._methods(record.name, "operator()", len(expr.args))
                        if methods:
                            return self.invoke(methods, place, expr, state)
            case Unknown(key=name) if api.is_work(name):
                return [(state, self.evaluate(_api_call(name.removeprefix("::"), expr), state))]
        return self.unresolved(key_of(value), expr, state)

    def invoke(
        self,
        functions: tuple[Function, ...],
        this: Place | None,
        expr: ir.Call,
        state: State,
        template: tuple[Expr | TypeRef, ...] = (),
    ) -> list[Outcome]:
        bodies = [f for f in functions if f.body is not None]
        if not bodies:
            if this is not None:
                self.lengths_unknown(state, this)
            return self.unresolved(functions[0].name, expr, state)
        function = bodies[0]
        if len(bodies) > 1:
            types = self.types_of(expr.args, state)
            function = overloads.best(bodies, types, self.is_of_the_program, lambda f: self.class_of(f, this))
        if function.space in ("global", "device"):
            return self.unresolved(function.name, expr, state)
        passed = any(self._is_device_code(a) for a in expr.args) or self._is_given_a_vector(expr.args, state)
        if not passed and not self.follows(function):
            return self._summarised(function, this, expr, state)
        if len(self.frames) >= self.options.max_depth or sum(f.function.uid == function.uid for f in self.frames) > 1:
            self.cut(expr.span, f"call of {function.name} not followed (depth)")
            if this is not None:
                self.lengths_unknown(state, this)
            return self.unresolved(function.name, expr, state)
        return self.enter(function, this, expr.args, expr.keywords, expr.span, state, template)

    def types_of(self, args: tuple[Expr, ...], state: State) -> list[TypeRef | None]:
        """The types of arguments, as far as they are seen without evaluating them."""
        found = [self.names.resolve(self.bound_type(self._type_of_argument(a, state))) for a in args]
        return [None if t is None or t.name in ("auto", "") else t for t in found]

    def _type_of_argument(self, arg: Expr, state: State) -> TypeRef | None:
        if any(isinstance(n, ir.Call | ir.Assign | ir.Api | ir.Launch | ir.New | ir.Lambda) for n in ir.walk(arg)):
            return None  # nothing is done twice
        match arg:
            case ir.AddressOf(operand=operand):
                type = self.static_type(operand, state)
                return None if type is None or type.name == "auto" else replace(type, pointer=type.pointer + 1)
            case ir.Construct(type=type):
                return type
            case ir.Const(value=bool()):
                return TypeRef("bool")
            case ir.Const(value=int()):
                return TypeRef("int")
            case ir.Const(value=str()):
                return TypeRef("char", pointer=1, const=True)
            case ir.Binary(op="+" | "-", left=left):
                type = self._type_of_argument(left, state)
                return type if type is not None and (type.pointer or type.dims) else None
        return self.static_type(arg, state)

    def enter(
        self,
        function: Function,
        this: Place | None,
        args: tuple[Expr, ...],
        keywords: tuple[tuple[str, Expr], ...],
        span: Span,
        state: State,
        template: tuple[Expr | TypeRef, ...] = (),
    ) -> list[Outcome]:
        """Binds the parameters and executes the body."""
        assert function.body is not None
        caller = self.frame
        bound: list[tuple[ir.Param, Value | Place]] = []
        named = dict(keywords)
        counts: dict[str, int] = {}
        for position, param in enumerate(function.params):
            pack = packs.pack_name(param.name)
            if pack is not None:
                counts[pack] = max(0, len(args) - position)
                for k, held in enumerate(args[position:]):
                    bound.append((replace(param, name=packs.element(pack, k)), self._argument(param, held, state)))
                continue
            arg = args[position] if position < len(args) else named.get(param.name)
            if arg is None and param.default is None:
                arg = self._declared_default(function, position)
            bound.append((param, self._argument(param, arg, state)))
        key = self._foregone.key(function, [given for _, given in bound]) if self.options.observed is None else None
        if key in self._foregone.known:
            ended = self._foregone.known[key]
            return [] if ended is None else [(state, ended)]
        frame = Frame(function, (*caller.calls, self.site(span)), [{}], this)
        frame.packs = counts
        if this is not None and function.record and function.template:
            frame.types.update(self.class_types(function, self.names.resolve(self.bound_type(self.type_of(this)))))
        elif function.template and function.record and function.record == caller.function.record:
            frame.types.update((n, t) for n, t in caller.types.items() if n in function.template)
        for name, given in zip(self._named(function, this, len(template), frame.types), template, strict=False):
            if (type := packs.as_type(given)) is not None:
                frame.types[name] = self.bound_type(type) or type
        packs.bind(frame, args, template, self.bound_type, self.number_given)
        if function.template and not frame.types.keys() >= set(function.template):
            frame.types.update(overloads.deduced(function, self.types_of(args, state), frame.types))
        self.frames.append(frame)
        self.runs(function)
        try:
            self._bind(bound, state, moved=True)
            for member, initial in function.initializers:
                self._initialise_member(this, member, initial, state)
            outcomes = self.run_body(function.body, state)
        finally:
            self.frames.pop()
        if not frame.captured:
            for after, result in outcomes:
                after.forget(frame.own, result.place.object if isinstance(result, Struct) else None)
        if key is not None and len(outcomes) < 2 and not any(isinstance(value, Struct) for _, value in outcomes):
            self._foregone.known[key] = outcomes[0][1] if outcomes else None
        return outcomes

    def _named(self, function: Function, this: Place | None, given: int, bound: dict[str, TypeRef]) -> tuple[str, ...]:
        """The template parameters that a call gives: of a method of an object those of the class are not among them."""
        outer = len(statics.parameters(self.program, function)) if given and this is not None and function.record else 0
        if outer + given > len(function.template):  # its class has no other method that would tell
            outer = next((k for k, name in enumerate(function.template) if name not in bound), 0)
        return function.template[outer:]

    def _declared_default(self, function: Function, position: int) -> Expr | None:
        """The default argument that a prototype gives: in a header, where the definition must not repeat it."""
        prototypes = (self.program.functions[uid] for uid in self.program.declarations.get(function.name, ()))
        alike = (p for p in prototypes if p.record == function.record and len(p.params) == len(function.params))
        given = (p.params[position].default for p in alike)
        return next((default for default in given if default is not None), None)

    @cached_property
    def _foregone(self) -> Foregone:
        return Foregone(self.names)

    def _bind(self, bound: list[tuple[ir.Param, Value | Place]], state: State, moved: bool) -> None:
        """The parameters of the function on top of the stack: places are shared with the caller, values are its own."""
        for param, given in bound:
            if not param.name:
                continue
            if isinstance(given, Place):
                self.frame.scopes[-1][param.name] = given
            else:
                self.bind_local(param.name, param.type, param.span, given, state, moved)

    @cached_property
    def _registered(self) -> list[tuple[list[Value], Span, tuple[Site, ...]]]:
        return []

    def register(self, values: list[Value], span: Span) -> None:
        """Functions of the program that run later: when an event loop calls them, or when the program ends."""
        self._registered.append((values, span, (*self.frame.calls, self.site(span))))

    def run_registered(self, state: State) -> None:
        """Now is later."""
        waiting = list(self._registered)
        self._registered.clear()
        for values, span, calls in waiting:
            self.call_backs(values, span, state, calls)

    def call_backs(self, values: list[Value], span: Span, state: State, calls: tuple[Site, ...] | None = None) -> None:
        """A function of the program was handed to code that is not followed: a thread, an event loop, an exit handler. It
        runs at some time, ordered with nothing that is known here; what it does is written down from a copy of the state,
        as another host thread."""
        if self.inside is not None:
            return
        for position, value in enumerate(values):
            found = self._handed(value)
            if found is None:
                if isinstance(value, Closure) and value.node.space == "host":
                    self.forget_written(value, state)
                continue
            calls = calls or (*self.frame.calls, self.site(span))
            if not self._may_follow(found, calls):
                continue
            aside = state.copy()
            self.machine.may_have_waited(aside.order)
            self._threads += 1
            thread, self.thread = self.thread, self._threads
            try:
                ended = self._run_handed(found, values[position + 1 :], calls, aside)
            finally:
                self.thread = thread
            for after, _ in ended:
                self.lengths_changed(state, after)

    def start_thread(self, values: list[Value], ends: frozenset[str], span: Span, state: State) -> Value:
        """A host thread begins. When nobody works beside it until it ends, what it does is done in its place."""
        found = self._handed(values[0]) if values and self.inside is None else None
        calls = (*self.frame.calls, self.site(span))
        if (
            found is None
            or self.options.per_thread_default_stream
            or not self._may_follow(found, calls)
            or not threads.alone(self.program, self.frame.function, span, ends)
            or threads.waits_for_others(self.names, found.function, found.body)
        ):
            self.call_backs(values, span, state)
            return Unknown(self.fresh("future"))
        following = values[1:]
        if found.this is None and found.function.record and not found.function.static and following:
            place = self.pointed(following[0], state)  # `std::thread(&Worker::run, &worker)`
            found, following = replace(found, this=place), following[1:]
        device, mode = state.device, state.capture_mode
        state.device, state.capture_mode = 0, 0  # each thread has its own
        result = self.joined(self._run_handed(found, following, calls, state), state)
        state.device, state.capture_mode = device, mode
        return result

    def _handed(self, value: Value) -> Handed | None:
        """A function of the program, or a lambda, that reaches CUDA."""
        match value:
            case Code(uids=uids, this=this):
                functions = [self.program.functions[u] for u in uids]
                found = [f for f in functions if f.body is not None and f.uid in self.program.reaches_cuda]
                if found and found[0].space in HOST_SPACES and found[0].body is not None:
                    return Handed(found[0], found[0].body, found[0].params, this)
            case Closure(node=node) if node.space == "host" and self._closure_reaches(node):
                function = self.program.functions[value.function]
                return Handed(function, node.body, node.params, value.this, value)
        return None

    @staticmethod
    def _frame_of(found: Handed, calls: tuple[Site, ...]) -> Frame:
        """The body of a lambda sees what was around where it is written: variables, the object, template arguments."""
        if found.closure is None:
            return Frame(found.function, calls, [{}], found.this)
        frame = Frame(found.function, calls, [dict(found.closure.scope), {}], found.this)
        frame.types.update(found.closure.types)
        frame.packs.update(found.closure.packs)
        return frame

    def _recall(self, closure: Closure | None, state: State) -> None:
        """What a lambda captured by value is what it was when the lambda was made."""
        around = self.frame.scopes[0]
        for name, value in closure.copies if closure is not None else ():
            place = around.get(name)
            if place is not None and (isinstance(value, Unknown | Struct | Instance) or state.load(place) == value):
                continue
            declared = self.type_of(place) if place is not None else None
            type = TypeRef("auto") if declared is None else replace(declared, reference=False)
            self.bind_local(name, type, self.frame.function.span, value, state, moved=True)

    def _may_follow(self, found: Handed, calls: tuple[Site, ...]) -> bool:
        deep = len(self.frames) >= self.options.max_depth
        if deep or any(f.function is found.function and f.calls == calls for f in self.frames):
            return False
        return sum(f.function.uid == found.function.uid for f in self.frames) <= 1

    def _run_handed(
        self, found: Handed, following: list[Value], calls: tuple[Site, ...], state: State
    ) -> list[Outcome]:
        """The body of what was handed over, with the values that it is given."""
        self.frames.append(self._frame_of(found, calls))
        self.runs(found.function)
        try:
            self._recall(found.closure, state)
            bound: list[tuple[ir.Param, Value | Place]] = []
            for k, param in enumerate(found.params):
                given = following[k] if k < len(following) else Unknown(self.fresh(param.name))
                target = self.place_of_value(given) if param.type.reference else None
                bound.append((param, given if target is None else target))
            self._bind(bound, state, moved=True)
            return self.run_body(found.body, state)
        finally:
            self.frames.pop()

    def run_aside(self, value: Value, given: list[Value], span: Span, state: State) -> bool:
        match value:
            case Code(uids=uids, this=this):
                functions = [self.program.functions[u] for u in self.nearest(list(uids))]
                bodies = [f for f in functions if f.body is not None and f.space in ("host", "host_device")]
                if len(bodies) != 1 or bodies[0].body is None:
                    return False
                found = Handed(bodies[0], bodies[0].body, bodies[0].params, this)
            case Closure(node=node) if node.space == "host":
                found = Handed(self.program.functions[value.function], node.body, node.params, value.this, value)
            case _:
                return False
        if len(self.frames) >= self.options.max_depth:
            return False
        aside = state.copy()
        self.frames.append(self._frame_of(found, (*self.frame.calls, self.site(span))))
        self.runs(found.function)
        try:
            self._recall(found.closure, aside)
            bound: list[tuple[ir.Param, Value | Place]] = []
            for k, param in enumerate(found.params):
                bound.append((param, given[k] if k < len(given) else Unknown(self.fresh(param.name))))
            self._bind(bound, aside, moved=True)
            self.left_aside = [after for after, _ in self.run_body(found.body, aside)]
        finally:
            self.frames.pop()
        return True

    def calls_cuda(self, value: Value) -> bool:
        if isinstance(value, Closure):
            return self._closure_reaches(value.node)
        return isinstance(value, Code) and any(u in self.program.reaches_cuda for u in value.uids)

    def _is_device_code(self, arg: Expr) -> bool:
        """Whether an argument is a function or lambda that does CUDA work: whoever gets it may call it."""
        if isinstance(arg, ir.AddressOf):
            arg = arg.operand
        if isinstance(arg, ir.Lambda):
            return self._closure_reaches(arg)
        if isinstance(arg, ir.Name) and self.variable(arg.name) is None:
            return api.is_work(arg.name) or any(u in self.program.reaches_cuda for u in self.functions_named(arg))
        return False

    def _is_given_a_vector(self, args: tuple[Expr, ...], state: State) -> bool:
        """Whether an argument is a vector on the device: who looks into it copies."""
        if not mentions_device_vectors(self.program):
            return False
        types = self.types_of(args, state)
        return any(t is not None and not t.pointer and plain(t.name) in DEVICE_CONTAINERS for t in types)

    def _closure_reaches(self, node: ir.Lambda) -> bool:
        for inner in ir.walk(node.body):
            if isinstance(inner, ir.Launch | ir.Api):
                return True
            if isinstance(inner, ir.Call) and isinstance(inner.callee, ir.Name):
                if is_algorithm(inner.callee.name):
                    return True
                uids = self.program.by_name.get(plain(inner.callee.name), ())
                if any(u in self.program.reaches_cuda for u in uids):
                    return True
        return False

    def _argument(self, param: ir.Param, arg: Expr | None, state: State) -> Value | Place:
        if arg is None:
            if param.default is not None:
                return self.evaluate(param.default, state)
            return Unknown(self.fresh(f"arg.{param.name}"))
        if isinstance(arg, ir.InitList) and (made := self._listed_argument(param.type, arg, state)) is not None:
            return made
        found = None
        if param.type.reference or self.frame.function.language == "python":
            place, found = self.place_or_value(arg, state)
            if place is not None:
                return place
        value = self._converted(self.evaluate(arg, state) if found is None else found, param.type, arg.span, state)
        if param.type.reference:
            place = self.place_of_value(value)
            if place is not None and not isinstance(value, Instance):
                return place
        return value

    def _listed_argument(self, type: TypeRef, listed: ir.InitList, state: State) -> Value | None:
        """`f({a, b})` where a container or a record is wanted; None where it is not known what is."""
        wanted = TypeRef(type.name, type.args)
        resolved = self.names.resolve(self.bound_type(wanted))
        if resolved is None or type.pointer or resolved.pointer or self.frame.function.language == "python":
            return None
        if plain(resolved.name) not in CONTAINERS and self.names.record(resolved) is None:
            return None
        return self.temporary(wanted, (listed,), state, listed.span)

    def _invoke_closure(self, closure: Closure, expr: ir.Call, state: State) -> list[Outcome]:
        function = self.program.functions[closure.function]
        if len(self.frames) >= self.options.max_depth or closure.node.space != "host":
            return self.unresolved("lambda", expr, state)
        values = [
            (p, self._argument(p, expr.args[k] if k < len(expr.args) else None, state))
            for k, p in enumerate(closure.node.params)
        ]
        found = Handed(function, closure.node.body, closure.node.params, closure.this, closure)
        self.frames.append(self._frame_of(found, (*self.frame.calls, self.site(expr.span))))
        try:
            self._recall(closure, state)
            self._bind(values, state, moved=False)
            return self.run_body(closure.node.body, state)
        finally:
            self.frames.pop()


def _api_call(name: str, expr: ir.Call) -> Expr:
    """The call of an API function by a variable or parameter that holds it."""
    row = api.lookup(name, len(expr.args))
    if row is None or row.kind is ir.ApiKind.LAUNCH:
        return ir.Opaque(expr.span, name, expr.args)
    roles = tuple(zip(api.assign_roles(row, len(expr.args)), expr.args, strict=True))
    return ir.Api(expr.span, name, row.kind, roles, row.flags, expr.callee.span)
