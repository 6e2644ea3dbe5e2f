"""What an editor tells of one launch, copy, fill, wait or event record: facts of the Timelines in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stitchcuda.analysis.order.timeline import Certainty, Mode, Op, Timeline
from stitchcuda.analysis.program.ir import HOST_WAITS, ApiKind, Site
from stitchcuda.server.engine.facts import OperationFact
from stitchcuda.server.engine.words import WORK, Edges, Places, listed, round_of, short, size_words, stream_name

_DIRECTIONS = {"h2d": "host to device", "d2h": "device to host", "d2d": "device to device", "h2h": "host to host"}
_BITS = 2_000  # ops of a wait that are looked at


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
        streams = tuple(dict.fromkeys(stream_name(line, op) for line, op in ops))
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
            if other.stream is not None and other.kind in WORK:
                newest[other.stream] = other
        ends = newest.values()
        for other in [o for o in ends if not any(timeline.ordered(o.id, later.id) for later in ends)]:
            at = places.line(other.site, path)
            last.setdefault(stream_name(timeline, other), {})[places.told(other, path)] = f"{short(other)} ({at})"
        for target in edges.out(timeline, op.id):
            after[places.told(timeline.ops[target], path)] = None
    lines = [f"the host waits for the work on {stream} up to {listed(work)}" for stream, work in last.items()]
    if not last:
        lines = ["no device work is known that is still running when the host waits here"]
    if after:
        lines.append(f"comes after it: {listed(after)}")
    shorts = list(dict.fromkeys(short for work in last.values() for short in work.values()))
    return tuple(lines), f"waits for {listed(shorts, 2)}" if shorts else ""


def _event_wait(
    path: str, ops: Sequence[tuple[Timeline, Op]], places: Places, edges: Edges
) -> tuple[tuple[str, ...], str]:
    streams: dict[str, None] = {}
    records: dict[str, None] = {}
    work: dict[str, None] = {}
    shorts: dict[str, None] = {}
    for timeline, op in ops:
        streams[stream_name(timeline, op)] = None
        for number in op.records:
            record = timeline.ops[number]
            event = timeline.events[record.event].name if record.event is not None else ""
            named = f"event `{event}`" if event else "an event"
            records[f"{named}, recorded on {stream_name(timeline, record)} ({places.line(record.site, path)})"] = None
            for source in edges.order(timeline, number):
                before = timeline.ops[source]
                if before.kind in WORK and before.stream == record.stream:
                    work[places.told(before, path)] = None
                    shorts[f"{short(before)} ({places.line(before.site, path)})"] = None
    event = listed(records) if records else "an event that was never recorded"
    lines = [f"later work on {listed(streams)} waits for {event}"]
    if work:
        lines.append(f"that is: for {listed(work)}")
    return tuple(lines), f"after {listed(shorts, 2)}" if shorts else ""


def _enqueued(path: str, ops: Sequence[tuple[Timeline, Op]], places: Places, edges: Edges) -> tuple[str, ...]:
    first = ops[0][1]
    streams: dict[str, None] = {}
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    after: dict[str, None] = {}
    for timeline, op in ops:
        streams[stream_name(timeline, op)] = None
        for access in op.accesses:
            perhaps = "" if access.certainty is Certainty.MUST else "perhaps "
            named = f"{perhaps}`{timeline.buffers[access.buffer].name}`"
            (reads if access.mode is Mode.READ else writes)[named] = None
        for source in edges.order(timeline, op.id):
            earlier = timeline.ops[source]
            after[places.told(earlier, path) + round_of(earlier, op)] = None
    size = f", {size_words(first.bytes)}" if first.bytes is not None else ""
    lines = []
    if first.kind is ApiKind.COPY:
        direction = _DIRECTIONS.get(first.copy_kind, "")
        returns = "" if first.asynchronous else "; the call returns when the host's part of it is done"
        lines.append(f"copy {direction}{size}{returns}".replace("copy ,", "copy,"))
    elif first.bytes is not None:
        lines.append(size_words(first.bytes))
    if any(op.stream is not None for _, op in ops):
        lines.append(f"stream: {listed(streams)}")
    if reads:
        lines.append(f"reads: {listed(reads)}")
    if writes:
        lines.append(f"writes: {listed(writes)}")
    lines.append(f"ordered after: {listed(after) if after else 'nothing issued before it'}")
    return tuple(lines)


def _bits(value: int) -> Iterator[int]:
    """Ops of a bitset in order; the last ones when there are many."""
    low = max(0, value.bit_length() - _BITS)
    value >>= low
    while value:
        bit = value & -value
        yield low + bit.bit_length() - 1
        value ^= bit
