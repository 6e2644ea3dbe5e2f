"""What a polynomial covers is told as by the difference that is not made."""

from __future__ import annotations

import random

from stitchcuda.analysis.order.symbolic import ONE, ZERO, Covering, Poly, equal, number, symbol


def _poly(chance: random.Random) -> Poly:
    total = ZERO
    for _ in range(chance.randint(0, 3)):
        term = number(chance.randint(-2, 2))
        for name in chance.choices(("a", "b", "-c", "d"), k=chance.randint(0, 2)):
            term = term * symbol(name)
        total = total + term
    return total


def test_it_covers_what_leaves_nothing_negative() -> None:
    chance = random.Random(1)
    answers = [0, 0]
    for _ in range(20_000):
        one, other = _poly(chance), _poly(chance)
        covers = Covering(one).covers(other)
        assert covers is (one - other).nonnegative()
        answers[covers] += 1
    assert min(answers) > 1000


def test_numbers_are_different_where_one_is_always_larger() -> None:
    chance = random.Random(2)
    answers = {True: 0, False: 0, None: 0}
    for _ in range(20_000):
        one, other = _poly(chance), _poly(chance)
        told = equal(one, other)
        difference = one - other
        larger = (difference - ONE).nonnegative() or (ZERO - difference - ONE).nonnegative()
        constant = difference.constant is not None and difference != ZERO
        assert told is (True if one == other else False if larger or constant else None)
        answers[told] += 1
    assert min(answers.values()) > 1000
