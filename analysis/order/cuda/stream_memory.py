"""Stream memory operations: a stream writes a value to memory, another waits for it to stand there (X1)."""

from __future__ import annotations

from stitchcuda.analysis.order.arithmetic import NULL, key_of
from stitchcuda.analysis.order.cuda.graphs import Graphs
from stitchcuda.analysis.order.machine import Done
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.values import Identity, Pointer, Unknown, Value
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.ir import ApiKind


class StreamMemory(Graphs):
    """Layer of the executor: `cuStreamWriteValue` and `cuStreamWaitValue`."""

    def stream_memory(self, expr: ir.Api, state: State) -> Value:
        """A write orders like the record of an event that belongs to the address, a wait like the wait for it. A wait that
        is enqueued before any write waits for one that comes later: that order is not followed."""
        values = self.roles(expr, state)
        stream = self.stream_role(expr, state)
        flag = self._flag(values.get("ptr", NULL), expr)
        if "Write" in expr.name:
            self.emit_device(state, ApiKind.NEUTRAL, expr.name, expr.span, stream, records=flag)
            return NULL
        if not self.machine.snapshot(state.order, flag).records or not isinstance(values.get("ptr"), Pointer):
            held = state.order.streams.get(stream, Done())
            state.order.streams[stream] = Done(held.must, held.may | state.order.earlier)
        self.emit_device(state, ApiKind.NEUTRAL, expr.name, expr.span, stream, waits_for=flag)
        return NULL

    def _flag(self, address: Value, expr: ir.Api) -> int:
        """The event that stands for an address."""
        written = expr.role("ptr")
        name = written.name if isinstance(written, ir.Name | ir.Member) else "the flag"
        if isinstance(address, Pointer):
            obj = self.objects[address.place.object].identity
            where = f"{address.place.path}{address.index}"
            identity = Identity("flag", obj.path, obj.function, obj.start, obj.end, obj.calls, obj.instance, where)
            return self.event_for(identity, name, False)
        unknown = Unknown(self.fresh("flag")) if isinstance(address, Unknown) and not address.key else address
        return self.event_for(Identity("unknown-event", "", "", 0, 0, (), (), key_of(unknown)), name, None)
