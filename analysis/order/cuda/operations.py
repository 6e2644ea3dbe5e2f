"""What API calls and launches do: ops on the Timeline, order by the rows of docs/ordering.md, new handles and memory."""

from __future__ import annotations

from stitchcuda.analysis.order.arithmetic import NULL, key_of
from stitchcuda.analysis.order.cuda.captures import EXTERNAL
from stitchcuda.analysis.order.cuda.descriptors import Descriptors
from stitchcuda.analysis.order.cuda.launches import merge_accesses, range_behind
from stitchcuda.analysis.order.cuda.queries import done_if, says_done, understood_queries
from stitchcuda.analysis.order.machine import Answer, Done
from stitchcuda.analysis.order.state import Key, State
from stitchcuda.analysis.order.symbolic import ZERO, symbol
from stitchcuda.analysis.order.timeline import Access, Certainty, Mode, Range, StreamKind
from stitchcuda.analysis.order.values import (
    Either,
    Handle,
    Identity,
    Num,
    Pointer,
    Unknown,
    Value,
)
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import ApiKind, Expr

STREAM_NON_BLOCKING = 1
EVENT_DISABLE_TIMING = 2


class Operations(Descriptors):
    """Layer of the executor: API calls, by their kind."""

    def api(self, expr: ir.Api, state: State) -> Value:
        """Dispatch by kind. The value is the status (success) unless the API returns an object (flag "returns")."""
        if self.inside is not None:
            return self.call_inside(expr.name, expr.kind, expr.span, state, "library" not in expr.flags)
        self.observe(state, expr.name, expr.span)
        if "graph-node" in expr.flags or expr.kind is ApiKind.GRAPH_UPDATE:
            made = self.graph_call(expr, state)
            if made is not None:
                return made
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
            case ApiKind.CAPTURE_BEGIN | ApiKind.CAPTURE_END:
                return self.capture(expr, state)
            case ApiKind.GRAPH_INSTANTIATE | ApiKind.GRAPH_LAUNCH:
                return self._graph(expr, state)
            case ApiKind.LIBRARY_CALL | ApiKind.HOST_FUNC | ApiKind.GRAPH_UPDATE | ApiKind.QUERY:
                return self._other_op(expr, state)
        return self._aside(expr, state)

    def event_value(self, value: Value, expr: Expr) -> int:
        if isinstance(value, Handle) and value.kind == "event":
            return value.id
        name = expr.name if isinstance(expr, ir.Name | ir.Member) else "?"
        return self.event_for(Identity("unknown-event", "", "", 0, 0, (), (), key_of(value)), name, None)

    def _create(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        flags = values.get("flags", NULL)
        known = flags.value.constant if isinstance(flags, Num) else None
        out = self.out_place(expr, state)
        name = self.out_name(expr, out)
        if expr.kind is ApiKind.STREAM_CREATE:
            blocking = None if known is None else not known & STREAM_NON_BLOCKING  # O5
            text = "" if known is None or "flags" not in values else ("cudaStreamNonBlocking" if not blocking else "")
            identity = self.identity("stream", expr.span)
            made = Handle("stream", self.stream_for(identity, name, StreamKind.CREATED, blocking, text, state.device))
            self.revive(state, ("stream", made.id, 0))
            self.emit_host(state, expr.kind, expr.name, expr.span, stream=made.id)
        else:
            timing = None if known is None else not known & EVENT_DISABLE_TIMING
            made = Handle("event", self.event_for(self.identity("event", expr.span), name, timing, state.device))
            self.revive(state, ("event", made.id, 0))
            self.emit_host(state, expr.kind, expr.name, expr.span, event=made.id)
        return self.store_out(expr, out, made, state)

    def _destroy(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)  # W6: not a wait
        if expr.kind is ApiKind.STREAM_DESTROY:
            if expr.role("stream") is not None or "ptr" in values:
                target = expr.role("stream") or expr.role("ptr")
                assert target is not None
                stream = self.stream_of(target, state)
                op = self.emit_host(state, expr.kind, expr.name, expr.span, stream=stream)
                made = self._stream_identity.get(stream)
                if self.certain_stream(stream) and made is not None and self.told_apart(target, made):
                    self.release(state, ("stream", stream, 0), expr.span, expr.name, op)
        else:
            target = expr.role("event") or expr.role("ptr")
            if target is not None:
                event = self.event_value(values.get("event", values.get("ptr", NULL)), target)
                op = self.emit_host(state, expr.kind, expr.name, expr.span, event=event)
                made = self._event_identity.get(event)
                if self.certain_event(event) and made is not None and self.told_apart(target, made):
                    self.release(state, ("event", event, 0), expr.span, expr.name, op)
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
            self.external = self._is_external(values)
            self.emit_device(state, expr.kind, expr.name, expr.span, stream, waits_for=event)
            self.external = False
        return NULL

    def _is_external(self, values: dict[str, Value]) -> bool:
        flags = self._poly(values.get("flags"))
        return flags is not None and bool(flags.constant) and bool((flags.constant or 0) & EXTERNAL)

    def learn_from_query(self, expr: ir.Api, state: State) -> None:
        """W4: on these paths the query said that the work is done."""
        op = self.queries.get(self.site(expr.span))
        if op is not None and (found := self._asked_for(op, state)) is not None:
            self.block_host(state, op, *found)

    def learn_from_answers(self, test: Value, outcome: bool, state: State, anew: range = range(0)) -> None:
        """W4 for answers that were kept, returned or handed on before they are tested. The queries among the ops `anew` are asked once more
        now."""
        for answer in done_if(test, outcome, self.answers) if self.answers else ():
            found = self._asked_for(answer.op, state) if answer.op in anew else None
            self.block_host(state, answer.op, *(found or (answer.done, answer.blockers)))

    def _asked_for(self, query: int, state: State) -> tuple[Done, tuple[int, ...]] | None:
        """The work that a query asks about, as it is now."""
        made = self.ops[query]
        if made.event is not None:
            return self.machine.event_work(state.order, made.event)
        if made.stream is not None:
            return self.machine.stream_work(state.order, made.stream)
        return None

    def _is_understood(self, query: ir.Api) -> bool:
        """W4: what follows from the answer is learned where it is tested."""
        function = self.frame.function
        known = self.told_by_query.get(function.uid)
        if known is None:
            known = self.told_by_query[function.uid] = understood_queries(function)
        return query.span in known

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
        if self.site(expr.span) in self.options.not_waiting:
            return NULL
        self.block_host(state, op, done, blockers)
        for frame in self.loop_stack:  # a wait for member i of a family, in a loop over i: see `Loops`
            if stream is not None and frame.index in self.streams[stream].instance:
                frame.waits.append((op, "stream", stream, state.conditions))
            elif event is not None and frame.index in self.events[event].instance:
                frame.waits.append((op, "event", event, state.conditions))
        return NULL

    def _graph(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        if expr.kind is ApiKind.GRAPH_INSTANTIATE:
            graph_value = values.get("graph", Unknown(self.fresh("graph")))
            self.emit_host(state, expr.kind, expr.name, expr.span)
            exec_value: Value = Unknown(self.fresh("exec"))
            if isinstance(graph_value, Handle) and graph_value.kind == "graph":
                self.note_stale(state, ("graph", graph_value.id, 0), "the graph", expr.span, expr.name, again=False)
                exec_value = Handle("exec", graph_value.id, self.number_of(self.identity("exec", expr.span)))
                self.revive(state, ("exec", graph_value.id, exec_value.made))
            return self.write_out(expr, exec_value, state)
        executable = values.get("exec", Unknown(self.fresh("exec")))
        stream = self.stream_role(expr, state)
        accesses: list[Access] = []
        certain = isinstance(executable, Handle) and executable.kind == "exec"
        previous: tuple[int, ...] = ()  # launches of the same executable do not overlap
        key: Key = ("exec", -1, 0)
        if isinstance(executable, Handle) and executable.kind == "exec":  # G5: one op with all that the graph does
            key = ("exec", executable.id, executable.made)
            self.note_stale(state, key, self.written_name(expr.role("exec")), expr.span, expr.name, again=False)
            accesses += self.accesses_of_launch(executable, state)
            previous = state.order.launches.get(key, ())
        op = self.emit_device(
            state,
            expr.kind,
            expr.name,
            expr.span,
            stream,
            accesses=tuple(merge_accesses(accesses)),
            certain=certain,
            after=previous,
        )
        if certain and self.ops[op].graph is None:
            state.order.launches[key] = (op,)
        return NULL

    def _other_op(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        if expr.kind is ApiKind.GRAPH_UPDATE:
            self.updated(values)
            self.emit_host(state, expr.kind, expr.name, expr.span)
            return NULL
        if expr.kind is ApiKind.QUERY:
            stream = self.stream_role(expr, state) if expr.role("stream") is not None else None
            written = expr.role("event")
            event = self.event_value(values.get("event", NULL), written) if written is not None else None
            if not self._is_understood(expr):
                self.machine.may_have_waited(state.order)
            op = self.emit_host(state, expr.kind, expr.name, expr.span, stream=stream, event=event)
            self.queries[self.site(expr.span)] = op
            answer = symbol(self.fresh("query"))
            if (found := self._asked_for(op, state)) is not None:
                self.answers[str(answer)] = Answer(op, *found, says_done(expr))
            return Num(answer)
        stream = self._library_stream(expr, state)
        accesses: list[Access] = []
        result: Value = NULL
        known = expr.kind is ApiKind.LIBRARY_CALL
        if expr.kind is ApiKind.HOST_FUNC:  # W5
            callback = values.get("callback", NULL)
            payload_value = values.get("user_data", NULL)
            given = [payload_value]
            if len(expr.roles) > 3:  # cudaStreamAddCallback also tells the stream and the status
                given = [Unknown(self.fresh("stream")), NULL, payload_value]
            touched, known = self.look_into(callback, given, expr.span, state)
            accesses += touched
        if expr.kind is ApiKind.LIBRARY_CALL:
            for role, value in values.items():
                if role in ("handle", "user_data", "callback"):
                    continue
                for pointer in self.pointers_in(value, state):
                    if not self.may_be_on_device(pointer):
                        continue  # scalars and descriptors on the host
                    buffer = self.buffer_of(pointer.place.object)
                    modes = (
                        (Mode.WRITE,)
                        if role == "dst"
                        else (Mode.READ,)
                        if role.startswith("src")
                        else (Mode.READ, Mode.WRITE)
                    )
                    one_of = isinstance(value, Either)
                    named = role == "dst" or role.startswith(("src", "inout"))
                    certainty = Certainty.MUST if named and not one_of else Certainty.MAY
                    where = range_behind(pointer)
                    accesses += [Access(buffer, m, where, certainty, role, one_of=one_of) for m in modes]
            accesses += self.accesses_of_descriptors(expr, values)
            if "returns" in expr.flags:
                result = self._returned_array(expr, values, state)
                assert isinstance(result, Pointer)
                accesses.append(
                    Access(self.buffer_of(result.place.object), Mode.WRITE, Range(ZERO), Certainty.MUST, "dst")
                )
        payload: tuple[int, ...] = ()
        if expr.kind is ApiKind.HOST_FUNC and "user_data" in values:  # H1: it must outlive the call
            behind = (p.place.object for p in self.pointers_in(values["user_data"], state))
            payload = tuple(dict.fromkeys(self.buffer_of(o) for o in behind))
        self.emit_device(
            state, expr.kind, expr.name, expr.span, stream, accesses=tuple(merge_accesses(accesses)),
            certain=known, payload=payload,
        )  # fmt: skip
        if "awaits" in expr.flags:  # X1: for what is done elsewhere, which may be what is known here
            state.order.streams[stream] = Done(state.order.streams.get(stream, Done()).must, state.order.earlier)
        if "may-sync" in expr.flags:
            self.machine.may_have_waited(state.order)
        return result

    def _library_stream(self, expr: ir.Api, state: State) -> int:
        """O9: the stream given, else the one that the library handle was bound to."""
        if expr.role("stream") is not None:
            return self.stream_role(expr, state)
        handle = expr.role("handle")
        if handle is None:
            return self.default_stream(state)
        key = self._library_key(handle, state)
        if key in state.library_streams:
            return state.library_streams[key]
        return self.stream_value(Unknown(f"stream of {key}"), handle, state)  # made, or bound, out of sight

    def _library_key(self, handle: Expr, state: State) -> str:
        """What tells a library's handle apart: its value, which goes along when it is passed on."""
        return key_of(self.evaluate(handle, state))

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
                if handle is not None:
                    state.library_streams[self._library_key(handle, state)] = stream
                else:
                    state.current_stream = stream
            return NULL
        if "stream-memory" in expr.flags:
            return self.stream_memory(expr, state)
        if "capture-status" in expr.flags:
            return self.capture_status(expr, state)
        if "capture-mode" in expr.flags:
            return self.exchange_mode(expr, state)
        values = self.roles(expr, state)
        match expr.kind:
            case ApiKind.SET_DEVICE:
                device = self._poly(values.get("device"))
                state.device = None if device is None else device.constant
            case ApiKind.DEVICE_POINTER:
                if "may-sync" in expr.flags:
                    self.machine.may_have_waited(state.order)
                return self.write_out(expr, self.handed_out(expr, values, state), state)
            case ApiKind.ELAPSED_TIME:
                self._elapsed_time(expr, values, state)
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
            case _ if "fetched" in expr.flags:
                texture = Unknown(self.fresh("texture"))
                self.made_of(values.get("params"), texture, state)
                return self.write_out(expr, texture, state)
            case _:
                made = None
                for role, value in expr.roles:
                    if role == "stream":
                        self.evaluate(value, state)
                    elif role == "out":
                        self._write_unknown(value, state)
                        if "library" in expr.flags and expr.role("handle") is None:
                            made = self._make_library_handle(value, state)
                if "library" in expr.flags:
                    self.describe(expr, values, made, state)
                if "destroys" in expr.flags:
                    self._destroy_graph(expr, values, state)
                if "returns" in expr.flags:
                    return Unknown(self.fresh("value"))
        return NULL

    def _make_library_handle(self, out: Expr, state: State) -> Value | None:
        """O9: a new handle (or plan) enqueues on the default stream until it is bound to another."""
        target = out.operand if isinstance(out, ir.AddressOf) else None
        place = self.locate(target, state) if target is not None else self.pointed(self.evaluate(out, state), state)
        if place is not None:
            handle = Unknown(self.fresh("handle"))
            state.store(place, handle)
            state.library_streams[key_of(handle)] = self.default_stream(state)
            return handle
        return None

    def _elapsed_time(self, expr: ir.Api, values: dict[str, Value], state: State) -> None:
        """E4: the time between two events; the answer is a number that nothing else gives."""
        start, end = (
            self.event_value(values.get(role, NULL), expr.role(role) or ir.Const((0, 0), None))
            for role in ("event", "end_event")
        )
        for event in (start, end):
            self.note_stale(state, ("event", event, 0), self.events[event].name, expr.span, expr.name, again=False)
        self.time_between_events(state, (start, end), expr.span, expr.name)
        out = expr.role("out")
        if out is not None:
            self._write_unknown(out, state)

    def _destroy_graph(self, expr: ir.Api, values: dict[str, Value], state: State) -> None:
        role = "exec" if expr.role("exec") is not None else "graph"
        value = values.get(role)
        if isinstance(value, Handle) and value.kind == role:
            key = (role, value.id, value.made)
            self.note_stale(state, key, self.written_name(expr.role(role)), expr.span, expr.name, again=True)
            self.release(state, key, expr.span, expr.name)

    @staticmethod
    def written_name(expr: Expr | None) -> str:
        """The name of what an argument is, when it has one."""
        return expr.name if isinstance(expr, ir.Name | ir.Member) else ""

    def _write_unknown(self, out: Expr, state: State) -> None:
        target = out.operand if isinstance(out, ir.AddressOf) else None
        place = self.locate(target, state) if target is not None else self.pointed(self.evaluate(out, state), state)
        if place is not None:
            state.clear_below(place)
            type = self.names.resolve(self.bound_type(self.type_of(place)))
            if type is not None and type.name in ("int", "size_t", "unsigned", "unsigned int") and not type.pointer:
                state.store(place, Num(symbol(self.fresh("n"))))
