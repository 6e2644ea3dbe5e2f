"""What was done to one array of shared memory since the last barrier."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TypeAlias

from stitchcuda.analysis.kernel.footprints import Cell, Footprint, Table
from stitchcuda.analysis.kernel.lanes import WARP
from stitchcuda.analysis.kernel.model import Access, Mode
from stitchcuda.analysis.program.ir import Site


@dataclass(slots=True)
class _Seen:
    """What was done to one cell: the last writes, and the last reads, by different lanes."""

    writes: list[tuple[Access, int]] = field(default_factory=list)
    reads: list[tuple[Access, int]] = field(default_factory=list)
    writes_known: int = 0  # how much of the memory's log they tell of
    reads_known: int = 0


_PART = 1024  # cells
Done: TypeAlias = tuple[int, Access, Footprint]  # with its position in the log


@dataclass(slots=True)
class Contents:
    """What was done to one array since the last barrier. Most accesses are of cells that no other lane has touched: the
    tables show that at once, and what was done to a cell is looked up only where lanes meet."""

    log: list[tuple[Access, Footprint]] = field(default_factory=list)
    written: Table = field(default_factory=Table)
    updated: Table = field(default_factory=Table)  # by atomics
    read: Table = field(default_factory=Table)
    seen: dict[Cell, _Seen] = field(default_factory=dict)
    sites: dict[Site, set[Mode]] = field(default_factory=dict)
    parts: dict[int, list[int]] = field(default_factory=dict)  # where in the log each part of the array is touched
    scattered: list[int] = field(default_factory=list)  # where in the log all parts may be

    def shared(self, footprint: Footprint, mode: Mode) -> AbstractSet[Cell]:
        """The cells of an access that other lanes have touched, in a way that asks for order."""
        cells = self.written.crossing(footprint)
        for table, counts in ((self.updated, mode is not Mode.ATOMIC), (self.read, mode is not Mode.READ)):
            if counts and table.footprints and len(cells) < footprint.pattern.size:
                cells = cells | table.crossing(footprint)
        return cells

    def add(self, access: Access, footprint: Footprint) -> None:
        position = len(self.log)
        self.log.append((access, footprint))
        if footprint.pattern.mask:
            for part in range(footprint.first // _PART, (footprint.first + footprint.pattern.last) // _PART + 1):
                self.parts.setdefault(part, []).append(position)
        else:
            self.scattered.append(position)
        self.sites.setdefault(access.site, set()).add(access.mode)
        table = self.updated if access.mode is Mode.ATOMIC else self.read if access.mode is Mode.READ else self.written
        table.add(footprint)

    def before(self, footprint: Footprint, cells: AbstractSet[Cell], *, reads: bool) -> list[Done]:
        """Of what was done, in order, that which may be kept of one of these cells of a footprint (`keep`). Without `reads`
        only what writes."""
        own = footprint.pattern.mask
        # cells that one, two and three later accesses touch: reads, and what writes
        once, twice, thrice = [0, 0], [0, 0], [0, 0]
        found = []
        for position in self._near(footprint, cells):
            access, other = self.log[position]
            writes = access.mode is not Mode.READ
            if not (reads or writes):
                continue
            mask = other.pattern.mask
            if mask and own:
                apart = other.first - footprint.first
                mask = own & (mask << apart if apart >= 0 else mask >> -apart)
                if not mask & ~thrice[writes]:
                    continue
                thrice[writes] |= twice[writes] & mask
                twice[writes] |= once[writes] & mask
                once[writes] |= mask
            found.append((position, access, other))
            if thrice[True] == own and own and (not reads or thrice[False] == own):
                break
        found.reverse()
        return found

    def _near(self, footprint: Footprint, cells: AbstractSet[Cell]) -> Sequence[int]:
        """Positions in the log of what may have touched one of some cells, the last first."""
        if not footprint.pattern.mask:
            return range(len(self.log) - 1, -1, -1)
        parts = {cell // _PART for cell in cells}
        if len(parts) == 1 and not self.scattered:
            return self.parts.get(parts.pop(), [])[::-1]
        near = set(self.scattered).union(*[self.parts.get(part, ()) for part in parts])
        return sorted(near, reverse=True)

    def at(self, cell: Cell, before: Sequence[Done], *, reads: bool) -> list[tuple[Access, int]]:
        """What is kept of a cell: what wrote, and with `reads` what read. `before` is what `before` gives for it."""
        seen = self.seen.get(cell)
        if seen is None:
            seen = self.seen[cell] = _Seen()
        first = min(seen.writes_known, seen.reads_known) if reads else seen.writes_known
        for position, access, footprint in before[bisect_left(before, first, key=_position) :] if first else before:
            read = access.mode is Mode.READ
            if position >= (seen.reads_known if read else seen.writes_known) and footprint.touches(cell):
                kept = seen.reads if read else seen.writes
                for lane in footprint.lanes_at(cell):
                    keep(kept, access, lane)
        seen.writes_known = len(self.log)
        if not reads:
            return seen.writes
        seen.reads_known = len(self.log)
        return seen.writes + seen.reads


_position = itemgetter(0)


def keep(kept: list[tuple[Access, int]], event: Access, lane: int) -> None:
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
