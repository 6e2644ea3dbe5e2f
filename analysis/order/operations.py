"""What API calls and launches do: ops on the Timeline, order by the rows of docs/ordering.md, new handles and memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stitchcuda.analysis.order.arithmetic import NULL, key_of
from stitchcuda.analysis.order.expressions import Expressions, pointee_of_container
from stitchcuda.analysis.order.machine import Done
from stitchcuda.analysis.order.recorder import LEGACY_STREAM
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import ZERO, Poly, number, symbol
from stitchcuda.analysis.order.timeline import Access, Certainty, Memory, Mode, Range, Shape, StreamKind
from stitchcuda.analysis.order.values import (
    SIZES,
    Code,
    Handle,
    Identity,
    Instance,
    Num,
    Place,
    Pointer,
    Reference,
    Struct,
    Text,
    Unknown,
    Value,
)
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.effects import KernelEffects, ParamEffect, kernel_effects
from stitchcuda.analysis.program.ir import ApiKind, Expr, TypeRef

COPY_KINDS = {0: "h2h", 1: "h2d", 2: "d2h", 3: "d2d"}
HOST_MEMORY = frozenset({Memory.PINNED, Memory.PAGEABLE})
MAYBE_PAGEABLE = frozenset({Memory.PAGEABLE, Memory.UNKNOWN})
STREAM_NON_BLOCKING = 1
EVENT_DISABLE_TIMING = 2
HOST_ALLOC_MAPPED = 2


class Operations(Expressions):
    # ---------------------------------------------------------------------------------------------------------- launch

    def launch(self, expr: ir.Launch, state: State) -> Value:
        kernel = self.evaluate(expr.kernel, state)
        grid = self._dimensions(expr.grid, state)
        block = self._dimensions(expr.block, state)
        if expr.shared is not None:
            self.evaluate(expr.shared, state)
        stream = self.default_stream(state) if expr.stream is None else self.stream_of(expr.stream, state)
        args = [self.evaluate(a, state) for a in expr.args]
        if expr.packed_args is not None:
            args = self._packed(expr.packed_args, state)
        name, accesses, certain = self._kernel_accesses(kernel, expr, args, grid, block, state)
        self.emit_device(
            state,
            ApiKind.LAUNCH,
            expr.api,
            expr.span,
            stream,
            kernel=name,
            accesses=tuple(accesses),
            grid=self.source_of(expr.grid),
            block=self.source_of(expr.block),
            certain=certain,
        )
        return NULL

    def source_of(self, expr: Expr | None) -> str:
        """An expression as the user wrote it; "" without the source."""
        return ""

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

    def _packed(self, expr: Expr, state: State) -> list[Value]:
        """`void* args[] = {&a, &b}` of cudaLaunchKernel."""
        value = self.evaluate(expr, state)
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
        expr: ir.Launch,
        args: list[Value],
        grid: tuple[Value, ...],
        block: tuple[Value, ...],
        state: State,
    ) -> tuple[str, list[Access], bool]:
        uids = (
            [u for u in kernel.uids if self.program.functions[u].space == "global"] if isinstance(kernel, Code) else []
        )
        name = kernel.name if isinstance(kernel, Code) else self._kernel_name(expr.kernel)
        by_arity = [u for u in uids if len(self.program.functions[u].params) == len(args)]
        uids = self.nearest(by_arity or uids)
        if not uids:
            return name, self._anything(args, state), False
        function = self.program.functions[uids[0]]
        self.executed.add(function.uid)
        effects = kernel_effects(self.program, function.uid)
        values: dict[str, Poly] = {}
        for axis, part in zip("xyz", grid, strict=False):
            if isinstance(part, Num):
                values[f"gridDim.{axis}"] = part.value
        for axis, part in zip("xyz", block, strict=False):
            if isinstance(part, Num):
                values[f"blockDim.{axis}"] = part.value
        for param, arg in zip(function.params, args, strict=False):
            if isinstance(arg, Num):
                values[param.name] = arg.value
        accesses: list[Access] = []
        for param, arg in zip(function.params, args, strict=False):
            for effect in effects.of(param.name):
                accesses += self._by_effect(arg, effect, param.type.name, values, state)
        accesses += self._symbols(effects, function.path)
        return name or function.name, merge_accesses(accesses), len(uids) == 1 and not effects.calls_unknown

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

    def _by_effect(
        self, arg: Value, effect: ParamEffect, declared: str, values: dict[str, Poly], state: State
    ) -> Iterator[Access]:
        for pointer in self._member_pointers(arg, effect.member, state):
            element = SIZES.get(effect.element)
            if element is None and (effect.member or effect.element in ("", declared)):  # not cast inside the kernel
                element = pointer.element
            member = _member_path(pointer.place)
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
                yield Access(buffer, mode, where, effect.certainty, effect.name)

    def _member_pointers(self, arg: Value, member: str, state: State) -> Iterator[Pointer]:
        """The pointers that a kernel argument carries at a member path ("" the argument itself, "[]" behind elements)."""
        current: list[Value] = [arg]
        for step in filter(None, member.replace("[]", ".[]").split(".")):
            following: list[Value] = []
            for value in current:
                if step == "[]":
                    if isinstance(value, Pointer):
                        following += [v for path, v in state.below(value.place) if path]
                    continue
                place = value.place if isinstance(value, Struct) else self.pointed(value, state)
                if place is not None:
                    following.append(self.load(state, place.field(step)))
            current = following
        for value in current:
            if isinstance(value, Instance):
                yield Pointer(Place(value.object), True, ZERO, None)
            elif isinstance(value, Pointer):
                yield value

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
                    where = Range(start, member=_member_path(pointer.place))
                    out.append(Access(buffer, mode, where, Certainty.MAY))
        return out

    def pointers_in(self, value: Value, state: State) -> Iterator[Pointer]:
        """The pointers that a value carries, those in a record's fields included."""
        match value:
            case Pointer():
                yield value
            case Instance(object=obj):
                yield Pointer(Place(obj), True)
            case Struct(place=place):
                for path, held in list(state.below(place)):
                    if path and isinstance(held, Pointer):
                        yield held

    # ------------------------------------------------------------------------------------------------------ API calls

    def api(self, expr: ir.Api, state: State) -> Value:
        """Dispatch by kind. The value is the status (success) unless the API returns an object (flag "returns")."""
        match expr.kind:
            case ApiKind.COPY:
                return self._copy(expr, state)
            case ApiKind.MEMSET | ApiKind.PREFETCH:
                return self._fill(expr, state)
            case ApiKind.ALLOC | ApiKind.HOST_ALLOC:
                return self._allocate(expr, state)
            case ApiKind.FREE | ApiKind.HOST_FREE | ApiKind.REGISTER | ApiKind.UNREGISTER:
                return self._release(expr, state)
            case ApiKind.STREAM_CREATE | ApiKind.EVENT_CREATE:
                return self._create(expr, state)
            case ApiKind.STREAM_DESTROY | ApiKind.EVENT_DESTROY:
                return self._destroy(expr, state)
            case ApiKind.EVENT_RECORD | ApiKind.EVENT_WAIT:
                return self._event(expr, state)
            case ApiKind.STREAM_SYNC | ApiKind.EVENT_SYNC | ApiKind.DEVICE_SYNC:
                return self._wait(expr, state)
            case ApiKind.CAPTURE_BEGIN | ApiKind.CAPTURE_END | ApiKind.GRAPH_INSTANTIATE | ApiKind.GRAPH_LAUNCH:
                return self._graph(expr, state)
            case ApiKind.LIBRARY_CALL | ApiKind.HOST_FUNC | ApiKind.GRAPH_UPDATE | ApiKind.QUERY:
                return self._other_op(expr, state)
        return self._aside(expr, state)

    def roles(self, expr: ir.Api, state: State) -> dict[str, Value]:
        """Evaluates the arguments, in order; streams and out-arguments are left to `stream_role` and `write_out`."""
        return {role: self.evaluate(value, state) for role, value in expr.roles if role not in ("stream", "out")}

    # streams and events ----------------------------------------------------------------------------------------------

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

    def event_value(self, value: Value, expr: Expr) -> int:
        if isinstance(value, Handle) and value.kind == "event":
            return value.id
        name = expr.name if isinstance(expr, ir.Name | ir.Member) else "?"
        return self.event_for(Identity("unknown-event", "", "", 0, 0, (), (), key_of(value)), name, None)

    def _create(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        flags = values.get("flags", NULL)
        known = flags.value.constant if isinstance(flags, Num) else None
        name = self._out_name(expr, state)
        if expr.kind is ApiKind.STREAM_CREATE:
            blocking = None if known is None else not known & STREAM_NON_BLOCKING  # O5
            text = "" if known is None or "flags" not in values else ("cudaStreamNonBlocking" if not blocking else "")
            identity = self.identity("stream", expr.span)
            made = Handle("stream", self.stream_for(identity, name, StreamKind.CREATED, blocking, text, state.device))
            self.emit_host(state, expr.kind, expr.name, expr.span, stream=made.id, note=name)
        else:
            timing = None if known is None else not known & EVENT_DISABLE_TIMING
            made = Handle("event", self.event_for(self.identity("event", expr.span), name, timing))
            self.emit_host(state, expr.kind, expr.name, expr.span, event=made.id, note=name)
        return self.write_out(expr, made, state)

    def _destroy(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)  # W6: not a wait
        if expr.kind is ApiKind.STREAM_DESTROY:
            if expr.role("stream") is not None or "ptr" in values:
                target = expr.role("stream") or expr.role("ptr")
                assert target is not None
                self.emit_host(state, expr.kind, expr.name, expr.span, stream=self.stream_of(target, state))
        else:
            target = expr.role("event") or expr.role("ptr")
            if target is not None:
                event = self.event_value(values.get("event", values.get("ptr", NULL)), target)
                self.emit_host(state, expr.kind, expr.name, expr.span, event=event)
        return NULL

    def _event(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        written = expr.role("event")
        event = self.event_value(values.get("event", Unknown(self.fresh("event"))), written or ir.Const((0, 0), None))
        stream = self.stream_role(expr, state)
        if expr.kind is ApiKind.EVENT_RECORD:  # E1
            self.emit_device(state, expr.kind, expr.name, expr.span, stream, records=event)
        else:  # E2
            if state.order.events.get(event) is None and self._foreign_event(event):
                state.order.streams[stream] = Done(state.order.streams.get(stream, Done()).must, state.order.earlier)
            self.emit_device(state, expr.kind, expr.name, expr.span, stream, waits_for=event)
        return NULL

    def _foreign_event(self, event: int) -> bool:
        """An event that was not created in sight: what it stands for is not known."""
        site = self.events[event].site
        return site is None

    def _wait(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        stream: int | None = None
        event: int | None = None
        if expr.kind is ApiKind.DEVICE_SYNC:  # W1
            done, blockers = self.machine.all_work(state.order, state.device)
        elif expr.kind is ApiKind.STREAM_SYNC:  # W2
            stream = self.stream_role(expr, state)
            done, blockers = self.machine.stream_work(state.order, stream)
            if self.streams[stream].kind is StreamKind.UNKNOWN:
                done = Done(done.must, done.may | state.order.earlier)
        else:  # W3
            written = expr.role("event") or ir.Const((0, 0), None)
            event = self.event_value(values.get("event", NULL), written)
            done, blockers = self.machine.event_work(state.order, event)
            if not blockers and self._foreign_event(event):
                done = Done(done.must, state.order.earlier)
        op = self.emit_host(state, expr.kind, expr.name, expr.span, stream=stream, event=event)
        self.block_host(state, op, done, blockers)
        for frame in self.loop_stack:  # a wait for member i of a family, in a loop over i: see `Loops`
            if stream is not None and frame.index in self.streams[stream].instance:
                frame.waits.append((op, "stream", stream, state.conditions))
            elif event is not None and frame.index in self.events[event].instance:
                frame.waits.append((op, "event", event, state.conditions))
        return NULL

    # memory ----------------------------------------------------------------------------------------------------------

    def _out_name(self, expr: ir.Api, state: State) -> str:
        out = expr.role("out")
        while isinstance(out, ir.Cast):
            out = out.operand
        if isinstance(out, ir.AddressOf):
            place = self.locate(out.operand, state)
            if place is not None:
                return self.display(place)
        elif out is not None:
            value = self.evaluate(out, state)
            place = self.pointed(value, state)
            if place is not None:
                return self.display(place)
        return self._given_name(expr)

    @staticmethod
    def _given_name(expr: ir.Api) -> str:
        """The user's name for what the call returns, when the frontend gives one."""
        given = expr.role("name")
        return given.value if isinstance(given, ir.Const) and isinstance(given.value, str) else expr.name

    def write_out(self, expr: ir.Api, value: Value, state: State) -> Value:
        """Stores through the out-argument; an API that returns its object gives it back instead."""
        out = expr.role("out")
        if out is None or "returns" in expr.flags:
            return value
        while isinstance(out, ir.Cast):
            out = out.operand
        place = self.locate(out.operand, state) if isinstance(out, ir.AddressOf) else None
        if place is None and not isinstance(out, ir.AddressOf):
            place = self.pointed(self.evaluate(out, state), state)
        if place is not None:
            self.store_value(state, place, value)
        return NULL

    def _poly(self, value: Value | None) -> Poly | None:
        return value.value if isinstance(value, Num) else None

    def _allocate(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        size = self._poly(values.get("bytes"))
        if size is None:
            width, height = self._poly(values.get("width")), self._poly(values.get("height"))
            size = None if width is None or height is None else width * height
        flags = self._poly(values.get("flags"))
        memory = Memory.DEVICE
        if expr.kind is ApiKind.HOST_ALLOC:
            mapped = flags is not None and flags.constant is not None and flags.constant & HOST_ALLOC_MAPPED
            memory = Memory.MAPPED if mapped else Memory.PINNED
        elif "managed" in expr.flags:
            memory = Memory.MANAGED
        name = self._out_name(expr, state)
        pooled = "pooled" in expr.flags
        obj = self.object_for(
            self.identity("alloc", expr.span), name, origin="alloc", memory=memory, size=size,
            device=state.device, pooled=pooled,
        )  # fmt: skip
        state.clear_below(Place(obj.id))
        self.buffer_of(obj.id)
        if pooled:  # A1: valid for what comes after it on its stream
            op = self.emit_device(state, expr.kind, expr.name, expr.span, self.stream_role(expr, state), bytes=size,
                                  note=name)  # fmt: skip
        else:  # W7: an allocation orders nothing
            op = self.emit_host(state, expr.kind, expr.name, expr.span, bytes=size, note=name)
        if obj.alloc_op is None:
            obj.alloc_op = op
            self.refresh_buffer(obj.id)
        type = None
        if expr.role("out") is not None and "returns" not in expr.flags:
            type = self._pointee_of_out(expr, state)
        if obj.type is None:
            obj.type = type
        element = self.size(type)
        pointer = Pointer(Place(obj.id), True, ZERO, element.constant if element is not None else None)
        return self.write_out(expr, pointer, state)

    def _pointee_of_out(self, expr: ir.Api, state: State) -> TypeRef | None:
        out = expr.role("out")
        while isinstance(out, ir.Cast):
            out = out.operand
        place = self.locate(out.operand, state) if isinstance(out, ir.AddressOf) else None
        if place is None and out is not None and not isinstance(out, ir.AddressOf):
            place = self.pointed(self.evaluate(out, state), state)
        if place is None:
            return None
        type = self.names.resolve(self.bound_type(self.type_of(place)))
        return pointee_of_container(type)

    def _release(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        value = values.get("ptr", NULL)
        if isinstance(value, Num) and value.value.constant == 0:
            return NULL  # A4: releasing a null pointer does nothing
        pointers = [p for p in self.pointers_in(value, state)]
        accesses = tuple(
            Access(self.buffer_of(p.place.object), Mode.WRITE, Range(), Certainty.MUST, "ptr") for p in pointers[:1]
        )
        if expr.kind is ApiKind.REGISTER:
            flags = self._poly(values.get("flags"))
            mapped = flags is not None and flags.constant is not None and flags.constant & HOST_ALLOC_MAPPED
            for p in pointers[:1]:
                obj = self.objects[p.place.object]
                if obj.memory == Memory.PAGEABLE.value:
                    obj.memory = (Memory.MAPPED if mapped else Memory.PINNED).value
                    self.refresh_buffer(obj.id)
            accesses = tuple(replace(a, mode=Mode.READ, certainty=Certainty.MAY) for a in accesses)
        certain = bool(pointers)
        if "pooled" in expr.flags:
            self.emit_device(
                state,
                expr.kind,
                expr.name,
                expr.span,
                self.stream_role(expr, state),
                accesses=accesses,
                certain=certain,
            )
        else:  # W8: may wait, which is no order to rely on
            self.emit_host(state, expr.kind, expr.name, expr.span, accesses=accesses, certain=certain)
        return NULL

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
        dst_value, src_value = values.get("dst"), values.get("src")
        made: Value = NULL
        if "returns" in expr.flags and dst_value is None:
            made = dst_value = self._returned_array(expr, values, state)
        if "to-symbol" in expr.flags:
            dst_value = self._symbol_operand(expr, values, state)
        if "from-symbol" in expr.flags:
            src_value = self._symbol_operand(expr, values, state)
        dst, dst_memory, dst_offset = self._memory_of(dst_value)
        src, src_memory, src_offset = self._memory_of(src_value)
        size = self._poly(values.get("bytes"))
        if size is None and "2d" in expr.flags:
            width, height = self._poly(values.get("width")), self._poly(values.get("height"))
            size = None if width is None or height is None else width * height
        extent = None if {"2d", "3d", "array"} & expr.flags else size  # pitched rows: bytes are not contiguous
        direction = self._direction(expr, values.get("kind"), dst_memory, src_memory)
        dst_memory, src_memory = _assumed(direction, dst_memory, src_memory)
        if "staged" in expr.flags:  # the library copies the source to pinned memory of its own first: C7, not C6
            src_memory = Memory.PINNED
        accesses: list[Access] = []
        whole = Shape.WHOLE if extent is not None else Shape.SOME
        if src is not None:
            accesses.append(
                Access(self.buffer_of(src), Mode.READ, Range(src_offset, extent, None, whole), Certainty.MUST, "src")
            )
        if dst is not None:
            accesses.append(
                Access(self.buffer_of(dst), Mode.WRITE, Range(dst_offset, extent, None, whole), Certainty.MUST, "dst")
            )
        asynchronous = "async" in expr.flags
        op = self.emit_device(
            state,
            ApiKind.COPY,
            expr.name,
            expr.span,
            stream,
            accesses=tuple(accesses),
            bytes=size,
            copy_kind=direction,
            asynchronous=asynchronous,
            certain=dst is not None and src is not None,
        )
        self._after_copy(state, op, asynchronous, direction, dst_memory, src_memory)
        return made

    def _after_copy(self, state: State, op: int, asynchronous: bool, direction: str, dst: Memory, src: Memory) -> None:
        """What the host knows when the call returns."""
        if self.ops[op].graph is not None:
            return  # G1: only recorded
        before = Done(self.before[op], self.before[op] | self.may[op])
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
                state.order.host = Done(state.order.host.must, state.order.host.may | done.may)
        elif (direction in ("h2d", "") and src in MAYBE_PAGEABLE) or (
            direction in ("d2h", "") and dst in MAYBE_PAGEABLE
        ):
            # C6: it might have been synchronous
            state.order.host = Done(state.order.host.must, state.order.host.may | done.may)
        # C7: pinned memory, nothing is known

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

    def _symbol_operand(self, expr: ir.Api, values: dict[str, Value], state: State) -> Value:
        """C9: the variable that a to-symbol or from-symbol copy names."""
        named = expr.role("symbol")
        while isinstance(named, ir.Cast | ir.AddressOf):
            named = named.operand
        if isinstance(named, ir.Name):
            place = self.variable(named.name)
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
        target = values.get("dst", values.get("ptr"))
        dst, memory, offset = self._memory_of(target)
        size = self._poly(values.get("bytes"))
        if size is None and "2d" in expr.flags:
            width, height = self._poly(values.get("width")), self._poly(values.get("height"))
            size = None if width is None or height is None else width * height
        mode = Mode.READ if expr.kind is ApiKind.PREFETCH else Mode.WRITE  # C11: moves pages, changes nothing
        extent = None if {"2d", "3d"} & expr.flags else size
        accesses: tuple[Access, ...] = ()
        if dst is not None:
            shape = Shape.WHOLE if extent is not None else Shape.SOME
            accesses = (Access(self.buffer_of(dst), mode, Range(offset, extent, None, shape), Certainty.MUST, "dst"),)
        op = self.emit_device(
            state,
            expr.kind,
            expr.name,
            expr.span,
            stream,
            accesses=accesses,
            bytes=size,
            asynchronous=True,
            certain=dst is not None,
        )
        if "async" not in expr.flags and memory is Memory.PINNED and self.ops[op].graph is None:  # C8
            done = Done(self.before[op], self.before[op] | self.may[op]).with_op(op)
            self.block_host(state, op, done, ())
        return NULL

    # CUDA graphs -----------------------------------------------------------------------------------------------------

    def _graph(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        if expr.kind is ApiKind.CAPTURE_BEGIN:
            stream = self.stream_role(expr, state)
            graph = self.graph_for(self.identity("graph", expr.span))
            placed = self.machine.begin_capture(state.order, len(self.ops), stream, graph)
            self.append_placed(state, placed, expr.kind, expr.name, expr.span, stream=stream)
            return NULL
        if expr.kind is ApiKind.CAPTURE_END:
            stream = self.stream_role(expr, state)
            placed, capture = self.machine.end_capture(state.order, len(self.ops), stream)
            self.append_placed(state, placed, expr.kind, expr.name, expr.span, stream=stream)
            if capture is None:
                return self.write_out(expr, Unknown(self.fresh("graph")), state)
            self.graphs[capture.graph] = tuple(capture.ops)
            return self.write_out(expr, Handle("graph", capture.graph), state)
        if expr.kind is ApiKind.GRAPH_INSTANTIATE:
            graph_value = values.get("graph", Unknown(self.fresh("graph")))
            self.emit_host(state, expr.kind, expr.name, expr.span)
            exec_value: Value = Unknown(self.fresh("exec"))
            if isinstance(graph_value, Handle) and graph_value.kind == "graph":
                exec_value = Handle("exec", graph_value.id)
            return self.write_out(expr, exec_value, state)
        executable = values.get("exec", Unknown(self.fresh("exec")))
        stream = self.stream_role(expr, state)
        accesses: list[Access] = []
        certain = isinstance(executable, Handle) and executable.kind == "exec"
        if isinstance(executable, Handle) and executable.kind == "exec":  # G5: one op with all that the graph does
            for op in self.graphs[executable.id]:
                accesses += self.ops[op].accesses
        self.emit_device(
            state,
            expr.kind,
            expr.name,
            expr.span,
            stream,
            accesses=tuple(merge_accesses(accesses)),
            certain=certain,
            note=f"graph {executable.id}" if isinstance(executable, Handle) else "",
        )
        return NULL

    # the rest --------------------------------------------------------------------------------------------------------

    def _other_op(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        if expr.kind is ApiKind.GRAPH_UPDATE:
            self.emit_host(state, expr.kind, expr.name, expr.span)
            return NULL
        if expr.kind is ApiKind.QUERY:
            if expr.role("stream") is not None:
                self.stream_role(expr, state)
            state.order.host = Done(state.order.host.must, state.order.host.may | state.order.earlier)
            self.emit_host(state, expr.kind, expr.name, expr.span)
            return Num(symbol(self.fresh("query")))
        stream = self._library_stream(expr, state)
        accesses: list[Access] = []
        result: Value = NULL
        if expr.kind is ApiKind.LIBRARY_CALL:
            for role, value in values.items():
                if role in ("handle", "user_data", "callback"):
                    continue
                for pointer in self.pointers_in(value, state):
                    if self.objects[pointer.place.object].memory == Memory.PAGEABLE.value:
                        continue  # scalars and descriptors on the host
                    buffer = self.buffer_of(pointer.place.object)
                    start = None if pointer.index is None else pointer.index * number(pointer.element or 1)
                    modes = (
                        (Mode.WRITE,)
                        if role == "dst"
                        else (Mode.READ,)
                        if role.startswith("src")
                        else (Mode.READ, Mode.WRITE)
                    )
                    certainty = Certainty.MUST if role == "dst" or role.startswith("src") else Certainty.MAY
                    where = Range(start, member=_member_path(pointer.place))
                    accesses += [Access(buffer, m, where, certainty, role) for m in modes]
            if "returns" in expr.flags:
                result = self._returned_array(expr, values, state)
                assert isinstance(result, Pointer)
                accesses.append(
                    Access(self.buffer_of(result.place.object), Mode.WRITE, Range(ZERO), Certainty.MUST, "dst")
                )
        self.emit_device(
            state, expr.kind, expr.name, expr.span, stream, accesses=tuple(merge_accesses(accesses)),
            certain=expr.kind is ApiKind.LIBRARY_CALL,
        )  # fmt: skip
        if "may-sync" in expr.flags:
            self.machine.may_have_waited(state.order)
        return result

    def _library_stream(self, expr: ir.Api, state: State) -> int:
        """O9: the stream given, else the one that the library handle was bound to."""
        if expr.role("stream") is not None:
            return self.stream_role(expr, state)
        handle = expr.role("handle")
        place = self.locate(handle, state) if handle is not None else None
        if place is not None and place in state.library_streams:
            return state.library_streams[place]
        return self.default_stream(state)

    def _aside(self, expr: ir.Api, state: State) -> Value:
        """Calls that are no ops: devices, pointers, properties, and what is not modelled."""
        if expr.kind is ApiKind.SET_STREAM:
            if "current" in expr.flags:  # asks which stream is current (Python libraries)
                return Handle("stream", self.default_stream(state))
            self.roles(expr, state)
            written = expr.role("stream")
            if written is None:
                state.current_stream = None
            else:
                stream = self.stream_of(written, state)
                handle = expr.role("handle")
                place = self.locate(handle, state) if handle is not None else None
                if place is not None:
                    state.library_streams[place] = stream
                elif handle is None:
                    state.current_stream = stream
            return NULL
        values = self.roles(expr, state)
        match expr.kind:
            case ApiKind.SET_DEVICE:
                device = self._poly(values.get("device"))
                state.device = None if device is None else device.constant
            case ApiKind.DEVICE_POINTER:
                source = values.get("src", Unknown(self.fresh("pointer")))
                if "symbol" in expr.flags:
                    source = self._symbol_pointer(expr, state) or source
                elif isinstance(source, Pointer):
                    obj = self.objects[source.place.object]
                    if obj.memory == Memory.PINNED.value:  # C12: the device reaches it from here on
                        obj.memory = Memory.MAPPED.value
                        self.refresh_buffer(obj.id)
                return self.write_out(expr, source, state)
            case ApiKind.RESET:
                done, blockers = self.machine.all_work(state.order, state.device)
                op = self.emit_host(state, ApiKind.DEVICE_SYNC, expr.name, expr.span)
                self.block_host(state, op, done, blockers)
            case ApiKind.UNMODELLED:
                for role, value in expr.roles:
                    if role in ("stream", "out"):
                        self.evaluate(value, state)
                self.machine.may_have_waited(state.order)
                self.cut(expr.span, f"{expr.name} is not modelled")
                return self.write_out(expr, Unknown(self.fresh("value")), state)
            case _:
                for role, value in expr.roles:
                    if role == "stream":
                        self.evaluate(value, state)
                    elif role == "out":
                        self._write_unknown(value, state)
                if "returns" in expr.flags:
                    return Unknown(self.fresh("value"))
        return NULL

    def _symbol_pointer(self, expr: ir.Api, state: State) -> Value | None:
        named = expr.role("src")
        while isinstance(named, ir.Cast | ir.AddressOf):
            named = named.operand
        if isinstance(named, ir.Name):
            place = self.variable(named.name)
            if place is not None:
                return Pointer(place, True, ZERO, None)
        return None

    def _write_unknown(self, out: Expr, state: State) -> None:
        target = out.operand if isinstance(out, ir.AddressOf) else None
        place = self.locate(target, state) if target is not None else self.pointed(self.evaluate(out, state), state)
        if place is not None:
            state.clear_below(place)
            type = self.names.resolve(self.bound_type(self.type_of(place)))
            if type is not None and type.name in ("int", "size_t", "unsigned", "unsigned int") and not type.pointer:
                state.store(place, Num(symbol(self.fresh("n"))))

    def text_of(self, value: Value) -> str:
        return value.value if isinstance(value, Text) else key_of(value)


def _assumed(direction: str, dst: Memory, src: Memory) -> tuple[Memory, Memory]:
    """Host sides whose allocation was not seen may be pageable or pinned: C6 and C1 are the readings that promise
    least about overlap, so they stay unknown; device sides follow the direction."""
    if direction in ("h2d", "d2d") and dst is Memory.UNKNOWN:
        dst = Memory.DEVICE
    if direction in ("d2h", "d2d") and src is Memory.UNKNOWN:
        src = Memory.DEVICE
    return dst, src


def merge_accesses(accesses: list[Access]) -> list[Access]:
    """One access a (buffer, mode, parameter, range): repeated ones say nothing new."""
    seen: dict[tuple[int, Mode, str, Range], Access] = {}
    for access in accesses:
        key = (access.buffer, access.mode, access.via, access.range)
        known = seen.get(key)
        if known is None or known.certainty is Certainty.MAY:
            seen[key] = access
    return list(seen.values())


def _member_path(place: Place) -> tuple[str, ...]:
    """Where in its object a pointer's target begins, when that is not the object's start."""
    return tuple(step if isinstance(step, str) else f"[{step}]" for step in place.path)
