"""Vectors of thrust that live on the device: they are filled when they are made, and copied when the host looks into them.

Each is work on the default stream for which the host waits (O9). The memory itself is the library's own.
"""

from __future__ import annotations

from stitchcuda.analysis.order.cuda.cub import Cub
from stitchcuda.analysis.order.host.names import DEVICE_CONTAINERS, plain
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import Poly
from stitchcuda.analysis.order.timeline import Access, Certainty, Memory, Mode
from stitchcuda.analysis.order.values import Instance, Place, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import ApiKind, Expr, Span, TypeRef

_FILLS = "thrust::device_vector"
_COPIES = "thrust::copy"
_VECTORS = DEVICE_CONTAINERS | {"host_vector", "vector"}


class DeviceVectors(Cub):
    """Layer of the executor: what `thrust::device_vector` does by itself."""

    def fill_container(self, state: State, instance: Instance, args: tuple[Expr, ...], span: Span) -> None:
        target = instance.object
        source = self._vector(args[0], state) if len(args) == 1 else None
        on_device = self._on_device(target)
        super().fill_container(state, instance, args, span)
        if source is not None:
            return  # `copy_container` has told it
        if on_device and args:
            self._moves(state, _FILLS, span, writes=target)

    def container_method(
        self, state: State, instance: Instance, name: str, args: tuple[Expr, ...], span: Span
    ) -> Value | None:
        value = super().container_method(state, instance, name, args, span)
        if name in ("resize", "assign") and args and self._on_device(instance.object):
            self._moves(state, _FILLS, span, writes=instance.object)
        if name in ("front", "back") and self._on_device(instance.object):  # the host looks at an element
            self._moves(state, _COPIES, span, reads=instance.object)
        return value

    def copy_container(self, state: State, source: int, target: int) -> None:
        super().copy_container(state, source, target)
        made = self.objects[target].identity
        if source != target and made.function == self.frame.function.uid:
            self._copied(state, source, target, (made.start, made.end))

    def assign_value(self, expr: ir.Assign, value: Value, state: State) -> Value:
        if isinstance(value, Instance) and not expr.op and isinstance(expr.target, ir.Name | ir.Member):
            held = self._vector(expr.target, state)
            if held is not None and held.object != value.object:
                self._copied(state, value.object, held.object, expr.span)
                if self._on_device(held.object) and self._on_device(value.object):
                    super().copy_container(state, value.object, held.object)
                    return value
        return super().assign_value(expr, value, state)

    def container(self, state: State, place: Place, type: TypeRef, count: Poly | None = None) -> Instance:
        """A vector that begins as a copy of one of the other side stays on its own."""
        own = self.names.resolve(self.bound_type(self.type_of(place)))
        if own is not None and not own.pointer and plain(own.name) in _VECTORS and _device(own) != _device(type):
            type = own
        return super().container(state, place, type, count)

    def touch(self, state: State, place: Place, mode: Mode, span: Span) -> None:
        if self.never_seen(place.object):
            return
        if place.path and place.object in self.containers and self._on_device(place.object):
            if mode is Mode.READ:
                self._moves(state, _COPIES, span, reads=place.object)
            else:
                self._moves(state, _COPIES, span, writes=place.object)
            return
        super().touch(state, place, mode, span)

    def _copied(self, state: State, source: int, target: int, span: Span) -> None:
        reads = source if self._on_device(source) else None
        writes = target if self._on_device(target) else None
        if reads is not None or writes is not None:
            self._moves(state, _COPIES, span, reads=reads, writes=writes)

    def _moves(
        self, state: State, what: str, span: Span, *, reads: int | None = None, writes: int | None = None
    ) -> None:
        sides = ((reads, Mode.READ), (writes, Mode.WRITE))
        accesses = tuple(
            [Access(self.buffer_of(o), mode, certainty=Certainty.MUST) for o, mode in sides if o is not None]
        )
        op = self.emit_device(state, ApiKind.LIBRARY_CALL, what, span, self.default_stream(state), accesses=accesses)
        if self.ops[op].graph is None:
            self.block_host(state, op, self.done_before(op).with_op(op), ())

    def _on_device(self, obj: int) -> bool:
        return obj in self.containers and self.objects[obj].memory == Memory.DEVICE.value

    def _vector(self, expr: Expr, state: State) -> Instance | None:
        """The contents of the vector that a variable or member is."""
        if not isinstance(expr, ir.Name | ir.Member):
            return None
        place = self.locate(expr, state)
        held = state.load(self.follow(state, place)) if place is not None else None
        return held if isinstance(held, Instance) else None


def _device(type: TypeRef) -> bool:
    return plain(type.name) in DEVICE_CONTAINERS
