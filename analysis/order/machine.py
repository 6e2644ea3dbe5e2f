"""Happens-before: what each CUDA operation orders, by the rows of docs/ordering.md.

`OrderState` is what is known on one group of paths at one host point. The symbolic executor forks and merges it.
Sets of ops are bitsets in Python integers: bit k is op k of the Timeline.

`Done` is a pair of bitsets: `must` holds ops complete on every reading, `may` (a superset) those that are complete on
some reading of what is unknown (a stream that may be another name of this one, an unresolved call that may wait).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from stitchcuda.analysis.order.symbolic import equal
from stitchcuda.analysis.order.timeline import Edge, Event, Stream, StreamKind
from stitchcuda.analysis.quick_init import quick_init


@quick_init
@dataclass(frozen=True, slots=True)
class Done:
    """A set of completed ops, as two bitsets; see the module docstring."""

    must: int = 0
    may: int = 0
    partly: int = 0  # those complete on some of the paths that were merged, and on others not

    def __or__(self, other: Done) -> Done:
        return Done(self.must | other.must, self.may | other.may, self.partly | other.partly)

    def with_op(self, op: int) -> Done:
        return Done(self.must | 1 << op, self.may | 1 << op, self.partly)


NOTHING = Done()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the answer of a query says: of the work until then, whenever it is looked at."""

    op: int
    done: Done
    blockers: tuple[int, ...]
    says_done: bool  # whether "true" says that all is done; a status is true when it is not success


def uncertain(done: Done) -> Done:
    """The same set, known only as a possibility."""
    return Done(0, done.may, done.partly)


@quick_init
@dataclass(frozen=True, slots=True)
class EventState:
    """The snapshot that the last record took (E1); empty before any record."""

    done: Done = NOTHING
    records: tuple[int, ...] = ()
    capture: int | None = None  # the CUDA graph being captured when it was recorded
    mixed: bool = False  # recorded in a capture on some paths and outside of it on others


@dataclass(slots=True)
class Capture:
    """A capture in progress: its ops are ordered among themselves only (G1)."""

    graph: int
    origin: int  # stream
    begin: int  # op
    streams: dict[int, Done] = field(default_factory=dict)
    tails: dict[int, tuple[int, ...]] = field(default_factory=dict)
    ops: list[int] = field(default_factory=list)
    mode: int | None = 0  # cudaStreamCaptureMode; None: not known
    sure: bool = True  # False: in progress on some of the paths only
    partial: frozenset[int] = frozenset()  # streams that joined it on some of the paths only

    def copy(self) -> Capture:
        return replace(self, streams=dict(self.streams), tails=dict(self.tails), ops=list(self.ops))


def same_stream(a: Stream, b: Stream) -> bool | None:
    """Whether two streams are one: True, False, or None when not known."""
    if a.id == b.id:
        return True
    if a.kind is StreamKind.CREATED and b.kind is StreamKind.CREATED:
        return _same_member(a, b)
    outside = (StreamKind.PARAMETER, StreamKind.UNKNOWN)
    if a.kind in outside or b.kind in outside:
        # what comes from outside can be another outside stream or a default stream, but none created in here, unless
        # it is not known where it comes from at all
        if StreamKind.CREATED in (a.kind, b.kind):
            return None if StreamKind.UNKNOWN in (a.kind, b.kind) else False
        return None
    return False


def same_event(a: Event, b: Event) -> bool | None:
    """Whether two events are one: True, False, or None when not known (one may come from outside)."""
    if a.id == b.id:
        return True
    return _same_member(a, b) if a.site is not None and b.site is not None else None


def _same_member(a: Stream | Event, b: Stream | Event) -> bool | None:
    """Of two things that were made in sight: members of one family are told apart by their indexes."""
    if a.site != b.site or a.calls != b.calls or len(a.instance) != len(b.instance):
        return False
    answer: bool | None = True
    for x, y in zip(a.instance, b.instance, strict=True):
        same = equal(x, y)
        if same is False:
            return False
        if same is None:
            answer = None
    return answer


@dataclass(slots=True)
class OrderState:
    """What is ordered at one host point. Mutable; `copy` before a fork."""

    earlier: int = 0  # ops issued so far on some path of this group
    host: Done = NOTHING  # complete at this host point
    host_tail: tuple[int, ...] = ()  # last ops that blocked the host
    streams: dict[int, Done] = field(default_factory=dict)  # complete before the next op of the stream starts
    tails: dict[int, tuple[int, ...]] = field(default_factory=dict)  # last ops of the stream
    legacy: Done = NOTHING  # complete before later work of blocking streams starts (O4)
    legacy_tail: tuple[int, ...] = ()
    events: dict[int, EventState] = field(default_factory=dict)
    captures: list[Capture] = field(default_factory=list)
    device_bits: dict[int | None, int] = field(default_factory=dict)  # ops by device
    barriers: dict[int | None, Done] = field(default_factory=dict)  # complete before later work of a device starts (C9)
    graphs: dict[int, tuple[int, ...]] = field(default_factory=dict)  # the ops that a graph holds on these paths
    launches: dict[tuple[str, int, int], tuple[int, ...]] = field(
        default_factory=dict
    )  # last ones of an executable graph

    def copy(self) -> OrderState:
        return OrderState(
            self.earlier,
            self.host,
            self.host_tail,
            dict(self.streams),
            dict(self.tails),
            self.legacy,
            self.legacy_tail,
            dict(self.events),
            [c.copy() for c in self.captures],
            dict(self.device_bits),
            dict(self.barriers),
            dict(self.graphs),
            dict(self.launches),
        )


@quick_init
@dataclass(frozen=True, slots=True)
class Placed:
    """Where an op stands: what is complete when it starts, its direct predecessors, and the capture it went to."""

    before: Done
    earlier: int
    edges: tuple[Edge, ...]
    graph: int | None = None
    records: tuple[int, ...] = ()  # see `Op`
    awaited: int = 0  # see `Op`


class Machine:
    """Applies operations to an `OrderState`. `stream_of` gives the Stream behind an id, `before_of`
    what is complete when an op that was already placed is complete (to leave out edges that another edge implies), and
    `event_of` the Event behind an id (None: events with different ids are different events)."""

    def __init__(
        self,
        stream_of: Callable[[int], Stream],
        before_of: Callable[[int], int],
        event_of: Callable[[int], Event] | None = None,
    ) -> None:
        self._stream = stream_of
        self._before = before_of
        self._event = event_of

    # ---------------------------------------------------------------------------------------------------- device work

    def enqueue(
        self,
        state: OrderState,
        op: int,
        stream_id: int,
        device: int | None,
        event: int | None = None,
        follows: tuple[int, ...] = (),
        barrier: tuple[int | None, ...] = (),
        early: bool = False,
    ) -> Placed:
        """An op on a stream (O1-O6, and E2 when `event` is the event it waits for), which also starts after `follows`. With a
        `barrier` it is ordered with all work of these devices, before and after it (C9); an `early` one does not wait for
        the op in front of it."""
        capture = self._capture_of(state, stream_id, event)
        if capture is not None:
            return self._record_captured(state, capture, op, stream_id, event)
        stream = self._stream(stream_id)
        before = state.host | state.streams.get(stream_id, NOTHING)  # O2 with a host wait in between (O3), O1
        reasons: list[tuple[int, str]] = [(t, "stream") for t in state.tails.get(stream_id, ())]
        before |= state.barriers.get(device, NOTHING)
        for one in barrier:
            ours = state.device_bits.get(one, 0) if one is not None else 0
            before |= Done(ours, state.earlier if one is None else ours)
        for previous in follows:
            before |= Done(self._before(previous), self._before(previous)).with_op(previous)
            reasons.append((previous, "capture"))
        for other_id, done in state.streams.items():
            if other_id == stream_id:
                continue
            other = self._stream(other_id)
            same = same_stream(stream, other)
            if same is True:
                before |= done
                reasons += [(t, "stream") for t in state.tails.get(other_id, ())]
            elif same is None:
                before |= uncertain(done)
            if stream.kind is StreamKind.LEGACY and other.kind is not StreamKind.LEGACY:
                if other.blocking:  # O4: after all earlier work of blocking streams
                    before |= done
                    reasons += [(t, "default_stream") for t in state.tails.get(other_id, ())]
                elif other.blocking is None:
                    before |= uncertain(done)
        if stream.kind is not StreamKind.LEGACY:
            if stream.blocking:  # O4: later work of blocking streams starts after it
                before |= state.legacy
                reasons += [(t, "default_stream") for t in state.legacy_tail]
            elif stream.blocking is None:
                before |= uncertain(state.legacy)
        records: tuple[int, ...] = ()
        awaited = 0
        if event is not None:
            snapshot = self.snapshot(state, event)
            records, awaited = snapshot.records, snapshot.done.must & ~before.must
            before |= snapshot.done
            reasons += [(t, "event") for t in records if snapshot.done.must >> t & 1]
        reasons += [(t, "host_wait") for t in state.host_tail]
        front = sum(1 << t for t in state.tails.get(stream_id, ())) & ~state.host.must if early else 0
        start = Done(before.must & ~front, before.may & ~front, before.partly)
        reasons = [r for r in reasons if not front >> r[0] & 1]
        placed = Placed(start, state.earlier, self._reduce(op, reasons), records=records, awaited=awaited)
        after = before.with_op(op)
        state.streams[stream_id] = after
        state.tails[stream_id] = (op,)
        for one in barrier:
            if one is not None:
                state.barriers[one] = after
        if stream.kind is StreamKind.LEGACY:
            state.legacy = after
            state.legacy_tail = (op,)
        self._issued(state, op, device)
        return placed

    def host(self, state: OrderState, op: int, device: int | None = None) -> Placed:
        """An op that the host performs itself (an access, an allocation, a wait)."""
        before = state.host
        reasons = [(t, "host_wait") for t in state.host_tail]
        placed = Placed(before, state.earlier, self._reduce(op, reasons))
        self._issued(state, op, device)
        state.host = before.with_op(op)
        return placed

    def host_waits_for(self, state: OrderState, op: int, done: Done, blockers: Iterable[int]) -> tuple[Edge, ...]:
        """The host does not go on before `done` (W1-W3, C2, C3, C5); `op` is the call that blocks, `blockers` the last
        ops that it waits for."""
        state.host = (state.host | done).with_op(op)
        edges = self._reduce(op, [(b, "host_wait") for b in blockers if b != op])
        state.host_tail = (op,)
        return edges

    def host_stages(self, state: OrderState, done: Done, tails: tuple[int, ...]) -> None:
        """C1: the host waited for what precedes an upload (`tails`: the last ops of it), but not for the upload itself."""
        state.host = state.host | done
        state.host_tail = tails or state.host_tail

    def may_have_waited(self, state: OrderState) -> None:
        """A call that could not be resolved ran: it may have waited for everything."""
        state.host |= Done(0, state.earlier)

    # ------------------------------------------------------------------------------------------------------ host waits

    def all_work(self, state: OrderState, device: int | None) -> tuple[Done, tuple[int, ...]]:
        """W1: all work of all streams of the device."""
        ours = state.device_bits.get(device, 0)
        unknown = state.device_bits.get(None, 0)
        done = Done(ours, state.earlier) if device is None else Done(ours, ours | unknown)
        for other in state.streams.values():
            done |= Done(other.must & ours, other.may & ours)
        tails = [t for ids in state.tails.values() for t in ids]
        return done, tuple(dict.fromkeys(tails))

    def stream_work(self, state: OrderState, stream_id: int) -> tuple[Done, tuple[int, ...]]:
        """W2: all work issued to the stream so far; for the legacy stream also that of blocking streams (O4)."""
        stream = self._stream(stream_id)
        done = state.streams.get(stream_id, NOTHING)
        tails = list(state.tails.get(stream_id, ()))
        for other_id, other_done in state.streams.items():
            if other_id == stream_id:
                continue
            other = self._stream(other_id)
            same = same_stream(stream, other)
            covered = stream.kind is StreamKind.LEGACY and other.blocking
            if same is True or covered:
                done |= other_done
                tails += state.tails.get(other_id, ())
            elif same is None or (stream.kind is StreamKind.LEGACY and other.blocking is None):
                done |= uncertain(other_done)
        return done, tuple(dict.fromkeys(tails))

    def event_work(self, state: OrderState, event: int) -> tuple[Done, tuple[int, ...]]:
        """W3: the work captured by the last record before the call; nothing when never recorded."""
        snapshot = self.snapshot(state, event)
        return snapshot.done, tuple(r for r in snapshot.records if snapshot.done.must >> r & 1)

    # ---------------------------------------------------------------------------------------------------------- events

    def snapshot(self, state: OrderState, event: int) -> EventState:
        """What the event stands for now. One that was not recorded under this name may have been under another."""
        known = state.events.get(event, EventState())
        if event in state.events or self._event is None:
            return known
        me = self._event(event)
        done = NOTHING
        records: list[int] = []
        captures: set[int | None] = set()
        for other, held in state.events.items():
            same = same_event(me, self._event(other))
            if same is not False:
                done |= held.done if same else uncertain(held.done)
                records += held.records
                captures |= {held.capture}
        return EventState(done, tuple(records), captures.pop() if len(captures) == 1 else None, bool(captures))

    def record(self, state: OrderState, op: int, stream_id: int, event: int, device: int | None) -> Placed:
        """E1: the event now stands for the stream's work so far; later waits see this record only."""
        placed = self.enqueue(state, op, stream_id, device)
        state.events[event] = EventState(placed.before.with_op(op), (op,), placed.graph)
        return placed

    # --------------------------------------------------------------------------------------------------------- capture

    def begin_capture(
        self, state: OrderState, op: int, stream_id: int, graph: int, mode: int | None = 0, held: Iterable[int] = ()
    ) -> Placed:
        """`held`: the ops that the graph holds already, when the capture adds to one."""
        placed = self.host(state, op)
        state.captures.append(Capture(graph, stream_id, op, ops=list(held), mode=mode))
        return placed

    def end_capture(self, state: OrderState, op: int, stream_id: int) -> tuple[Placed, Capture | None]:
        for index, capture in enumerate(state.captures):
            origin = same_stream(self._stream(capture.origin), self._stream(stream_id)) is True
            if origin or stream_id in capture.streams:
                del state.captures[index]
                tails = [t for ids in capture.tails.values() for t in ids]
                placed = self.host(state, op)
                edges = self._reduce(op, [(t, "capture") for t in tails or [capture.begin]])
                known = self._before(capture.begin)  # ordered before the end through the begin
                waited = tuple(e for e in placed.edges if not known >> e.source & 1)
                return Placed(placed.before, placed.earlier, waited + edges), capture
        return self.host(state, op), None

    def _capture_of(self, state: OrderState, stream_id: int, event: int | None) -> Capture | None:
        if not state.captures:
            return None
        for capture in state.captures:
            if stream_id == capture.origin or stream_id in capture.streams:
                return capture
            if event is not None and self.snapshot(state, event).capture == capture.graph:
                return capture  # G4: another stream joins by waiting on an event recorded in the capture
        stream = self._stream(stream_id)
        for capture in state.captures:  # a member of a family that another member stands for
            members = (capture.origin, *capture.streams)
            if stream.instance and any(same_stream(stream, self._stream(m)) is not False for m in members):
                return capture
        return None

    def captured(self, state: OrderState, stream_id: int) -> Capture | None:
        """The capture in progress that a stream takes part in."""
        return self._capture_of(state, stream_id, None)

    def _record_captured(
        self, state: OrderState, capture: Capture, op: int, stream_id: int, event: int | None
    ) -> Placed:
        before = capture.streams.get(stream_id, NOTHING)
        reasons = [(t, "stream") for t in capture.tails.get(stream_id, ())]
        records: tuple[int, ...] = ()
        awaited = 0
        if event is not None:
            snapshot = self.snapshot(state, event)
            records = snapshot.records
            if snapshot.capture == capture.graph:
                awaited = snapshot.done.must & ~before.must
                before |= snapshot.done
                reasons += [(t, "event") for t in snapshot.records]
        if not reasons:
            reasons = [(capture.begin, "capture")]
        capture.streams[stream_id] = before.with_op(op)
        capture.tails[stream_id] = (op,)
        capture.ops.append(op)
        earlier = sum(1 << o for o in capture.ops if o != op)
        return Placed(before, earlier, self._reduce(op, reasons), capture.graph, records, awaited)

    # ---------------------------------------------------------------------------------------------------------- inside

    def _issued(self, state: OrderState, op: int, device: int | None) -> None:
        state.earlier |= 1 << op
        state.device_bits[device] = state.device_bits.get(device, 0) | 1 << op

    def _reduce(self, op: int, reasons: list[tuple[int, str]]) -> tuple[Edge, ...]:
        """Direct predecessors without those that another one implies."""
        first: dict[int, str] = {}
        for source, why in reasons:
            first.setdefault(source, why)
        implied = 0
        for source in first:
            implied |= self._before(source)
        kept = [Edge(source, op, why) for source, why in first.items() if not implied >> source & 1]
        return tuple(kept)


MAX_TAILS = 64  # last ops of a stream on different paths that are kept for the graph's edges


def merge(a: OrderState, b: OrderState, forced: bool = False) -> OrderState:
    """One state for two groups of paths: an op counts as done when it is done on every path that ran it. `forced`: they are
    merged for want of effort, though what follows may tell them apart."""

    if a is b or a == b:
        return a

    def done(x: Done, y: Done) -> Done:
        if x is y or x == y:
            return x
        must = (x.must & y.must) | (x.must & ~b.earlier) | (y.must & ~a.earlier)
        either = x.may | y.may
        both = either if forced else (x.may & y.may) | (x.may & ~b.earlier) | (y.may & ~a.earlier)
        return Done(must, both, x.partly | y.partly | (either & ~both))

    def union(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
        return x if x == y else tuple(dict.fromkeys(x + y))[-MAX_TAILS:]

    streams = {s: done(a.streams.get(s, a.host), b.streams.get(s, b.host)) for s in a.streams.keys() | b.streams.keys()}
    tails = {s: union(a.tails.get(s, ()), b.tails.get(s, ())) for s in a.tails.keys() | b.tails.keys()}
    events = {}
    for e in a.events.keys() | b.events.keys():
        x, y = a.events.get(e, EventState()), b.events.get(e, EventState())
        apart = bool(x.records and y.records) and x.capture != y.capture
        capture = None if apart else y.capture if not x.records else x.capture
        mixed = apart or x.mixed or y.mixed
        events[e] = EventState(done(x.done, y.done), union(x.records, y.records), capture, mixed)
    bits = {d: a.device_bits.get(d, 0) | b.device_bits.get(d, 0) for d in a.device_bits.keys() | b.device_bits.keys()}
    return OrderState(
        a.earlier | b.earlier,
        done(a.host, b.host),
        union(a.host_tail, b.host_tail),
        streams,
        tails,
        done(a.legacy, b.legacy),
        union(a.legacy_tail, b.legacy_tail),
        events,
        _merged_captures(a.captures, b.captures),
        bits,
        {
            d: done(a.barriers.get(d, NOTHING), b.barriers.get(d, NOTHING))
            for d in a.barriers.keys() | b.barriers.keys()
        },
        {g: tuple(dict.fromkeys(a.graphs.get(g, ()) + b.graphs.get(g, ()))) for g in a.graphs.keys() | b.graphs.keys()},
        {k: union(a.launches.get(k, ()), b.launches.get(k, ())) for k in a.launches.keys() | b.launches.keys()},
    )


def _merged_captures(a: list[Capture], b: list[Capture]) -> list[Capture]:
    """The captures in progress on either side; those of one side only are not sure."""
    if not a and not b:
        return []
    theirs = {c.graph: c for c in b}
    out = []
    for mine in a:
        other = theirs.pop(mine.graph, None)
        out.append(replace(mine.copy(), sure=False) if other is None else _merged_capture(mine, other))
    return out + [replace(c.copy(), sure=False) for c in theirs.values()]


def _merged_capture(a: Capture, b: Capture) -> Capture:
    """One capture as two groups of paths have it."""
    if a == b:
        return a.copy()
    ran_a, ran_b = (sum(1 << o for o in c.ops) for c in (a, b))
    streams = {}
    for s in a.streams.keys() | b.streams.keys():
        x, y = a.streams.get(s, NOTHING), b.streams.get(s, NOTHING)
        streams[s] = Done((x.must & y.must) | (x.must & ~ran_b) | (y.must & ~ran_a), x.may | y.may)
    tails = {
        s: tuple(dict.fromkeys(a.tails.get(s, ()) + b.tails.get(s, ())))[-MAX_TAILS:]
        for s in a.tails.keys() | b.tails.keys()
    }
    partial = a.partial | b.partial | (a.streams.keys() ^ b.streams.keys())
    return replace(
        a,
        streams=streams,
        tails=tails,
        ops=list(dict.fromkeys(a.ops + b.ops)),
        mode=a.mode if a.mode == b.mode else None,
        sure=a.sure and b.sure,
        partial=partial,
    )
