"""Which value flows where: the edges "data" and "allocation" of the execution graph.

They say why an order matters, and are only drawn where it holds on every path. Buffers of one family (an allocation in a
loop, one member a round) count as one: the graph shows one node for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from stitchcuda.analysis.order.alias import overlap
from stitchcuda.analysis.order.timeline import Buffer, Edge, Mode, Range, Timeline

MOST_WRITERS = 256  # of one family looked at for a reader, the latest ones


@dataclass(frozen=True, slots=True)
class Touch:
    """One access of one op to the family of buffers looked at."""

    op: int
    mode: Mode
    range: Range


def value_edges(timeline: Timeline) -> list[Edge]:
    """Writer to reader, and allocation to first use."""
    found: dict[Edge, None] = {}
    for family in _families(timeline):
        ids = {buffer.id for buffer in family}
        touches = [Touch(op.id, a.mode, a.range) for op in timeline.ops for a in op.accesses if a.buffer in ids]
        allocations = {b.alloc_op for b in family if b.alloc_op is not None}
        touches = [t for t in touches if t.op not in allocations]
        _allocation_edges(timeline, sorted(allocations), touches, found)
        _data_edges(timeline, touches, found)
    return list(found)


def _families(timeline: Timeline) -> list[list[Buffer]]:
    families: dict[object, list[Buffer]] = {}
    for buffer in timeline.buffers:
        key = buffer.id if buffer.site is None else (buffer.site, buffer.calls, buffer.origin, buffer.name)
        families.setdefault(key, []).append(buffer)
    return list(families.values())


def _allocation_edges(
    timeline: Timeline, allocations: list[int], touches: list[Touch], found: dict[Edge, None]
) -> None:
    """An allocation is tied to the uses that no other use comes before."""
    mask = 0
    for touch in touches:
        mask |= 1 << touch.op
    for touch in touches:
        if timeline.before[touch.op] & mask:
            continue
        for allocation in allocations:
            if timeline.ordered(allocation, touch.op):
                found[Edge(allocation, touch.op, "allocation")] = None


def _data_edges(timeline: Timeline, touches: list[Touch], found: dict[Edge, None]) -> None:
    """A reader is tied to the writes it can see: those before it that no later write replaces. A write replaces another
    unless they provably touch different parts."""
    writers = [t for t in touches if t.mode is not Mode.READ]
    for reader in touches:
        if reader.mode is Mode.WRITE:
            continue
        seen: list[Touch] = []
        earlier = [w for w in writers if timeline.ordered(w.op, reader.op)]
        for writer in reversed(earlier[-MOST_WRITERS:]):
            if overlap(writer.range, reader.range) is False:
                continue
            replaced = any(
                timeline.ordered(writer.op, later.op) and overlap(writer.range, later.range) is not False
                for later in seen
            )
            if not replaced:
                seen.append(writer)
                found[Edge(writer.op, reader.op, "data")] = None
