"""Two loops over one family, `for (l ...) put(d[l], s[l]); for (l ...) take(d[l], t[l]);`: each member meets itself.

The executor takes a long loop through two rounds of which the index is not known, so two operations of two loops use members
that are not known to be the same. Where nothing at all stands between the loops that could wait, that does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stitchcuda.analysis.order.alias import Conflict, alias, overlap
from stitchcuda.analysis.order.symbolic import Poly, symbol
from stitchcuda.analysis.order.timeline import Buffer, Memory, Op, Range, StreamKind, Timeline
from stitchcuda.analysis.program.ir import (
    RELEASES,
    ApiKind,
    Assign,
    Block,
    Const,
    Declare,
    Evaluate,
    Loop,
    Name,
    Program,
    walk,
)

# What makes nobody wait, when its stream is neither the default stream nor one of which nothing is known.
_WAITS_FOR_NOTHING = frozenset(
    {
        ApiKind.LAUNCH,
        ApiKind.COPY,
        ApiKind.MEMSET,
        ApiKind.EVENT_CREATE,
        ApiKind.EVENT_RECORD,
        ApiKind.STREAM_CREATE,
    }
)


def every_member_meets(program: Program, timeline: Timeline, earlier: Op, later: Op, clash: Conflict) -> bool:
    """Two loops from 0 that stand behind each other use the same member, or part, in the same round, and between the two
    operations nothing waits for any member."""
    if earlier.loop is None or later.loop is None or earlier.loop == later.loop or earlier.thread != later.thread:
        return False
    one, other = timeline.loops[earlier.loop], timeline.loops[later.loop]
    if one.trip is None or one.trip != other.trip or one.parent != other.parent or one.unrolled or other.unrolled:
        return False
    if earlier.iteration[:-1] != later.iteration[:-1] or earlier.iteration[-1:] != (0,) or later.iteration[-1:] != (0,):
        return False
    conditional = earlier.decided or later.decided or earlier.conditions != later.conditions
    if conditional or not _nothing_waits(timeline, earlier, later):
        return False
    counters = [counter_from_zero(program, timeline, number) for number in (earlier.loop, later.loop)]
    if counters[0] is None or counters[1] is None:
        return False
    round_ = {str(counters[1]): counters[0]}
    return _same_in_a_round(timeline, clash, round_, whole=later.kind in RELEASES)


def _same_in_a_round(timeline: Timeline, clash: Conflict, round_: Mapping[str, Poly], whole: bool) -> bool:
    """Both touch the same bytes when the counter of the second loop is where that of the first is. `whole`: the second is
    about all of its buffer."""
    one, other = timeline.buffers[clash.first.buffer], timeline.buffers[clash.second.buffer]
    if Memory.UNKNOWN in (one.memory, other.memory) or alias(one, _in_round(other, round_)) is not True:
        return False
    if whole:
        return True
    touched = clash.second.range
    offset = None if touched.offset is None else touched.offset.substitute(round_)
    extent = None if touched.extent is None else touched.extent.substitute(round_)
    there = Range(offset, extent, touched.stride, touched.shape, touched.member)
    return overlap(clash.first.range, there) is True


def _in_round(buffer: Buffer, round_: Mapping[str, Poly]) -> Buffer:
    return replace(buffer, instance=tuple(index.substitute(round_) for index in buffer.instance))


def _nothing_waits(timeline: Timeline, earlier: Op, later: Op) -> bool:
    """All that was issued from the one operation to the other is known to wait for nothing, and to let nothing wait. Another
    host thread may wait on behalf of this one."""
    if any(op.thread != later.thread for op in timeline.ops) or not _on_created(timeline, later):
        return False
    return all(_lets_run(timeline, op, later) for op in timeline.ops[earlier.id : later.id])


def _lets_run(timeline: Timeline, op: Op, later: Op) -> bool:
    if op.kind in (ApiKind.HOST_READ, ApiKind.HOST_WRITE):
        return op.loop == later.loop  # elsewhere the host may look at a flag until the device has set it
    return op.kind in _WAITS_FOR_NOTHING and op.asynchronous and op.certain and _on_created(timeline, op)


def _on_created(timeline: Timeline, op: Op) -> bool:
    if op.graph is not None:
        return False
    return op.stream is None or timeline.streams[op.stream].kind is StreamKind.CREATED


def counter_from_zero(program: Program, timeline: Timeline, loop: int) -> Poly | None:
    """The counter of a loop `for (i = 0; i < n; ...)`, as indexes name it; None for any other."""
    info = timeline.loops[loop]
    function = program.functions.get(info.site.function)
    if info.trip is None or info.unrolled or function is None or function.body is None:
        return None
    head = next((n for n in walk(function.body) if isinstance(n, Loop) and n.span[0] == info.site.span[0]), None)
    start = head.init if head is not None else None
    if isinstance(start, Block) and len(start.body) == 1:
        start = start.body[0]
    if isinstance(start, Declare):
        name, first = start.name, start.init
    elif isinstance(start, Evaluate) and isinstance(start.expr, Assign) and isinstance(start.expr.target, Name):
        name, first = start.expr.target.name, start.expr.value
    else:
        return None
    if not isinstance(first, Const) or first.value != 0:
        return None
    return symbol(f"{name}@{loop}")
