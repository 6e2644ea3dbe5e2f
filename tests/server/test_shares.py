"""Which worker does which item of a batch: each item once, neighbours together, nothing large at the end."""

from __future__ import annotations

import random
from itertools import pairwise

from stitchcuda.server.shares import Shares


def given(costs: list[float], workers: int) -> list[list[int]]:
    """What each worker is given when all take as long as the costs say."""
    shares = Shares(costs, workers)
    done: list[list[int]] = [[] for _ in range(workers)]
    free = dict.fromkeys(range(workers), 0.0)
    while free:
        worker = min(free, key=lambda w: free[w])
        item = shares.next(worker)
        if item is None:
            del free[worker]
        else:
            done[worker].append(item)
            free[worker] += costs[item]
    return done


def test_each_item_is_given_once() -> None:
    chosen = random.Random(7)
    for count in (0, 1, 2, 7, 100, 1000):
        for workers in (1, 2, 5):
            for costs in ([0.0] * count, [1.0] * count, [chosen.paretovariate(1) for _ in range(count)]):
                assert sorted(k for each in given(costs, workers) for k in each) == list(range(count))


def test_neighbours_stay_together() -> None:
    assert given([1.0] * 400, 2) == [list(range(200)), list(range(200, 400))]


def test_what_is_large_comes_first_and_the_largest_of_all() -> None:
    costs = [1.0] * 300
    costs[10], costs[200] = 30.0, 60.0
    one, other = given(costs, 2)
    assert one[0] == 200 and other[0] == 10
    jumps = sum(b != a + 1 for each in (one, other) for a, b in pairwise(each[1:]))
    assert jumps < 20, "then neighbours, and halves of what the other has left"


def test_whose_run_is_done_takes_half_of_another() -> None:
    shares = Shares([1.0] * 400, 2)
    assert [shares.next(0) for _ in range(200)] == list(range(200))
    assert shares.next(0) == 300
    assert shares.next(1) == 200


def test_workers_end_at_about_the_same_time() -> None:
    chosen = random.Random(3)
    costs = [chosen.lognormvariate(0, 1.5) for _ in range(2000)]
    for workers in (2, 4, 16):
        ends = [sum(costs[k] for k in each) for each in given(costs, workers)]
        assert max(ends) <= max(1.02 * sum(costs) / workers, *costs)
