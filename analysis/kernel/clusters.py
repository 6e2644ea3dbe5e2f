"""Shared memory of a cluster: what blocks do to each other's, and whether they meet in between."""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.kernel.conflicts import exclusive
from stitchcuda.analysis.kernel.lanes import lanes_of
from stitchcuda.analysis.kernel.model import Access, Barrier, BarrierKind, Buffer, KernelTrace, Memory, Mode

_MEETS = frozenset({BarrierKind.CLUSTER, BarrierKind.GRID, BarrierKind.NAMED})
_MOST = 80  # accesses of a kind that are compared


def across_blocks(trace: KernelTrace) -> Iterator[tuple[Access, Access]]:
    """An access of a block to its own shared memory and one of another block to the same array, in the order in which
    they stand, one of them a write, with no barrier of the cluster in between. One for each place of the later one."""
    far = [a for a in trace.accesses if a.buffer.memory is Memory.CLUSTER][:_MOST]
    if not far:
        return
    arrays = {_array(a.buffer) for a in far}
    own = [a for a in trace.accesses if a.buffer.memory is Memory.SHARED and _array(a.buffer) in arrays][:_MOST]
    meetings = [e.at for e in trace.events if isinstance(e, Barrier) and e.kind in _MEETS]
    told = set()
    for first, later in sorted(((a, b) if a.at < b.at else (b, a) for a in far for b in own), key=lambda p: p[1].at):
        if later.site in told or not _clash(first, later) or not (first.certain and later.certain):
            continue
        if any(first.at < at < later.at for at in meetings) or exclusive(first.guards, later.guards):
            continue
        told.add(later.site)
        yield first, later


def _array(buffer: Buffer) -> tuple[object, ...]:
    return buffer.name, buffer.declared, buffer.instance


def _clash(a: Access, b: Access) -> bool:
    modes = {a.mode, b.mode}
    if _array(a.buffer) != _array(b.buffer) or a.field != b.field or modes in ({Mode.READ}, {Mode.ATOMIC}):
        return False
    if a.offset.unknown or b.offset.unknown:
        return True  # an index that is loaded may be any
    if a.offset.exact is None or b.offset.exact is None or not a.size or not b.size:
        return False
    first, second = ({(x.offset.at(k), x.size) for k in lanes_of(x.lanes)} for x in (a, b))
    return bool(first & second)
