"""Host functions of the program that are not followed into their bodies: what a call of one does, in sum."""

from __future__ import annotations

from functools import cached_property

from stitchcuda.analysis.order.host.construction import Outcome
from stitchcuda.analysis.order.host.elements import Elements
from stitchcuda.analysis.order.host.names import CONTAINERS, DEVICE_CONTAINERS, plain
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ZERO, Poly, symbol
from stitchcuda.analysis.order.timeline import Mode
from stitchcuda.analysis.order.values import (
    Closure,
    Either,
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
from stitchcuda.analysis.program.effects import KernelEffects, kernel_effects
from stitchcuda.analysis.program.ir import Function, Span, TypeRef

SMALL_BODY = 60  # IR nodes: host-only functions up to this size are followed, larger ones summarised
_TASKS = frozenset({"function", "move_only_function", "packaged_task"})
PASSING_BODY = 400  # the same for functions that hand on memory


class Summaries(Elements):
    """Layer of the executor: which calls are followed, and what the others do."""

    def follows(self, function: Function) -> bool:
        """Whether a call is followed into the body: always when CUDA work can be reached; of host-only functions the
        small ones, and larger ones through which memory passes (they return a pointer or a record, or fill one)."""
        if function.uid in self.program.reaches_cuda:
            return True
        size = self._sizes.get(function.uid)
        if size is None:
            assert function.body is not None
            passes = function.returns.pointer > 0 or any(self._fills(p.type) for p in function.params)
            passes = passes or self._keeps(function) or self._looks_behind(function) or self._runs_tasks(function)
            loop_weight = 1 if passes else SMALL_BODY
            size = 0
            for node in ir.walk(function.body):
                size += loop_weight if isinstance(node, ir.Loop) else 1
                if size > PASSING_BODY:
                    break
            if passes and size <= PASSING_BODY:
                size = 0
            self._sizes[function.uid] = size
        return size <= SMALL_BODY

    def _keeps(self, function: Function) -> bool:
        """Whether it puts pointers into globals or into fields of its object."""
        assert function.body is not None
        return any(
            isinstance(node, ir.Assign)
            and not node.op
            and isinstance(node.target, ir.Name | ir.Member)
            and self._kept_pointer(function, plain(node.target.name))
            for node in ir.walk(function.body)
        )

    def _looks_behind(self, function: Function) -> bool:
        """Whether it uses elements of arrays that fields of its object point to, or globals."""
        assert function.body is not None
        for node in ir.walk(function.body):
            base = node.base if isinstance(node, ir.Index) else None
            if isinstance(base, ir.Name | ir.Member) and self._kept_pointer(function, plain(base.name)):
                return True
        return False

    def _runs_tasks(self, function: Function) -> bool:
        """Whether it calls what a variable or a field holds: `for (auto& task : tasks) task();`."""
        assert function.body is not None
        held = {p.name for p in function.params}
        held |= {n.name for n in ir.walk(function.body) if isinstance(n, ir.Declare)}
        owner = self.names.record(TypeRef(function.record)) if function.record else None
        held |= {f.name for f in owner.fields} if owner is not None else set()
        for node in ir.walk(function.body):
            callee = node.callee if isinstance(node, ir.Call) else None
            if isinstance(callee, ir.Name) and callee.name in held:
                return True
            if isinstance(callee, ir.Index | ir.Deref) or (
                isinstance(callee, ir.Member) and callee.name in self.task_fields
            ):
                return True
        return False

    @cached_property
    def task_fields(self) -> frozenset[str]:
        """The fields of the program's classes that hold functions."""
        fields = (f for record in self.program.records.values() for f in record.fields)
        return frozenset(f.name for f in fields if plain(f.type.name) in _TASKS)

    def _kept_pointer(self, function: Function, name: str) -> bool:
        """A pointer by this name is a field of the function's class, or a global."""
        owner = self.names.record(TypeRef(function.record)) if function.record else None
        field = self.names.field_type(owner, name) if owner is not None else None
        declared = [field] if field is not None else [d.type for _, d in self.names.globals.get(name, ())]
        return any(type.pointer for type in declared)

    def _fills(self, type: TypeRef) -> bool:
        """Whether a parameter of this type can take out a pointer: `float**`, `float*&`, a record by reference."""
        if type.const and type.pointer < 2:
            return False
        if type.pointer + type.reference >= 2:
            return True
        target = TypeRef(type.name, type.args)
        return (type.pointer > 0 or type.reference) and self.names.record(self.names.resolve(target)) is not None

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {}

    @cached_property
    def _negative(self) -> dict[str, bool]:
        return {}

    def _summarised(self, function: Function, this: Place | None, expr: ir.Call, state: State) -> list[Outcome]:
        """A host-only function that is not followed: what it reads and writes through its parameters."""
        self.executed.add(function.uid)
        given: list[tuple[ir.Param, Place | None, Value]] = []
        for param, arg in zip(function.params, expr.args, strict=False):
            place, found = self.place_or_value(arg, state) if param.type.reference else (None, None)
            if place is not None:
                value = self.load(state, place)
            else:
                value = self.evaluate(arg, state) if found is None else found
            given.append((param, place, value))
        numbers = {param.name: value.value for param, _, value in given if isinstance(value, Num)}
        seen = self._may_be_seen([value for _, _, value in given], state)
        effects = kernel_effects(self.program, function.uid) if seen else None
        for param, place, value in given:
            for pointer in self.pointers_in(value, state):
                if not param.type.const:
                    self.forget_behind(state, pointer)
                    self.objects[pointer.place.object].filled = True
            if effects is not None:
                self._touched_by(function, param, value, effects, numbers, expr.span, state)
            self._filled(param, value, expr.span, state)
            if place is not None and not param.type.const:
                self._forget(state, place)
                self.objects[place.object].filled = True
        if this is not None:
            self._forget(state, this)
        negative = self._negative.get(function.uid)
        if negative is None:
            negative = self._negative[function.uid] = _may_be_negative(function)
        sign = "-" if negative else ""
        return [(state, self._result(function.returns, expr, function.name, state, sign))]

    def _may_be_seen(self, values: list[Value], state: State) -> bool:
        """Whether device work may see something that these values lead to: else what a function does there is no access
        that matters. What stands for other objects, or comes from outside, may be seen once the device used anything."""
        waiting = list(values)
        objects: set[int] = set()
        while waiting:
            match waiting.pop():
                case Pointer(place=place) | Struct(place=place) | Reference(place=place):
                    number = place.object
                case Instance(object=number):
                    pass
                case Either(options=options):
                    waiting += options
                    continue
                case Closure():
                    return True
                case _:
                    continue
            if number in objects:
                continue
            objects.add(number)
            obj = self.objects[number]
            open_ended = bool(obj.identity.instance) or obj.origin not in ("local", "alloc")
            if (open_ended and state.touched) or self.visible_to_device(state, obj):
                return True
            waiting += state.memory.get(number, {}).values()
        return False

    def _filled(self, param: ir.Param, value: Value, span: Span, state: State) -> None:
        """A `float**` parameter takes out memory that the function made: it works on the host alone, so the memory is the
        host's. What the variable held already may have been meant to be filled, and stays."""
        target = self.pointed(value, state) if isinstance(value, Pointer) and not value.array else None
        type = self.names.resolve(self.bound_type(self.type_of(target))) if target is not None else None
        if target is None or type is None or type.pointer != 1 or type.dims or param.type.const:
            return
        held = state.load(target)
        if held is None or (isinstance(held, Num) and held.value == ZERO) or isinstance(held, Unknown):
            name = self.display(target)
            self.store_value(
                state, target, self.made_on_the_host(name, type, self.identity("filled", span, name)), type
            )

    def _touched_by(
        self,
        function: Function,
        param: ir.Param,
        value: Value,
        effects: KernelEffects,
        numbers: dict[str, Poly],
        span: Span,
        state: State,
    ) -> None:
        """Host accesses of a function that is not followed, through one parameter."""
        found = effects.of(param.name)
        if found and (isinstance(value, Pointer) or (isinstance(value, Struct) and all(e.member for e in found))):
            for effect in found:
                for access in self.accesses_by(value, effect, param.type.name, numbers, state):
                    obj = self.objects[self._object_of[access.buffer]]
                    if self.visible_to_device(state, obj):
                        self.host_access(state, obj.id, access.mode, span, access.range)
            return
        certain = isinstance(value, Instance) and param.type.const and self._walks_over(function, param.name)
        for pointer in self.pointers_in(value, state):
            obj = self.objects[pointer.place.object]
            if self.visible_to_device(state, obj):
                own = isinstance(value, Instance) and obj.id == value.object
                for mode in (Mode.READ,) if param.type.const else (Mode.READ, Mode.WRITE):
                    self.host_access(state, obj.id, mode, span, certain=certain and own)

    def _walks_over(self, function: Function, name: str) -> bool:
        """Whether a call looks at elements of a container that it is given, on every way through the function."""
        known = self._walked.get((function.uid, name))
        if known is None:
            known = self._walked[function.uid, name] = function.body is not None and _looks_at(function.body, name)
        return known

    @cached_property
    def _walked(self) -> dict[tuple[str, str], bool]:
        return {}

    def _result(self, type: TypeRef, expr: ir.Call, name: str, state: State, sign: str = "") -> Value:
        """The value of a call that was not followed."""
        resolved = self.names.resolve(self.bound_type(type))
        if resolved is not None and not resolved.pointer:
            record = self.names.record(resolved)
            if record is not None or plain(resolved.name) in CONTAINERS | DEVICE_CONTAINERS:
                obj = self.object_for(self.identity("result", expr.span, name), name, type=resolved)
                obj.filled = True
                place = Place(obj.id)
                state.clear_below(place)
                if record is None:
                    made = self.container(state, place, resolved)
                    self.set_count(state, made.object, symbol(self.fresh("count")))
                    return made
                return Struct(place)
            if resolved.name in ("int", "size_t", "unsigned", "long", "unsigned int", "std::size_t", "int64_t"):
                return Num(symbol(self.fresh(sign + name)))
        return Unknown(self.fresh(name))


def _looks_at(body: ir.Stmt, name: str) -> bool:
    """`for (x : name)` with a use of `x`, or `name[i]`, and nothing that decides whether it is done."""
    stack: list[ir.Stmt | ir.Expr] = [body]
    while stack:
        node = stack.pop()
        match node:
            case ir.Index(base=ir.Name(name=base)) if base == name:
                return True
            case ir.Loop(form="range", iterable=ir.Name(name=base), target=ir.Declare(name=one)) if base == name:
                if any(isinstance(n, ir.Name) and n.name == one for n in ir.walk(node.body)):
                    return True
            case ir.Binary(op="&&" | "||", left=left):
                stack.append(left)
                continue
            case ir.If() | ir.Switch() | ir.Conditional() | ir.Lambda() | ir.Try() | ir.PreprocIf():
                if any(isinstance(n, ir.Return | ir.Throw | ir.Goto) for n in ir.walk(node)):
                    return False
                continue
            case ir.Return() | ir.Throw() | ir.Goto():
                stack = []
        stack.extend(reversed(list(ir.children(node))))
    return False


def _may_be_negative(function: Function) -> bool:
    """A negative constant stands in it: what it returns, perhaps, when it finds nothing."""
    for node in ir.walk(function.body) if function.body is not None else ():
        if isinstance(node, ir.Const) and isinstance(node.value, int) and node.value < 0:
            return True
        if isinstance(node, ir.Unary) and node.op == "-" and isinstance(node.operand, ir.Const):
            return True
    return False
