"""Algorithms of thrust on device memory: work on a stream, for which the host waits unless it is told not to (O9)."""

from __future__ import annotations

from stitchcuda.analysis.order import host_library
from stitchcuda.analysis.order.containers import Containers
from stitchcuda.analysis.order.host_library import NONE, RW, R, W
from stitchcuda.analysis.order.launches import member_path, merge_accesses
from stitchcuda.analysis.order.names import plain
from stitchcuda.analysis.order.state import State
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
}  # fmt: skip
_TRANSFORMS = {4: (R, NONE, W, NONE), 5: (R, NONE, R, W, NONE)}  # one source or two
_POLICIES = frozenset({"device", "host", "seq", "par", "par_nosync"})
_ON_DEVICE = frozenset({Memory.DEVICE.value, Memory.MANAGED.value})


class Thrust(Containers):
    """Layer of the executor: algorithms of thrust."""

    def thrust_call(self, name: str, expr: ir.Call, state: State) -> Value | None:
        """The value of a call of one of them; None for anything else."""
        if not name.removeprefix("::").startswith("thrust::"):
            return None
        policy, args = _policy(expr.args)
        short = plain(name)
        effects = _TRANSFORMS.get(len(args)) if short == "transform" else None
        effects = effects or _EFFECTS.get(short) or host_library.EFFECTS.get(short)
        if effects is None:
            return None
        stream = self.default_stream(state)
        if policy is not None and isinstance(policy, ir.Call) and policy.args:
            stream = self.stream_of(policy.args[0], state)
        values = [self.evaluate(a, state) for a in args]
        accesses: list[Access] = []
        on_device = False
        for position, value in enumerate(values):
            for pointer in self.pointers_in(value, state):
                on_device |= self.objects[pointer.place.object].memory in _ON_DEVICE
                one_of = isinstance(value, Either)
                for mode in effects[min(position, len(effects) - 1)]:
                    where = Range(member=member_path(pointer.place))
                    buffer = self.buffer_of(pointer.place.object)
                    accesses.append(
                        Access(buffer, mode, where, Certainty.MAY if one_of else Certainty.MUST, one_of=one_of)
                    )
        if on_device:
            op = self.emit_device(
                state, ApiKind.LIBRARY_CALL, name, expr.span, stream, accesses=tuple(merge_accesses(accesses))
            )
            if not _nosync(policy) and self.ops[op].graph is None:
                self.block_host(state, op, self.done_before(op).with_op(op), ())
        first = values[0] if values else None
        if isinstance(first, Pointer):
            return Pointer(first.place, first.array, None, first.element)
        return Unknown(self.fresh(short))


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
