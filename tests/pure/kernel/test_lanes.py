"""Numbers of all lanes at once, against one lane after the other."""

from __future__ import annotations

import random

from stitchcuda.analysis.kernel.coefficients import Lanes, coefficient
from stitchcuda.analysis.kernel.lanes import Form, form, select, symbol


def _number(chance: random.Random, width: int) -> Form:
    kind = chance.randrange(3)
    if not kind:
        return form({(): chance.randint(0, 3)})
    values = form({(): coefficient(tuple(chance.randint(0, 3) for _ in range(width)))})
    return values if kind == 1 else values + symbol("n")


def test_a_choice_holds_in_each_lane_what_was_chosen_there() -> None:
    chance = random.Random(1)
    for _ in range(1000):
        width = chance.choice((1, 2, 5, 32, 64))
        lanes = chance.choice((0, (1 << width) - 1, chance.getrandbits(width), (1 << width // 2) - 1))
        first, second = _number(chance, width), _number(chance, width)
        picked = select(lanes, first, second, width)
        assert [picked.at(k) for k in range(width)] == [
            (first if lanes >> k & 1 else second).at(k) for k in range(width)
        ]


def _at(number: Form, lane: int, n: int) -> int:
    return sum(c * n ** len(mono) for mono, c in number.at(lane))


def test_sums_and_products_are_those_of_each_lane() -> None:
    chance = random.Random(3)
    for _ in range(2000):
        width = chance.choice((1, 4, 33))
        a, b = _number(chance, width), _number(chance, width)
        product = a * b
        assert product is not None
        for lane in range(width):
            x, y = _at(a, lane, 7), _at(b, lane, 7)
            assert [_at(f, lane, 7) for f in (a + b, a - b, product)] == [x + y, x - y, x * y]
        for made in (a + b, a - b, product):
            assert list(made.terms) == sorted(made.terms, key=lambda term: term[0])
            assert all(isinstance(c, int) and c or isinstance(c, Lanes) and len(set(c)) > 1 for _, c in made.terms)


def test_what_is_the_same_in_some_lanes_is_told_by_each_of_them() -> None:
    chance = random.Random(2)
    answers = set()
    for _ in range(2000):
        width = chance.choice((1, 5, 64))
        lanes = chance.choice((1, (1 << width) - 1, chance.getrandbits(width), 1 << chance.randrange(width)))
        number = _number(chance, width)
        for group in (0, 32):
            keys = {(k // group if group else 0, number.at(k)) for k in range(width) if lanes >> k & 1}
            same = len(keys) == len({g for g, _ in keys})
            assert number.same_on(lanes, group) == same
            answers.add((group, same))
    assert len(answers) == 4
