"""Algorithms of thrust on device memory: work on a stream, for which the host waits unless it is told not to (O9)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from stitchcuda.analysis.order.cuda.launches import member_path, merge_accesses
from stitchcuda.analysis.order.host import host_library
from stitchcuda.analysis.order.host.host_library import NONE, RW, R, W
from stitchcuda.analysis.order.host.maps import Maps
from stitchcuda.analysis.order.host.names import plain
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import number
from stitchcuda.analysis.order.timeline import Access, Certainty, Memory, Mode, Range
from stitchcuda.analysis.order.values import Either, Pointer, Unknown, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import ApiKind, Expr

# What an algorithm does to what its iterators lead to, by position; the last entry stands for further ones.
_EFFECTS: dict[str, tuple[tuple[Mode, ...], ...]] = {
    "inclusive_scan": (R, NONE, W, NONE), "exclusive_scan": (R, NONE, W, NONE), "sequence": (W, NONE),
    "sort_by_key": (RW, NONE, RW, NONE), "stable_sort_by_key": (RW, NONE, RW, NONE), "unique": (RW, NONE),
    "reduce_by_key": (R, NONE, R, W, W, NONE), "unique_by_key": (RW, NONE, RW, NONE), "tabulate": (W, NONE),
    "inclusive_scan_by_key": (R, NONE, R, W, NONE), "exclusive_scan_by_key": (R, NONE, R, W, NONE),
    "copy_if": (R, NONE, W, NONE), "remove_if": (RW, NONE), "replace": (RW, NONE), "replace_if": (RW, NONE),
    "gather": (R, NONE, R, W, NONE), "scatter": (R, NONE, R, W, NONE), "transform_reduce": (R, NONE),
    "adjacent_difference": (R, NONE, W, NONE), "uninitialized_fill": (W, NONE), "for_each_n": (RW, NONE),
    "remove": (RW, NONE), "generate": (W, NONE), "merge": (R, NONE, R, NONE, W, NONE), "partition": (RW, NONE),
    "find_if": (R, NONE),
}  # fmt: skip
_ANYWHERE = frozenset({"merge", "gather", "scatter"})  # other ranges than the first one have other lengths
_TRANSFORMS = {4: (R, NONE, W, NONE), 5: (R, NONE, R, W, NONE)}  # one source or two
_POLICIES = frozenset({"device", "host", "seq", "par", "par_nosync"})
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
        effects = _TRANSFORMS.get(len(args)) if short == "transform" else None
        effects = effects or _EFFECTS.get(short) or host_library.EFFECTS.get(short)
        if effects is None:
            return None
        stream = self.default_stream(state)
        if policy is not None and isinstance(policy, ir.Call) and policy.args:
            stream = self.stream_of(policy.args[0], state)
        elif kept is not None:
            stream = kept[0]
        values = [self.evaluate(a, state) for a in args]
        accesses: list[Access] = []
        on_device = False
        for position, (value, arg) in enumerate(zip(values, args, strict=True)):
            for pointer in self._ranges(value, arg, state):
                on_device |= self.objects[pointer.place.object].memory in _ON_DEVICE
                one_of = isinstance(value, Either)
                where = _elements(short, pointer, position, values)
                for mode in effects[min(position, len(effects) - 1)]:
                    buffer = self.buffer_of(pointer.place.object)
                    accesses.append(
                        Access(buffer, mode, where, Certainty.MAY if one_of else Certainty.MUST, one_of=one_of)
                    )
        if on_device:
            op = self.emit_device(
                state, ApiKind.LIBRARY_CALL, name, expr.span, stream, accesses=tuple(merge_accesses(accesses))
            )
            if not (kept[1] if kept is not None else _nosync(policy)) and self.ops[op].graph is None:
                self.block_host(state, op, self.done_before(op).with_op(op), ())
        first = values[0] if values else None
        if isinstance(first, Pointer):
            return Pointer(first.place, first.array, None, first.element)
        return Unknown(self.fresh(short))

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
    if name in _ANYWHERE and position > 0 or not isinstance(first, Pointer) or not isinstance(last, Pointer):
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


def is_algorithm(name: str) -> bool:
    """Whether a function is one of thrust's that works on the device."""
    if not name.removeprefix("::").startswith("thrust::"):
        return False
    return plain(name) == "transform" or plain(name) in _EFFECTS or plain(name) in host_library.EFFECTS


def _policy(args: tuple[Expr, ...]) -> tuple[Expr | None, tuple[Expr, ...]]:
    """The execution policy that a call begins with, and the other arguments."""
    first = args[0] if args else None
    if isinstance(first, ir.Name) and plain(first.name) in _POLICIES and "::" in first.name:
        return first, args[1:]
    if isinstance(first, ir.Call) and isinstance(first.callee, ir.Member) and first.callee.name == "on":
        return first, args[1:]
    return None, args


def _nosync(policy: Expr | None) -> bool:
    return policy is not None and any(isinstance(n, ir.Name) and plain(n.name) == "par_nosync" for n in ir.walk(policy))
