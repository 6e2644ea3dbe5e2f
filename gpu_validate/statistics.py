"""Is one program faster than another? Paired, interleaved runs, and what may be concluded from them.

A program compared with itself must come out as neither faster nor slower, whatever the noise: heavy tails, drifting clocks, two
clock states. So a claim needs two things that fail independently. The bootstrap interval of the ratio of the medians lies
beyond the minimum effect; and an exact rank test (Mann and Whitney, 1947), which assumes nothing about the shape of the noise,
rejects that the runs *including that effect* came from one source. Runs go in blocks A B B A or B A A B: a linear drift cancels
inside a block, and which of the two comes is drawn, so that a disturbance with a period of its own cannot follow one version.
Looking at the runs several times costs evidence too: the levels below are spent one a look, and their sum is the chance of a
wrong claim for one figure in one direction, 0.013 % at most.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from statistics import median

from stitchcuda.gpu_validate.verdict import Interval

MINIMUM_EFFECT = 1.02
LOOKS = (4, 6, 9, 13, 20)  # blocks after which the runs are judged; a block is two runs of each version
_FIRST_LEVEL = 8e-5  # complete separation of 8 and 8 runs has probability 1/12870 = 7.8e-5
_LATER_LEVEL = 1.2e-5
_CONSISTENT = 0.75  # of the blocks must agree in sign
_RESAMPLES = 2000
_NARROW = 0.01  # an interval this wide (high/low - 1) is not worth more runs


class Claim(StrEnum):
    """What the runs show about the candidate."""

    FASTER = "faster"
    SLOWER = "slower"
    OPEN = "open"  # neither, as far as these runs show


@dataclass(frozen=True, slots=True)
class Block:
    """Two runs of each version, seconds (or any positive figure of which less is better)."""

    baseline: tuple[float, float]
    candidate: tuple[float, float]

    @property
    def log_ratio(self) -> float:
        """Mean of the logarithms, baseline minus candidate: above 0 the candidate was faster here."""
        return (
            math.log(self.baseline[0])
            + math.log(self.baseline[1])
            - math.log(self.candidate[0])
            - math.log(self.candidate[1])
        ) / 2


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure compared. `p_faster` and `p_slower` are exact and include the minimum effect."""

    claim: Claim
    interval: Interval
    blocks: int
    p_faster: float
    p_slower: float
    level: float

    @property
    def narrow(self) -> bool:
        return self.interval.high / self.interval.low - 1 <= _NARROW

    @property
    def no_gain(self) -> bool:
        """The interval holds neither a gain nor a loss of the minimum effect."""
        return 1 / MINIMUM_EFFECT < self.interval.low and self.interval.high < MINIMUM_EFFECT


def orders(blocks: int, seed: int = 1) -> list[str]:
    """The order of the runs of each block: "ABBA" or "BAAB", drawn, and each equally often as far as that goes."""
    draw = random.Random(seed)
    out: list[str] = []
    while len(out) < blocks:
        pair = ["ABBA", "BAAB"]
        draw.shuffle(pair)
        out += pair
    return out[:blocks]


def level(blocks: int) -> float:
    """The level at which a look after so many blocks may claim something; 0 before the first look."""
    if blocks < LOOKS[0]:
        return 0.0
    return _FIRST_LEVEL if blocks == LOOKS[0] else _LATER_LEVEL


def compare(blocks: Sequence[Block], *, seed: int = 1, resamples: int = _RESAMPLES) -> Comparison:
    """Judges the runs so far. Raises ValueError without blocks or with a figure that is not positive and finite."""
    if not blocks:
        raise ValueError("nothing to compare: no block of runs is complete")
    if any(not (math.isfinite(x) and x > 0) for b in blocks for x in (*b.baseline, *b.candidate)):
        raise ValueError("a figure is not a positive number")
    interval = bootstrap(blocks, seed=seed, resamples=resamples)
    claim = rank_claim(blocks)
    if claim is Claim.FASTER and interval.low <= MINIMUM_EFFECT:
        claim = Claim.OPEN
    if claim is Claim.SLOWER and interval.high >= 1 / MINIMUM_EFFECT:
        claim = Claim.OPEN
    return Comparison(claim, interval, len(blocks), *_p_values(blocks), level(len(blocks)))


def bootstrap(blocks: Sequence[Block], *, seed: int = 1, resamples: int = _RESAMPLES, share: float = 0.95) -> Interval:
    """Ratio of the medians, baseline/candidate, with its percentile interval over resampled blocks. The same seed gives the
    same interval."""
    draw = random.Random(seed)
    ratios = sorted(_ratio(draw.choices(blocks, k=len(blocks))) for _ in range(resamples))
    tail = (1 - share) / 2
    middle = _ratio(blocks)
    low = ratios[math.floor(tail * (resamples - 1))]
    high = ratios[math.ceil((1 - tail) * (resamples - 1))]
    return Interval(min(low, middle), middle, max(high, middle))


def _ratio(blocks: Sequence[Block]) -> float:
    return median([x for b in blocks for x in b.baseline]) / median([x for b in blocks for x in b.candidate])


def rank_claim(blocks: Sequence[Block]) -> Claim:
    """What ranks and signs alone would allow: at least this is needed for a claim."""
    ratios = [b.log_ratio for b in blocks]
    p_faster, p_slower = _p_values(blocks)
    allowed, needed = level(len(blocks)), _CONSISTENT * len(blocks)
    if p_faster <= allowed and sum(r > 0 for r in ratios) >= needed:
        return Claim.FASTER
    if p_slower <= allowed and sum(r < 0 for r in ratios) >= needed:
        return Claim.SLOWER
    return Claim.OPEN


def _p_values(blocks: Sequence[Block]) -> tuple[float, float]:
    a = [x for b in blocks for x in b.baseline]
    b = [x for block in blocks for x in block.candidate]
    return rank_p([x / MINIMUM_EFFECT for x in a], b), rank_p([x / MINIMUM_EFFECT for x in b], a)


def rank_p(larger: Sequence[float], smaller: Sequence[float]) -> float:
    """Exact one-sided probability, if both samples have one source, that `larger` ranks this far above `smaller`. Ties count
    against it."""
    against = sum(x <= y for x in larger for y in smaller)
    return _below(len(larger), len(smaller))[against]


@lru_cache(maxsize=64)
def _below(n: int, m: int) -> tuple[float, ...]:
    """P(U <= u) for every u from 0 to n*m: the Gaussian binomial coefficient, counted exactly."""
    counts = [1] + [0] * (n * m)
    for i in range(1, m + 1):
        for u in range(n * m, n + i - 1, -1):  # times 1 - x^(n+i)
            counts[u] -= counts[u - n - i]
        for u in range(i, n * m + 1):  # divided by 1 - x^i
            counts[u] += counts[u - i]
    total, running, out = math.comb(n + m, m), 0, []
    for count in counts:
        running += count
        out.append(running / total)
    return tuple(out)
