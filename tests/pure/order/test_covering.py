"""A polynomial that is asked about many others answers as one that is asked about each."""

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


def test_it_covers_what_the_polynomial_covers() -> None:
    chance = random.Random(1)
    answers = [0, 0]
    for _ in range(20_000):
        one, other = _poly(chance), _poly(chance)
        assert Covering(one).covers(other) is one.covers(other)
        assert not one.covers(other) or (one - other).nonnegative()
        answers[one.covers(other)] += 1
    assert min(answers) > 1000
