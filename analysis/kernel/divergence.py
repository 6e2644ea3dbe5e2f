"""Barriers of the block that some of its threads do not reach (D2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stitchcuda.analysis.kernel.model import Barrier, BarrierKind, Guard, KernelTrace, Uniformity

_OF_THE_BLOCK = frozenset({BarrierKind.BLOCK, BarrierKind.GRID, BarrierKind.CLUSTER})


class Why(StrEnum):
    LANES = "lanes"  # these threads go another way, by their coordinates
    THREAD = "thread"  # by their coordinates, compared with something unknown
    DATA = "data"  # by what each thread loads
    LEFT = "left"  # they have returned before


@dataclass(frozen=True, slots=True)
class Divergence:
    """`guard` is the condition that parts the threads, None when it is known which lanes are missing. `elsewhere`: those
    that are missing reach another barrier instead."""

    barrier: Barrier
    why: Why
    guard: Guard | None = None
    elsewhere: bool = False
    loop: bool = False  # they left a loop that holds the barrier
    ends: bool = False  # those that pass by it meet no other barrier before they end


def divergences(trace: KernelTrace) -> list[Divergence]:
    """One for each barrier as written, the surest."""
    barriers = [b for b in trace.barriers if b.kind in _OF_THE_BLOCK]
    full = (1 << trace.block.threads) - 1
    found: dict[object, Divergence] = {}
    for position, barrier in enumerate(barriers):
        one = _of(position, barriers, full, trace)
        if one is None:
            continue
        known = found.get(barrier.site)
        if known is None or _rank(one) < _rank(known):
            found[barrier.site] = one
    return list(found.values())


def _rank(one: Divergence) -> int:
    return list(Why).index(one.why) + (10 if one.elsewhere else 0)


def _of(position: int, barriers: list[Barrier], full: int, trace: KernelTrace) -> Divergence | None:
    barrier = barriers[position]
    missing = barrier.alive & ~barrier.lanes
    if missing:
        elsewhere = any(b.lanes & barrier.lanes == 0 and b.lanes & missing == missing for b in barriers)
        ends = not any(b.lanes & missing for b in barriers[position + 1 :])
        return Divergence(barrier, Why.LANES, None, elsewhere, bool(barrier.loops), ends)
    varying = [g for g in barrier.guards if g.uniformity is not Uniformity.BLOCK and g.leaves != "return"]
    if varying:
        guard = varying[-1]
        if all(g.guessed for g in varying):
            return Divergence(barrier, Why.LEFT, guard)
        if not any(g.loop for g in varying) and _passers_end(barrier, varying, trace):
            return Divergence(barrier, Why.LEFT, guard, ends=True)
        data = any(g.uniformity is Uniformity.DATA for g in varying)
        elsewhere = any(
            any(g.key == guard.key and g.holds != guard.holds for g in b.guards) for b in barriers if b is not barrier
        )
        loop = guard.loop or _counts_rounds(guard, barriers)
        return Divergence(barrier, Why.DATA if data else Why.THREAD, guard, elsewhere, loop)
    left = [g for g in barrier.guards if g.uniformity is not Uniformity.BLOCK and g.leaves == "return"]
    if left:
        return Divergence(barrier, Why.LEFT, left[-1])
    if barrier.alive != full:
        return Divergence(barrier, Why.LEFT)
    return None


def _counts_rounds(guard: Guard, barriers: list[Barrier]) -> bool:
    """A loop is left by `break` on a condition that is another one in each round, like the condition of a loop."""
    keys = {g.key for b in barriers if b.loops for g in b.guards if g.site == guard.site and g.leaves == "break"}
    return guard.leaves == "break" and len(keys) > 1


def _passers_end(barrier: Barrier, varying: list[Guard], trace: KernelTrace) -> bool:
    """All that the kernel does afterwards stands in the same branch: the threads that pass by it end, as after an early
    return."""
    sites = {g.site for g in varying}
    if any(g.leaves for g in varying):
        return False
    after = trace.events.index(barrier, barrier.at) + 1
    return all(sites <= {g.site for g in event.guards} for event in trace.events[after:])
