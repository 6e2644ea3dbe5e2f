"""What an editor tells of one operation, stream, event or buffer: facts of the Timelines in words, for hover and inlay hints.

A name means a stream, event or buffer in the function that it belongs to, at the file's own level when it is global, and after `.`
or `->` when it is a member: there every one of that name is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stitchcuda.analysis.order.symbolic import Poly
from stitchcuda.analysis.order.timeline import (
    Buffer,
    Certainty,
    Event,
    Memory,
    Mode,
    Op,
    Stream,
    StreamKind,
    Timeline,
)
from stitchcuda.analysis.program.ir import HOST_WAITS, ApiKind, Program, Site
from stitchcuda.server.engine.facts import NamedFact, OperationFact, Place

MOST_NAMED = 400  # a file
_FEW = 5
_DIRECTIONS = {"h2d": "host to device", "d2h": "device to host", "d2d": "device to device", "h2h": "host to host"}
_MEMORIES = {
    Memory.DEVICE: "device memory",
    Memory.PINNED: "pinned host memory",
    Memory.PAGEABLE: "pageable host memory",
    Memory.MANAGED: "managed memory",
    Memory.MAPPED: "mapped pinned host memory",
    Memory.SYMBOL: "device variable",
}
_RELEASES = (ApiKind.FREE, ApiKind.HOST_FREE, ApiKind.UNREGISTER)
_BITS = 2_000  # ops of a wait that are looked at

_Ends = dict[int, list[int]]
Words = Callable[[Op], str]


class Places:
    """Where things are, in words of one file."""

    def __init__(self, program: Program, line_of: Callable[[Place], int], words: Words):
        self._program, self._line_of, self._words = program, line_of, words
        self._known: dict[Site, tuple[Place, int] | None] = {}

    def located(self, site: Site) -> tuple[Place, int] | None:
        """The place and its line from 1; None for a site that is not there any more."""
        if site not in self._known:
            try:
                where = self._program.locate(site)
            except KeyError:
                self._known[site] = None
            else:
                place = Place(where.path, where.start, where.end)
                self._known[site] = place, self._line_of(place)
        return self._known[site]

    def line(self, site: Site, path: str) -> str:
        """`line 12` of the file `path`, else `other.cu line 12`."""
        found = self.located(site)
        if found is None:
            return ""
        name = "" if found[0].path == path else found[0].path.replace("\\", "/").rsplit("/", 1)[-1] + " "
        return f"{name}line {found[1]}"

    def told(self, op: Op, path: str) -> str:
        where = self.line(op.site, path)
        return f"{self._words(op)}{', ' + where if where else ''}"


# ---------------------------------------------------------------------------------------------------------- operations


def operations(
    path: str, found: Mapping[Site, Sequence[tuple[Timeline, Op]]], places: Places, edges: Edges
) -> Iterator[OperationFact]:
    """The launches, copies, fills, waits and event records that are written in a file."""
    for site, ops in found.items():
        where = places.located(site)
        kind = ops[0][1].kind
        if where is None or not (kind in HOST_WAITS or kind in _DESCRIBED):
            continue
        lines: tuple[str, ...] = ()
        hint = ""
        if kind in HOST_WAITS:
            lines, hint = _host_wait(path, ops, places, edges)
        elif kind is ApiKind.EVENT_WAIT:
            lines, hint = _event_wait(path, ops, places, edges)
        elif kind is not ApiKind.LAUNCH:  # those have facts of their own
            lines = _enqueued(path, ops, places, edges)
        streams = tuple(dict.fromkeys(_stream_name(line, op) for line, op in ops))
        yield OperationFact(where[0], kind.value, ops[0][1].api, lines, streams, hint)


_DESCRIBED = {ApiKind.LAUNCH, ApiKind.COPY, ApiKind.MEMSET, ApiKind.EVENT_RECORD, ApiKind.EVENT_WAIT, ApiKind.PREFETCH}


def _host_wait(
    path: str, ops: Sequence[tuple[Timeline, Op]], places: Places, edges: Edges
) -> tuple[tuple[str, ...], str]:
    """The last work that it waits for, a stream each, without what other such work is ordered after; and what comes after the
    wait."""
    last: dict[str, dict[str, str]] = {}  # stream -> words of work -> the short form
    after: dict[str, None] = {}
    for timeline, op in ops:
        newest: dict[int, Op] = {}
        for bit in _bits(op.waits & ~timeline.before[op.id]):  # what an earlier wait brought is complete already
            other = timeline.ops[bit]
            if other.stream is not None and other.kind in _WORK:
                newest[other.stream] = other
        ends = newest.values()
        for other in [o for o in ends if not any(timeline.ordered(o.id, later.id) for later in ends)]:
            at = places.line(other.site, path)
            last.setdefault(_stream_name(timeline, other), {})[places.told(other, path)] = f"{_short(other)} ({at})"
        for target in edges.out(timeline, op.id):
            after[places.told(timeline.ops[target], path)] = None
    lines = [f"the host waits for the work on {stream} up to {_list(work)}" for stream, work in last.items()]
    if not last:
        lines = ["no device work is known that is still running when the host waits here"]
    if after:
        lines.append(f"comes after it: {_list(after)}")
    shorts = list(dict.fromkeys(short for work in last.values() for short in work.values()))
    return tuple(lines), f"waits for {_list(shorts, 2)}" if shorts else ""


def _event_wait(
    path: str, ops: Sequence[tuple[Timeline, Op]], places: Places, edges: Edges
) -> tuple[tuple[str, ...], str]:
    streams: dict[str, None] = {}
    records: dict[str, None] = {}
    work: dict[str, None] = {}
    shorts: dict[str, None] = {}
    for timeline, op in ops:
        streams[_stream_name(timeline, op)] = None
        for number in op.records:
            record = timeline.ops[number]
            event = timeline.events[record.event].name if record.event is not None else ""
            named = f"event `{event}`" if event else "an event"
            records[f"{named}, recorded on {_stream_name(timeline, record)} ({places.line(record.site, path)})"] = None
            for source in edges.order(timeline, number):
                before = timeline.ops[source]
                if before.kind in _WORK and before.stream == record.stream:
                    work[places.told(before, path)] = None
                    shorts[f"{_short(before)} ({places.line(before.site, path)})"] = None
    event = _list(records) if records else "an event that was never recorded"
    lines = [f"later work on {_list(streams)} waits for {event}"]
    if work:
        lines.append(f"that is: for {_list(work)}")
    return tuple(lines), f"after {_list(shorts, 2)}" if shorts else ""


def _enqueued(path: str, ops: Sequence[tuple[Timeline, Op]], places: Places, edges: Edges) -> tuple[str, ...]:
    first = ops[0][1]
    streams: dict[str, None] = {}
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    after: dict[str, None] = {}
    for timeline, op in ops:
        streams[_stream_name(timeline, op)] = None
        for access in op.accesses:
            perhaps = "" if access.certainty is Certainty.MUST else "perhaps "
            named = f"{perhaps}`{timeline.buffers[access.buffer].name}`"
            (reads if access.mode is Mode.READ else writes)[named] = None
        for source in edges.order(timeline, op.id):
            after[places.told(timeline.ops[source], path)] = None
    size = f", {_bytes(first.bytes)}" if first.bytes is not None else ""
    lines = []
    if first.kind is ApiKind.COPY:
        direction = _DIRECTIONS.get(first.copy_kind, "")
        returns = "" if first.asynchronous else "; the call returns when the host's part of it is done"
        lines.append(f"copy {direction}{size}{returns}".replace("copy ,", "copy,"))
    elif first.bytes is not None:
        lines.append(_bytes(first.bytes))
    if any(op.stream is not None for _, op in ops):
        lines.append(f"stream: {_list(streams)}")
    if reads:
        lines.append(f"reads: {_list(reads)}")
    if writes:
        lines.append(f"writes: {_list(writes)}")
    lines.append(f"ordered after: {_list(after) if after else 'nothing issued before it'}")
    return tuple(lines)


# -------------------------------------------------------------------------------------------------------------- names


@dataclass
class _Life:
    """What happens to one stream, event or buffer, as words."""

    title: str
    scope: str  # uid of the function in which the name means it; "": everywhere
    parts: dict[str, dict[str, None]] = field(default_factory=dict)

    def add(self, part: str, what: str) -> None:
        if what:
            self.parts.setdefault(part, {})[what] = None


def named(
    path: str, timelines: Iterable[Timeline], program: Program, places: Places, edges: Edges
) -> Iterator[NamedFact]:
    """The streams, events and buffers whose names may stand in a file."""
    lives: dict[tuple[str, str, str], _Life] = {}
    for timeline in timelines:
        if not any(f in program.functions and program.functions[f].path == path for f in timeline.functions):
            continue
        buffers = [_buffer(lives, b, path, program, places) for b in timeline.buffers]
        streams = [_stream(lives, s, path, program, places) for s in timeline.streams]
        events = [_event(lives, e, path, program, places) for e in timeline.events]
        for op in timeline.ops:
            told = places.told(op, path)
            for access in op.accesses:
                life = buffers[access.buffer]
                if life is not None and op.kind in _RELEASES:
                    life.add("freed", f"`{op.api}`, {places.line(op.site, path)}")
                elif life is not None and op.kind not in _ALLOCATIONS:
                    part = "read by" if access.mode is Mode.READ else "written by"
                    life.add(part if access.certainty is Certainty.MUST else f"perhaps {part}", told)
            stream = streams[op.stream] if op.stream is not None else None
            if stream is not None:
                part = _STREAM_PARTS.get(op.kind, "work" if op.kind in _WORK else "")
                if part == "waits for" and op.event is not None:
                    name = timeline.events[op.event].name
                    stream.add(part, f"event `{name}`, {places.line(op.site, path)}")
                elif part:
                    stream.add(part, told if op.kind in _WORK else places.line(op.site, path))
            event = events[op.event] if op.event is not None else None
            if event is not None and op.kind in _EVENT_PARTS:
                event.add(_EVENT_PARTS[op.kind], _event_words(timeline, op, path, places, edges))
    count = 0
    for (kind, name, scope), life in lives.items():
        where = _scope(scope, path, program)
        if where is None or count == MOST_NAMED:
            continue
        count += 1
        lines = [life.title, *(f"{part}: {_list(found)}" for part, found in _in_order(life.parts))]
        yield NamedFact(kind, name, where if scope else None, tuple(lines))


_ORDER = (
    "created",
    "allocated",
    "recorded",
    "written by",
    "perhaps written by",
    "read by",
    "perhaps read by",
    "work",
    "waits for",
    "waited for",
    "freed",
    "destroyed",
)
_ALLOCATIONS = (ApiKind.ALLOC, ApiKind.HOST_ALLOC, ApiKind.REGISTER)
_WORK = (
    ApiKind.LAUNCH,
    ApiKind.COPY,
    ApiKind.MEMSET,
    ApiKind.PREFETCH,
    ApiKind.GRAPH_LAUNCH,
    ApiKind.LIBRARY_CALL,
    ApiKind.HOST_FUNC,
)
_STREAM_PARTS = {
    ApiKind.EVENT_WAIT: "waits for",
    ApiKind.STREAM_SYNC: "waited for",
    ApiKind.STREAM_DESTROY: "destroyed",
}  # fmt: skip
_EVENT_PARTS = {
    ApiKind.EVENT_RECORD: "recorded",
    ApiKind.EVENT_WAIT: "waited for",
    ApiKind.EVENT_SYNC: "waited for",
    ApiKind.EVENT_DESTROY: "destroyed",
}


def _in_order(parts: dict[str, dict[str, None]]) -> list[tuple[str, Mapping[str, None]]]:
    for name in ("written by", "read by"):  # what certainly happens on one call path is not told as a chance of another
        for sure in parts.get(name, ()):
            parts.get(f"perhaps {name}", {}).pop(sure, None)
    return [(name, parts[name]) for name in _ORDER if parts.get(name)]


def _life(
    lives: dict[tuple[str, str, str], _Life], kind: str, name: str, owner: str, title: str, path: str, program: Program
) -> _Life | None:
    """None for a name that cannot stand in the file."""
    scope = "" if _member(name) or not owner else owner
    if not name or (scope and (scope not in program.functions or program.functions[scope].path != path)):
        return None
    return lives.setdefault((kind, name, scope), _Life(title, scope))


def _member(name: str) -> bool:
    return "." in name or "->" in name


def _buffer(
    lives: dict[tuple[str, str, str], _Life], buffer: Buffer, path: str, program: Program, places: Places
) -> _Life | None:
    size = f", {_bytes(buffer.size)}" if buffer.size is not None else ""
    title = f"buffer `{buffer.name}`: {_MEMORIES.get(buffer.memory, 'memory of a kind that is not known')}{size}"
    life = _life(lives, "buffer", buffer.name, buffer.owner, title, path, program)
    if life is not None and buffer.site is not None and buffer.origin == "alloc":
        life.add("allocated", places.line(buffer.site, path))
    return life


def _stream(
    lives: dict[tuple[str, str, str], _Life], stream: Stream, path: str, program: Program, places: Places
) -> _Life | None:
    if stream.kind not in (StreamKind.CREATED, StreamKind.PARAMETER, StreamKind.UNKNOWN):
        return None
    beside = {
        True: "; ordered with the default stream",
        False: "; not ordered with the default stream",
        None: "",
    }[stream.blocking]
    owner = stream.site.function if stream.site is not None else ""
    life = _life(lives, "stream", stream.name, owner, f"stream `{stream.name}`{beside}", path, program)
    if life is not None and stream.site is not None and stream.kind is StreamKind.CREATED:
        life.add("created", places.line(stream.site, path))
    return life


def _event(
    lives: dict[tuple[str, str, str], _Life], event: Event, path: str, program: Program, places: Places
) -> _Life | None:
    owner = event.site.function if event.site is not None else ""
    timing = {True: "; takes times", False: "; without times", None: ""}[event.timing]
    life = _life(lives, "event", event.name, owner, f"event `{event.name}`{timing}", path, program)
    if life is not None and event.site is not None:
        life.add("created", places.line(event.site, path))
    return life


def _event_words(timeline: Timeline, op: Op, path: str, places: Places, edges: Edges) -> str:
    where = places.line(op.site, path)
    if op.kind is ApiKind.EVENT_RECORD:
        before = [timeline.ops[k] for k in edges.order(timeline, op.id) if timeline.ops[k].kind in _WORK]
        work = f" after {_list(dict.fromkeys(places.told(b, path) for b in before), 2)}" if before else ""
        return f"{where}, on {_stream_name(timeline, op)}{work}"
    if op.kind is ApiKind.EVENT_WAIT:
        return f"{where}, by {_stream_name(timeline, op)}"
    return f"{where}, by the host" if op.kind is ApiKind.EVENT_SYNC else where


def _scope(uid: str, path: str, program: Program) -> Place | None:
    if not uid:
        return Place(path, 0, 0)
    function = program.functions.get(uid)
    if function is None or function.path != path:
        return None
    return Place(path, function.base + function.span[0], function.base + function.span[1])


# -------------------------------------------------------------------------------------------------------------- shared


class Edges:
    """Direct order edges of each op, by their ends. Values are left out: they take long to find in long timelines."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[_Ends, _Ends]] = {}  # by timeline

    def order(self, timeline: Timeline, op: int) -> list[int]:
        """What the op is ordered after, without values."""
        return self._both(timeline)[0].get(op, [])

    def out(self, timeline: Timeline, op: int) -> list[int]:
        return self._both(timeline)[1].get(op, [])

    def _both(self, timeline: Timeline) -> tuple[_Ends, _Ends]:
        known = self._known.get(id(timeline))
        if known is None:
            known = self._known[id(timeline)] = {}, {}
            for edge in timeline.edges:
                known[0].setdefault(edge.target, []).append(edge.source)
                known[1].setdefault(edge.source, []).append(edge.target)
        return known


def _bits(value: int) -> Iterator[int]:
    """Ops of a bitset in order; the last ones when there are many."""
    low = max(0, value.bit_length() - _BITS)
    value >>= low
    while value:
        bit = value & -value
        yield low + bit.bit_length() - 1
        value ^= bit


def _stream_name(timeline: Timeline, op: Op) -> str:
    if op.stream is None:
        return "the host"
    stream = timeline.streams[op.stream]
    return "the default stream" if stream.name == "default" else f"`{stream.name}`"


def _bytes(size: Poly) -> str:
    """Without the marks that tell values of one variable apart."""
    return f"{re.sub(r'@[0-9]+', '', str(size))} bytes"


def _short(op: Op) -> str:
    return op.kernel or op.api


def _list(found: Iterable[str], most: int = _FEW) -> str:
    words = [w for w in found if w]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return "; ".join(words[:most]) + more
