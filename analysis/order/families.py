"""Streams and memory that are made in loops and used by one index: `work<<<..., stream[k]>>>(buffer[k])`.

Which members two operations use is often not known. When both pick stream and memory by the same index, they touch the same
memory only where they are on the same stream, and there O1 orders them.
"""

from __future__ import annotations

from collections.abc import Sequence

from stitchcuda.analysis.order.alias import Conflict
from stitchcuda.analysis.order.symbolic import Poly, at_least
from stitchcuda.analysis.order.timeline import Op, Range, Stream, Timeline


def same_stream_where_they_meet(timeline: Timeline, a: Op, b: Op, clash: Conflict) -> bool:
    """Whether two operations of one host thread are on one stream in every case in which the accesses of `clash` meet."""
    if a.stream is None or b.stream is None or a.thread != b.thread:
        return False
    first, second = timeline.streams[a.stream], timeline.streams[b.stream]
    if not _family(first, second):
        return False
    one, other = timeline.buffers[clash.first.buffer], timeline.buffers[clash.second.buffer]
    one_family = one.site is not None and (one.site, one.calls) == (other.site, other.calls)
    if one_family and _follow(first.instance, one.instance, second.instance, other.instance):
        return True
    if one.id != other.id or len(first.instance) != 1:
        return False
    return _chunks(first.instance[0], clash.first.range, second.instance[0], clash.second.range)


def _family(a: Stream, b: Stream) -> bool:
    same = a.site is not None and (a.site, a.calls) == (b.site, b.calls)
    return same and bool(a.instance) and len(a.instance) == len(b.instance)


def _follow(streams: Sequence[Poly], members: Sequence[Poly], others: Sequence[Poly], their: Sequence[Poly]) -> bool:
    """Every index of the stream stands at a fixed distance from one of the memory: equal members, equal streams."""
    if len(members) != len(their):
        return False
    return all(
        any(s - m == t - n for m, n in zip(members, their, strict=True)) for s, t in zip(streams, others, strict=True)
    )


def _chunks(stream: Poly, chunk: Range, other: Poly, theirs: Range) -> bool:
    """Pieces of one buffer that begin at a multiple of the index and are no longer than that: they meet when it is the same."""
    if None in (chunk.offset, chunk.extent, theirs.offset, theirs.extent) or chunk.member != theirs.member:
        return False
    assert chunk.offset is not None and chunk.extent is not None
    assert theirs.offset is not None and theirs.extent is not None
    for size in (chunk.extent, theirs.extent):
        fits = at_least(size, chunk.extent) is True and at_least(size, theirs.extent) is True
        if fits and size.terms and chunk.offset - theirs.offset == size * (stream - other):
            return True
    return False
