"""The Timeline of a traced run: what its calls order, by the same rules as a program's source (analysis/order/machine.py).

Which memory an operation touches comes from the addresses in the trace and the allocations that were alive. How much of it,
and whether a kernel reads or writes, the trace does not say: without `effects`, a kernel may do both anywhere behind its
pointers. Host threads know of each other's waits only through streams and events. A graph's work is told by its launches when
the run captured one graph only. All work is taken to be on one device.
"""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from stitchcuda.analysis.order.machine import Done, Machine, OrderState, Placed, uncertain
from stitchcuda.analysis.order.symbolic import number
from stitchcuda.analysis.order.timeline import (
    Access,
    Buffer,
    Certainty,
    Cut,
    Edge,
    Event,
    Memory,
    Mode,
    Op,
    Range,
    Shape,
    Stream,
    StreamKind,
    Timeline,
)
from stitchcuda.analysis.program.effects import kernel_effects
from stitchcuda.analysis.program.ir import ApiKind, Program, Site
from stitchcuda.gpu_validate.trace.model import Call, Trace

MAX_OPS = 4000  # the sets of ordered ops grow with the square of it
TOO_LONG = f"only the first {MAX_OPS} operations are looked at"  # what a cut says of a longer trace

Effects = Callable[[str], Sequence[tuple[frozenset[Mode], Certainty]] | None]
"""For a kernel, how it uses each of its pointer parameters and whether it always does; None when that is not known."""

_KINDS: tuple[tuple[str, ApiKind], ...] = (
    (r"LaunchHostFunc|StreamAddCallback", ApiKind.HOST_FUNC),
    (r"GraphLaunch", ApiKind.GRAPH_LAUNCH),
    (r"Launch", ApiKind.LAUNCH),
    (r"Memcpy", ApiKind.COPY),
    (r"Memset", ApiKind.MEMSET),
    (r"MemPrefetch", ApiKind.PREFETCH),
    (r"MallocHost|HostAlloc|MemAllocHost|MemHostAlloc", ApiKind.HOST_ALLOC),
    (r"HostRegister|MemHostRegister", ApiKind.REGISTER),
    (r"HostUnregister|MemHostUnregister", ApiKind.UNREGISTER),
    (r"Malloc|MemAlloc", ApiKind.ALLOC),
    (r"FreeHost|MemFreeHost", ApiKind.HOST_FREE),
    (r"Free|MemFree", ApiKind.FREE),
    (r"EventRecord", ApiKind.EVENT_RECORD),
    (r"StreamWaitEvent", ApiKind.EVENT_WAIT),
    (r"EventSynchronize|EventQuery", ApiKind.EVENT_SYNC),  # W4: a query that said "done" is a wait
    (r"StreamSynchronize|StreamQuery", ApiKind.STREAM_SYNC),
    (r"(Device|Ctx|Thread)Synchronize", ApiKind.DEVICE_SYNC),
    (r"StreamBeginCapture", ApiKind.CAPTURE_BEGIN),
    (r"StreamEndCapture", ApiKind.CAPTURE_END),
)
_UNMODELLED = re.compile(r"StreamWaitValue|StreamWriteValue|StreamBatchMemOp|GraphExec(?!Destroy)|DeviceReset")
_ALLOCATES = (ApiKind.ALLOC, ApiKind.HOST_ALLOC, ApiKind.REGISTER)
_RELEASES = (ApiKind.FREE, ApiKind.HOST_FREE, ApiKind.UNREGISTER)
_BOTH = frozenset({Mode.READ, Mode.WRITE})


@dataclass(frozen=True)
class TracedTimeline:
    """`calls[k]` is the call behind op k. Sites in the timeline carry the line, 1-based, as their span."""

    timeline: Timeline
    calls: tuple[Call, ...]


def timeline_of(trace: Trace, effects: Effects | None = None) -> TracedTimeline:
    """The timeline of the calls that succeeded, up to `MAX_OPS` of them (then it has a cut)."""
    return _Builder(trace, effects or (lambda kernel: None)).build()


def effects_of(program: Program) -> Effects:
    """What the kernels of a program's source do with their pointers; nothing is known of names that kernels share."""

    def effects(kernel: str) -> Sequence[tuple[frozenset[Mode], Certainty]] | None:
        uids = program.by_name.get(re.sub(r"<.*", "", kernel).rsplit("::", 1)[-1], ())
        function = program.functions[uids[0]] if len(uids) == 1 else None
        if function is None or function.body is None:
            return None
        known = kernel_effects(program, function.uid)
        if known.calls_unknown or any(e.member for e in known.params):
            return None  # code that is not here, or pointers inside of records, whose words are in the trace as well
        uses = []
        for param in function.params:
            if param.type.pointer:
                modes = frozenset(mode for e in known.of(param.name) for mode in e.modes)
                certain = all(e.certainty is Certainty.MUST for e in known.of(param.name))
                uses.append((modes, Certainty.MUST if certain else Certainty.MAY))
        return uses

    return effects


def kind_of(api: str) -> ApiKind | None:
    """What an API is to the timeline; None when it is no op there."""
    rest = re.sub(r"^(cuda|cu)", "", api)
    return next((kind for pattern, kind in _KINDS if re.match(pattern, rest)), None)


class _Builder:
    def __init__(self, trace: Trace, effects: Effects) -> None:
        self._trace, self._effects = trace, effects
        self._streams = _streams(trace)
        self._machine = Machine(lambda number: self._streams[number], lambda op: self._before[op])
        self._state = OrderState()
        self._hosts: dict[int, tuple[Done, tuple[int, ...]]] = {}  # by thread
        self._thread = 0
        self._ops: list[Op] = []
        self._calls: list[Call] = []
        self._before: list[int] = []
        self._earlier: list[int] = []
        self._may: list[int] = []
        self._edges: list[Edge] = []
        self._memory = _AddressSpace()
        self._graphs: list[tuple[int, ...]] = []  # ops of each capture
        self._cuts: list[Cut] = []
        self._built_graphs = any(re.search(r"GraphAdd|GraphClone", call.api) for call in trace.calls)

    def build(self) -> TracedTimeline:
        for call in self._trace.calls:
            kind = kind_of(call.api)
            if call.status != 0:
                continue
            if _UNMODELLED.search(call.api):
                self._cuts.append(Cut(_site(call), f"{call.api} is not modelled"))
            if kind is None:
                continue
            if len(self._ops) >= MAX_OPS:
                self._cuts.append(Cut(_site(call), TOO_LONG))
                break
            self._switch_to(call.thread)
            self._add(call, kind)
        if self._trace.dropped:
            self._cuts.append(Cut(Site("", "", (0, 0)), f"{self._trace.dropped} records of the trace were lost"))
        timeline = Timeline(
            "",
            "traced",
            tuple(self._ops),
            tuple(self._before),
            tuple(self._earlier),
            tuple(self._may),
            tuple(self._edges),
            tuple(self._memory.buffers),
            tuple(self._streams),
            tuple(Event(n, f"event {n}", None) for n in range(1 + max((c.event for c in self._calls), default=0))),
            (),
            tuple(self._cuts),
        )
        return TracedTimeline(timeline, tuple(self._calls))

    def _switch_to(self, thread: int) -> None:
        """What one host thread has waited for, another does not know."""
        if thread != self._thread:
            self._hosts[self._thread] = self._state.host, self._state.host_tail
            self._state.host, self._state.host_tail = self._hosts.get(thread, (Done(), ()))
            self._thread = thread

    def _add(self, call: Call, kind: ApiKind) -> None:
        op, state, machine = len(self._ops), self._state, self._machine
        if kind in (ApiKind.STREAM_SYNC, ApiKind.DEVICE_SYNC, ApiKind.EVENT_SYNC):
            self._wait(op, call, kind)
        elif kind is ApiKind.EVENT_RECORD:
            self._append(
                machine.record(state, op, call.stream, call.event, 0), call, kind, call.stream, event=call.event
            )
        elif kind is ApiKind.EVENT_WAIT:
            placed = machine.enqueue(state, op, call.stream, 0, call.event)
            self._append(placed, call, kind, call.stream, event=call.event)
        elif kind is ApiKind.CAPTURE_BEGIN:
            self._append(machine.begin_capture(state, op, call.stream, len(self._graphs)), call, kind, call.stream)
        elif kind is ApiKind.CAPTURE_END:
            placed, capture = machine.end_capture(state, op, call.stream)
            self._graphs.append(tuple(capture.ops) if capture else ())
            self._append(placed, call, kind, call.stream)
        elif kind in _ALLOCATES or kind in _RELEASES:
            self._allocation(op, call, kind)
        else:
            self._work(op, call, kind)

    def _append(
        self,
        placed: Placed,
        call: Call,
        kind: ApiKind,
        stream: int | None,
        accesses: tuple[Access, ...] = (),
        unknown: tuple[str, ...] = (),
        event: int | None = None,
    ) -> None:
        number_of = len(self._ops)
        self._ops.append(
            Op(
                number_of,
                number_of,
                kind,
                call.api,
                _site(call),
                "",
                tuple(_place(site.path, site.line) for site in reversed(call.sites[1:])),
                call.kernel,
                stream,
                event,
                thread=call.thread,
                accesses=accesses,
                unknown=unknown,
                bytes=number(call.bytes) if call.bytes else None,
                copy_kind=call.copy_kind,
                grid=_shape(call.grid),
                block=_shape(call.block),
                asynchronous=stream is not None,
                certain=not unknown,
                graph=placed.graph,
            )
        )
        self._calls.append(call)
        self._before.append(placed.before.must)
        self._may.append(placed.before.may & ~placed.before.must)
        self._earlier.append(placed.earlier)
        self._edges += placed.edges

    # -------------------------------------------------------------------------------------------------- kinds of calls

    def _wait(self, op: int, call: Call, kind: ApiKind) -> None:
        if kind is ApiKind.DEVICE_SYNC:  # W1
            done, blockers = self._machine.all_work(self._state, 0)
        elif kind is ApiKind.STREAM_SYNC:  # W2
            done, blockers = self._machine.stream_work(self._state, call.stream)
        else:  # W3
            done, blockers = self._machine.event_work(self._state, call.event)
        self._append(self._machine.host(self._state, op), call, kind, None)
        self._block(op, done, blockers)

    def _block(self, op: int, done: Done, blockers: tuple[int, ...]) -> None:
        self._ops[op] = replace(self._ops[op], waits=done.must & ~(1 << op), asynchronous=False)
        self._edges += self._machine.host_waits_for(self._state, op, done, blockers)

    def _allocation(self, op: int, call: Call, kind: ApiKind) -> None:
        pooled = "Async" in call.api
        stream = call.stream if pooled else None
        accesses: tuple[Access, ...] = ()
        if kind in _ALLOCATES:
            self._memory.allocate(call, _memory_of(call.api, kind, call.flags), pooled, op)
        else:
            if not call.target:
                return  # A4
            accesses = tuple(self._memory.accesses(call.target, frozenset({Mode.WRITE}), Certainty.MUST, whole=True))
            self._memory.release(call.target)
        if stream is not None:  # A1
            self._append(self._machine.enqueue(self._state, op, stream, 0), call, kind, stream, accesses)
        else:  # W7, W8
            self._append(self._machine.host(self._state, op), call, kind, None, accesses)

    def _work(self, op: int, call: Call, kind: ApiKind) -> None:
        accesses: list[Access] = []
        unknown: tuple[str, ...] = ()
        if kind is ApiKind.LAUNCH:
            accesses = self._kernel(call)
        elif kind is ApiKind.GRAPH_LAUNCH:
            if len(self._graphs) == 1 and not self._built_graphs:
                accesses = [a for inner in self._graphs[0] for a in self._ops[inner].accesses]
            else:
                unknown = ("graph",)
        elif kind is ApiKind.HOST_FUNC:
            unknown = ("function",)
        else:
            contiguous = not re.search(r"[23]D|Array|Batch", call.api)
            source = 0 if "FromArray" in call.api else call.source  # the handle of an array is no address
            for address, mode, role in ((source, Mode.READ, "src"), (call.target, Mode.WRITE, "dst")):
                if address and kind is not ApiKind.PREFETCH:
                    accesses += self._memory.copied(address, call.bytes if contiguous else 0, mode, role)
                elif kind is ApiKind.COPY and not address:
                    unknown = (*unknown, role)
        placed = self._machine.enqueue(self._state, op, call.stream, 0)
        self._append(placed, call, kind, call.stream, tuple(accesses), unknown)
        if kind is ApiKind.COPY and placed.graph is None:
            self._after_copy(op, call, placed.before)

    def _kernel(self, call: Call) -> list[Access]:
        uses = self._effects(call.kernel)
        if uses is None or len(uses) != len(call.pointers):
            uses = [(_BOTH, Certainty.MAY)] * len(call.pointers)
        used = zip(call.pointers, uses, strict=True)
        return [a for p, (modes, sure) in used for a in self._memory.accesses(p, modes, sure)]

    def _after_copy(self, op: int, call: Call, before: Done) -> None:
        """What the host knows when a copy returns; the rows are those of docs/ordering.md."""
        done = before.with_op(op)
        source, target = self._memory.memory(call.source), self._memory.memory(call.target)
        if call.copy_kind == "h2h":  # C5
            self._block(op, done, ())
        elif "Async" in call.api:
            host = source if call.copy_kind == "h2d" else target
            if call.copy_kind in ("h2d", "d2h") and host is Memory.PAGEABLE:  # C6
                self._state.host |= uncertain(done)
        elif call.copy_kind == "d2h" or (call.copy_kind == "h2d" and source is not Memory.PAGEABLE):  # C3, C2
            self._block(op, done, ())
        elif call.copy_kind == "h2d":  # C1
            self._machine.host_stages(self._state, before, ())
        elif call.copy_kind != "d2d":  # C4: the host does not wait
            self._state.host |= uncertain(done)


class _AddressSpace:
    """Which buffer an address belongs to, at this point of the run."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self._starts: list[int] = []
        self._live: dict[int, tuple[int, int]] = {}  # by start: size, buffer
        self._pageable: dict[int, int] = {}  # buffers of host memory that CUDA did not allocate, by address

    def allocate(self, call: Call, memory: Memory, pooled: bool, op: int) -> None:
        if call.target not in self._live:
            insort(self._starts, call.target)
        self._live[call.target] = call.bytes, self._make(f"allocation {call.index}", memory, call.bytes, pooled, op)

    def release(self, start: int) -> None:
        if self._live.pop(start, None) is not None:
            del self._starts[bisect_right(self._starts, start) - 1]

    def accesses(self, address: int, modes: frozenset[Mode], certainty: Certainty, whole: bool = False) -> list[Access]:
        """Accesses of unknown extent to what `address` points into."""
        found = self._find(address)
        if found is None:
            return []
        buffer, offset = found
        size = self.buffers[buffer].size
        extent, shape = (size, Shape.WHOLE) if whole else (None, Shape.SOME)
        return [Access(buffer, m, Range(number(offset), extent, None, shape), certainty) for m in sorted(modes)]

    def copied(self, address: int, size: int, mode: Mode, role: str) -> list[Access]:
        """The access of a copy; `size` 0: not one piece."""
        found = self._find(address)
        if found is None:
            if address not in self._pageable:
                self._pageable[address] = self._make(f"host memory {address:#x}", Memory.PAGEABLE, 0, False, None)
            found = self._pageable[address], 0
        extent, shape = (number(size), Shape.WHOLE) if size else (None, Shape.SOME)
        return [Access(found[0], mode, Range(number(found[1]), extent, None, shape), Certainty.MUST, role)]

    def memory(self, address: int) -> Memory:
        found = self._find(address)
        return Memory.PAGEABLE if found is None else self.buffers[found[0]].memory

    def _find(self, address: int) -> tuple[int, int] | None:
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        size, buffer = self._live[self._starts[at]]
        offset = address - self._starts[at]
        return (buffer, offset) if offset < max(size, 1) else None

    def _make(self, name: str, memory: Memory, size: int, pooled: bool, op: int | None) -> int:
        """Every buffer stands for itself (`site` is None), also when its address was another's before."""
        known = number(size) if size else None
        buffer = Buffer(len(self.buffers), name, memory, None, "alloc", size=known, pooled=pooled, alloc_op=op)
        self.buffers.append(buffer)
        return buffer.id


def _streams(trace: Trace) -> list[Stream]:
    """All numbers that calls use have a stream; 0 is the legacy default stream."""
    known = {stream.number: stream for stream in trace.streams}
    kinds = {"created": StreamKind.CREATED, "per_thread": StreamKind.PER_THREAD}
    streams = [Stream(0, "default", StreamKind.LEGACY, True)]
    for index in range(1, 1 + max([*known, *(call.stream for call in trace.calls)], default=0)):
        stream = known.get(index)
        kind = kinds.get(stream.origin, StreamKind.UNKNOWN) if stream else StreamKind.UNKNOWN
        blocking = None if kind is StreamKind.UNKNOWN or stream is None else not stream.flags & 1
        streams.append(Stream(index, f"stream {index}", kind, blocking, instance=(number(index),)))
    return streams


def _memory_of(api: str, kind: ApiKind, flags: int) -> Memory:
    if kind is ApiKind.ALLOC:
        return Memory.MANAGED if "Managed" in api else Memory.DEVICE
    return Memory.MAPPED if flags & 2 else Memory.PINNED


def _site(call: Call) -> Site:
    if call.sites:
        return _place(call.sites[0].path, call.sites[0].line)
    return Site("", f"call {call.index}", (call.index, call.index))  # unlike every other's


def _place(path: str, line: int) -> Site:
    return Site("", path, (line, line))


def _shape(size: tuple[int, int, int]) -> str:
    return "" if size == (0, 0, 0) else f"dim3({size[0]}, {size[1]}, {size[2]})"
