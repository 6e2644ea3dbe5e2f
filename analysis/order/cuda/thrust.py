"""Algorithms of thrust on device memory: work on a stream, for which the host waits unless it is told not to (O9)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from stitchcuda.analysis.order.cuda.launches import member_path, merge_accesses
from stitchcuda.analysis.order.cuda.thrust_effects import ANYWHERE, effects_of
from stitchcuda.analysis.order.host.maps import Maps
from stitchcuda.analysis.order.host.names import plain
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import number
from stitchcuda.analysis.order.timeline import Access, Certainty, Memory, Range
from stitchcuda.analysis.order.values import Either, Pointer, Unknown, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import ApiKind, Expr

# What they return depends on the data, so that they wait whatever the policy.
_ANSWERS = re.compile(
    r"(?:all|any|none)_of|count(_if)?|(transform_)?reduce|reduce_by_key|inner_product|equal|mismatch|(minmax|min|max)_element|"
    r"(adjacent_)?find(_if|_if_not)?|is_sorted\w*|is_partitioned|\w*partition\w*|remove\w*|copy_if|unique\w*|set_\w+"
)
_POLICIES = frozenset({"device", "host", "seq", "par", "par_nosync"})
_OF_THE_HOST = re.compile(r"(?:^|::)(?:host|seq|(?:omp|tbb|cpp)::\w+)$")
_ANY_SYSTEM = frozenset(
    {"counting_iterator", "constant_iterator", "transform_iterator", "zip_iterator", "discard_iterator"}
)
_ON_DEVICE = frozenset({Memory.DEVICE.value, Memory.MANAGED.value})


class Thrust(Maps):
    """Layer of the executor: algorithms of thrust."""

    @cached_property
    def _policies(self) -> dict[str, tuple[int, bool]]:
        """Policies that were made, by the key of their value: the stream, and whether the host goes on."""
        return {}

    def thrust_policy(self, callee: ir.Member, expr: ir.Call, state: State) -> Value | None:
        """The value of `thrust::cuda::par.on(stream)`, which a variable may keep; None for anything else."""
        base = callee.base
        if callee.name != "on" or len(expr.args) != 1 or not isinstance(base, ir.Name):
            return None
        if "thrust::" not in base.name or plain(base.name) not in _POLICIES:
            return None
        made = Unknown(self.fresh("policy"))
        self._policies[made.key] = (self.stream_of(expr.args[0], state), plain(base.name) == "par_nosync")
        return made

    def _kept_policy(self, args: tuple[Expr, ...], state: State) -> tuple[int, bool] | None:
        """That of a call whose first argument is a variable that holds one."""
        place = self.variable(args[0].name) if args and isinstance(args[0], ir.Name) else None
        held = state.load(self.follow(state, place)) if place is not None else None
        return self._policies.get(held.key) if isinstance(held, Unknown) else None

    def thrust_call(self, name: str, expr: ir.Call, state: State) -> Value | None:
        """The value of a call of one of them; None for anything else."""
        if not name.removeprefix("::").startswith("thrust::"):
            return None
        policy, args = _policy(expr.args)
        kept = self._kept_policy(args, state) if policy is None else None
        if kept is not None:
            args = args[1:]
        short = plain(name)
        effects = effects_of(short, len(args))
        if effects is None:
            return None
        stream = self.default_stream(state)
        if policy is not None and isinstance(policy, ir.Call) and policy.args:
            stream = self.stream_of(policy.args[0], state)
        elif kept is not None:
            stream = kept[0]
        values = [self.evaluate(a, state) for a in args]
        accesses: list[Access] = []
        on_device = kept is not None or (policy is not None and not _of_the_host(policy))
        seen = False
        for position, (value, arg) in enumerate(zip(values, args, strict=True)):
            for pointer in self._ranges(value, arg, state):
                on_device |= self.objects[pointer.place.object].memory in _ON_DEVICE
                seen = True
                one_of = isinstance(value, Either)
                where = _elements(short, pointer, position, values)
                for mode in effects[min(position, len(effects) - 1)]:
                    buffer = self.buffer_of(pointer.place.object)
                    accesses.append(
                        Access(buffer, mode, where, Certainty.MAY if one_of else Certainty.MUST, one_of=one_of)
                    )
        if on_device or (not seen and policy is None and bool(args) and self._of_any_system(args[0], state)):
            op = self.emit_device(
                state, ApiKind.LIBRARY_CALL, name, expr.span, stream, accesses=tuple(merge_accesses(accesses))
            )
            quiet = (kept[1] if kept is not None else _nosync(policy)) and not _ANSWERS.fullmatch(short)
            if not quiet and self.ops[op].graph is None:
                self.block_host(state, op, self.done_before(op).with_op(op), ())
        first = values[0] if values else None
        if isinstance(first, Pointer):
            return Pointer(first.place, first.array, None, first.element)
        return Unknown(self.fresh(short))

    def _of_any_system(self, arg: Expr, state: State) -> bool:
        """Iterators that lead to no memory, as those that count: algorithms that are given nothing else run on the device."""
        while isinstance(arg, ir.Binary) and arg.op in "+-":
            arg = arg.left
        match arg:
            case ir.Construct(type=type):
                return plain(type.name) in _ANY_SYSTEM
            case ir.Call(callee=ir.Name(name=name)):
                return plain(name).removeprefix("make_") in _ANY_SYSTEM
        declared = self.names.resolve(self.static_type(arg, state))
        return declared is not None and plain(declared.name) in _ANY_SYSTEM

    def _ranges(self, value: Value, arg: Expr, state: State) -> list[Pointer]:
        """What an iterator leads to, one that is made of others included: `make_zip_iterator(make_tuple(a.begin(), b.begin()))`."""
        found = list(self.pointers_in(value, state))
        if found or not isinstance(arg, ir.Call) or not isinstance(arg.callee, ir.Name):
            return found
        if not plain(arg.callee.name).startswith("make_"):
            return found
        return [p for inner in arg.args for p in self._ranges(self.evaluate(inner, state), inner, state)]


def _elements(name: str, pointer: Pointer, position: int, values: Sequence[Value]) -> Range:
    """What an algorithm uses behind a raw pointer: as many elements as lie between its first two iterators, at most,
    or any."""
    if pointer is not values[position]:
        return Range(member=member_path(pointer.place))
    behind = elements_behind(pointer)
    if behind.offset is None:
        return behind
    first, last = values[0], values[1] if len(values) > 1 else None
    if name in ANYWHERE and position > 0 or not isinstance(first, Pointer) or not isinstance(last, Pointer):
        return behind
    if first.place != last.place or first.index is None or last.index is None:
        return behind
    return Range(behind.offset, (last.index - first.index) * number(pointer.element or 1))


def elements_behind(pointer: Pointer) -> Range:
    """From the element that a pointer into an array leads to on; anywhere, when it is not known which."""
    member = member_path(pointer.place)
    if member or pointer.index is None or pointer.element is None:
        return Range(member=member)
    return Range(pointer.index * number(pointer.element))


def _policy(args: tuple[Expr, ...]) -> tuple[Expr | None, tuple[Expr, ...]]:
    """The execution policy that a call begins with, and the other arguments."""
    first = args[0] if args else None
    if isinstance(first, ir.Name) and plain(first.name) in _POLICIES and "::" in first.name:
        return first, args[1:]
    called = first.callee if isinstance(first, ir.Call) else None
    if isinstance(called, ir.Member) and called.name == "on":
        return first, args[1:]
    if isinstance(called, ir.Name) and plain(called.name) in ("par", "par_nosync") and "::" in called.name:
        return called, args[1:]  # `thrust::cuda::par(allocator)`
    return None, args


def _nosync(policy: Expr | None) -> bool:
    return policy is not None and any(isinstance(n, ir.Name) and plain(n.name) == "par_nosync" for n in ir.walk(policy))


def _of_the_host(policy: Expr) -> bool:
    """`thrust::host`, and the like, with or without what is called on it."""
    return any(isinstance(n, ir.Name) and _OF_THE_HOST.search(n.name) is not None for n in ir.walk(policy))
