"""Many operations that all race with each other: the pairs that a nearer pair implies are not looked at one by one.

Of N operations on the same memory N * N / 2 pairs may be unordered, and of those of one later operation only the last few
are told: what runs before an earlier operation that races with it as surely goes without saying (`without_implied`). Here
such pairs are set aside as bitsets before any of their accesses are compared, and looked at only when the answer depends
on one. What is found is the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TypeAlias

from stitchcuda.analysis.findings.finding import RANK, Confidence
from stitchcuda.analysis.findings.lookup import bits
from stitchcuda.analysis.order.timeline import Op, Timeline

# How sure the race of two operations is, about one memory (a number of `Lookup.memory`) or any; None when there is none.
Surest: TypeAlias = Callable[[Op, Op, int | None], Confidence | None]
# What is known about the streams of two operations being different: no race of theirs is surer.
Apart: TypeAlias = Callable[[Timeline, Op, Op], Confidence]

FEW = 16  # so many earlier operations are looked at one by one
_TRIES = 16  # earlier operations that are asked how surely they race, for each later one


class Aside:
    """The pairs set aside. `place` names what is told once (a call path, a line): only operations that are the only one
    of theirs take part, since of several the surest stands for all."""

    def __init__(
        self, timeline: Timeline, place: Callable[[Op], object], surest: Surest, apart: Apart, few: int = FEW
    ) -> None:
        self.timeline = timeline
        self.surest = surest
        self.apart = apart
        self.few = few
        times = Counter(map(place, timeline.ops))
        self._alone = sum(1 << op.id for op in timeline.ops if times[place(op)] == 1)
        self._earlier: dict[int, dict[int, int]] = defaultdict(dict)  # by memory and later op: bitset of what is aside
        self._alike: dict[tuple[object, ...], int] = defaultdict(int)
        self._under: dict[frozenset[str], int] = defaultdict(int)  # by the texts of the conditions
        self._later = 0  # bitset of the later ops

    def left(self, later: Op, candidates: int, memory: int) -> int:
        """Those of the earlier ops (a bitset) that have to be looked at; the others are set aside."""
        if candidates.bit_count() <= self.few or not self._alone >> later.id & 1:
            return candidates
        ops, before = self.timeline.ops, self.timeline.before
        aside, open_ = 0, candidates & self._alone
        for _ in range(_TRIES):
            if not open_:
                break
            number = open_.bit_length() - 1
            open_ ^= 1 << number
            level = self.surest(ops[number], later, memory)
            if level is not None:
                implied = open_ & before[number]
                if level is not Confidence.CERTAIN:
                    implied &= self._no_surer(ops[number], later)
                aside |= implied
                open_ &= ~implied
        if aside:
            self._earlier[memory][later.id] = aside
            self._later |= 1 << later.id
        return candidates & ~aside

    def _no_surer(self, earlier: Op, later: Op) -> int:
        """Bitset of the ops that do what the earlier one does, in its stream: their races with the later one are no surer,
        unless something that is particular to the earlier one put its own in doubt. Where that is that each of the two stands
        under a condition of its own, it holds for all that stand under yet another one."""
        line = self.timeline
        doubted = line.on_some_paths(earlier.id, later.id) or line.may_wait[later.id] >> earlier.id & 1
        particular = doubted or not earlier.asynchronous or any(access.one_of for access in later.accesses)
        if particular and self.apart(line, earlier, later) is not Confidence.POSSIBLE:
            return 0
        if not self._alike:
            for op in line.ops:
                self._alike[_does(op)] |= 1 << op.id
                self._under[_texts(op)] |= 1 << op.id
        alike, mine, theirs = self._alike[_does(earlier)], _texts(earlier), _texts(later)
        if later.stream is None:  # what a loop of the host reads is held to the conditions of what was written
            return alike & self._under[mine]
        if (
            mine and theirs and mine != theirs
        ):  # that both hold is in doubt, as for all under others than the later one's
            return alike & ~(self._under[frozenset()] | self._under[theirs])
        return alike

    def implies(self, earlier: Op, later: Op, level: Confidence, memory: int | None) -> bool:
        """A pair set aside, of the same earlier op and of one in front of the later op in its stream, is a race at least as
        sure. `memory`: only of this one."""
        if not self._later:
            return False
        line = self.timeline
        front = line.before[later.id] | (line.earlier[later.id] if later.stream is None else 0)
        front = front & self._later & ~((1 << earlier.id + 1) - 1)
        kept = self._earlier.values() if memory is None else (self._earlier[memory],)
        for number in bits(front):
            other = line.ops[number]
            if other.stream == later.stream and any(k.get(number, 0) >> earlier.id & 1 for k in kept):
                known = self.surest(earlier, other, memory)
                if known is not None and RANK[known] >= RANK[level]:
                    return True
        return False


def _texts(op: Op) -> frozenset[str]:
    return frozenset(condition.text for condition in op.conditions)


def _does(op: Op) -> tuple[object, ...]:
    """All that the confidence of a race takes from its earlier op, but for its conditions and what is ordered before what."""
    what = (op.kind, op.api, op.kernel, op.scalars, op.copy_kind, op.accesses, op.asynchronous)
    return (*what, op.stream, op.device, op.thread, op.certain)
