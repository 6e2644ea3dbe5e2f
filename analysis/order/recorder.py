"""What a run of the symbolic executor writes down: objects, streams, events and ops, with their place in the order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stitchcuda.analysis.order.effort import CUT, Effort
from stitchcuda.analysis.order.machine import Answer, Done, Machine, Placed
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.symbolic import Poly
from stitchcuda.analysis.order.timeline import (
    Buffer,
    Condition,
    Cut,
    Edge,
    Event,
    Fault,
    LoopInfo,
    Memory,
    Mode,
    Op,
    Stream,
    StreamKind,
    Timeline,
)
from stitchcuda.analysis.order.values import (
    SIZE,
    SIZES,
    Closure,
    Either,
    Handle,
    Identity,
    Instance,
    Num,
    Object,
    Place,
    Pointer,
    Struct,
    Truth,
    Unknown,
    Value,
)
from stitchcuda.analysis.program.ir import ApiKind, Function, Program, Site, Span, TypeRef


@dataclass(frozen=True, slots=True)
class Options:
    """Bounds on the effort, and what the build says. Every cut is reported."""

    max_paths: int = 8  # groups of paths kept apart
    ops_per_halving: int = 500  # after so many ops the number of groups is halved
    max_steps: int = 400_000  # evaluated nodes an entry
    max_depth: int = 48  # inlined calls
    max_ops: int = 4_000
    unroll: int = 4  # loops of at most this many iterations are executed one by one
    per_thread_default_stream: bool = False  # O6, O7
    include_host_access: bool = True
    # To ask what would be ordered without some calls: these make the host wait for nothing.
    not_waiting: frozenset[Site] = frozenset()
    # Points of the host's own doing (a clock that is read, code that is not here) that become ops of kind NEUTRAL, as
    # does the end of the program; None: no such ops.
    observed: frozenset[Site] | None = None


@dataclass(slots=True)
class LoopFrame:
    """A loop being executed: its id, the index of the iteration, and how many iterations were executed before."""

    id: int
    index: Poly
    iteration: int
    waits: list[tuple[int, str, int, tuple[Condition, ...]]] = field(
        default_factory=list
    )  # op, kind, handle, conditions
    entered: set[tuple[Condition, ...]] = field(default_factory=set)  # conditions under which the body was entered
    element: bool = False  # no loop of the program: one element of an array of objects is constructed
    number: int = -1  # of the indexes of this loop and those around it; see `Recorder.local_object`
    indexes: tuple[Poly, ...] | None = None  # those, once somebody asked


@dataclass(slots=True)
class Frame:
    """A function being executed."""

    function: Function
    calls: tuple[Site, ...]
    scopes: list[dict[str, Place]]
    this: Place | None = None
    returns: list[tuple[State, Value]] = field(default_factory=list)
    jumps: dict[str, list[State]] = field(default_factory=dict)  # goto label -> waiting states
    breaks: list[list[State]] = field(default_factory=list)
    continues: list[list[State]] = field(default_factory=list)
    packs: dict[str, int] = field(default_factory=dict)  # parameter packs: how many arguments they hold
    types: dict[str, TypeRef] = field(default_factory=dict)  # template parameters bound by the call
    own: dict[int, None] = field(default_factory=dict)  # objects of its variables, which die with it
    captured: bool = False  # a lambda was made in it, which may outlive it and still name its variables
    number: int = -1  # of function and call path; see `Recorder.local_object`
    called: tuple[tuple[str, int, int], ...] | None = None  # `calls` as an `Identity` has them


class OutOfEffort(Exception):
    """A bound of `Options` was reached; caught by the driver, never seen outside."""


class Cancelled(Exception):
    """Nobody waits for the Timeline any more: there is none."""


LEGACY_STREAM = 0


class Recorder:
    """The lowest layer of the executor: objects, streams, events and ops by identity, and the Timeline made of them."""

    def __init__(self, program: Program, options: Options) -> None:
        self.program = program
        self.options = options
        self._cancelled: Callable[[], bool] | None = None
        self.objects: list[Object] = []
        self._objects: dict[Identity, int] = {}
        self._locals: dict[tuple[object, ...], int] = {}
        self._interned: dict[object, int] = {}
        self._object_of: dict[int, int] = {}  # buffer -> the object that it stands for
        self.buffers: list[Buffer] = []
        self.streams: list[Stream] = [Stream(LEGACY_STREAM, "default", StreamKind.LEGACY, True)]
        self._streams: dict[Identity, int] = {}
        self._stream_identity: dict[int, Identity] = {}
        self.events: list[Event] = []
        self._events: dict[Identity, int] = {}
        self._event_identity: dict[int, Identity] = {}
        self.graphs: list[tuple[int, ...]] = []  # captured ops of each CUDA graph
        self._graphs: dict[Identity, int] = {}
        self._graph_identity: dict[int, Identity] = {}
        self._numbers: dict[Identity, int] = {}
        self.ops: list[Op] = []
        self.before: list[int] = []
        ops, before = self.ops, self.before  # what held this object itself would keep it until a collection
        self.machine = Machine(self.streams.__getitem__, lambda o: before[o] | ops[o].waits, self.events.__getitem__)
        self.earlier: list[int] = []
        self.may: list[int] = []
        self.partly: list[int] = []
        self.edges: list[Edge] = []
        self._nodes: dict[tuple[object, ...], int] = {}
        self.loops: list[LoopInfo] = []
        self._loops: dict[tuple[object, ...], int] = {}
        self.loop_stack: list[LoopFrame] = []
        self.decided: list[Condition] = []  # branches inside loops that this round is known to take
        self.frames: list[Frame] = []
        self.cuts: dict[Cut, None] = {}
        self.faults: list[Fault] = []
        self.external = False  # the wait that is written down now takes an external event into the graph
        self.queries: dict[Site, int] = {}  # the latest query written at a place
        self.answers: dict[str, Answer] = {}  # of queries, by the symbol that stands for each
        self.told_by_query: dict[str, frozenset[Span]] = {}  # by function: the queries whose answer is looked into
        self.executed: set[str] = set()
        self.effort = Effort(options.max_steps)
        self.effort.grow(0)
        self.unfollowed: set[Site] = set()
        self.thread = 0  # host thread that executes now
        self._threads = 0
        self._fresh = 0
        if options.per_thread_default_stream:  # O6: stream 0 names this thread's own blocking stream
            self.streams.append(Stream(1, "default (per-thread)", StreamKind.PER_THREAD, True))

    # --------------------------------------------------------------------------------------------------------- context

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    @property
    def strain(self) -> float:
        """How much the entry has taken of what it is worth (see `effort`)."""
        return self.effort.strain(len(self.ops))

    def look(self) -> None:
        """Whether to go on: raises where not."""
        effort = self.effort
        if effort.steps > effort.most:
            raise OutOfEffort(f"more than {effort.most} evaluation steps")
        if self._cancelled is not None and self._cancelled():
            raise Cancelled
        effort.goes_on()

    def runs(self, function: Function) -> None:
        """The body of a function is about to be executed."""
        if function.uid not in self.executed:
            self.executed.add(function.uid)
            self.effort.grow(function.span[1])

    @property
    def innermost_loop(self) -> int | None:
        return next((f.id for f in reversed(self.loop_stack) if not f.element), None)

    def site(self, span: Span) -> Site:
        function = self.frame.function
        return Site(function.uid, function.path, span)

    def fresh(self, prefix: str = "u") -> str:
        self._fresh += 1
        return f"{prefix}.{self._fresh}"

    def instance(self) -> tuple[Poly, ...]:
        if not self.loop_stack:
            return ()
        inner = self.loop_stack[-1]
        if inner.indexes is None:
            inner.indexes = tuple([f.index for f in self.loop_stack])
        return inner.indexes

    def identity(self, kind: str, span: Span, extra: str = "") -> Identity:
        frame = self.frame
        calls = frame.called
        if calls is None:
            calls = frame.called = tuple([(s.function, *s.span) for s in frame.calls])
        return Identity(kind, frame.function.path, frame.function.uid, span[0], span[1], calls, self.instance(), extra)

    def cut(self, span: Span, what: str) -> None:
        self.cuts[Cut(self.site(span), what)] = None

    # --------------------------------------------------------------------------------------------------------- objects

    def object_for(
        self,
        identity: Identity,
        name: str,
        *,
        type: TypeRef | None = None,
        origin: str = "local",
        memory: Memory = Memory.PAGEABLE,
        **details: Any,
    ) -> Object:
        """The object of this identity: made on first sight, the same one ever after."""
        known = self._objects.get(identity)
        if known is not None:
            return self.objects[known]
        made = Object(len(self.objects), identity, name, type, origin, memory.value, **details)
        made.named_at = len(self.frames[-1].calls) if self.frames else 0
        self._objects[identity] = made.id
        self.objects.append(made)
        return made

    def local_object(self, name: str, type: TypeRef, span: Span) -> int:
        """The object of a local variable: what `object_for` gives, found without making its identity."""
        frame = self.frames[-1]
        if frame.number < 0:
            frame.number = self._number_of((frame.function.path, frame.function.uid, frame.calls))
        loops = -1
        if self.loop_stack:
            inner = self.loop_stack[-1]
            if inner.number < 0:
                inner.number = self._number_of(self.instance())
            loops = inner.number
        key = (frame.number, loops, name, span)
        known = self._locals.get(key)
        if known is None:
            known = self.object_for(self.identity("local", span, name), name, type=type, origin="local").id
            self._locals[key] = known
        return known

    def _number_of(self, what: object) -> int:
        return self._interned.setdefault(what, len(self._interned))

    def buffer_of(self, object_id: int) -> int:
        """The Timeline buffer that stands for an object."""
        obj = self.objects[object_id]
        if obj.buffer is None:
            identity = obj.identity
            site, calls = _written_at(identity)
            obj.buffer = len(self.buffers)
            self._object_of[obj.buffer] = object_id
            self.buffers.append(
                Buffer(
                    obj.buffer,
                    obj.name,
                    Memory(obj.memory),
                    site,
                    obj.origin,
                    obj.device,
                    identity.function,
                    obj.size,
                    calls,
                    identity.instance,
                    obj.pooled,
                    obj.alloc_op,
                )
            )
        return obj.buffer

    def refresh_buffer(self, object_id: int) -> None:
        """Brings the Timeline buffer in line with an object whose memory kind or size became known."""
        obj = self.objects[object_id]
        if obj.buffer is not None:
            old = self.buffers[obj.buffer]
            self.buffers[obj.buffer] = replace(
                old, name=obj.name, memory=Memory(obj.memory), size=obj.size, alloc_op=obj.alloc_op, device=obj.device
            )

    def stream_for(self, identity: Identity, name: str, kind: StreamKind, blocking: bool | None, flags: str = "",
                   device: int | None = 0) -> int:  # fmt: skip
        known = self._streams.get(identity)
        if known is not None:
            return known
        made = len(self.streams)
        site, calls = _written_at(identity)
        self.streams.append(Stream(made, name, kind, blocking, site, calls, identity.instance, device, flags))
        self._streams[identity] = made
        self._stream_identity[made] = identity
        return made

    def event_for(self, identity: Identity, name: str, timing: bool | None, device: int | None = None) -> int:
        known = self._events.get(identity)
        if known is not None:
            return known
        made = len(self.events)
        site, calls = _written_at(identity)
        self.events.append(Event(made, name, site, calls, identity.instance, timing, device))
        self._events[identity] = made
        self._event_identity[made] = identity
        return made

    def graph_for(self, identity: Identity) -> int:
        known = self._graphs.get(identity)
        if known is None:
            known = self._graphs[identity] = len(self.graphs)
            self._graph_identity[known] = identity
            self.graphs.append(())
        return known

    def number_of(self, identity: Identity) -> int:
        """A number for an identity, the same one ever after."""
        return self._numbers.setdefault(identity, len(self._numbers) + 1)

    def substitute(self, value: Value, values: Mapping[str, Poly]) -> Value:
        """The same value in another iteration: indexes and the objects' own instances are rewritten."""
        match value:
            case Pointer(place=place, index=index):
                return replace(
                    value,
                    place=self._substitute_place(place, values),
                    index=None if index is None else index.substitute(values),
                )
            case Instance(object=obj):
                return Instance(self._substitute_object(obj, values))
            case Struct(place=place):
                return Struct(self._substitute_place(place, values))
            case Either(options=options):
                return Either(tuple(self.substitute(o, values) for o in options))
            case Closure(copies=copies) if copies:
                return replace(value, copies=tuple((name, self.substitute(v, values)) for name, v in copies))
            case Handle() if (identity := self.handle_identity(value)) is not None:
                return self.twin_handle(value, identity.substitute(values))
        return value

    def handle_identity(self, handle: Handle) -> Identity | None:
        """Of a stream or event that was made somewhere; None for the default streams and other handles."""
        if handle.kind == "exec":
            return next((i for i, number in self._numbers.items() if number == handle.made), None)
        known = {"stream": self._stream_identity, "event": self._event_identity, "graph": self._graph_identity}
        return known.get(handle.kind, {}).get(handle.id)

    def twin_handle(self, handle: Handle, identity: Identity) -> Handle:
        """The stream or event like this one that another identity stands for."""
        if handle.kind == "exec":
            return replace(handle, made=self.number_of(identity))
        if handle.kind == "graph":
            graph = self.graph_for(identity)
            self.graphs[graph] = self.graphs[graph] or self.graphs[handle.id]
            return replace(handle, id=graph)
        if handle.kind == "stream":
            old = self.streams[handle.id]
            made = self.stream_for(identity, old.name, old.kind, old.blocking, old.flags, old.device)
        else:
            event = self.events[handle.id]
            made = self.event_for(identity, event.name, event.timing, event.device)
        return Handle(handle.kind, made)

    def _substitute_object(self, object_id: int, values: Mapping[str, Poly]) -> int:
        obj = self.objects[object_id]
        identity = obj.identity.substitute(values)
        if identity is obj.identity:
            return object_id
        return self.twin(obj, identity).id

    def twin(self, obj: Object, identity: Identity) -> Object:
        """The object like `obj` that another identity stands for: the same thing in another iteration."""
        return self.object_for(
            identity,
            obj.name,
            type=obj.type,
            origin=obj.origin,
            memory=Memory(obj.memory),
            size=obj.size,
            count=obj.count,
            device=obj.device,
            pooled=obj.pooled,
            alloc_op=obj.alloc_op,
        )

    def _substitute_place(self, place: Place, values: Mapping[str, Poly]) -> Place:
        path = tuple(s.substitute(values) if isinstance(s, Poly) else s for s in place.path)
        return Place(self._substitute_object(place.object, values), path)

    # ------------------------------------------------------------------------------------------------------------- ops

    def _append(self, state: State, placed: Placed, kind: ApiKind, api: str, span: Span, fields: dict[str, Any]) -> int:
        op = len(self.ops)
        if op >= self.options.max_ops:
            raise OutOfEffort(f"more than {self.options.max_ops} operations")
        if self.effort.cut != CUT:  # there is device work after all
            self.effort.cut = CUT
            self.effort.grow(0)
        if self.strain > CUT:
            raise OutOfEffort(f"more than {op} operations")
        frame = self.frame
        site = self.site(span)
        key = (kind, api, site.function, span, frame.calls)
        node = self._nodes.setdefault(key, len(self._nodes))
        loop = self.innermost_loop
        iteration = tuple([f.iteration for f in self.loop_stack if not f.element])
        conditions: tuple[Condition, ...] = state.conditions
        self.ops.append(
            Op(
                op,
                node,
                kind,
                api,
                site,
                frame.function.uid,
                frame.calls,
                loop=loop,
                iteration=iteration,
                conditions=conditions,
                decided=tuple(self.decided),
                records=placed.records,
                awaited=placed.awaited,
                graph=placed.graph,
                thread=self.thread,
                **{"device": state.device, **fields},
            )
        )
        self.before.append(placed.before.must)
        self.earlier.append(placed.earlier)
        self.may.append(placed.before.may & ~placed.before.must)
        self.partly.append(placed.before.partly & ~(placed.before.must | placed.before.may))
        self.edges += placed.edges
        if state.order.captures or fields.get("event") is not None:
            self.watch(state, self.ops[op])
        accessed = frozenset(a.buffer for a in fields.get("accesses", ()))
        state.touched |= accessed
        return op

    def emit_device(
        self,
        state: State,
        kind: ApiKind,
        api: str,
        span: Span,
        stream: int,
        *,
        waits_for: int | None = None,
        records: int | None = None,
        after: tuple[int, ...] = (),
        barrier: tuple[int | None, ...] = (),
        **fields: Any,
    ) -> int:
        """An op on a stream. `waits_for`/`records`: the event of a wait or record; `after`: ops that it also follows;
        `barrier`: the devices with all of whose work it is ordered."""
        state.host_ops.clear()
        op = len(self.ops)
        if records is not None:
            placed = self.machine.record(state.order, op, stream, records, state.device)
            fields["event"] = records
        else:
            early = bool(fields.get("early"))
            placed = self.machine.enqueue(state.order, op, stream, state.device, waits_for, after, barrier, early)
            if waits_for is not None:
                fields["event"] = waits_for
        number = self._append(state, placed, kind, api, span, {"stream": stream, **fields})
        for access in fields.get("accesses", ()):
            if access.mode is not Mode.READ:
                self.forget_contents(state, Place(self._object_of[access.buffer]))
        return number

    def forget_contents(self, state: State, place: Place) -> None:
        """Something that is not followed may have written there: numbers are no longer known. Handles, pointers and the
        sizes of containers stay."""
        found = False
        for path, value in list(state.below(place)):
            if path[-1:] != (SIZE,) and isinstance(value, Num | Unknown | Truth):
                state.store(Place(place.object, place.path + path), Unknown(self.fresh("changed")))
            found = True
        obj = self.objects[place.object]
        number = obj.type is not None and obj.type.name in SIZES and not (obj.type.pointer or obj.type.dims)
        if not found and not place.path and number and obj.origin in ("local", "global"):
            state.store(place, Unknown(self.fresh("changed")))

    def forget_behind(self, state: State, pointer: Pointer) -> None:
        """The same for what a pointer may lead to: which element of an array is not told apart."""
        path = pointer.place.path
        kept = next((k for k, step in enumerate(path) if not isinstance(step, str)), len(path))
        self.forget_contents(state, Place(pointer.place.object, path[:kept]))

    def emit_host(self, state: State, kind: ApiKind, api: str, span: Span, **fields: Any) -> int:
        """An op that the host performs."""
        if kind not in (ApiKind.HOST_READ, ApiKind.HOST_WRITE):
            state.host_ops.clear()
        placed = self.machine.host(state.order, len(self.ops), state.device)
        return self._append(state, placed, kind, api, span, {"asynchronous": False, **fields})

    def observe(self, state: State, what: str, span: Span) -> None:
        """An op for a point that was asked for."""
        if self.options.observed is not None and self.site(span) in self.options.observed:
            self.emit_host(state, ApiKind.NEUTRAL, what, span)

    def append_placed(self, state: State, placed: Placed, kind: ApiKind, api: str, span: Span, **fields: Any) -> int:
        """An op that the machine placed already (begin and end of a capture)."""
        state.host_ops.clear()
        return self._append(state, placed, kind, api, span, {"asynchronous": False, **fields})

    def block_host(self, state: State, op: int, done: Done, blockers: tuple[int, ...]) -> None:
        """The host waits in `op` until `done`."""
        waits = done.must & ~(1 << op)
        self.ops[op] = replace(self.ops[op], waits=waits)
        implied = 0
        for blocker in blockers:
            implied |= self.before[blocker]
        own = self._edges_of_newest(op)
        self.edges += [e for e in own if not implied >> e.source & 1]
        self.edges += self.machine.host_waits_for(state.order, op, done, blockers)
        state.host_ops.clear()

    def done_before(self, op: int) -> Done:
        """What is complete when an op starts."""
        return Done(self.before[op], self.before[op] | self.may[op], self.partly[op])

    def stage_host(self, state: State, op: int, done: Done) -> None:
        """C1: the host waits in `op` for what precedes it; `op` itself may go on."""
        self.ops[op] = replace(self.ops[op], waits=done.must & ~(1 << op))
        own = self._edges_of_newest(op)
        self.edges += own
        self.machine.host_stages(state.order, done, tuple(e.source for e in own))
        state.host_ops.clear()

    def _edges_of_newest(self, op: int) -> list[Edge]:
        """Takes out the edges of the op that was written down last."""
        first = len(self.edges)
        while first and self.edges[first - 1].target == op:
            first -= 1
        own = self.edges[first:]
        del self.edges[first:]
        return own

    def watch(self, state: State, op: Op) -> None:
        """Looks at an op that touches on a capture; a layer above does."""

    # ---------------------------------------------------------------------------------------------------------- result

    def timeline(self, entry: str) -> Timeline:
        return Timeline(
            entry,
            "static",
            tuple(self.ops),
            tuple(self.before),
            tuple(self.earlier),
            tuple(self.may),
            tuple(dict.fromkeys(self.edges)),
            tuple(self.buffers),
            tuple(self.streams),
            tuple(self.events),
            tuple(self.loops),
            tuple(self.cuts),
            frozenset(self.executed),
            frozenset(self.unfollowed),
            faults=tuple(dict.fromkeys(self.faults)),
            partly=tuple(self.partly),
        )


def _written_at(identity: Identity) -> tuple[Site | None, tuple[Site, ...]]:
    """Where the text stands that made a thing (None: outside of the program), and the calls that led there."""
    site = Site(identity.function, identity.path, (identity.start, identity.end)) if identity.path else None
    return site, tuple(Site(f, "", (start, end)) for f, start, end in identity.calls)
