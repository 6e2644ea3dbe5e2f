"""Which lanes meet in memory: patterns of cells that are compared as sets of bits, against one look at each cell."""

from __future__ import annotations

import random

import pytest
from stitchcuda.analysis.kernel.contents import Contents, keep
from stitchcuda.analysis.kernel.footprints import Footprint, Footprints, Pattern, Table
from stitchcuda.analysis.kernel.lanes import WARP, Form, per_lane, symbol
from stitchcuda.analysis.kernel.model import Access, BlockShape, Buffer, KernelTrace, Memory, Mode
from stitchcuda.analysis.program.ir import Site

SITE = Site("f", "f.cu", (0, 1))


def _footprint(chance: random.Random) -> Footprint:
    lanes = tuple(sorted(chance.sample((*range(12), *range(40, 44)), chance.randint(1, 8))))
    if not chance.randrange(5):  # too wide to be compared as bits
        starts = [chance.choice((0, 1, 2, 1 << 17)) for _ in lanes]
    else:
        starts = [chance.randint(0, 6) for _ in lanes]
    lowest = min(starts)
    return Footprint(Pattern(tuple(s - lowest for s in starts), lanes), chance.choice((-3, 0, 2, 40)))


@pytest.mark.parametrize("warps", [False, True])
def test_cells_that_other_lanes_have_touched_are_found(warps: bool) -> None:
    chance = random.Random(1)
    met = 0
    for _ in range(400):
        before = [_footprint(chance) for _ in range(chance.choice((0, 1, 3) if warps else (0, 1, 3, 150)))]
        table = Table()
        for footprint in before:
            table.add(footprint)
        asked = _footprint(chance)
        touched: dict[int, set[int]] = {}
        for footprint in before:
            for cell, lane in zip(footprint.cells, footprint.lanes, strict=True):
                touched.setdefault(cell, set()).add(lane // WARP if warps else lane)
        own: dict[int, set[int]] = {}
        for cell, lane in zip(asked.cells, asked.lanes, strict=True):
            own.setdefault(cell, set()).add(lane // WARP if warps else lane)
        wanted = {cell for cell, lanes in own.items() if cell in touched and len(lanes | touched[cell]) > 1}
        found = set().union(*(asked.crossing(f, warps=True) for f in before)) if warps else table.crossing(asked)
        assert found == wanted
        met += len(wanted)
    assert met > 150


def test_what_may_overlap_is_never_left_out() -> None:
    chance = random.Random(2)
    for _ in range(2000):
        a, b = _footprint(chance), _footprint(chance)
        both = set(a.cells) & set(b.cells)
        assert a.overlaps(b) or not both
        assert all(a.touches(cell) == (cell in set(a.cells)) for cell in b.cells)
        assert all(set(a.lanes_at(cell)) <= set(a.lanes) for cell in both)


def _access(at: int, mode: Mode, offset: Form) -> Access:
    return Access(at, SITE, Buffer(Memory.SHARED, "tile"), mode, 0b1111, offset, 4, ())


def test_of_indices_that_are_not_known_the_same_are_one_cell() -> None:
    row = symbol("n")
    offsets = [row + per_lane((0, 4, 8, 12)), row + per_lane((12, 0, 4, 8)), row + row + per_lane((0, 4, 8, 12))]
    accesses = [_access(k, Mode.WRITE, offset) for k, offset in enumerate(offsets)]
    footprints = Footprints(KernelTrace("k", BlockShape(4), tuple(accesses), True, False))
    first, turned, other = map(footprints.of, accesses)
    assert first.symbolic and set(first.cells) == set(turned.cells)
    assert first.crossing(turned) == set(first.cells)
    assert not first.overlaps(other)


def test_what_is_kept_of_a_cell_is_what_a_look_at_everything_keeps() -> None:
    chance = random.Random(3)
    looked = 0
    for _ in range(300):
        contents = Contents()
        everything: list[tuple[Access, Footprint]] = []
        kinds = [_footprint(chance) for _ in range(3)]
        for at in range(chance.randint(1, 24)):
            footprint = chance.choice(kinds)
            access = _access(at, chance.choice((Mode.READ, Mode.WRITE, Mode.ATOMIC)), symbol("n"))
            if chance.randrange(2):
                reads = chance.choice((False, True))
                cells = frozenset(footprint.cells)
                before = contents.before(footprint, cells, reads=reads)
                for cell in cells:
                    writes: list[tuple[Access, int]] = []
                    read: list[tuple[Access, int]] = []
                    for earlier, other in everything:
                        for lane in other.lanes_at(cell) if other.touches(cell) else ():
                            keep(read if earlier.mode is Mode.READ else writes, earlier, lane)
                    assert contents.at(cell, before, reads=reads) == (writes + read if reads else writes)
                    looked += len(everything) > 6
            contents.add(access, footprint)
            everything.append((access, footprint))
    assert looked > 1000
