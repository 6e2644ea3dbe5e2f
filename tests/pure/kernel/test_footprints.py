"""Which lanes meet in memory: patterns of cells that are compared as sets of bits, against one look at each cell."""

from __future__ import annotations

import random

from stitchcuda.analysis.kernel.footprints import Footprint, Pattern, Table


def _footprint(chance: random.Random) -> Footprint:
    lanes = tuple(sorted(chance.sample(range(16), chance.randint(1, 8))))
    if not chance.randrange(5):  # an index with a symbol in it
        rows = tuple((((("n",), chance.randint(0, 2)),),) for _ in lanes)
        return Footprint(Pattern(rows, lanes, False), 0)
    starts = [chance.randint(0, 6) for _ in lanes]
    lowest = min(starts)
    return Footprint(Pattern(tuple(s - lowest for s in starts), lanes, True), chance.choice((-3, 0, 2, 40)))


def test_cells_that_other_lanes_have_touched_are_found() -> None:
    chance = random.Random(1)
    met = 0
    for _ in range(400):
        before = [_footprint(chance) for _ in range(chance.choice((0, 1, 3, 150)))]
        table = Table()
        for footprint in before:
            table.add(footprint)
        asked = _footprint(chance)
        touched: dict[object, set[int]] = {}
        for footprint in before:
            for cell, lane in zip(footprint.cells, footprint.lanes, strict=True):
                touched.setdefault(cell, set()).add(lane)
        own: dict[object, set[int]] = {}
        for cell, lane in zip(asked.cells, asked.lanes, strict=True):
            own.setdefault(cell, set()).add(lane)
        wanted = {cell for cell, lanes in own.items() if cell in touched and len(lanes | touched[cell]) > 1}
        assert table.crossing(asked) == wanted
        met += len(wanted)
    assert met > 300


def test_what_may_overlap_is_never_left_out() -> None:
    chance = random.Random(2)
    for _ in range(2000):
        a, b = _footprint(chance), _footprint(chance)
        both = set(a.cells) & set(b.cells)
        assert a.overlaps(b) or not both
        assert all(a.touches(cell) == (cell in set(a.cells)) for cell in b.cells)
        assert all(set(a.lanes_at(cell)) <= set(a.lanes) for cell in both)
