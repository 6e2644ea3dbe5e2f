"""Pairs of accesses by different threads of a block to the same shared memory with no barrier between them (D1, D3, D6).

A pair is a witness: these two lanes touch the same bytes, at least one of them writes, and on the path at hand nothing
orders them. `warp_only` tells that all witnesses found for two sites lie in one warp each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import TypeAlias

from stitchcuda.analysis.kernel.arithmetic import LOADED
from stitchcuda.analysis.kernel.lanes import WARP, Form, lanes_of
from stitchcuda.analysis.kernel.model import (
    Access,
    Barrier,
    BarrierKind,
    Buffer,
    Guard,
    KernelTrace,
    Memory,
    Mode,
    Uniformity,
)
from stitchcuda.analysis.program.ir import Site

SEPARATING = frozenset({BarrierKind.BLOCK, BarrierKind.NAMED, BarrierKind.GRID, BarrierKind.CLUSTER})
Cell: TypeAlias = object


@dataclass(frozen=True, slots=True)
class Conflict:
    """`earlier` by lane `lanes[0]` and `later` by lane `lanes[1]`. `sure` is False when an access's place is not known
    exactly (an index that is loaded), `barred` when a barrier stands between them under a condition of its own."""

    earlier: Access
    later: Access
    lanes: tuple[int, int]
    warp_only: bool
    sure: bool = True
    barred: bool = False
    collective: bool = False  # a shuffle or vote of the warp, or a fence, stands between them


@dataclass(slots=True)
class _Seen:
    """What was done to one cell: the last writes, and the last reads, by different lanes."""

    writes: list[tuple[Access, int]] = field(default_factory=list)
    reads: list[tuple[Access, int]] = field(default_factory=list)


_last: list[tuple[KernelTrace, list[Conflict]]] = []  # of the kernel at hand: several rules ask


def conflicts(trace: KernelTrace) -> list[Conflict]:
    """One conflict for each pair of sites, the widest that is found: across warps before within one."""
    for known, found in _last:
        if known is trace:
            return found
    found = _Search(trace).run()
    _last.append((trace, found))
    del _last[:-4]
    return found


class _Search:
    def __init__(self, trace: KernelTrace) -> None:
        self.trace = trace
        self.barriers: list[Barrier] = []  # that separate the block, since all was forgotten
        self.meetings: list[Barrier] = []  # of warps
        self.cells: dict[tuple[Buffer, str], dict[Cell, _Seen]] = {}
        self.recent: dict[tuple[Buffer, str], list[Access]] = {}  # for accesses whose index is not known
        self.found: dict[tuple[Site, Site, Mode], Conflict] = {}
        self.granule = _granules(trace)
        self.repeated: set[tuple[Site, Form, int]] = set()
        self.pending: list[Access] = []
        self.apart: dict[tuple[int, int], bool | None] = {}
        self.finished: set[tuple[int, int]] = set()  # pairs of events of which nothing more is to be learnt

    def run(self) -> list[Conflict]:
        commits = 0
        for event in self.trace.events:
            if isinstance(event, Access):
                if event.buffer.memory is not Memory.SHARED:
                    continue
                if event.mode is Mode.ASYNC_WRITE:
                    self.pending.append(event)
                self._access(event, event.mode)
            elif event.kind in SEPARATING:
                self._barrier(event)
            elif event.kind in (BarrierKind.WARP, BarrierKind.COLLECTIVE, BarrierKind.FENCE):
                self.meetings.append(event)
            elif event.kind is BarrierKind.COMMIT:
                commits += 1
            elif event.kind is BarrierKind.WAIT:
                self._waited(event, commits)
        return list(self.found.values())

    def _barrier(self, event: Barrier) -> None:
        self.repeated.clear()
        if not event.guards:
            self.barriers.clear()
            self.meetings.clear()
            self.cells.clear()
            self.recent.clear()
            if event.kind is BarrierKind.NAMED:
                self.pending.clear()
        else:
            self.barriers.append(event)

    def _waited(self, wait: Barrier, commits: int) -> None:
        """The copies that are complete now are writes of this moment: a barrier before it does not publish them."""
        done: list[Access] = []
        left: list[Access] = []
        for access in self.pending:
            (done if completed(access, wait, commits) else left).append(access)
        self.pending = left
        for access in done:
            self._remember(access, wait.at)

    # ----------------------------------------------------------------------------------------------------------- accesses

    def _access(self, event: Access, mode: Mode) -> None:
        key = (event.site, event.offset, event.lanes)
        if mode is Mode.READ:
            if key in self.repeated:
                return
            self.repeated.add(key)
        else:
            self.repeated.clear()
        buffer = (event.buffer, event.field)
        if event.offset.unknown:
            self._wild(event, buffer)
            return
        cells = self.cells.setdefault(buffer, {})
        pairs = list(self._cells(event))
        reading, at, finished = mode is Mode.READ, event.at, self.finished
        for cell, lane in pairs:
            seen = cells.get(cell)
            if seen is None:
                cells[cell] = _Seen()
                continue
            for earlier, other in seen.writes:
                if other != lane and (earlier.at, at) not in finished:
                    self._met(earlier, event, other, lane)
            if not reading:
                for earlier, other in seen.reads:
                    if other != lane and (earlier.at, at) not in finished:
                        self._met(earlier, event, other, lane)
        if mode is not Mode.ASYNC_WRITE:
            for cell, lane in pairs:
                seen = cells[cell]
                _keep(seen.reads if reading else seen.writes, event, lane)
        if self.recent.get(buffer):
            self._against_wild(event, buffer)
        self.recent.setdefault(buffer, []).append(event)

    def _remember(self, event: Access, at: int) -> None:
        cells = self.cells.setdefault((event.buffer, event.field), {})
        for cell, lane in self._cells(event):
            _keep(cells.setdefault(cell, _Seen()).writes, event, lane)

    def _cells(self, event: Access) -> Iterator[tuple[Cell, int]]:
        lanes = lanes_of(event.lanes)
        exact = event.offset.exact
        grain = self.granule.get(event.buffer, 0)
        if exact is None or not grain or event.size is None:
            return ((event.offset.at(lane), lane) for lane in lanes)
        first = [exact // grain] * len(lanes) if isinstance(exact, int) else [exact[lane] // grain for lane in lanes]
        if event.size == grain:
            return zip(first, lanes, strict=True)
        steps = range(event.size // grain)
        return ((start + step, lane) for start, lane in zip(first, lanes, strict=True) for step in steps)

    def _wild(self, event: Access, buffer: tuple[Buffer, str]) -> None:
        """An index that is loaded may be any: it meets what other lanes did to the array since the last barrier."""
        for earlier in self.recent.get(buffer, ()):
            self._one_wild(earlier, event)
        self.recent.setdefault(buffer, []).append(event)

    def _against_wild(self, event: Access, buffer: tuple[Buffer, str]) -> None:
        for earlier in self.recent[buffer]:
            if earlier.offset.unknown:
                self._one_wild(earlier, event)

    def _one_wild(self, earlier: Access, later: Access) -> None:
        modes = {earlier.mode, later.mode}
        if modes == {Mode.READ} or modes == {Mode.ATOMIC} or Mode.READ not in modes and Mode.ATOMIC not in modes:
            return
        if earlier.offset.unknown and later.offset.unknown:
            return
        for access in (earlier, later):
            if access.offset.unknown and not _anywhere(access):
                return
        first = lanes_of(earlier.lanes)[0]
        others = [k for k in lanes_of(later.lanes) if k != first]
        if not others:
            return
        lane = others[-1]
        self._met(earlier, later, first, lane, sure=False)

    # ---------------------------------------------------------------------------------------------------------- conflicts

    def _met(self, earlier: Access, later: Access, first: int, second: int, *, sure: bool = True) -> None:
        pair = (earlier.at, later.at)
        if earlier.at == later.at or earlier.mode is Mode.ATOMIC and later.mode is Mode.ATOMIC:
            self.finished.add(pair)
            return
        key = (earlier.site, later.site, later.mode)
        within = first // WARP == second // WARP
        known = self.found.get(key)
        if known is not None and not known.barred and known.sure >= sure and (not known.warp_only or within):
            if not within or not known.warp_only:
                self.finished.add(pair)
            return
        if pair not in self.apart:
            self.apart[pair] = self._apart(earlier, later)
        barred = self.apart[pair]
        if barred is None:
            self.finished.add(pair)
            return
        if _one_lane(earlier, later, first, second) or _own_value(earlier, later, second):
            return
        collective = False
        if within:
            for meeting in self.meetings:
                if earlier.at < meeting.at < later.at and _meets(meeting, first, second):
                    if meeting.kind is BarrierKind.WARP:
                        return
                    collective = True
        if known is not None and known.barred < barred:
            return
        self.found[key] = Conflict(earlier, later, (first, second), within, sure, barred, collective)

    def _apart(self, earlier: Access, later: Access) -> bool | None:
        """None: the paths exclude each other, or a barrier stands between them. Else whether one may stand there."""
        if exclusive(earlier.guards, later.guards):
            return None
        barred = False
        for barrier in reversed(self.barriers):
            if barrier.at < earlier.at:
                break
            if barrier.at < later.at:
                answer = _stands(barrier, earlier, later)
                if answer is True:
                    return None
                barred = barred or answer is None
        return barred


def completed(access: Access, wait: Barrier, commits: int) -> bool:
    """A copy is complete after a wait that leaves fewer groups under way than were committed since."""
    if wait.pending is None or wait.pending < 0:
        return True
    return access.group < commits - wait.pending


def exclusive(a: Sequence[Guard], b: Sequence[Guard]) -> bool:
    """No launch takes both paths."""
    taken = {g.key: g.holds for g in a}
    if any(taken.get(g.key, g.holds) != g.holds for g in b):
        return True
    return any(
        _contradict(first, second)
        for first in a
        if first.margin is not None and first.uniformity is Uniformity.BLOCK
        for second in b
        if second.margin is not None and second.uniformity is Uniformity.BLOCK
    )


def _contradict(first: Guard, second: Guard) -> bool:
    assert first.margin is not None and second.margin is not None
    if first.margin.symbols != second.margin.symbols:
        return False
    total = (first.margin + second.margin).constant
    return total is not None and total < 0


def _stands(barrier: Barrier, earlier: Access, later: Access) -> bool | None:
    """Whether a barrier is reached whenever both accesses are: True, never (False), or not known (None)."""
    given = (*earlier.guards, *later.guards)
    keys = {(g.key, g.holds) for g in given}
    if all((g.key, g.holds) in keys for g in barrier.guards):
        return True
    return False if exclusive(barrier.guards, given) else None


def _one_lane(earlier: Access, later: Access, first: int, second: int) -> bool:
    """Both stand under one equality, `t == k`, that no two lanes meet."""
    wanted = {g.key: g.equal for g in earlier.guards if g.equal is not None and g.holds}
    for guard in later.guards:
        equal = wanted.get(guard.key) if guard.holds else None
        if equal is not None and not equal.unknown and equal.at(first) != equal.at(second):
            return True
    return False


def _own_value(earlier: Access, later: Access, second: int) -> bool:
    """All threads write the same number to one place: who reads it afterwards reads what it has written itself."""
    return (
        later.mode is Mode.READ
        and earlier.mode is Mode.WRITE
        and earlier.value is not None
        and earlier.value.same_on(earlier.lanes)
        and earlier.offset.same_on(earlier.lanes)
        and bool(earlier.lanes >> second & 1)
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


def _keep(kept: list[tuple[Access, int]], event: Access, lane: int) -> None:
    """The newest accesses: two lanes of each event, of different warps if there are, and two of events before."""
    count = len(kept)
    if not count or kept[-1][0] is not event:
        if count > 2:
            del kept[:-2]
        kept.append((event, lane))
    elif count == 1 or kept[-2][0] is not event:
        kept.append((event, lane))
    elif kept[-1][1] // WARP == kept[-2][1] // WARP != lane // WARP:
        kept[-1] = (event, lane)


def _granules(trace: KernelTrace) -> dict[Buffer, int]:
    """The largest unit in which all accesses of a buffer can be counted; none when a size is not known."""
    out: dict[Buffer, int] = {}
    for access in trace.accesses:
        if access.buffer.memory is not Memory.SHARED or out.get(access.buffer) == 0:
            continue
        grain = out.get(access.buffer, access.size or 0)
        if not access.size:
            out[access.buffer] = 0
            continue
        grain = gcd(grain, access.size)
        exact = access.offset.exact
        if exact is not None:
            for value in (exact,) if isinstance(exact, int) else exact[:64]:
                grain = gcd(grain, value)
        out[access.buffer] = grain
    return {b: (max(0, g)) for b, g in out.items()}
