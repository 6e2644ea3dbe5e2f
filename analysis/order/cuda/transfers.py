"""Allocation, release, copies and fills: ops with bytes, and what the host knows when the call returns (C1-C10, W7, W8)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stitchcuda.analysis.order.arithmetic import NULL
from stitchcuda.analysis.order.cuda.early_launches import EarlyLaunches
from stitchcuda.analysis.order.host.places import pointee_of_container
from stitchcuda.analysis.order.machine import Done, uncertain
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ZERO, Poly, equal, number
from stitchcuda.analysis.order.timeline import Access, Certainty, Memory, Mode, Range, Shape
from stitchcuda.analysis.order.values import (
    Either,
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
    solid,
)
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import ApiKind

COPY_KINDS = {0: "h2h", 1: "h2d", 2: "d2h", 3: "d2d"}
HOST_MEMORY = frozenset({Memory.PINNED, Memory.PAGEABLE})
MAYBE_PAGEABLE = frozenset({Memory.PAGEABLE, Memory.UNKNOWN})
HOST_ALLOC_MAPPED = 2


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy, understood: objects and kinds of memory of both sides (None and UNKNOWN: not known)."""

    dst: int | None
    src: int | None
    dst_memory: Memory
    src_memory: Memory
    direction: str
    size: Poly | None
    accesses: tuple[Access, ...]
    certain: bool  # each side is one thing, not one of several


class Transfers(EarlyLaunches):
    """Layer of the executor: allocations, releases, copies and fills."""

    def out_place(self, expr: ir.Api, state: State) -> Place | None:
        """The variable that the out-argument points to; None when it is not known or the API has none."""
        out = ir.bare(expr.role("out"))
        if isinstance(out, ir.AddressOf):
            return self.locate(out.operand, state)
        return None if out is None else self.pointed(self.evaluate(out, state), state)

    def out_name(self, expr: ir.Api, place: Place | None) -> str:
        """What the made object is called: after the variable that receives it, else as the frontend says."""
        return self._given_name(expr) if place is None else self.display(place)

    @staticmethod
    def _given_name(expr: ir.Api) -> str:
        """The user's name for what the call returns, when the frontend gives one."""
        given = expr.role("name")
        return given.value if isinstance(given, ir.Const) and isinstance(given.value, str) else expr.name

    def write_out(self, expr: ir.Api, value: Value, state: State) -> Value:
        """Stores through the out-argument; an API that returns its object gives it back instead."""
        returns = expr.role("out") is None or "returns" in expr.flags
        return value if returns else self.store_out(expr, self.out_place(expr, state), value, state)

    def store_out(self, expr: ir.Api, place: Place | None, value: Value, state: State) -> Value:
        """`write_out` when the place is known already."""
        if expr.role("out") is None or "returns" in expr.flags:
            return value
        if place is not None:
            self.store_value(state, place, value)
        return NULL

    def _poly(self, value: Value | None) -> Poly | None:
        return value.value if isinstance(value, Num) else None

    def _byte_count(self, values: dict[str, Value]) -> Poly | None:
        """The bytes of a call, given as such or as rows of a width."""
        size = self._poly(values.get("bytes"))
        if size is not None:
            return size
        width, height = self._poly(values.get("width")), self._poly(values.get("height"))
        return None if width is None or height is None else width * height

    def _allocate(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        size = self._byte_count(values)
        flags = self._poly(values.get("flags"))
        memory = Memory.DEVICE
        if expr.kind is ApiKind.HOST_ALLOC:
            mapped = flags is not None and flags.constant is not None and flags.constant & HOST_ALLOC_MAPPED
            memory = Memory.MAPPED if mapped else Memory.PINNED
        elif "managed" in expr.flags:
            memory = Memory.MANAGED
        out = self.out_place(expr, state)
        name = self.out_name(expr, out)
        pooled = "pooled" in expr.flags
        obj = self.object_for(
            self.identity("alloc", expr.span), name, origin="alloc", memory=memory, size=size,
            device=state.device, pooled=pooled,
        )  # fmt: skip
        state.clear_below(Place(obj.id))
        self.revive(state, ("memory", obj.id, 0))
        self.buffer_of(obj.id)
        if pooled:  # A1: valid for what comes after it on its stream
            op = self.emit_device(state, expr.kind, expr.name, expr.span, self.stream_role(expr, state), bytes=size)
        else:  # W7: an allocation orders nothing
            op = self.emit_host(state, expr.kind, expr.name, expr.span, bytes=size)
        if obj.alloc_op is None:
            obj.alloc_op = op
            self.refresh_buffer(obj.id)
        type = None
        if out is not None and "returns" not in expr.flags:
            type = pointee_of_container(self.names.resolve(self.bound_type(self.type_of(out))))
        if obj.type is None:
            obj.type = type
        element = self.size(type)
        pointer = Pointer(Place(obj.id), True, ZERO, element.constant if element is not None else None)
        return self.store_out(expr, out, pointer, state)

    def _release(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        value = values.get("ptr", NULL)
        if isinstance(value, Num) and value.value.constant == 0:
            return NULL  # A4: releasing a null pointer does nothing
        one_of = isinstance(value, Either)
        pointers = list(self.pointers_in(value, state))
        pointers = pointers if one_of else pointers[:1]
        sure = Certainty.MAY if one_of else Certainty.MUST
        accesses = tuple(
            Access(self.buffer_of(p.place.object), Mode.WRITE, Range(), sure, "ptr", one_of=one_of) for p in pointers
        )
        if expr.kind is ApiKind.REGISTER:
            flags = self._poly(values.get("flags"))
            mapped = flags is not None and flags.constant is not None and flags.constant & HOST_ALLOC_MAPPED
            for p in [] if one_of else pointers:
                obj = self.objects[p.place.object]
                if obj.memory == Memory.PAGEABLE.value:
                    obj.memory = (Memory.MAPPED if mapped else Memory.PINNED).value
                    self.refresh_buffer(obj.id)
            accesses = tuple(replace(a, mode=Mode.READ, certainty=Certainty.MAY) for a in accesses)
        certain = bool(pointers) and not one_of
        if "pooled" in expr.flags:
            op = self.emit_device(
                state,
                expr.kind,
                expr.name,
                expr.span,
                self.stream_role(expr, state),
                accesses=accesses,
                certain=certain,
            )
        else:  # W8: may wait, which is no order to rely on
            op = self.emit_host(state, expr.kind, expr.name, expr.span, accesses=accesses, certain=certain)
        if expr.kind in (ApiKind.FREE, ApiKind.HOST_FREE) and self.ops[op].graph is None and isinstance(value, Pointer):
            for p in [] if one_of else pointers:
                mine = self.objects[p.place.object].identity
                if self.certain_object(p.place.object) and self.told_apart(expr.role("ptr"), mine):
                    self.release(state, ("memory", p.place.object, 0), expr.span, expr.name, op)
        return NULL

    def told_apart(self, written: ir.Expr | None, identity: Identity) -> bool:
        """In a loop: what an argument names is known to be another thing in each round, or the same in all. An element of
        an array of which only one is known stands for all of them."""
        frame = self.loop_stack[-1] if self.loop_stack else None
        if frame is None or frame.index.constant is not None or frame.index in identity.instance:
            return True
        while isinstance(written, ir.Cast | ir.Member | ir.Deref | ir.AddressOf):
            written = written.base if isinstance(written, ir.Member) else written.operand
        place = self.variable(written.name) if isinstance(written, ir.Name) else None
        if place is None:
            return False
        return not place.path_symbols() and frame.index not in self.objects[place.object].identity.instance

    def _memory_of(self, value: Value | None) -> tuple[int | None, Memory, Poly | None]:
        """(object, where it lives, byte offset) of a copy's operand."""
        match value:
            case Pointer(place=place, index=index, element=element):
                obj = self.objects[place.object]
                offset: Poly | None = None
                if not place.path and index is not None and (element is not None or not index.terms):
                    offset = index * number(element or 1)
                elif len(place.path) == 1 and isinstance(place.path[0], Poly):
                    size = self.size(self.type_of(place))
                    offset = None if size is None else place.path[0] * size
                return place.object, Memory(obj.memory), offset
            case Instance(object=obj_id):
                return obj_id, Memory(self.objects[obj_id].memory), ZERO
            case Struct(place=place) | Reference(place=place):
                return place.object, Memory(self.objects[place.object].memory), None
        return None, Memory.UNKNOWN, None

    def _copy(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        stream = self.stream_role(expr, state)
        made: Value = NULL
        if "returns" in expr.flags and values.get("dst") is None:
            made = values["dst"] = self._returned_array(expr, values, state)
        copied = self.understood(expr, values, state)
        unknown = tuple(
            role
            for role, known in (("src", copied.src), ("dst", copied.dst))
            if known is None and values.get(role) != NULL  # a helper that failed: there is no memory to know
        )
        asynchronous = "async" in expr.flags
        op = self.emit_device(
            state,
            ApiKind.COPY,
            expr.name,
            expr.span,
            stream,
            accesses=copied.accesses,
            unknown=unknown,
            bytes=copied.size,
            copy_kind=copied.direction,
            asynchronous=asynchronous,
            certain=copied.certain and copied.dst is not None and copied.src is not None,
            barrier=self._devices(values, state) if "barrier" in expr.flags else (),
        )
        self._carry(values.get("src"), values.get("dst"), state)
        self._after_copy(state, op, asynchronous, copied.direction, copied.dst_memory, copied.src_memory)
        return made

    def understood(
        self, expr: ir.Api, values: dict[str, Value], state: State, described: Place | None = None
    ) -> Copied:
        """What a copy reads and writes, source first. `described`: where a structure says it, unless `params` does."""
        described = described or self.block_place(values.get("params"), state)
        pitches = [self._poly(values.get(role)) for role in ("width", "dpitch", "spitch")]
        dense = None not in pitches and all(equal(p, pitches[0]) for p in pitches[1:] if p and pitches[0])
        if described is not None:
            block = self.copy_block(described, state)
            values = {**values, **block}
            dense = "bytes" in block
        dst_value, src_value = values.get("dst"), values.get("src")
        if "to-symbol" in expr.flags:
            dst_value = self._symbol_operand(expr, values, state)
        if "from-symbol" in expr.flags:
            src_value = self._symbol_operand(expr, values, state)
        dst_sides, dst_memory = self._sides(dst_value)
        src_sides, src_memory = self._sides(src_value)
        size = self._byte_count(values)
        gaps = bool({"2d", "3d", "array"} & expr.flags) and not dense  # pitched rows: bytes are not contiguous
        extent = None if gaps else size
        direction = self._direction(expr, values.get("kind"), dst_memory, src_memory)
        dst_memory, src_memory = _assumed(direction, dst_memory, src_memory)
        if "staged" in expr.flags:  # the library copies the source to pinned memory of its own first: C7, not C6
            src_memory = Memory.PINNED
        whole = Shape.WHOLE if extent is not None else Shape.SOME
        one_of = (
            len(dst_sides) > 1 or isinstance(dst_value, Either),
            len(src_sides) > 1 or isinstance(src_value, Either),
        )
        accesses = [
            Access(
                self.buffer_of(obj), mode, Range(offset, extent, None, whole),
                Certainty.MAY if several else Certainty.MUST, role, one_of=several,
            )
            for sides, mode, role, several in (
                (src_sides, Mode.READ, "src", one_of[1]),
                (dst_sides, Mode.WRITE, "dst", one_of[0]),
            )
            for obj, offset in sides
        ]  # fmt: skip
        dst, src = (sides[0][0] if sides else None for sides in (dst_sides, src_sides))
        return Copied(dst, src, dst_memory, src_memory, direction, size, tuple(accesses), not any(one_of))

    def _sides(self, value: Value | None) -> tuple[list[tuple[int, Poly | None]], Memory]:
        """The objects that a copy's operand may mean, each with the byte offset, and where they live."""
        found = [self._memory_of(option) for option in options_of(value)] if value is not None else []
        known = [(obj, memory, offset) for obj, memory, offset in found if obj is not None]
        memories = {memory for _, memory, _ in known}
        return [(obj, offset) for obj, _, offset in known], memories.pop() if len(memories) == 1 else Memory.UNKNOWN

    def _carry(self, source: Value | None, target: Value | None, state: State) -> None:
        """The pointers that copied bytes hold lead to the same things where they arrive."""
        if not isinstance(source, Pointer) or not isinstance(target, Pointer):
            return
        whole = source.array and target.array and source.index == target.index == ZERO
        here = source.place if whole else self.pointed(source, state)
        there = target.place if whole else self.pointed(target, state)
        if here is None or there is None or here.object == there.object:
            return
        for path, value in list(state.below(here)):
            if path and solid(value) and not isinstance(value, Instance):
                state.store(Place(there.object, there.path + path), value)

    def _devices(self, values: dict[str, Value], state: State) -> tuple[int | None, ...]:
        """The devices of a peer copy: the current one, the source's and the destination's."""
        sides = [self._poly(values.get(role)) for role in ("src_device", "dst_device")]
        return (state.device, *(None if side is None else side.constant for side in sides))

    def _after_copy(self, state: State, op: int, asynchronous: bool, direction: str, dst: Memory, src: Memory) -> None:
        """What the host knows when the call returns."""
        if self.ops[op].graph is not None or self.ops[op].site in self.options.not_waiting:
            return  # G1: only recorded
        before = self.done_before(op)
        done = before.with_op(op)
        if direction == "h2h":  # C5
            self.block_host(state, op, done, ())
        elif not asynchronous:
            if direction == "h2d" and src is Memory.PAGEABLE:  # C1: source staged, destination perhaps on its way
                self.stage_host(state, op, before)
            elif direction == "h2d" and src is Memory.UNKNOWN:  # C1 or C2
                self.stage_host(state, op, Done(before.must, done.may))
            elif direction in ("d2h", "h2d"):  # C3, C2
                self.block_host(state, op, done, ())
            elif direction == "d2d":  # C4: the host does not wait
                pass
            else:  # direction not known: it may have waited
                state.order.host |= uncertain(done)
        elif (direction in ("h2d", "") and src in MAYBE_PAGEABLE) or (
            direction in ("d2h", "") and dst in MAYBE_PAGEABLE
        ):
            # C6: it might have been synchronous
            state.order.host |= uncertain(done)

    def _direction(self, expr: ir.Api, kind: Value | None, dst: Memory, src: Memory) -> str:
        for direction in ("h2d", "d2h", "d2d", "h2h"):
            if direction in expr.flags:
                return direction
        if "peer" in expr.flags:
            return "peer"
        known = self._poly(kind)
        if known is not None and known.constant in COPY_KINDS:
            return COPY_KINDS[known.constant]
        if "to-symbol" in expr.flags and kind is None:
            return "h2d"
        if "from-symbol" in expr.flags and kind is None:
            return "d2h"
        if Memory.UNKNOWN in (dst, src) or Memory.MANAGED in (dst, src):  # C10: from the pointers
            return ""
        return f"{'h' if src in HOST_MEMORY or src is Memory.MAPPED else 'd'}2" + (
            "h" if dst in HOST_MEMORY or dst is Memory.MAPPED else "d"
        )

    def symbol_place(self, named: ir.Expr | None) -> Place | None:
        """The device variable that an argument names."""
        while isinstance(named, ir.Cast | ir.AddressOf):
            named = named.operand
        return self.variable(named.name) if isinstance(named, ir.Name) else None

    def _symbol_operand(self, expr: ir.Api, values: dict[str, Value], state: State) -> Value:
        """C9: the variable that a to-symbol or from-symbol copy names."""
        place = self.symbol_place(expr.role("symbol"))
        if place is not None:
            offset = self._poly(values.get("offset")) if "offset" in values else ZERO
            return Pointer(place, True, offset, 1)
        return values.get("symbol", Unknown(self.fresh("symbol")))

    def _returned_array(self, expr: ir.Api, values: dict[str, Value], state: State) -> Value:
        """The array that a library call gives back (`cupy.asarray`, `arr.get()`)."""
        to_host = "d2h" in expr.flags
        obj = self.object_for(
            self.identity("alloc", expr.span), self._given_name(expr), origin="alloc",
            memory=Memory.PAGEABLE if to_host else Memory.DEVICE, pooled=not to_host, device=state.device,
        )  # fmt: skip
        return Pointer(Place(obj.id), True)

    def _fill(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        stream = self.stream_role(expr, state)
        size = self._byte_count(values)
        accesses = self.filled(values, expr.kind, gaps=bool({"2d", "3d"} & expr.flags))
        target = values.get("dst", values.get("ptr"))
        _, memory = self._sides(target)
        op = self.emit_device(
            state,
            expr.kind,
            expr.name,
            expr.span,
            stream,
            accesses=accesses,
            bytes=size,
            asynchronous=True,
            certain=bool(accesses) and not isinstance(target, Either),
        )
        if "async" not in expr.flags and memory is Memory.PINNED and self.ops[op].graph is None:  # C8
            self.block_host(state, op, self.done_before(op).with_op(op), ())
        elif "async" not in expr.flags and memory is Memory.MANAGED and self.ops[op].graph is None:
            state.order.host |= uncertain(
                self.done_before(op).with_op(op)
            )  # C8: older versions of the page say that it waits
        return NULL

    def filled(self, values: dict[str, Value], kind: ApiKind, *, gaps: bool) -> tuple[Access, ...]:
        """What a fill writes, or a prefetch moves; `gaps`: the bytes between its rows are left alone."""
        target = values.get("dst", values.get("ptr"))
        sides, _ = self._sides(target)
        one_of = isinstance(target, Either)
        sure = Certainty.MAY if one_of else Certainty.MUST
        extent = None if gaps else self._byte_count(values)
        mode = Mode.READ if kind is ApiKind.PREFETCH else Mode.WRITE  # C11: moves pages, changes nothing
        shape = Shape.WHOLE if extent is not None else Shape.SOME
        return tuple(
            Access(self.buffer_of(obj), mode, Range(offset, extent, None, shape), sure, "dst", one_of=one_of)
            for obj, offset in sides
        )


def _assumed(direction: str, dst: Memory, src: Memory) -> tuple[Memory, Memory]:
    """Host sides whose allocation was not seen may be pageable or pinned: C6 and C1 are the readings that promise
    least about overlap, so they stay unknown; device sides follow the direction."""
    if direction in ("h2d", "d2d") and dst is Memory.UNKNOWN:
        dst = Memory.DEVICE
    if direction in ("d2h", "d2d") and src is Memory.UNKNOWN:
        src = Memory.DEVICE
    return dst, src
