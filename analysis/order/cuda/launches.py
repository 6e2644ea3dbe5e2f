"""Kernel launches: which stream, and which memory the kernel touches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from stitchcuda.analysis.order.arithmetic import NULL, key_of
from stitchcuda.analysis.order.cuda.textures import Textures
from stitchcuda.analysis.order.host import packs
from stitchcuda.analysis.order.recorder import LEGACY_STREAM
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ONE, ZERO, Poly, number
from stitchcuda.analysis.order.timeline import Access, Certainty, Launched, Memory, Mode, Range, StreamKind
from stitchcuda.analysis.order.values import (
    SIZES,
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
    Struct,
    Unknown,
    Value,
    options_of,
)
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.effects import Functor, KernelEffects, ParamEffect, kernel_effects
from stitchcuda.analysis.program.ir import ApiKind, Expr


class Launches(Textures):
    """Layer of the executor: kernel launches and what they touch."""

    def launch(self, expr: ir.Launch, state: State) -> Value:
        kernel = self.evaluate(expr.kernel, state)
        grid = self._dimensions(expr.grid, state)
        block = self._dimensions(expr.block, state)
        if expr.shared is not None:
            self.evaluate(expr.shared, state)
        stream = self.launch_stream(expr, state)
        args = [self.given(a, state) for a in self.expanded(expr.args)]
        if expr.packed_args is not None:
            args = self.packed_values(self.evaluate(expr.packed_args, state), state)
        uids = self._kernels(kernel, len(args))
        if uids and any(type(a) is Struct for a in args):
            args = self._as_parameters(self.program.functions[uids[0]], args, expr, state)
        name, accesses, unknown, certain = self._kernel_accesses(kernel, uids, expr, args, grid, block, state)
        launched = Launched(tuple(uids), _sizes(grid), _sizes(block), self.is_cooperative(expr, state))
        self.emit_device(
            state,
            ApiKind.LAUNCH,
            expr.api,
            expr.span,
            stream,
            kernel=name,
            accesses=tuple(accesses),
            unknown=unknown,
            grid=self.source_of(expr.grid),
            block=self.source_of(expr.block),
            scalars=tuple(str(a.value) for a in args if isinstance(a, Num)),
            launched=launched,
            certain=certain,
            early=self.starts_early(expr, launched.kernels, stream, state),
        )
        return NULL

    def launch_stream(self, expr: ir.Launch, state: State) -> int:
        return self.default_stream(state) if expr.stream is None else self.stream_of(expr.stream, state)

    def is_cooperative(self, expr: ir.Launch, state: State) -> bool | None:
        """Whether all blocks of a launch are on the device together; None: not known. A layer above knows attributes."""
        return expr.cooperative

    def expanded(self, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The arguments with the parameter packs of the running call written out; once for packs of the same length."""
        given = self.frame.packs
        if not given:
            return args
        key = (id(args), *given.items())
        known = self._expanded.get(key)
        if known is None or known[0] is not args:
            known = self._expanded[key] = (args, packs.expanded(args, given))
        return known[1]

    @cached_property
    def _expanded(self) -> dict[tuple[object, ...], tuple[tuple[Expr, ...], tuple[Expr, ...]]]:
        return {}

    def starts_early(self, expr: ir.Launch, kernels: tuple[str, ...], stream: int, state: State) -> bool:
        """Whether the launch may start before the one in front of it is complete; a layer above knows."""
        return False

    def source_of(self, expr: Expr | None) -> str:
        """An expression as the user wrote it; "" without the source."""
        return ""

    def as_pointer(self, value: Value, span: ir.Span, state: State) -> Value:
        """An object given where a pointer is wanted; a layer above calls its conversion operator."""
        raise NotImplementedError

    def _as_parameters(self, kernel: ir.Function, args: list[Value], expr: ir.Launch, state: State) -> list[Value]:
        """The arguments as the kernel's parameters take them: objects become pointers where it has pointers."""
        out = list(args)
        for position, (param, value) in enumerate(zip(kernel.params, args, strict=False)):
            if param.type.pointer and isinstance(value, Struct):
                out[position] = self.as_pointer(value, expr.span, state)
        return out

    def _dimensions(self, expr: Expr | None, state: State) -> tuple[Value, ...]:
        """The x, y and z of a grid or block expression."""
        if expr is None:
            return ()
        if isinstance(expr, ir.Construct):
            return tuple(self.evaluate(a, state) for a in expr.args)
        value = self.evaluate(expr, state)
        if isinstance(value, Struct):
            parts = [state.load(value.place.field(axis)) for axis in "xyz"]
            return tuple(p for p in parts if p is not None)
        return (value,)

    def packed_values(self, value: Value, state: State) -> list[Value]:
        """`void* args[] = {&a, &b}` of cudaLaunchKernel."""
        out: list[Value] = []
        if isinstance(value, Pointer):
            for i in range(64):
                held = state.load(value.place.element(number(i)))
                if held is None:
                    break
                target = self.pointed(held, state)
                out.append(Unknown(self.fresh("arg")) if target is None else self.load(state, target))
        return out

    def _kernel_accesses(
        self,
        kernel: Value,
        uids: list[str],
        expr: ir.Launch,
        args: list[Value],
        grid: tuple[Value, ...],
        block: tuple[Value, ...],
        state: State,
    ) -> tuple[str, list[Access], tuple[str, ...], bool]:
        first = options_of(kernel)[0]
        name = first.name if isinstance(first, Code) else self._kernel_name(expr.kernel)
        if not uids:
            return name, self._anything(args, state), (), False
        meant = self._one_of_each(kernel, uids)
        found = [self._accessed_by(uid, args, grid, block, state) for uid in meant]
        sure = len(uids) == 1 and found[0][2]
        unknown = tuple(dict.fromkeys(u for _, names, _ in found for u in names))
        name = name or self.program.functions[uids[0]].name
        return name, merge_accesses(_of_any([accesses for accesses, _, _ in found])), unknown, sure

    def _one_of_each(self, kernel: Value, uids: list[str]) -> list[str]:
        """One definition of each kernel that a pointer may lead to."""
        ways = [next((u for u in o.uids if u in uids), None) for o in options_of(kernel) if isinstance(o, Code)]
        return list(dict.fromkeys(u for u in ways if u is not None)) or uids[:1]

    def _accessed_by(
        self, uid: str, args: list[Value], grid: tuple[Value, ...], block: tuple[Value, ...], state: State
    ) -> tuple[list[Access], tuple[str, ...], bool]:
        """What one kernel accesses, what of it is not known, and whether that is all."""
        function = self.program.functions[uid]
        self.executed.add(uid)
        functors = {p.name: a for p, a in zip(function.params, args, strict=False) if isinstance(a, Closure)}
        held = {name: self._captured(functor, state) for name, functor in functors.items()}
        bound = {name: Functor(f.node, tuple(held[name])) for name, f in functors.items()}
        effects = kernel_effects(self.program, function.uid, bound)
        values: dict[str, Poly] = {}
        for param_name, members in held.items():
            values |= {f"{param_name}.{member}": v.value for member, v in members.items() if isinstance(v, Num)}
        for axis, part in zip("xyz", grid, strict=False):
            if isinstance(part, Num):
                values[f"gridDim.{axis}"] = part.value
        for axis, part in zip("xyz", block, strict=False):
            if isinstance(part, Num):
                values[f"blockDim.{axis}"] = part.value
        for param, arg in zip(function.params, args, strict=False):
            if isinstance(arg, Num):
                values[param.name] = arg.value
            elif isinstance(arg, Struct):
                values |= {
                    f"{param.name}.{'.'.join(path)}": held.value  # type: ignore[arg-type]
                    for path, held in state.below(arg.place)
                    if isinstance(held, Num) and path and all(isinstance(step, str) for step in path)
                }
        accesses: list[Access] = []
        unknown: dict[str, None] = {}
        for param, arg in zip(function.params, args, strict=False):
            for effect in effects.of(param.name):
                found = list(self.accesses_by(arg, effect, param.type.name, values, state))
                accesses += found
                if not found and arg != NULL and "[]" not in effect.member:
                    unknown[param.name] = None
        accesses += self._symbols(effects, function.path)
        accesses += self.fetches(function, args, state)
        return accesses, tuple(unknown), not effects.calls_unknown

    def _captured(self, functor: Closure, state: State) -> dict[str, Value]:
        """What a lambda holds of what stands around it."""
        loaded = {name: self.load(state, place) for name, place in functor.scope}
        return {**loaded, **dict(functor.copies)}

    def _kernels(self, kernel: Value, count: int) -> list[str]:
        """The kernels that a value with so many arguments may mean, the nearest definitions first."""
        meant = [u for option in options_of(kernel) if isinstance(option, Code) for u in option.uids]
        uids = [u for u in meant if self.program.functions[u].space == "global"]
        by_arity = [u for u in uids if len(self.program.functions[u].params) == count]
        return self.nearest(by_arity or uids)

    def _kernel_name(self, expr: Expr) -> str:
        return expr.name if isinstance(expr, ir.Name | ir.Member) else ""

    def nearest(self, uids: list[str]) -> list[str]:
        """Definitions that the running file sees, before others."""
        here = self.frame.function.path
        own = [u for u in uids if self.program.functions[u].path == here]
        if own:
            return own
        visible = self.program.visible.get(here, frozenset())
        return [u for u in uids if self.program.functions[u].path in visible] or uids

    def accesses_by(
        self, arg: Value, effect: ParamEffect, declared: str, values: dict[str, Poly], state: State
    ) -> Iterator[Access]:
        for pointer, one_of in self._member_pointers(arg, effect.member, state):
            element = SIZES.get(effect.element)
            if element is None and (effect.member or effect.element in ("", declared)):  # not cast inside the kernel
                element = pointer.element
            member = member_path(pointer.place)
            where = Range(None, None, None, effect.shape, member)
            if pointer.index is not None and (pointer.element is not None or not pointer.index.terms):
                start = pointer.index * number(pointer.element or 1)
                if effect.first is not None and element is not None:
                    first = effect.first.substitute(values)
                    offset = start + first * number(element)
                    extent = None if effect.extent is None else effect.extent.substitute(values) * number(element)
                    where = Range(offset, extent, None, effect.shape, member)
                elif effect.first is None:
                    where = Range(start, None, None, effect.shape, member)
            buffer = self.buffer_of(pointer.place.object)
            for mode in sorted(effect.modes):
                certainty = Certainty.MAY if one_of else effect.certainty
                yield Access(buffer, mode, where, certainty, effect.name, effect.fields, one_of)

    def _member_pointers(self, arg: Value, member: str, state: State) -> Iterator[tuple[Pointer, bool]]:
        """The pointers that a kernel argument carries at a member path ("" the argument itself, "[]" behind elements), and
        whether each is one of several that may be meant."""
        current: list[Value] = list(options_of(arg))
        one_of = isinstance(arg, Either)
        for step in filter(None, member.replace("[]", ".[]").split(".")):
            following: list[Value] = []
            for value in current:
                if step == "[]":
                    if isinstance(value, Pointer):
                        following += [v for path, v in state.below(value.place) if path]
                    continue
                if isinstance(value, Closure):
                    following += options_of(self._captured(value, state).get(step, Unknown("")))
                    continue
                place = value.place if isinstance(value, Struct) else self.pointed(value, state)
                if place is not None:
                    held = self.load(state, place.field(step))
                    one_of = one_of or isinstance(held, Either)
                    following += options_of(held)
            current = following
        for value in current:
            if isinstance(value, Instance):
                yield Pointer(Place(value.object), True, ZERO, None), one_of
            elif isinstance(value, Pointer):
                yield value, one_of
            elif isinstance(value, Struct) and not member:  # which of the record's pointers is not known
                yield from ((replace(p, index=None), True) for p in self.pointers_in(value, state))

    def _symbols(self, effects: KernelEffects, path: str) -> Iterator[Access]:
        for name, mode in effects.symbols:
            found = self.names.global_seen_from(path, name)
            if found is not None and found[1].space:
                yield Access(self.buffer_of(self._global(*found).object), mode, Range(), Certainty.MUST, name)

    def _anything(self, args: list[Value], state: State) -> list[Access]:
        """A kernel that cannot be seen may do anything to what it is given."""
        out: list[Access] = []
        for arg in args:
            for pointer in self.pointers_in(arg, state):
                buffer = self.buffer_of(pointer.place.object)
                start = None if pointer.index is None else pointer.index * number(pointer.element or 1)
                for mode in (Mode.READ, Mode.WRITE):
                    where = Range(start, member=member_path(pointer.place))
                    out.append(Access(buffer, mode, where, Certainty.MAY))
        return out

    def pointers_in(self, value: Value, state: State) -> Iterator[Pointer]:
        """The pointers that a value carries, those in a record's fields included."""
        match value:
            case Pointer():
                yield value
            case Instance(object=obj):
                yield Pointer(Place(obj), True)
            case Either(options=options):
                for option in options:
                    yield from self.pointers_in(option, state)
            case Struct(place=place):
                for path, held in list(state.below(place)):
                    if path and isinstance(held, Pointer):
                        yield held

    def may_be_on_device(self, pointer: Pointer) -> bool:
        """What a pointer leads to is not memory of the host's own."""
        return self.objects[pointer.place.object].memory != Memory.PAGEABLE.value

    def default_stream(self, state: State) -> int:
        if state.current_stream is not None:
            return state.current_stream
        return 1 if self.options.per_thread_default_stream else LEGACY_STREAM

    def stream_role(self, expr: ir.Api, state: State) -> int:
        written = expr.role("stream")
        return self.default_stream(state) if written is None else self.stream_of(written, state)

    def stream_of(self, expr: Expr, state: State) -> int:
        return self.stream_value(self.evaluate(expr, state), expr, state)

    def stream_value(self, value: Value, expr: Expr, state: State) -> int:
        match value:
            case Handle(kind="stream", id=id):
                return id
            case Num(value=poly) if poly.constant == 0:
                return 1 if self.options.per_thread_default_stream else LEGACY_STREAM
            case Num(value=poly) if poly.constant == 1:  # cudaStreamLegacy as a number
                return LEGACY_STREAM
        key = key_of(value)
        name = expr.name if isinstance(expr, ir.Name | ir.Member) else "?"
        identity = Identity("unknown-stream", "", "", 0, 0, (), (), key)
        return self.stream_for(identity, name, StreamKind.UNKNOWN, None)

    def given(self, expr: Expr, state: State) -> Value:
        """What an argument is by value: a call may answer with a reference (`v.back()`, `std::get<0>(t)`)."""
        value = self.evaluate(expr, state)
        return self.load(state, value.place) if isinstance(value, Reference) else value

    def roles(self, expr: ir.Api, state: State) -> dict[str, Value]:
        """Evaluates the arguments, in order; streams and out-arguments are left to `stream_role` and `write_out`. A device
        variable is only named: the host does not read it (C9)."""
        return {
            role: self.given(value, state)
            for role, value in expr.roles
            if role not in ("stream", "out") and not (role == "symbol" and isinstance(value, ir.Name))
        }


def _of_any(alternatives: list[list[Access]]) -> list[Access]:
    """The accesses of one of several kernels: certain is what each of them does."""
    if len(alternatives) == 1:
        return alternatives[0]
    sure = [{(a.buffer, a.mode, a.range) for a in found if a.certainty is Certainty.MUST} for found in alternatives]
    common = sure[0].intersection(*sure[1:])
    return [
        a if (a.buffer, a.mode, a.range) in common else replace(a, certainty=Certainty.MAY)
        for found in alternatives
        for a in found
    ]


def merge_accesses(accesses: list[Access]) -> list[Access]:
    """One access a (buffer, mode, parameter, range): repeated ones say nothing new."""
    seen: dict[tuple[int, Mode, str, Range, frozenset[str]], Access] = {}
    for access in accesses:
        key = (access.buffer, access.mode, access.via, access.range, access.fields)
        known = seen.get(key)
        if known is None or known.certainty is Certainty.MAY:
            seen[key] = access
    return list(seen.values())


def _sizes(dimensions: tuple[Value, ...]) -> tuple[Poly | None, Poly | None, Poly | None]:
    """The three sizes of a grid or block; what is left out is 1."""
    if not dimensions:
        return None, None, None
    x, y, z = ((*dimensions, None, None)[k] for k in range(3))
    first = x.value if isinstance(x, Num) else None
    rest = [ONE if v is None else v.value if isinstance(v, Num) else None for v in (y, z)]
    return first, rest[0], rest[1]


def range_behind(pointer: Pointer) -> Range:
    """From where a pointer leads to on; how far is not told."""
    start = None if pointer.index is None else pointer.index * number(pointer.element or 1)
    return Range(start, member=member_path(pointer.place))


def member_path(place: Place) -> tuple[str, ...]:
    """Where in its object a pointer's target begins, when that is not the object's start."""
    return tuple(step if isinstance(step, str) else f"[{step}]" for step in place.path)
