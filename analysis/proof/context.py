"""The first call of the CUDA runtime creates the context, which takes longer than most waits do."""

from __future__ import annotations

from collections.abc import Iterable

from stitchcuda.analysis.order.timeline import Condition, Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind

# What never reaches the device, or is no call of the runtime at all.
_IDLE = frozenset({ApiKind.HOST_READ, ApiKind.HOST_WRITE, ApiKind.NEUTRAL, ApiKind.QUERY, ApiKind.UNMODELLED})
_MOST_WAYS = 64  # of different conditions that are looked at


def may_create_context(line: Timeline, call: Op) -> bool:
    """Whether this may be the first call that needs the context: no other one is sure to come before it. Programs make such
    a call on purpose, so that none of the work that is timed later pays for the context."""
    around = set()
    loop = call.loop
    while loop is not None:
        around.add(loop)
        loop = line.loops[loop].parent
    held = frozenset(call.conditions)
    ways: dict[tuple[int, ...], set[frozenset[Condition]]] = {}  # by the round of the loops around
    for op in line.ops:
        if (
            op.kind not in _IDLE
            and op.certain
            and line.earlier[call.id] >> op.id & 1
            and op.site != call.site
            and _is_entered(line, op, around)
        ):
            ways.setdefault(op.iteration, set()).add(frozenset(op.conditions) - held)
    return not any(_one_holds(each) for each in ways.values())


def _is_entered(line: Timeline, op: Op, around: set[int]) -> bool:
    """Every loop around the op has a first round, or is around the call as well."""
    loop = op.loop
    while loop is not None and loop not in around:
        trip = line.loops[loop].trip
        if trip is None or trip.constant is None or trip.constant < 1:
            return False
        loop = line.loops[loop].parent
    return True


def _one_holds(ways: Iterable[frozenset[Condition]]) -> bool:
    """Whether at least one of these conjunctions holds whatever the decisions are: two that differ in how one decision went stand
    for what they have in common."""
    known = set(ways)
    fresh = list(known)
    while fresh and frozenset() not in known and len(known) <= _MOST_WAYS:
        one = fresh.pop()
        for other in list(known):
            apart = one ^ other
            if len(apart) == 2 and len({(c.site, c.text) for c in apart}) == 1 and (both := one & other) not in known:
                known.add(both)
                fresh.append(both)
    return frozenset() in known
