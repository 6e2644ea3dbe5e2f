"""A compact builder of Timelines: the rules are tested without frontend or executor.

Order is computed by the same `Machine` that the executor uses, on one straight path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stitchcuda.analysis.findings.finding import Finding, Rule, RuleInput
from stitchcuda.analysis.order.machine import Machine, OrderState
from stitchcuda.analysis.order.symbolic import number
from stitchcuda.analysis.order.timeline import (
    Access,
    Buffer,
    Certainty,
    Condition,
    Event,
    LoopInfo,
    Memory,
    Mode,
    Op,
    Range,
    Shape,
    Stream,
    StreamKind,
    Timeline,
)
from stitchcuda.analysis.program.ir import ApiKind, Program, Site


def site(line: int) -> Site:
    return Site("a.cu:main", "a.cu", (line * 10, line * 10 + 9))


def whole(size: int, offset: int = 0) -> Range:
    return Range(number(offset), number(size), None, Shape.WHOLE)


def read(buffer: Buffer, span: Range | None = None, *, may: bool = False) -> Access:
    return Access(buffer.id, Mode.READ, span or whole(400), Certainty.MAY if may else Certainty.MUST)


def write(buffer: Buffer, span: Range | None = None, *, may: bool = False) -> Access:
    return Access(buffer.id, Mode.WRITE, span or whole(400), Certainty.MAY if may else Certainty.MUST)


class Run:
    """Issue operations one after the other; every op stands on a line of its own."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.before: list[int] = []
        self.earlier: list[int] = []
        self.may_wait: list[int] = []
        self.buffers: list[Buffer] = []
        self.streams: list[Stream] = []
        self.events: list[Event] = []
        self.loops: list[LoopInfo] = []
        self.state = OrderState()
        self.machine = Machine(lambda s: self.streams[s], lambda o: self.before[o])
        self.conditions: tuple[Condition, ...] = ()
        self.default = self.stream("default", StreamKind.LEGACY, blocking=True)

    def stream(self, name: str, kind: StreamKind = StreamKind.CREATED, *, blocking: bool | None = False) -> Stream:
        made = Stream(len(self.streams), name, kind, blocking, site(900 + len(self.streams)))
        self.streams.append(made)
        return made

    def buffer(self, name: str, memory: Memory = Memory.DEVICE, **more: object) -> Buffer:
        made = Buffer(len(self.buffers), name, memory, site(800 + len(self.buffers)), "alloc", size=number(400))
        made = replace(made, **more)  # type: ignore[arg-type]
        self.buffers.append(made)
        return made

    def event(self, name: str = "e") -> Event:
        made = Event(len(self.events), name)
        self.events.append(made)
        return made

    def launch(self, kernel: str, stream: Stream, *accesses: Access, **more: object) -> Op:
        return self._enqueue(ApiKind.LAUNCH, "<<<>>>", stream, accesses, kernel=kernel, **more)

    def copy(self, kind: str, stream: Stream, *accesses: Access, **more: object) -> Op:
        return self._enqueue(ApiKind.COPY, "cudaMemcpyAsync", stream, accesses, copy_kind=kind, **more)

    def record(self, event: Event, stream: Stream) -> Op:
        op = self._op(ApiKind.EVENT_RECORD, "cudaEventRecord", stream=stream.id, event=event.id)
        return self._place(op, self.machine.record(self.state, op.id, stream.id, event.id, 0))

    def wait_event(self, event: Event, stream: Stream) -> Op:
        op = self._op(ApiKind.EVENT_WAIT, "cudaStreamWaitEvent", stream=stream.id, event=event.id)
        return self._place(op, self.machine.enqueue(self.state, op.id, stream.id, 0, event.id))

    def sync(self, stream: Stream | None = None) -> Op:
        if stream is None:
            done, tails = self.machine.all_work(self.state, 0)
            op = self._op(ApiKind.DEVICE_SYNC, "cudaDeviceSynchronize", waits=done.must)
        else:
            done, tails = self.machine.stream_work(self.state, stream.id)
            op = self._op(ApiKind.STREAM_SYNC, "cudaStreamSynchronize", waits=done.must)
        self._place(op, self.machine.host(self.state, op.id, 0))
        self.machine.host_waits_for(self.state, op.id, done, tails)
        return op

    def host(self, kind: ApiKind, *accesses: Access, api: str = "", **more: object) -> Op:
        op = self._op(kind, api or kind.value, accesses=accesses, **more)
        return self._place(op, self.machine.host(self.state, op.id, 0))

    def free_async(self, buffer: Buffer, stream: Stream) -> Op:
        return self._enqueue(ApiKind.FREE, "cudaFreeAsync", stream, (write(buffer),))

    def unknown_call(self) -> None:
        self.machine.may_have_waited(self.state)

    def timeline(self) -> Timeline:
        return Timeline(
            "a.cu:main",
            "static",
            tuple(self.ops),
            tuple(self.before),
            tuple(self.earlier),
            tuple(self.may_wait),
            (),
            tuple(self.buffers),
            tuple(self.streams),
            tuple(self.events),
            tuple(self.loops),
        )

    def findings(self, rule: Rule) -> list[Finding]:
        program = Program({}, {})
        return list(rule.check(RuleInput(self.timeline(), program, {})))

    def _op(self, kind: ApiKind, api: str, **more: object) -> Op:
        number_ = len(self.ops)
        op = Op(number_, number_, kind, api, site(number_ + 1), "a.cu:main", conditions=self.conditions)
        op = replace(op, **more)  # type: ignore[arg-type]
        self.ops.append(op)
        return op

    def _enqueue(self, kind: ApiKind, api: str, stream: Stream, accesses: Sequence[Access], **more: object) -> Op:
        op = self._op(kind, api, stream=stream.id, accesses=tuple(accesses), **more)
        return self._place(op, self.machine.enqueue(self.state, op.id, stream.id, 0))

    def _place(self, op: Op, placed: object) -> Op:
        self.before.append(placed.before.must)  # type: ignore[attr-defined]
        self.earlier.append(placed.earlier)  # type: ignore[attr-defined]
        self.may_wait.append(placed.before.may & ~placed.before.must)  # type: ignore[attr-defined]
        return op
