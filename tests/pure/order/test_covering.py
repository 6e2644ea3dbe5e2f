"""What a polynomial covers is told as by the difference that is not made."""

from __future__ import annotations

import random

from stitchcuda.analysis.order.symbolic import ZERO, Covering, Poly, number, symbol


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
