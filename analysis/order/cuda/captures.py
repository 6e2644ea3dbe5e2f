"""Captures of streams into CUDA graphs: what is recorded, and what CUDA does not accept meanwhile (G1-G4)."""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.order.arithmetic import NULL
from stitchcuda.analysis.order.cuda.transfers import Transfers
from stitchcuda.analysis.order.machine import Capture
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import number, symbol
from stitchcuda.analysis.order.timeline import Fault, FaultKind, Op, StreamKind
from stitchcuda.analysis.order.values import Handle, Num, Unknown, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import HOST_WAITS, ApiKind

RELAXED = 2  # cudaStreamCaptureModeRelaxed
EXTERNAL = 1  # cudaEventRecordExternal, cudaEventWaitExternal
NODES = frozenset(  # what becomes a node of the graph; records and waits only become its edges
    {
        ApiKind.LAUNCH,
        ApiKind.COPY,
        ApiKind.MEMSET,
        ApiKind.PREFETCH,
        ApiKind.LIBRARY_CALL,
        ApiKind.HOST_FUNC,
        ApiKind.GRAPH_LAUNCH,
        ApiKind.ALLOC,
        ApiKind.FREE,
    }
)
# G3: prohibited in the modes Global and ThreadLocal
UNSAFE = frozenset(
    {
        ApiKind.ALLOC,
        ApiKind.FREE,
        ApiKind.HOST_ALLOC,
        ApiKind.HOST_FREE,
        ApiKind.REGISTER,
        ApiKind.UNREGISTER,
        ApiKind.GRAPH_INSTANTIATE,
    }
)


class Captures(Transfers):
    """Layer of the executor: begin and end of a capture, and the watch over the calls in between."""

    def capture(self, expr: ir.Api, state: State) -> Value:
        values = self.roles(expr, state)
        stream = self.stream_role(expr, state)
        if expr.kind is ApiKind.CAPTURE_BEGIN:
            return self._begin(expr, values, stream, state)
        open_before = [c.copy() for c in state.order.captures]
        placed, ended = self.machine.end_capture(state.order, len(self.ops), stream)
        op = self.append_placed(state, placed, expr.kind, expr.name, expr.span, stream=stream)
        self._ended(op, stream, open_before, ended, state)
        if ended is None:
            return self.write_out(expr, Unknown(self.fresh("graph")), state)
        self.hold(state, ended.graph, tuple(ended.ops))
        self.revive(state, ("graph", ended.graph, 0))
        return self.write_out(expr, Handle("graph", ended.graph), state)

    def hold(self, state: State, graph: int, ops: tuple[int, ...]) -> None:
        """What a graph is made of from here on."""
        state.order.graphs[graph] = self.graphs[graph] = ops

    def held(self, state: State, graph: int) -> tuple[int, ...]:
        """What a graph is made of on these paths."""
        return state.order.graphs.get(graph, self.graphs[graph])

    def _begin(self, expr: ir.Api, values: dict[str, Value], stream: int, state: State) -> Value:
        given = values.get("graph")
        known = isinstance(given, Handle) and given.kind == "graph"
        graph = given.id if known and isinstance(given, Handle) else self.graph_for(self.identity("graph", expr.span))
        mode = self._poly(values.get("mode"))
        already = self.machine.captured(state.order, stream)
        placed = self.machine.begin_capture(
            state.order,
            len(self.ops),
            stream,
            graph,
            None if mode is None else mode.constant,
            self.held(state, graph) if known else (),
        )
        op = self.append_placed(state, placed, expr.kind, expr.name, expr.span, stream=stream)
        if self.streams[stream].kind is StreamKind.LEGACY:
            self.fault(FaultKind.BEGIN_ON_DEFAULT, self.ops[op], None, None)
            state.order.captures.pop()
        elif already is not None and not self._may_be_another(expr, stream, already):
            self.fault(FaultKind.BEGIN_TWICE, self.ops[op], already, stream, already.sure)
        return NULL

    def _may_be_another(self, expr: ir.Api, stream: int, already: Capture) -> bool:
        """A round of a loop that begins a capture of one element each of streams that come from outside, by an index: these
        go by one name."""
        outside = self.streams[stream].kind in (StreamKind.PARAMETER, StreamKind.UNKNOWN)
        written = expr.role("stream")
        if not outside or written is None or self.ops[already.begin].site != self.site(expr.span):
            return False
        return any(
            isinstance(node, ir.Call) or isinstance(node, ir.Index) and not isinstance(node.index, ir.Const)
            for node in ir.walk(written)
        )

    def _ended(self, op: int, stream: int, before: list[Capture], ended: Capture | None, state: State) -> None:
        made = self.ops[op]
        if ended is None:
            known = self.streams[stream].kind is StreamKind.CREATED
            if before and known and all(self.streams[c.origin].kind is StreamKind.CREATED for c in before):
                self.fault(FaultKind.END_ELSEWHERE, made, before[-1], stream, before[-1].sure and len(before) == 1)
            return
        if stream != ended.origin and stream in ended.streams:
            self.fault(FaultKind.END_ELSEWHERE, made, ended, stream, ended.sure)
            return
        for other, work in self._unjoined(ended):
            self.fault(FaultKind.UNJOINED, made, ended, other, ended.sure, work)

    def _unjoined(self, ended: Capture) -> Iterator[tuple[int, int]]:
        """Streams of the capture whose work nothing in the origin's stream follows, each with its last such work (G4).
        Members of a family stand for each other: what one of them is joined by joins all."""
        done = ended.streams.get(ended.origin)
        joined = 0 if done is None else done.may
        families: dict[object, list[int]] = {}
        for stream in ended.streams:
            known = self.streams[stream]
            symbolic = any(p.constant is None for p in known.instance)
            families.setdefault((known.site, known.calls) if symbolic else stream, []).append(stream)
        for members in families.values():
            if ended.origin in members:
                continue
            open_ends = [(s, work) for s in members if (work := self._open_end(ended, s, joined)) is not None]
            if len(open_ends) == len(members):
                yield open_ends[0]

    def _open_end(self, ended: Capture, stream: int, joined: int) -> int | None:
        """The last op of a stream in the capture that is not ordered before its end."""
        last = None
        for op in ended.ops:
            made = self.ops[op]
            if made.stream == stream and not joined >> op & 1 and made.kind in NODES:
                last = op
        return last

    # ------------------------------------------------------------------------------------------------------- the watch

    def watch(self, state: State, op: Op) -> None:
        """Called with every op that is written down while a capture is in progress, and with every use of an event."""
        if op.event is not None:
            self._watch_event(state, op)
        for capture in state.order.captures:
            if op.kind in HOST_WAITS or op.kind is ApiKind.QUERY:
                self._watch_wait(state, op, capture)
            elif op.stream is not None and op.kind not in (ApiKind.CAPTURE_BEGIN, ApiKind.CAPTURE_END):
                self._watch_default_stream(op, capture)
            legacy = op.stream is not None and self.streams[op.stream].kind is StreamKind.LEGACY
            if op.kind in UNSAFE and op.graph is None and not legacy:
                self._watch_unsafe(state, op, capture)
            if op.graph == capture.graph:
                self._watch_node(op, capture)
                if op.kind is ApiKind.COPY and not op.asynchronous and not legacy:  # with a wait for its stream
                    self.fault(FaultKind.WAIT, op, capture, op.stream, capture.sure)

    def _watch_wait(self, state: State, op: Op, capture: Capture) -> None:
        if op.kind is ApiKind.DEVICE_SYNC:
            if op.device == self.streams[capture.origin].device:
                self.fault(FaultKind.WAIT, op, capture, capture.origin, capture.sure)
        elif op.event is None and op.stream is not None:
            if self.machine.captured(state.order, op.stream) is capture:
                self.fault(FaultKind.WAIT, op, capture, op.stream, capture.sure and self._exactly(op.stream, capture))
            elif self.streams[op.stream].kind is StreamKind.LEGACY and self._blocking(capture) is not False:
                self.fault(FaultKind.DEFAULT_STREAM, op, capture, capture.origin, self._surely_blocking(capture))
            else:
                self._watch_unsafe(state, op, capture)
        elif op.event is not None and self.machine.snapshot(state.order, op.event).capture != capture.graph:
            self._watch_unsafe(state, op, capture)

    def _exactly(self, stream: int, capture: Capture) -> bool:
        return stream == capture.origin or (stream in capture.streams and stream not in capture.partial)

    def _watch_event(self, state: State, op: Op) -> None:
        assert op.event is not None
        snapshot = self.machine.snapshot(state.order, op.event)
        if snapshot.mixed or not snapshot.records or op.kind is ApiKind.EVENT_RECORD:
            return
        opened = {c.graph: c for c in state.order.captures}
        known = op.event in state.order.events
        recorded_in = opened.get(snapshot.capture) if snapshot.capture is not None else None
        if op.kind is ApiKind.EVENT_SYNC or op.kind is ApiKind.QUERY:
            if recorded_in is not None:
                self.fault(FaultKind.WAIT, op, recorded_in, recorded_in.origin, recorded_in.sure and known)
            elif snapshot.capture is not None:
                self.fault(FaultKind.CAPTURED_EVENT, op, None, None, known, snapshot.records[-1])
            return
        if op.kind is not ApiKind.EVENT_WAIT or op.stream is None or self.external:
            return
        inside = next((c for c in state.order.captures if c.graph == op.graph), None) if op.graph is not None else None
        if inside is not None and self.streams[op.stream].kind is StreamKind.LEGACY:
            self.fault(FaultKind.DEFAULT_STREAM, op, inside, inside.origin, inside.sure and known)
        elif inside is None:
            if snapshot.capture is not None:
                self.fault(FaultKind.CAPTURED_EVENT, op, None, None, known, snapshot.records[-1])
        elif snapshot.capture is None:
            self.fault(FaultKind.OUTSIDE_EVENT, op, inside, op.stream, inside.sure and known, snapshot.records[-1])
        elif snapshot.capture != inside.graph:
            self.fault(FaultKind.MERGED, op, inside, op.stream, inside.sure and known, snapshot.records[-1])

    def _watch_default_stream(self, op: Op, capture: Capture) -> None:
        """G2: the legacy stream would have to wait for a stream that only records; G1 when that stream does not block."""
        assert op.stream is not None
        if self.streams[op.stream].kind is not StreamKind.LEGACY or op.graph is not None:
            return
        if op.kind in (ApiKind.STREAM_CREATE, ApiKind.STREAM_DESTROY, ApiKind.GRAPH_INSTANTIATE):
            return
        if self._blocking(capture) is True:
            self.fault(FaultKind.DEFAULT_STREAM, op, capture, capture.origin, self._surely_blocking(capture))
        elif op.kind in NODES:
            self.fault(FaultKind.BESIDE, op, capture, capture.origin, capture.sure)

    def _watch_node(self, op: Op, capture: Capture) -> None:
        """A callback with a status and the launch of another graph cannot be recorded; a graph can free what it
        allocated, nothing else."""
        refused = "AddCallback" in op.api or "AttachMem" in op.api
        if op.kind is ApiKind.GRAPH_LAUNCH or refused:
            self.fault(FaultKind.NOT_CAPTURABLE, op, capture, op.stream, capture.sure)
        for access in op.accesses if op.kind is ApiKind.FREE else ():
            made = self.buffers[access.buffer].alloc_op
            if made is not None and self.ops[made].graph is None:
                self.fault(FaultKind.OUTSIDE_MEMORY, op, capture, capture.origin, capture.sure, made)

    def _watch_unsafe(self, state: State, op: Op, capture: Capture) -> None:
        """G3: prohibited in the modes Global and ThreadLocal, unless the thread has made itself an exception."""
        if capture.mode not in (RELAXED, None) and state.capture_mode not in (RELAXED, None):
            self.fault(FaultKind.UNSAFE_CALL, op, capture, capture.origin, capture.sure)

    def _blocking(self, capture: Capture) -> bool | None:
        answers = {self.streams[s].blocking for s in (capture.origin, *capture.streams)}
        return True if True in answers else None if None in answers else False

    def _surely_blocking(self, capture: Capture) -> bool:
        partial = [s for s in capture.streams if s in capture.partial]
        sure = [s for s in (capture.origin, *capture.streams) if s not in partial]
        return capture.sure and any(self.streams[s].blocking for s in sure)

    def fault(
        self,
        kind: FaultKind,
        op: Op,
        capture: Capture | None,
        stream: int | None,
        certain: bool = True,
        other: int | None = None,
    ) -> None:
        """Writes down that CUDA does not accept an op."""
        sure = certain and op.thread == 0
        begin = None if capture is None else capture.begin
        self.faults.append(
            Fault(kind, op.site, op.api or op.kernel, op.calls, op.conditions, op.id, begin, stream, other, sure)
        )

    def watch_library(self, name: str, expr: ir.Call, state: State) -> None:
        """thrust algorithms allocate, and wait for their stream: neither can be captured (O9)."""
        if not state.order.captures or not name.startswith("thrust::") or not expr.args:
            return
        words = {n.name.rsplit("::", 1)[-1] for n in ir.walk(expr.args[0]) if isinstance(n, ir.Name | ir.Member)}
        capture = state.order.captures[-1]
        if words & {"par", "device"}:
            fault = Fault(
                FaultKind.NOT_CAPTURABLE,
                self.site(expr.span),
                name,
                self.frame.calls,
                state.conditions,
                begin=capture.begin,
                stream=capture.origin,
                certain=capture.sure and self.thread == 0,
            )
            self.faults.append(fault)

    # ------------------------------------------------------------------------------------------------------- questions

    def capture_status(self, expr: ir.Api, state: State) -> Value:
        """`cudaStreamIsCapturing` and its like: active while the stream is captured on all of the paths, none when it
        is on none of them."""
        self.roles(expr, state)
        stream = self.stream_role(expr, state)
        capture = self.machine.captured(state.order, stream)
        outs = [value for role, value in expr.roles if role == "out"]
        for out in outs[1:]:
            self._write_unknown(out, state)
        status: Value = Num(symbol(self.fresh("capturing")))
        if capture is not None and capture.sure and self._exactly(stream, capture):
            status = Num(number(1))
        elif capture is None and self.streams[stream].kind in (StreamKind.CREATED, StreamKind.LEGACY):
            status = NULL
        place = self.out_place(expr, state)
        if place is not None:
            self.store_value(state, place, status)
        return NULL

    def exchange_mode(self, expr: ir.Api, state: State) -> Value:
        """`cudaThreadExchangeStreamCaptureMode`: the thread's mode and the variable's change places."""
        place = self.out_place(expr, state)
        if place is None:
            state.capture_mode = None
            return NULL
        given = self._poly(self.load(state, place))
        held = state.capture_mode
        state.capture_mode = None if given is None else given.constant
        self.store_value(state, place, Unknown(self.fresh("mode")) if held is None else Num(number(held)))
        return NULL

    def _write_unknown(self, out: ir.Expr, state: State) -> None:
        raise NotImplementedError
