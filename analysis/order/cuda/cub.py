"""Algorithms of cub for the whole device: work on the stream given, for which the host does not wait (O9)."""

from __future__ import annotations

from stitchcuda.analysis.order.cuda.launches import member_path, merge_accesses
from stitchcuda.analysis.order.cuda.thrust import Thrust, elements_behind
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ONE, ZERO, symbol
from stitchcuda.analysis.order.timeline import Access, Certainty, Memory, Mode, Range
from stitchcuda.analysis.order.values import Handle, Num, Place, Pointer, Unknown, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import ApiKind
from stitchcuda.analysis.program.link import CUB

_SIZE = 1  # the argument that gets, or has, the size of the temporary memory
_IN_OUT = ((Mode.READ,), (Mode.WRITE,))
# What algorithms do to the arguments behind that, where they work from one array to another.
_ROLES: dict[str, tuple[tuple[Mode, ...], ...]] = {
    "DeviceScan::ExclusiveSum": _IN_OUT, "DeviceScan::InclusiveSum": _IN_OUT, "DeviceScan::ExclusiveScan": _IN_OUT,
    "DeviceScan::InclusiveScan": _IN_OUT, "DeviceReduce::Sum": _IN_OUT, "DeviceReduce::Min": _IN_OUT,
    "DeviceReduce::Max": _IN_OUT, "DeviceReduce::Reduce": _IN_OUT, "DeviceRadixSort::SortKeys": _IN_OUT,
    "DeviceRadixSort::SortKeysDescending": _IN_OUT, "DeviceRadixSort::SortPairs": _IN_OUT * 2,
    "DeviceRadixSort::SortPairsDescending": _IN_OUT * 2,
}  # fmt: skip


class Cub(Thrust):
    """Layer of the executor: algorithms of cub, and its allocator."""

    def cached_memory(self, name: str, expr: ir.Call, state: State) -> bool:
        """`DeviceAllocate` and `DeviceFree` of `cub::CachingDeviceAllocator`: memory from what it keeps, and back to it."""
        if name == "DeviceFree":
            return len(expr.args) in (1, 2)  # released later, or never: by then the work that uses it is done
        if name != "DeviceAllocate":
            return False
        for arg in expr.args[:2]:  # the device may stand first
            out = ir.bare(arg)
            place = self.locate(out.operand, state) if isinstance(out, ir.AddressOf) else None
            if place is not None:
                identity = self.identity("alloc", expr.span)
                obj = self.object_for(
                    identity, self.display(place), origin="alloc", memory=Memory.DEVICE, device=state.device
                )
                self.store_value(state, place, Pointer(Place(obj.id), True, ZERO, None), self.type_of(place))
                return True
        return False

    def thrust_call(self, name: str, expr: ir.Call, state: State) -> Value | None:
        if CUB.fullmatch(name) is None or len(expr.args) <= _SIZE:
            return super().thrust_call(name, expr, state)
        values = [self.evaluate(a, state) for a in expr.args]
        temporary = values[0]
        if not (isinstance(temporary, Num) and temporary.value.constant == 0):  # else it only asks for the size
            stream = self.default_stream(state)
            accesses: list[Access] = []
            roles = _ROLES.get("::".join(name.split("<")[0].split("::")[-2:]), ())
            given = values[_SIZE + 1 : _SIZE + 1 + len(roles)]
            if len(given) < len(roles) or not all(isinstance(v, Pointer) for v in given):
                roles = ()  # in place, or in two buffers that take turns
            for position, (value, arg) in enumerate(zip(values, expr.args, strict=True)):
                if isinstance(value, Handle):
                    stream = self.stream_of(arg, state)
                if position == _SIZE:
                    continue
                role = roles[position - _SIZE - 1] if _SIZE < position <= _SIZE + len(roles) else None
                if role is not None and isinstance(value, Pointer) and self.may_be_on_device(value):
                    buffer = self.buffer_of(value.place.object)
                    accesses += [Access(buffer, mode, elements_behind(value), Certainty.MUST) for mode in role]
                    continue
                for pointer in self.pointers_in(value, state):
                    if not self.may_be_on_device(pointer):
                        continue
                    where = Range(member=member_path(pointer.place))
                    buffer = self.buffer_of(pointer.place.object)
                    accesses += [Access(buffer, mode, where, Certainty.MAY) for mode in (Mode.READ, Mode.WRITE)]
            self.emit_device(
                state, ApiKind.LIBRARY_CALL, name, expr.span, stream, accesses=tuple(merge_accesses(accesses))
            )
        else:
            place = self.locate(expr.args[_SIZE], state)
            if place is not None:
                self.store_value(state, place, Num(ONE + symbol(self.fresh("bytes"))))  # never none at all
        return Unknown(self.fresh("status"))
