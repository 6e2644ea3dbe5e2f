"""What an editor tells of the name of a stream, an event or a buffer: its life.

A name means a stream, event or buffer in the function that it belongs to, at the file's own level when it is global, and after `.`
or `->` when it is a member: there every one of that name is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from stitchcuda.analysis.order.timeline import Buffer, Certainty, Event, Memory, Mode, Op, Stream, StreamKind, Timeline
from stitchcuda.analysis.program.ir import ApiKind, Program
from stitchcuda.server.engine.facts import NamedFact, Place
from stitchcuda.server.engine.words import WORK, Edges, Places, listed, size_words, stream_name

MOST_NAMED = 400  # a file
_MEMORIES = {
    Memory.DEVICE: "device memory",
    Memory.PINNED: "pinned host memory",
    Memory.PAGEABLE: "pageable host memory",
    Memory.MANAGED: "managed memory",
    Memory.MAPPED: "mapped pinned host memory",
    Memory.SYMBOL: "device variable",
}
_RELEASES = (ApiKind.FREE, ApiKind.HOST_FREE, ApiKind.UNREGISTER)


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
                part = _STREAM_PARTS.get(op.kind, "work" if op.kind in WORK else "")
                if part == "waits for" and op.event is not None:
                    name = timeline.events[op.event].name
                    stream.add(part, f"event `{name}`, {places.line(op.site, path)}")
                elif part:
                    stream.add(part, told if op.kind in WORK else places.line(op.site, path))
            event = events[op.event] if op.event is not None else None
            if event is not None and op.kind in _EVENT_PARTS:
                event.add(_EVENT_PARTS[op.kind], _event_words(timeline, op, path, places, edges))
    count = 0
    for (kind, name, scope), life in lives.items():
        where = _scope(scope, path, program)
        if where is None or count == MOST_NAMED:
            continue
        count += 1
        lines = [life.title, *(f"{part}: {listed(found)}" for part, found in _in_order(life.parts))]
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
    size = f", {size_words(buffer.size)}" if buffer.size is not None else ""
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
        before = [timeline.ops[k] for k in edges.order(timeline, op.id) if timeline.ops[k].kind in WORK]
        work = f" after {listed(dict.fromkeys(places.told(b, path) for b in before), 2)}" if before else ""
        return f"{where}, on {stream_name(timeline, op)}{work}"
    if op.kind is ApiKind.EVENT_WAIT:
        return f"{where}, by {stream_name(timeline, op)}"
    return f"{where}, by the host" if op.kind is ApiKind.EVENT_SYNC else where


def _scope(uid: str, path: str, program: Program) -> Place | None:
    if not uid:
        return Place(path, 0, 0)
    function = program.functions.get(uid)
    if function is None or function.path != path:
        return None
    return Place(path, function.base + function.span[0], function.base + function.span[1])
