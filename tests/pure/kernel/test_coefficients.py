"""Numbers of all lanes as a base and distances, against one lane after the other."""

from __future__ import annotations

import operator
import random

from stitchcuda.analysis.kernel import coefficients
from stitchcuda.analysis.kernel.coefficients import Coefficient, Lanes, coefficient, each_lane, negative, pairwise


def _lanes(wanted: list[bool]) -> int:
    return sum(1 << k for k, inside in enumerate(wanted) if inside)


def _row(chance: random.Random, width: int) -> Coefficient:
    return coefficient(tuple(chance.randint(-3, 3) for _ in range(width)))


def test_operators_do_in_each_lane_what_they_do_with_numbers() -> None:
    chance = random.Random(1)
    for _ in range(2000):
        width = chance.choice((1, 2, 33))
        a, b = _row(chance, width), chance.choice((_row(chance, width), chance.randint(-3, 3)))
        for op in (operator.add, operator.sub, operator.mul, operator.and_, min):
            for x, y in ((a, b), (b, a)):
                made = pairwise(op, x, y)
                each = tuple(map(op, each_lane(x, width), each_lane(y, width)))
                assert each_lane(made, width) == each
                assert isinstance(made, int) == (len(set(each)) == 1 or isinstance(x, int) and isinstance(y, int))
                assert made == coefficient(each) and hash(made) == hash(coefficient(each))
        assert each_lane(negative(a), width) == tuple(-x for x in each_lane(a, width))


def test_what_is_told_of_a_row_is_what_its_lanes_say() -> None:
    chance = random.Random(2)
    for _ in range(2000):
        row = _row(chance, 33)
        if isinstance(row, int):
            continue
        values, by = list(row), chance.randint(-4, 4)
        assert row.reaching(by) == _lanes([x >= by for x in values])
        assert row.at(by) == _lanes([x == by for x in values])
        assert (row.low, row.high) == (min(values), max(values))
        assert row.within(by, by + 4) == all(by <= x <= by + 4 for x in values)
        assert row.multiple_of(2) == all(x % 2 == 0 for x in values)
        assert [row[k] for k in range(len(row))] == values and repr(row) == repr(tuple(values))


def test_rows_that_are_one_row_further_on_share_what_is_known_of_it() -> None:
    """`tile[i + threadIdx.x]` in each round of a loop."""
    thread = coefficient(tuple(range(1024)))
    assert isinstance(thread, Lanes)
    first = pairwise(operator.mul, thread, 4)
    assert isinstance(first, Lanes)
    for round_ in range(1000):
        place = pairwise(operator.mul, pairwise(operator.add, thread, 64 * round_), 4)
        assert isinstance(place, Lanes) and place.distances is first.distances


def test_distances_that_were_forgotten_are_equal_to_those_made_again() -> None:
    before = coefficient((0, 1, 5))
    coefficients._known.clear()
    after = coefficient((0, 1, 5))
    assert isinstance(before, Lanes) and isinstance(after, Lanes)
    assert before.distances is not after.distances
    assert before == after and hash(before) == hash(after) and pairwise(operator.sub, before, after) == 0
