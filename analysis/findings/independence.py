"""Which operations have nothing to do with each other: what hints need before they say that two could overlap."""

from __future__ import annotations

from stitchcuda.analysis.order.alias import same_memory
from stitchcuda.analysis.order.timeline import Access, Buffer, Mode, Op, Timeline


def independent(line: Timeline, first: Op, second: Op) -> bool:
    """No access of one meets one of the other of which one writes. Buffers that reach the entry through different
    parameters are taken to be different memory."""
    return not any(
        may_meet(line, a, b)
        for a in first.accesses
        for b in second.accesses
        if not (a.mode is Mode.READ and b.mode is Mode.READ)
    )


def may_meet(line: Timeline, a: Access, b: Access) -> bool:
    """Two accesses may touch the same bytes."""
    one, other = line.buffers[a.buffer], line.buffers[b.buffer]
    if one.id != other.id and _passed_in(one, other):
        return False
    return same_memory(line, a, b) is not False


def _passed_in(one: Buffer, other: Buffer) -> bool:
    """One comes through a parameter and the other from another parameter or from below the entry."""
    origins = (one.origin, other.origin)
    return "parameter" in origins and "unknown" not in origins
