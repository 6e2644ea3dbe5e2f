"""Which cells of shared memory an access touches, and by which lanes: the unit in which accesses are compared."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from stitchcuda.analysis.kernel.lanes import Form, lanes_of
from stitchcuda.analysis.kernel.model import Access, Buffer, KernelTrace, Mask, Memory

Cell: TypeAlias = object
Owners: TypeAlias = dict[Cell, int]  # cells, each with the one lane that touches it, or with `SEVERAL`

SEVERAL = -1
_FEW = 128  # footprints that are compared one by one
_WIDEST = 1 << 16  # cells, of a pattern that is compared as a set of bits


class Pattern:
    """Cells and lanes side by side, in order of lanes. Cells that are numbers count from the first of them: accesses that
    walk through an array have one pattern."""

    def __init__(self, cells: tuple[Cell, ...], lanes: tuple[int, ...], counted: bool) -> None:
        self.cells = cells
        self.lanes = lanes
        self.counted = counted
        self.mask = _mask(cells) if counted else 0  # bit k: cell k is touched; 0: not known
        self.crossings: dict[tuple[int, int], frozenset[Cell]] = {}  # by the other pattern, and where it stands
        self._owners: Owners | None = None
        self._by_cell: dict[Cell, list[int]] | None = None
        self.alone = len(set(cells)) == len(cells)  # no two lanes touch one cell

    @property
    def owners(self) -> Owners:
        if self._owners is None:
            owners = dict(zip(self.cells, self.lanes, strict=True))
            if not self.alone:
                first = dict(zip(reversed(self.cells), reversed(self.lanes), strict=True))
                owners = {c: lane if first[c] == lane else SEVERAL for c, lane in owners.items()}
            self._owners = owners
        return self._owners

    def lanes_at(self, cell: Cell) -> list[int]:
        if self._by_cell is None:
            self._by_cell = {}
            for known, lane in zip(self.cells, self.lanes, strict=True):
                self._by_cell.setdefault(known, []).append(lane)
        return self._by_cell[cell]


@dataclass(frozen=True, slots=True)
class Footprint:
    """A pattern with the number of its first cell."""

    pattern: Pattern
    first: int

    @property
    def cells(self) -> Sequence[Cell]:
        return self.pattern.cells if not self.first else [cell + self.first for cell in self.pattern.cells]  # type: ignore[operator]

    @property
    def lanes(self) -> tuple[int, ...]:
        return self.pattern.lanes

    @property
    def owners(self) -> Owners:
        owners = self.pattern.owners
        return owners if not self.first else {cell + self.first: lane for cell, lane in owners.items()}  # type: ignore[operator]

    def overlaps(self, other: Footprint) -> bool:
        """Whether some cell may be touched by both."""
        mine, theirs = self.pattern, other.pattern
        if not (mine.mask and theirs.mask):
            return mine.counted == theirs.counted
        apart = self.first - other.first
        return bool(mine.mask << apart & theirs.mask if apart >= 0 else mine.mask & theirs.mask << -apart)

    def touches(self, cell: Cell) -> bool:
        return self._within(cell) in self.pattern.owners

    def lanes_at(self, cell: Cell) -> list[int]:
        return self.pattern.lanes_at(self._within(cell))

    def crossing(self, other: Footprint) -> frozenset[Cell]:
        """The cells that both touch, in different lanes."""
        mine, theirs = self.pattern, other.pattern
        apart = self.first - other.first
        if not self.overlaps(other) or (not apart and mine is theirs and mine.alone):
            return _NONE
        known = mine.crossings.get((id(theirs), apart))
        if known is None:
            owner = theirs.owners.get
            if apart:
                found = {
                    c
                    for c, lane in mine.owners.items()
                    if (o := owner(c + apart)) is not None and (o != lane or lane < 0)  # type: ignore[operator]
                }
            else:
                found = {
                    c for c, lane in mine.owners.items() if (o := owner(c)) is not None and (o != lane or lane < 0)
                }
            known = mine.crossings[id(theirs), apart] = frozenset(found)
        if not known or not self.first:
            return known
        return frozenset([cell + self.first for cell in known])  # type: ignore[operator]

    def _within(self, cell: Cell) -> Cell:
        return cell - self.first if self.first and isinstance(cell, int) else cell


_NONE: frozenset[Cell] = frozenset()


class Footprints:
    """Of the accesses of one kernel. Those with the same index in the same lanes have the same."""

    def __init__(self, trace: KernelTrace) -> None:
        self._granules = _granules(trace)
        self._known: dict[tuple[Form, Mask, int, int], Footprint] = {}
        self._patterns: dict[tuple[tuple[Cell, ...], Mask, int], Pattern] = {}

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
            return Footprint(Pattern(access.offset.at_each(lanes), lanes, False), 0)
        if isinstance(exact, int):
            first, starts = exact // grain, (0,) * len(lanes)
        else:
            chosen = exact if len(exact) == len(lanes) else [exact[lane] for lane in lanes]
            lowest = min(chosen)
            first = lowest // grain
            lowest = first * grain
            starts = tuple([(x - lowest) // grain for x in chosen])
        key = (starts, access.lanes, span)
        pattern = self._patterns.get(key)
        if pattern is None:
            pattern = self._patterns[key] = _pattern(starts, lanes, span)
        return Footprint(pattern, first)


def _pattern(starts: tuple[int, ...], lanes: tuple[int, ...], span: int) -> Pattern:
    if span == 1:
        return Pattern(starts, lanes, True)
    steps = range(span)
    cells = tuple([start + step for start in starts for step in steps])
    return Pattern(cells, tuple([k for k in lanes for _ in steps]), True)


def _mask(cells: tuple[Cell, ...]) -> int:
    numbers: set[int] = set(cells)  # type: ignore[arg-type]
    highest = max(numbers)
    if highest > _WIDEST:
        return 0
    touched = bytearray(b"0") * (highest + 1)
    for cell in numbers:
        touched[highest - cell] = 49  # "1"
    return int(touched, 2)


class Table:
    """Footprints of one kind of access to an array since the last barrier."""

    def __init__(self) -> None:
        self.footprints: dict[tuple[int, int], Footprint] = {}
        self._union: int | None = 0  # the cells touched, as bits that count from `_first`; None: not known
        self._first = 0
        self._owners: Owners = {}  # of the first `_merged` footprints
        self._merged = 0

    def add(self, footprint: Footprint) -> None:
        key = (id(footprint.pattern), footprint.first)
        if key in self.footprints:
            return
        if not self.footprints:
            self._first = footprint.first
        self.footprints[key] = footprint
        if not footprint.pattern.mask:
            self._union = None
        elif self._union is not None:
            if footprint.first < self._first:
                self._union <<= self._first - footprint.first
                self._first = footprint.first
            self._union |= footprint.pattern.mask << footprint.first - self._first

    def crossing(self, footprint: Footprint) -> AbstractSet[Cell]:
        """The cells of a footprint that other lanes have touched."""
        if not self.footprints:
            return _NONE
        mask = footprint.pattern.mask
        if self._union is not None and mask:
            apart = footprint.first - self._first
            if not (mask << apart & self._union if apart >= 0 else mask & self._union << -apart):
                return _NONE
        if len(self.footprints) > _FEW:
            return crossing(footprint.owners, self._all())
        found: AbstractSet[Cell] = _NONE
        for other in self.footprints.values():
            cells = footprint.crossing(other)
            if cells:
                found = cells if not found else found | cells
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
            grain = gcd(grain, exact) if isinstance(exact, int) else gcd(grain, *exact[:64])
        out[access.buffer] = grain
    return out
