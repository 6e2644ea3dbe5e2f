"""Which cells of shared memory an access touches, and by which lanes: the unit in which accesses are compared."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from stitchcuda.analysis.kernel.coefficients import Distances
from stitchcuda.analysis.kernel.lanes import WARP, Form, Key, lanes_of
from stitchcuda.analysis.kernel.model import Access, Buffer, KernelTrace, Mask, Memory

Cell: TypeAlias = int
Owners: TypeAlias = dict[Cell, int]  # cells, each with the one lane (or warp) that touches it, or with `SEVERAL`

SEVERAL = -1
_FEW = 128  # footprints that are compared one by one
_FEW_NEW = 8  # of them, that were not compared before
_WIDEST = 1 << 16  # cells, of a pattern that is compared as a set of bits
_WIDEST_UNION = 1 << 18  # and of all patterns together


class Pattern:
    """Cells and lanes side by side, in order of lanes. Cells count from the first of them: accesses that walk through an array
    have one pattern."""

    def __init__(self, cells: tuple[Cell, ...], lanes: tuple[int, ...]) -> None:
        self.cells = cells
        self.lanes = lanes
        self.last = max(cells)
        self.mask = _mask(cells) if self.last <= _WIDEST else 0  # bit k: cell k is touched; 0: not known
        # by the other pattern, where it stands, and whether warps are compared
        self.crossings: dict[tuple[int, int, bool], frozenset[Cell]] = {}
        self._owners: Owners | None = None
        self._warps: Owners | None = None
        self._by_cell: dict[Cell, list[int]] | None = None
        self.size = len(set(cells))
        self.alone = self.size == len(cells)  # no two lanes touch one cell

    @property
    def owners(self) -> Owners:
        if self._owners is None:
            self._owners = self._owned_by(self.lanes)
        return self._owners

    @property
    def warps(self) -> Owners:
        """The owners, told by their warps."""
        if self._warps is None:
            self._warps = self._owned_by([lane // WARP for lane in self.lanes])
        return self._warps

    def _owned_by(self, threads: Sequence[int]) -> Owners:
        owners = dict(zip(self.cells, threads, strict=True))
        if self.alone:
            return owners
        first = dict(zip(reversed(self.cells), reversed(threads), strict=True))
        return {c: thread if first[c] == thread else SEVERAL for c, thread in owners.items()}

    def lanes_at(self, cell: Cell) -> list[int]:
        if self._by_cell is None:
            self._by_cell = {}
            for known, lane in zip(self.cells, self.lanes, strict=True):
                self._by_cell.setdefault(known, []).append(lane)
        return self._by_cell[cell]


@dataclass(frozen=True, slots=True)
class Footprint:
    """A pattern with the number of its first cell. `symbolic` cells have numbers of their own, in no order."""

    pattern: Pattern
    first: int
    symbolic: bool = False

    @property
    def cells(self) -> Sequence[Cell]:
        first = self.first
        return self.pattern.cells if not first else [cell + first for cell in self.pattern.cells]

    @property
    def lanes(self) -> tuple[int, ...]:
        return self.pattern.lanes

    @property
    def owners(self) -> Owners:
        owners, first = self.pattern.owners, self.first
        return owners if not first else {cell + first: lane for cell, lane in owners.items()}

    def overlaps(self, other: Footprint) -> bool:
        """Whether some cell may be touched by both, if they are of one kind."""
        apart = self.first - other.first
        if apart > other.pattern.last or -apart > self.pattern.last:
            return False
        mine, theirs = self.pattern.mask, other.pattern.mask
        if not (mine and theirs):
            return True
        return bool(mine << apart & theirs if apart >= 0 else mine & theirs << -apart)

    def touches(self, cell: Cell) -> bool:
        return cell - self.first in self.pattern.owners

    def lanes_at(self, cell: Cell) -> list[int]:
        return self.pattern.lanes_at(cell - self.first)

    def crossing(self, other: Footprint, *, warps: bool = False) -> frozenset[Cell]:
        """The cells that both touch, in different lanes (in different warps)."""
        mine, theirs = self.pattern, other.pattern
        apart = self.first - other.first
        if (not apart and mine is theirs and mine.alone) or not self.overlaps(other):
            return _NONE
        key = (id(theirs), apart, warps)
        known = mine.crossings.get(key)
        if known is None:
            own, owners = (mine.warps, theirs.warps) if warps else (mine.owners, theirs.owners)
            owner = owners.get
            found = {c for c, k in own.items() if (o := owner(c + apart)) is not None and (o != k or k < 0)}
            known = mine.crossings[key] = frozenset(found)
        if not known or not self.first:
            return known
        first = self.first
        return frozenset([cell + first for cell in known])


_NONE: frozenset[Cell] = frozenset()


class Footprints:
    """Of the accesses of one kernel. Those with the same index in the same lanes have the same."""

    def __init__(self, trace: KernelTrace) -> None:
        self._granules = _granules(trace)
        self._known: dict[tuple[Form, Mask, int, int], Footprint] = {}
        self._patterns: dict[tuple[tuple[Cell, ...], Mask, int], Pattern] = {}
        self._placed: dict[tuple[Distances, int, Mask, int, int], tuple[Pattern, int]] = {}
        self._numbers: dict[Key, int] = {}  # of indices that are not known

    def of(self, access: Access) -> Footprint:
        """`access.offset` is not unknown."""
        grain = self._granules.get(access.buffer, 0)
        span = access.size // grain if grain and access.size is not None and access.offset.exact is not None else 0
        key = (access.offset, access.lanes, grain if span else 0, span)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._made(access, grain, span)
        return known

    def _made(self, access: Access, grain: int, span: int) -> Footprint:
        """`span` cells a lane of `grain` bytes each; without, an index is a cell."""
        lanes = lanes_of(access.lanes)
        exact = access.offset.exact
        if not span or exact is None:
            numbers = self._numbers
            cells = [numbers.setdefault(key, len(numbers)) for key in access.offset.at_each(lanes)]
            first = min(cells)
            return Footprint(self._pattern(tuple([cell - first for cell in cells]), access.lanes, 1), first, True)
        if isinstance(exact, int):
            return Footprint(self._pattern((0,) * len(lanes), access.lanes, span), exact // grain)
        whole, rest = divmod(exact.base, grain)
        key = (exact.distances, rest, access.lanes, grain, span)
        placed = self._placed.get(key)
        if placed is None:
            apart = exact.distances.each
            chosen = [rest + x for x in apart] if len(apart) == len(lanes) else [rest + apart[lane] for lane in lanes]
            first = min(chosen) // grain
            lowest = first * grain
            starts = tuple([(x - lowest) // grain for x in chosen])
            placed = self._placed[key] = self._pattern(starts, access.lanes, span), first
        return Footprint(placed[0], whole + placed[1])

    def _pattern(self, starts: tuple[int, ...], lanes: Mask, span: int) -> Pattern:
        key = (starts, lanes, span)
        pattern = self._patterns.get(key)
        if pattern is None:
            pattern = self._patterns[key] = _pattern(starts, lanes_of(lanes), span)
        return pattern


def _pattern(starts: tuple[int, ...], lanes: tuple[int, ...], span: int) -> Pattern:
    if span == 1:
        return Pattern(starts, lanes)
    steps = range(span)
    cells = tuple([start + step for start in starts for step in steps])
    return Pattern(cells, tuple([k for k in lanes for _ in steps]))


def _mask(cells: tuple[Cell, ...]) -> int:
    highest = max(cells)
    touched = bytearray(b"0") * (highest + 1)
    for cell in cells:
        touched[highest - cell] = 49  # "1"
    return int(touched, 2)


class Table:
    """Footprints of one kind of access to an array since the last barrier, all symbolic or none."""

    def __init__(self) -> None:
        self.footprints: dict[tuple[int, int], Footprint] = {}
        self._union: int | None = 0  # the cells touched, as bits that count from `_first`; None: not known
        self._first = 0
        self._last = 0
        self._owners: Owners = {}  # of the first `_merged` footprints
        self._merged = 0

    def add(self, footprint: Footprint) -> None:
        key = (id(footprint.pattern), footprint.first)
        if key in self.footprints:
            return
        first, last = footprint.first, footprint.first + footprint.pattern.last
        if not self.footprints:
            self._first, self._last = first, last
        self.footprints[key] = footprint
        self._last = max(self._last, last)
        if not footprint.pattern.mask or self._last - min(first, self._first) > _WIDEST_UNION:
            self._union = None
        elif self._union is not None:
            if first < self._first:
                self._union <<= self._first - first
            self._union |= footprint.pattern.mask << max(first - self._first, 0)
        self._first = min(first, self._first)

    def crossing(self, footprint: Footprint) -> AbstractSet[Cell]:
        """The cells of a footprint that other lanes have touched."""
        if not self.footprints:
            return _NONE
        apart = footprint.first - self._first
        if -apart > footprint.pattern.last or footprint.first > self._last:
            return _NONE
        mask, union = footprint.pattern.mask, self._union
        if union is not None and mask and not (mask << apart & union if apart >= 0 else mask & union << -apart):
            return _NONE
        if len(self.footprints) > _FEW:
            return crossing(footprint.owners, self._all())
        found: AbstractSet[Cell] = _NONE
        first, last = footprint.first, footprint.first + footprint.pattern.last
        compared = footprint.pattern.crossings
        most = len(compared) + _FEW_NEW
        for other in self.footprints.values():
            if other.first > last or other.first + other.pattern.last < first:
                continue
            if len(compared) > most:
                return crossing(footprint.owners, self._all())
            cells = footprint.crossing(other)
            if cells:
                found = cells if not found else found | cells
                if len(found) == footprint.pattern.size:
                    break
        return found

    def _all(self) -> Owners:
        for position, footprint in enumerate(self.footprints.values()):
            if position >= self._merged:
                merge(self._owners, footprint.owners)
        self._merged = len(self.footprints)
        return self._owners


def crossing(owners: Owners, others: Owners) -> set[Cell]:
    """Cells that different lanes touch."""
    if not others or others.keys().isdisjoint(owners):
        return set()
    known = others.get
    return {c for c, lane in owners.items() if (other := known(c)) is not None and (other != lane or lane < 0)}


def merge(into: Owners, owners: Owners) -> None:
    if into.keys().isdisjoint(owners):
        into.update(owners)
        return
    for cell, lane in owners.items():
        if into.setdefault(cell, lane) != lane:
            into[cell] = SEVERAL


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
            grain = gcd(grain, exact) if isinstance(exact, int) else gcd(grain, exact.base, exact.distances.unit)
        out[access.buffer] = grain
    return out
