"""A program against itself is never faster and never slower, whatever the noise; a real gain is found."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import combinations
from statistics import median

import pytest
from stitchcuda.gpu_validate.statistics import (
    LOOKS,
    Block,
    Claim,
    bootstrap,
    compare,
    level,
    orders,
    rank_claim,
    rank_p,
)

Noise = Callable[[random.Random, int], list[float]]


def normal(draw: random.Random, n: int) -> list[float]:
    return [math.exp(draw.gauss(0, 0.05)) for _ in range(n)]


def wild(draw: random.Random, n: int) -> list[float]:
    return [math.exp(draw.gauss(0, 0.5)) for _ in range(n)]


def heavy_tails(draw: random.Random, n: int) -> list[float]:
    return [1 + 0.1 * (draw.paretovariate(1.2) - 1) for _ in range(n)]


def drift(draw: random.Random, n: int) -> list[float]:
    step = draw.uniform(-0.02, 0.02)
    return [math.exp(step * i + draw.gauss(0, 0.005)) for i in range(n)]


def two_modes(draw: random.Random, n: int) -> list[float]:
    return [draw.choice((1.0, 1.2)) * math.exp(draw.gauss(0, 0.002)) for _ in range(n)]


def clock_states(draw: random.Random, n: int) -> list[float]:
    """Two states that last for a few runs each."""
    out, state = [], 1.0
    for _ in range(n):
        state = 2.2 - state if draw.random() < 0.2 else state
        out.append(state * math.exp(draw.gauss(0, 0.002)))
    return out


def periodic(draw: random.Random, n: int) -> list[float]:
    """Two neighbouring runs of every few are slow: the shape that could hide behind A B B A."""
    period = draw.choice((2, 3, 4, 5, 8))
    phase = draw.randrange(period)
    return [(1.2 if (i % period == phase or (i + 1) % period == phase) else 1) + draw.gauss(0, 1e-3) for i in range(n)]


def first_runs_slow(draw: random.Random, n: int) -> list[float]:
    return [(1 + math.exp(-i)) * math.exp(draw.gauss(0, 0.01)) for i in range(n)]


def quiet(draw: random.Random, n: int) -> list[float]:
    return [math.exp(draw.gauss(0, 0.005)) for _ in range(n)]


NOISES = (normal, wild, heavy_tails, drift, two_modes, clock_states, periodic, first_runs_slow, quiet)


def runs(noise: Noise, seed: int, gain: float = 1.0) -> list[Block]:
    draw = random.Random(seed)
    times = iter(noise(draw, 4 * LOOKS[-1]))
    out = []
    for order in orders(LOOKS[-1], seed):
        taken = [(version, next(times) / (gain if version == "B" else 1)) for version in order]
        first, second = (tuple(t for v, t in taken if v == version) for version in "AB")
        out.append(Block((first[0], first[1]), (second[0], second[1])))
    return out


@pytest.mark.parametrize("noise", NOISES)
def test_a_program_against_itself_is_neither_faster_nor_slower(noise: Noise) -> None:
    """Every look is taken, as if the runs never came to an early end. `rank_claim` is what `compare` needs at least."""
    claims = [rank_claim(blocks[:n]) for seed in range(500) if (blocks := runs(noise, seed)) for n in LOOKS]
    assert set(claims) == {Claim.OPEN}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("gain", [1.02, 1 / 1.02])
def test_a_gain_of_the_minimum_effect_alone_is_not_claimed(noise: Noise, gain: float) -> None:
    claims = [rank_claim(blocks[:n]) for seed in range(60) if (blocks := runs(noise, seed, gain)) for n in LOOKS]
    assert set(claims) == {Claim.OPEN}


@pytest.mark.parametrize(
    ("noise", "gain"), [(quiet, 1.05), (first_runs_slow, 1.10), (normal, 1.25), (heavy_tails, 2.0)]
)
def test_a_real_gain_is_found_and_as_a_loss_the_other_way_round(noise: Noise, gain: float) -> None:
    for seed in range(20):
        blocks = runs(noise, seed, gain)
        turned = [Block(b.candidate, b.baseline) for b in blocks]
        assert Claim.FASTER in [compare(blocks[:n], resamples=100).claim for n in LOOKS]
        assert Claim.SLOWER in [compare(turned[:n], resamples=100).claim for n in LOOKS]


def test_the_first_look_needs_complete_separation() -> None:
    apart = [Block((1.1, 1.1), (1.0, 1.0))] * LOOKS[0]
    assert compare(apart).claim is Claim.FASTER
    assert compare([*apart[1:], Block((1.1, 1.0), (1.0, 1.0))]).claim is Claim.OPEN
    assert compare(apart[1:]).claim is Claim.OPEN and level(LOOKS[0] - 1) == 0


def test_a_claim_needs_the_interval_beyond_the_minimum_effect() -> None:
    blocks = [Block((1.021, 1.021), (1.0, 1.0))] * 6
    assert compare(blocks).claim is Claim.FASTER
    assert compare([Block((1.019, 1.019), (1.0, 1.0))] * 6).claim is Claim.OPEN
    assert compare([Block((1.019, 1.019), (1.0, 1.0))] * 6).no_gain


def test_rank_probability_is_exact() -> None:
    values = list(range(7))
    for chosen in combinations(values, 4):
        rest = [v for v in values if v not in chosen]
        score = sum(x > y for x in chosen for y in rest)
        as_good = [
            c for c in combinations(values, 4) if sum(x > y for x in c for y in values if y not in c) >= score
        ]  # fmt: skip
        assert rank_p(chosen, rest) == pytest.approx(len(as_good) / math.comb(7, 4))
    assert rank_p([2.0] * 8, [1.0] * 8) == pytest.approx(1 / 12870)
    assert rank_p([1.0] * 8, [1.0] * 8) == 1  # ties count against


def test_the_interval_is_repeatable_and_holds_the_ratio_of_the_medians() -> None:
    blocks = runs(normal, 3, 1.1)[:9]
    one = bootstrap(blocks)
    assert one == bootstrap(blocks)
    assert one.low <= one.middle <= one.high
    a, b = ([x for block in blocks for x in getattr(block, side)] for side in ("baseline", "candidate"))
    assert one.middle == median(a) / median(b)


def test_both_orders_come_equally_often() -> None:
    for seed in range(20):
        drawn = orders(6, seed)
        assert sorted(drawn) == ["ABBA"] * 3 + ["BAAB"] * 3


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_figure_that_cannot_be_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        compare([Block((1.0, bad), (1.0, 1.0))])
