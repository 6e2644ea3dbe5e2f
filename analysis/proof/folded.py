"""Timelines in which each group of launches is one operation, so that what holds of operations can be asked of groups.

The operation is before another when all of the group is, and may have been issued before it when any is; `groups.py` has
made sure that nothing comes between them, so that both say the same of all members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stitchcuda.analysis.order.timeline import (
    Access,
    Certainty,
    Ending,
    Fault,
    Measurement,
    Mode,
    Op,
    Range,
    Released,
    Timeline,
)
from stitchcuda.analysis.proof.groups import Grouped
from stitchcuda.analysis.proof.matching import show
from stitchcuda.analysis.proof.obligations import exposed


@dataclass(frozen=True)
class Folded:
    """Both Timelines, the operations that stand for groups (`given`, from one to the other), and what between them has no
    counterpart (`apart`)."""

    before: Timeline
    after: Timeline
    given: Mapping[int, int]
    apart: tuple[frozenset[int], frozenset[int]]


def folded(
    before: Timeline,
    after: Timeline,
    found: Grouped,
) -> Folded:
    """Both operations of a group touch what the original's launches touched, as the new launches touch no more but for
    scratch memory; a buffer that the changed version lacks counts for neither."""
    before, scratch = _with_scratch(before, after, found.scratch)
    olds: list[Op] = []
    news: list[Op] = []
    groups = found.groups
    for group in groups:
        members = [before.ops[n] for n in group.old]
        others = [after.ops[n] for n in group.new]
        touched = [(a, other) for a in _accesses(members) if (other := found.image(a.buffer)) is not None]
        mine = {a.buffer: a for op in others for a in op.accesses if a.buffer in scratch}
        touched += [(Access(scratch[b], Mode.WRITE, certainty=a.certainty), b) for b, a in mine.items()]
        olds.append(replace(members[0], accesses=tuple(a for a, _ in touched)))
        heard = next((op for op in others if found.speaks(op)), others[0])
        accesses = tuple(replace(a, buffer=other) for a, other in touched)
        news.append(replace(others[0], accesses=accesses, kernel=heard.kernel))
    one, other_side = (
        _Renumbered(before, [g.old for g in groups], olds),
        _Renumbered(after, [g.new for g in groups], news),
    )
    given = {one.place[g.old[0]]: other_side.place[g.new[0]] for g in groups}
    apart = [frozenset(line.place[n] for g in groups for n in g.inside[k]) for k, line in enumerate((one, other_side))]
    return Folded(one.timeline(), other_side.timeline(), given, (apart[0], apart[1]))


def _with_scratch(
    before: Timeline, after: Timeline, scratch: Mapping[int, int | None]
) -> tuple[Timeline, dict[int, int]]:
    """The original with a buffer for each scratch buffer of the changed version that it lacks, and which stands for which."""
    buffers, known = list(before.buffers), {}
    for new, old in scratch.items():
        if old is None:
            old = len(buffers)
            buffers.append(replace(after.buffers[new], id=old, alloc_op=None))
        known[new] = old
    return replace(before, buffers=tuple(buffers)), known


def _accesses(members: Sequence[Op]) -> list[Access]:
    """What launches touch together. A read of what they wrote themselves before is none of the group."""
    open_reads = exposed(members)
    found: dict[tuple[object, ...], Access] = {}
    wide: set[int] = set()
    for op in members:
        for access in op.accesses:
            if access.mode is Mode.READ and access.buffer not in open_reads:
                wide.add(access.buffer)
                continue
            key = (access.buffer, access.mode, _shown(access.range), access.fields)
            known = found.get(key)
            if known is None or known.certainty is Certainty.MAY:
                found[key] = access
    return [
        replace(a, range=Range(), fields=frozenset()) if a.buffer in wide and a.mode is not Mode.READ else a
        for a in found.values()
    ]


def _shown(where: Range) -> tuple[object, ...]:
    return show(where.offset), show(where.extent), show(where.stride), where.shape, where.member


class _Renumbered:
    """A Timeline whose groups are one operation each; `place` says where an operation went."""

    def __init__(self, line: Timeline, groups: Sequence[tuple[int, ...]], merged: Sequence[Op]) -> None:
        self._line, self._groups, self._merged = line, groups, merged
        self._all = [sum(1 << n for n in group) for group in groups]
        first = {group[0]: k for k, group in enumerate(groups)}
        inside = {n for group in groups for n in group[1:]}
        self.place: dict[int, int] = {}
        self._kept: list[int] = []  # the operation of the original numbering at each place
        for op in line.ops:
            if op.id not in inside:
                self.place[op.id] = len(self._kept)
                self._kept.append(op.id)
        for group in groups:
            self.place.update((n, self.place[group[0]]) for n in group)
        self._of_group = {self.place[n]: k for n, k in first.items()}
        self._runs = list(self._segments(set(first) | inside))

    def _segments(self, members: set[int]) -> list[tuple[int, int, int]]:
        """Runs of operations that keep their neighbours: first, how many, and where the first one went."""
        runs: list[tuple[int, int, int]] = []
        start = 0
        for number in [*sorted(members), len(self._line.ops)]:
            if number > start:
                runs.append((start, number - start, self.place[start]))
            start = number + 1
        return runs

    def _bits(self, mask: int, *, all_of: bool) -> int:
        out = 0
        for start, length, place in self._runs:
            out |= (mask >> start & ((1 << length) - 1)) << place
        for members, group in zip(self._all, self._groups, strict=True):
            hit = mask & members
            if hit == members if all_of else hit:
                out |= 1 << self.place[group[0]]
        return out

    def _masks(self, masks: Sequence[int], *, all_of: bool) -> tuple[int, ...]:
        out: list[int] = []
        for place, number in enumerate(self._kept if masks else ()):
            k = self._of_group.get(place)
            own = [self._bits(masks[n], all_of=all_of) for n in (self._groups[k] if k is not None else (number,))]
            mask = own[0]
            for more in own[1:]:
                mask = mask & more if all_of else mask | more
            out.append(mask & ~(1 << place))
        return tuple(out)

    def _some(self, mask: int) -> int:
        return self._bits(mask, all_of=False)

    def _maybe(self, number: int | None) -> int | None:
        return None if number is None else self.place[number]

    def _op(self, place: int, number: int) -> Op:
        k = self._of_group.get(place)
        op = self._line.ops[number] if k is None else self._merged[k]
        return replace(
            op,
            id=place,
            waits=self._some(op.waits),
            awaited=self._some(op.awaited),
            records=tuple(self.place[r] for r in op.records),
        )

    def _released(self, released: Released) -> Released:
        return replace(released, op=self._maybe(released.op))

    def _ending(self, e: Ending) -> Ending:
        users, maybe, before = self._some(e.users), self._some(e.maybe), self._some(e.before)
        return replace(e, released=self._released(e.released), users=users, maybe=maybe, before=before)

    def _measurement(self, m: Measurement) -> Measurement:
        since, running, maybe, covered = map(self._some, (m.since, m.running, m.maybe, m.covered))
        return replace(m, since=since, running=running, maybe=maybe, covered=covered)

    def _fault(self, f: Fault) -> Fault:
        return replace(f, op=self._maybe(f.op), begin=self._maybe(f.begin), other=self._maybe(f.other))

    def timeline(self) -> Timeline:
        line = self._line
        edges = [replace(e, source=self.place[e.source], target=self.place[e.target]) for e in line.edges]
        return replace(
            line,
            ops=tuple(self._op(place, number) for place, number in enumerate(self._kept)),
            before=self._masks(line.before, all_of=True),
            earlier=self._masks(line.earlier, all_of=False),
            may_wait=self._masks(line.may_wait, all_of=False),
            partly=self._masks(line.partly, all_of=False),
            edges=tuple(e for e in edges if e.source != e.target),
            buffers=tuple(replace(b, alloc_op=self._maybe(b.alloc_op)) for b in line.buffers),
            stale=tuple(replace(s, released=self._released(s.released), op=self._maybe(s.op)) for s in line.stale),
            endings=tuple(map(self._ending, line.endings)),
            measurements=tuple(map(self._measurement, line.measurements)),
            faults=tuple(map(self._fault, line.faults)),
        )
