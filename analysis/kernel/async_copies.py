"""Reads of shared memory that an asynchronous copy may still be writing (D4)."""

from __future__ import annotations

from stitchcuda.analysis.kernel.conflicts import completed, exclusive
from stitchcuda.analysis.kernel.lanes import lanes_of
from stitchcuda.analysis.kernel.model import Access, Barrier, BarrierKind, KernelTrace, Memory, Mode
from stitchcuda.analysis.program.ir import Site

_OF_PRODUCERS = (
    "producer_acquire",
    "producer_commit",
    "consumer_release",
)  # of a pipeline: no copy is complete after them


def unwaited(trace: KernelTrace) -> list[tuple[Access, Access]]:
    """Pairs of a copy and a read of what it copies, each pair of sites once."""
    pending: list[Access] = []
    commits = 0
    found: dict[tuple[Site, Site], tuple[Access, Access]] = {}
    for event in trace.events:
        if isinstance(event, Barrier):
            if event.kind is BarrierKind.COMMIT:
                commits += 1
            elif event.kind is BarrierKind.WAIT:
                pending = [c for c in pending if not completed(c, event, commits)]
            elif event.kind is BarrierKind.NAMED and event.name not in _OF_PRODUCERS:
                pending = []  # an object or a function that may have waited
        elif event.buffer.memory is Memory.SHARED:
            if event.mode is Mode.ASYNC_WRITE:
                pending.append(event)
            elif event.mode is not Mode.WRITE:
                for copy in pending:
                    key = (copy.site, event.site)
                    if key not in found and _meet(copy, event) and not exclusive(copy.guards, event.guards):
                        found[key] = (copy, event)
    return list(found.values())


def _meet(copy: Access, read: Access) -> bool:
    """Some lane reads bytes that some lane copies. An offset that is not known, or a copy by a group, is the whole array."""
    if copy.buffer != read.buffer or copy.field and read.field and copy.field != read.field:
        return False
    if copy.offset.unknown or copy.size is None:
        return copy.size is None and not read.offset.unknown or copy.offset.unknown and copy.size is None
    first, second = copy.offset.exact, read.offset.exact
    if first is None or second is None:
        wanted = {copy.offset.at(k) for k in lanes_of(copy.lanes)}
        return not read.offset.unknown and any(read.offset.at(k) in wanted for k in lanes_of(read.lanes))
    covered: set[int] = set()
    for lane in lanes_of(copy.lanes):
        start = first if isinstance(first, int) else first[lane]
        covered.update(range(start, start + copy.size))
    size = read.size or 1
    for lane in lanes_of(read.lanes):
        start = second if isinstance(second, int) else second[lane]
        if start in covered or start + size - 1 in covered:
            return True
    return False
