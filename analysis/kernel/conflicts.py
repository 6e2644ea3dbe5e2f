"""Pairs of accesses by different threads of a block to the same shared memory with no barrier between them (D1, D3, D6).

A pair is a witness: these two lanes touch the same bytes, at least one of them writes, and on the path at hand nothing
orders them. `warp_only` tells that all witnesses found for two sites lie in one warp each.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias

from stitchcuda.analysis.kernel.arithmetic import LOADED
from stitchcuda.analysis.kernel.contents import Contents, Done
from stitchcuda.analysis.kernel.footprints import Cell, Footprint, Footprints
from stitchcuda.analysis.kernel.lanes import WARP, Form, lanes_of
from stitchcuda.analysis.kernel.learnt import (
    Array,
    Asked,
    Best,
    Conflict,
    Later,
    Learnt,
    Stretch,
    Watched,
    asked_again,
    closest,
    merged,
)
from stitchcuda.analysis.kernel.model import (
    Access,
    Barrier,
    BarrierKind,
    Buffer,
    Guard,
    KernelTrace,
    Mark,
    Memory,
    Mode,
    Uniformity,
)
from stitchcuda.analysis.program.ir import Site

_ASKED_AGAIN = 16  # cells after which it is asked again whether more is to be learnt
SEPARATING = frozenset({BarrierKind.BLOCK, BarrierKind.NAMED, BarrierKind.GRID, BarrierKind.CLUSTER})


@dataclass(slots=True)
class _Pair:
    """Two accesses of which lanes meet."""

    best: Best
    done: bool  # nothing more is to be learnt of it
    asked: bool = False  # whether `barred` and what follows is known
    barred: bool = False
    equal: tuple[Form, ...] = ()
    own: int = 0  # lanes that read what they have written themselves
    meetings: tuple[Barrier, ...] = ()


_MOST_KEPT = 20_000  # events of the traces of one kernel: those of its shapes, and with barriers put in
_last: list[Learnt] = []  # of the kernel at hand: several rules ask
_footprints: list[tuple[tuple[Mark, ...], Footprints]] = []  # traces with barriers put in share them


def conflicts(trace: KernelTrace) -> list[Conflict]:
    """One conflict for each pair of sites, the widest that is found: across warps before within one."""
    for known in _last:
        if known.trace is trace:
            return known.conflicts
    if _last and not trace.is_of_same_text(_last[-1].trace):
        _last.clear()
        _footprints.clear()
    found = _searched(trace)
    _last.append(found)
    while len(_last) > 4 and sum([len(known.trace.events) for known in _last]) > _MOST_KEPT:
        # what is known without any barrier put in helps with all others
        del _last[next((k for k, known in enumerate(_last) if known.trace.put), 0)]
    return found.conflicts


def _searched(trace: KernelTrace) -> Learnt:
    known = closest(_last, trace)
    asked = asked_again(known, trace) if known is not None else None
    search = _Search(trace, _footprints_of(trace), asked)
    if asked is None or asked.places:
        search.run()
    watched, found = search.watched, search.found
    if known is not None and asked is not None:
        found = merged([best for best in known.found if not asked.about(best.later, best.earlier)], found)
        watched = known.watched
        watched.uncertain |= search.watched.uncertain
    return Learnt(trace, found, watched, [best.conflict for best in found if best.conflict is not None])


def _footprints_of(trace: KernelTrace) -> Footprints:
    for marks, known in _footprints:
        if marks is trace.marks:
            return known
    made = Footprints(trace)
    _footprints.append((trace.marks, made))
    del _footprints[:-4]
    return made


class _Search:
    def __init__(self, trace: KernelTrace, footprints: Footprints, asked: Asked | None) -> None:
        self.trace = trace
        self.footprints = footprints
        self.asked = asked  # None: for everything
        self.watched = Watched()
        self.barriers: list[Barrier] = []  # that separate the block, since all was forgotten
        self.meetings: list[Barrier] = []  # of warps
        # apart for symbolic footprints: they meet no others
        self.memory: dict[tuple[Buffer, str, bool], Contents] = {}
        self.loose: dict[Array, dict[Site, list[Access]]] = {}  # whose index may be any
        self.exact: dict[Array, dict[Site, list[Access]]] = {}
        self.best: dict[Later, dict[Site, Best]] = {}
        self.found: list[Best] = []
        self.repeated: dict[tuple[Site, Buffer, str, Form | int, int], Stretch] = {}
        self.pending: list[Access] = []
        self.contradictions: Contradictions = {}

    def run(self) -> None:
        commits = 0
        for event in self.trace.events:
            if isinstance(event, Access):
                if event.buffer.memory is not Memory.SHARED:
                    continue
                if event.mode is Mode.ASYNC_WRITE:
                    self.pending.append(event)
                self._access(event)
            elif event.kind in SEPARATING:
                self._barrier(event)
            elif event.kind in (BarrierKind.WARP, BarrierKind.COLLECTIVE, BarrierKind.FENCE):
                self.meetings.append(event)
            elif event.kind is BarrierKind.COMMIT:
                commits += 1
            elif event.kind is BarrierKind.WAIT:
                self._waited(event, commits)

    def _barrier(self, event: Barrier) -> None:
        self.repeated.clear()
        if not event.guards:
            self.barriers.clear()
            self.meetings.clear()
            self.memory.clear()
            self.loose.clear()
            self.exact.clear()
            if event.kind is BarrierKind.NAMED:
                self.pending.clear()
        else:
            self.barriers.append(event)

    def _waited(self, wait: Barrier, commits: int) -> None:
        """The copies that are complete now are writes of this moment: a barrier before it does not publish them."""
        left: list[Access] = []
        for access in self.pending:
            if not completed(access, wait, commits):
                left.append(access)
            else:
                footprint = self.footprints.of(access)
                self._contents(access, footprint).add(access, footprint)
        self.pending = left

    def _contents(self, access: Access, footprint: Footprint) -> Contents:
        key = (access.buffer, access.field, footprint.symbolic)
        contents = self.memory.get(key)
        if contents is None:
            contents = self.memory[key] = Contents()
        return contents

    # ----------------------------------------------------------------------------------------------------------- accesses

    def _access(self, event: Access) -> None:
        mode = event.mode
        array = (event.buffer, event.field)
        later = (event.site, mode)
        asked = self.asked
        if asked is None:
            self.watched.arrays.setdefault(later, set()).add(array)
            if mode is Mode.ASYNC_WRITE:
                self.watched.uncertain.add(array)
        elif array not in asked.arrays:
            if mode is not Mode.READ:
                self.repeated.clear()
            return
        if mode is not Mode.READ:
            self.repeated.clear()
        elif self._repeats(event, array):
            return
        wanted = asked is None or later in asked.places
        if event.offset.unknown:
            if _anywhere(event):
                if wanted:
                    self._against(self.exact.get(array), event)
                self.loose.setdefault(array, {}).setdefault(event.site, []).append(event)
            return
        footprint = self.footprints.of(event)
        contents = self._contents(event, footprint)
        if wanted and not self._settled(event, contents):
            meeting = contents.shared(footprint, mode)
            if meeting:
                self._meet(event, footprint, contents, meeting)
        if mode is not Mode.ASYNC_WRITE:
            contents.add(event, footprint)
        if wanted:
            self._against(self.loose.get(array), event)
        self.exact.setdefault(array, {}).setdefault(event.site, []).append(event)

    def _repeats(self, event: Access, array: Array) -> bool:
        where = event.offset if event.offset.unknown else id(self.footprints.of(event))
        key = (event.site, event.buffer, event.field, where, event.lanes)
        stretch = self.repeated.get(key)
        if stretch is None:
            self.repeated[key] = [event.at, event.at]
            return False
        if stretch[0] == stretch[1]:
            self.watched.left_out.setdefault(array, []).append(stretch)
        stretch[1] = event.at
        return True

    def _meet(self, event: Access, footprint: Footprint, contents: Contents, cells: AbstractSet[Cell]) -> None:
        reads = event.mode is not Mode.READ
        before = contents.before(footprint, cells, reads=reads)
        pairs: dict[int, _Pair] = {}
        cells = self._open(event, footprint, before, pairs)
        if not cells:  # mostly: a barrier stands between, or it is known that they meet
            return
        kept: dict[Cell, list[tuple[Access, int]]] = {}
        met = 0
        learnt = False
        for place, cell in enumerate(footprint.cells):
            if cell not in cells:
                continue
            lane = footprint.lanes[place]
            met += 1
            if learnt and not met % _ASKED_AGAIN:
                learnt = False
                cells = self._open(event, footprint, before, pairs)
                if not cells:
                    return
            seen = kept.get(cell)
            if seen is None:
                seen = kept[cell] = contents.at(cell, before, reads=reads)
            for earlier, other in seen:
                if other == lane:
                    continue
                pair = pairs[earlier.at]
                if not pair.done:
                    known = pair.best.conflict
                    self._met(pair, earlier, event, other, lane, place)
                    learnt = learnt or pair.best.conflict is not known

    def _open(
        self, event: Access, footprint: Footprint, before: Sequence[Done], pairs: dict[int, _Pair]
    ) -> AbstractSet[Cell]:
        """The cells in which something may be learnt of an access and those before it."""
        cells: frozenset[Cell] = frozenset()
        for _, earlier, other in before:
            pair = pairs.get(earlier.at)
            if pair is None:
                pair = pairs[earlier.at] = self._pair(earlier, event)
            known = pair.best.conflict
            certain = known is not None and known.sure and not known.barred
            pair.done = pair.done or known is not None and certain and not known.warp_only
            if pair.done:
                continue
            met = footprint.crossing(other, warps=certain)  # within a warp they are known to meet
            if not met:
                continue
            if not pair.asked:
                self._ask(pair, earlier, event)
            if not (pair.done or certain and pair.barred):
                cells = met if not cells else cells | met
        return cells

    def _settled(self, event: Access, contents: Contents) -> bool:
        """Nothing more is to be learnt about this place and those that have touched the array."""
        best = self.best.get((event.site, event.mode))
        if best is None:
            return False
        for site, modes in contents.sites.items():
            if event.mode in modes and len(modes) == 1 and event.mode is not Mode.WRITE:
                continue  # reads and reads, updates and updates
            if self.asked is not None and not self.asked.about((event.site, event.mode), site):
                continue
            known = best.get(site)
            found = known.conflict if known is not None else None
            if found is None or found.barred or found.warp_only or not found.sure:
                return False
        return True

    def _against(self, before: dict[Site, list[Access]] | None, later: Access) -> None:
        """An index that is loaded may be any: it meets what other lanes did to the array since the last barrier."""
        if not before:
            return
        best = self.best.setdefault((later.site, later.mode), {})
        for site, accesses in before.items():
            if self.asked is not None and not self.asked.about((later.site, later.mode), site):
                continue
            for earlier in accesses:
                known = best.get(site)
                found = known.conflict if known is not None else None
                if found is not None and not found.barred and not found.warp_only:
                    break  # nothing more is to be learnt about the two places
                self._one_loose(earlier, later)

    def _one_loose(self, earlier: Access, later: Access) -> None:
        modes = {earlier.mode, later.mode}
        if modes == {Mode.READ} or modes == {Mode.ATOMIC} or Mode.READ not in modes and Mode.ATOMIC not in modes:
            return
        if _parts(earlier, later):
            return
        first = lanes_of(earlier.lanes)[0]
        others = lanes_of(later.lanes)
        lane = others[-1]
        if lane == first:
            if len(others) == 1:
                return
            lane = others[-2]
        self._met(self._pair(earlier, later), earlier, later, first, lane, None)

    # ---------------------------------------------------------------------------------------------------------- conflicts

    def _pair(self, earlier: Access, later: Access) -> _Pair:
        place = (later.site, later.mode)
        same = self.best.setdefault(place, {})
        best = same.get(earlier.site)
        if best is None:
            best = same[earlier.site] = Best(place, earlier.site)
        if self.asked is not None and not self.asked.about(place, earlier.site):
            return _Pair(best, True)
        atomic = earlier.mode is Mode.ATOMIC and later.mode is Mode.ATOMIC
        return _Pair(best, earlier.at == later.at or atomic)

    def _met(self, pair: _Pair, earlier: Access, later: Access, first: int, second: int, place: int | None) -> None:
        """`place`: in the footprint of the later one; None when an index may be any."""
        if pair.done:
            return
        sure = place is not None
        within = first // WARP == second // WARP
        known = pair.best.conflict
        if known is not None and not known.barred and known.sure >= sure and (not known.warp_only or within):
            if not within or not known.warp_only:
                pair.done = True
            return
        if not pair.asked:
            self._ask(pair, earlier, later)
            if pair.done:
                return
        if pair.own >> second & 1 or any(e.at(first) != e.at(second) for e in pair.equal):
            return
        collective = False
        if within:
            for meeting in pair.meetings:
                if _meets(meeting, first, second):
                    if meeting.kind is BarrierKind.WARP:
                        return
                    collective = True
        if known is not None and known.barred < pair.barred:
            return
        best = pair.best
        if known is None:
            self.found.append(best)
            best.first = (later.at, place or 0, earlier.mode is Mode.READ, earlier.at)
        if place is None:
            self.watched.uncertain.add((later.buffer, later.field))
        stretch = [earlier.at, later.at]
        if not best.counted or best.counted[-1] != stretch:
            best.counted.append(stretch)
        best.conflict = Conflict(earlier, later, (first, second), within, sure, pair.barred, collective)

    def _ask(self, pair: _Pair, earlier: Access, later: Access) -> None:
        pair.asked = True
        barred = self._apart(earlier, later)
        if barred is None:
            pair.done = True
            return
        pair.barred = barred
        pair.equal = _one_lane(earlier, later)
        pair.own = earlier.lanes if _own_value(earlier, later) else 0
        pair.meetings = tuple([m for m in self.meetings if earlier.at < m.at < later.at])

    def _apart(self, earlier: Access, later: Access) -> bool | None:
        """None: the paths exclude each other, or a barrier stands between them. Else whether one may stand there."""
        if exclusive(earlier.guards, later.guards, self.contradictions):
            return None
        return apart(self.barriers, earlier, later, self.contradictions)


def apart(
    barriers: Sequence[Barrier], earlier: Access, later: Access, known: Contradictions | None = None
) -> bool | None:
    """None: one of these barriers, which are in order, stands between two accesses. Else whether one may stand there."""
    barred = False
    for barrier in reversed(barriers):
        if barrier.at <= earlier.at:  # one that was put in has the number of what follows it
            break
        if barrier.at <= later.at:
            answer = _stands(barrier, earlier, later, known)
            if answer is True:
                return None
            barred = barred or answer is None
    return barred


def completed(access: Access, wait: Barrier, commits: int) -> bool:
    """A copy is complete after a wait that leaves fewer groups under way than were committed since."""
    if wait.pending is None or wait.pending < 0:
        return True
    return access.group < commits - wait.pending


Contradictions: TypeAlias = dict[tuple[int, int], bool]  # of guards, by what they are in memory


def exclusive(a: Sequence[Guard], b: Sequence[Guard], known: Contradictions | None = None) -> bool:
    """No launch takes both paths. `known` is kept by who asks often, and as long as the guards are."""
    taken = {g.key: g.holds for g in a}
    bounds: list[Guard] = []
    for guard in b:
        if taken.get(guard.key, guard.holds) != guard.holds:
            return True
        if guard.margin is not None and guard.uniformity is Uniformity.BLOCK:
            bounds.append(guard)
    if not bounds:
        return False
    for first in a:
        if first.margin is None or first.uniformity is not Uniformity.BLOCK:
            continue
        for second in bounds:
            if second is first:
                continue
            pair = (id(first), id(second))
            answer = known.get(pair) if known is not None else None
            if answer is None:
                answer = _contradict(first, second)
                if known is not None:
                    known[pair] = answer
            if answer:
                return True
    return False


def _contradict(first: Guard, second: Guard) -> bool:
    assert first.margin is not None and second.margin is not None
    if first.margin.symbols != second.margin.symbols:
        return False
    total = (first.margin + second.margin).constant
    return total is not None and total < 0


def _stands(barrier: Barrier, earlier: Access, later: Access, known: Contradictions | None) -> bool | None:
    """Whether a barrier is reached whenever both accesses are: True, never (False), or not known (None)."""
    given = (*earlier.guards, *later.guards)
    keys = {(g.key, g.holds) for g in given}
    if all((g.key, g.holds) in keys for g in barrier.guards):
        return True
    return False if exclusive(barrier.guards, given, known) else None


def _one_lane(earlier: Access, later: Access) -> tuple[Form, ...]:
    """Equalities under which both stand, `t == k`, and that only lanes meet in which these numbers are the same."""
    wanted = {g.key: g.equal for g in earlier.guards if g.equal is not None and g.holds}
    found = (wanted.get(guard.key) if guard.holds else None for guard in later.guards)
    return tuple(equal for equal in found if equal is not None and not equal.unknown)


def _own_value(earlier: Access, later: Access) -> bool:
    """All threads write the same number to one place: who reads it afterwards reads what it has written itself."""
    return (
        later.mode is Mode.READ
        and earlier.mode is Mode.WRITE
        and earlier.value is not None
        and earlier.value.same_on(earlier.lanes)
        and earlier.offset.same_on(earlier.lanes)
    )


def _meets(meeting: Barrier, first: int, second: int) -> bool:
    width = meeting.width or WARP
    if first // width != second // width or not (meeting.lanes >> first & 1 and meeting.lanes >> second & 1):
        return False
    named = meeting.mask.exact if meeting.mask is not None else None
    if named is None:
        return True
    return all(
        (named if isinstance(named, int) else named[lane]) >> other % WARP & 1
        for lane, other in ((first, second), (second, first))
    )


def _anywhere(access: Access) -> bool:
    """The part of its offset that is known is the same in all lanes, and the rest is what each lane has loaded."""
    if any(s[0] == "^" or s[0] == "~" and not s.startswith(LOADED) for s in access.offset.symbols):
        return False
    rest = Form(tuple((m, c) for m, c in access.offset.terms if not any(s[0] == "~" for s in m)))
    scaled = all(isinstance(c, int) for m, c in access.offset.terms if any(s[0] == "~" for s in m))
    return scaled and rest.same_on(access.lanes)


def _parts(a: Access, b: Access) -> bool:
    """Through two pointers that share out one array: what is loaded is an index into the part of its own pointer."""
    return (
        a.part is not None
        and b.part is not None
        and a.part != b.part
        and all(not e.part.unknown and e.part.same_on(e.lanes) for e in (a, b) if e.part is not None)
    )
