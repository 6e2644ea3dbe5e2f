"""One number a lane, of which most differ from others by one and the same number in all lanes.

`tile[i + threadIdx.x]` is in each round of a loop the same row of numbers further on. So a row is a `base`, the number of
the first lane, and the `Distances` of all lanes from it. Equal distances are one object as far as possible: sums and
products of rows are made once, and what is asked of a row is answered from what is known of its distances.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from stitchcuda.analysis.quick_init import quick_init

_MOST_KNOWN = 1 << 18  # numbers in all distances that are looked up
_MOST_MADE = 4096  # products and sums of them
_MOST_ANSWERS = 512  # sets of lanes that are kept of one


class Distances:
    """`each[0]` is 0, and some are not. Two that are equal may be two objects."""

    def __init__(self, each: tuple[int, ...]) -> None:
        self.each = each
        self.low = min(each)
        self.high = max(each)
        self._hash = hash(each)
        self._unit = self._divisor = -1
        self._reaching: dict[int, int] = {}
        self._at: dict[int, int] = {}
        self._same: dict[tuple[int, int], bool] = {}

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Distances):
            return NotImplemented
        return self._hash == other._hash and self.each == other.each

    @property
    def unit(self) -> int:
        """The largest number that divides those of the first 64 lanes."""
        if self._unit < 0:
            self._unit = gcd(*self.each[:64])
        return self._unit

    def multiple_of(self, divisor: int) -> bool:
        if self._divisor < 0:
            self._divisor = gcd(*self.each)
        return self._divisor % divisor == 0

    def times(self, factor: int) -> Distances:
        """`factor` is not 0."""
        if factor == 1:
            return self
        known = _products.get((id(self), factor))
        if known is None:
            if len(_products) > _MOST_MADE:
                _products.clear()
            known = _products[id(self), factor] = self, _distances(tuple([x * factor for x in self.each]))
        return known[1]

    def plus(self, other: Distances) -> Distances | None:
        """None when the sums are all 0."""
        known = _sums.get((id(self), id(other)))
        if known is None:
            if len(_sums) > _MOST_MADE:
                _sums.clear()
            sums = tuple(map(operator.add, self.each, other.each))
            made = _distances(sums) if any(sums) else None
            known = _sums[id(self), id(other)] = self, other, made
        return known[2]

    def reaching(self, least: int) -> int:
        """The lanes whose distance is at least so much."""
        if least <= self.low:
            return (1 << len(self.each)) - 1
        if least > self.high:
            return 0
        known = self._reaching.get(least)
        if known is None:
            if len(self._reaching) > _MOST_ANSWERS:
                self._reaching.clear()
            known = self._reaching[least] = int("".join(["1" if x >= least else "0" for x in reversed(self.each)]), 2)
        return known

    def at(self, distance: int) -> int:
        """The lanes whose distance it is."""
        if not self.low <= distance <= self.high:
            return 0
        known = self._at.get(distance)
        if known is None:
            if len(self._at) > _MOST_ANSWERS:
                self._at.clear()
            known = self._at[distance] = int("".join(["1" if x == distance else "0" for x in reversed(self.each)]), 2)
        return known

    def same_on(self, lanes: int, group: int, members: Callable[[int, int], tuple[tuple[int, ...], ...]]) -> bool:
        """All of each group of lanes, as `members` gives them, have one distance."""
        known = self._same.get((lanes, group))
        if known is None:
            if len(self._same) > _MOST_ANSWERS:
                self._same.clear()
            known = self._same[lanes, group] = self._same_in(members(lanes, group))
        return known

    def _same_in(self, groups: tuple[tuple[int, ...], ...]) -> bool:
        each = self.each
        for together in groups:
            first = each[together[0]]
            if each[together[-1]] != first:
                return False
            for lane in together:
                if each[lane] != first:
                    return False
        return True


@quick_init
@dataclass(frozen=True, slots=True, repr=False)
class Lanes:
    """Numbers that are not the same in all lanes."""

    base: int
    distances: Distances

    def __repr__(self) -> str:
        return repr(self.values)

    def __len__(self) -> int:
        return len(self.distances.each)

    def __getitem__(self, lane: int) -> int:
        return self.base + self.distances.each[lane]

    def __iter__(self) -> Iterator[int]:
        return iter(self.values)

    @property
    def values(self) -> tuple[int, ...]:
        base = self.base
        return tuple([base + x for x in self.distances.each]) if base else self.distances.each

    @property
    def low(self) -> int:
        return self.base + self.distances.low

    @property
    def high(self) -> int:
        return self.base + self.distances.high

    def within(self, low: int, high: int) -> bool:
        """All of them are from `low` to `high`."""
        return low <= self.base + self.distances.low and self.base + self.distances.high <= high

    def moved(self, by: int) -> Lanes:
        return Lanes(self.base + by, self.distances)

    def times(self, factor: int) -> Lanes:
        """`factor` is not 0."""
        return Lanes(self.base * factor, self.distances.times(factor))

    def multiple_of(self, divisor: int) -> bool:
        """All of them are."""
        return self.base % divisor == 0 and self.distances.multiple_of(divisor)

    def reaching(self, least: int) -> int:
        """The lanes whose number is at least so much."""
        return self.distances.reaching(least - self.base)

    def at(self, number: int) -> int:
        """The lanes whose number it is."""
        return self.distances.at(number - self.base)


Coefficient: TypeAlias = int | Lanes

_known: dict[tuple[int, ...], Distances] = {}
_size = 0
# By what they are made of, which is kept along: its ids name it.
_products: dict[tuple[int, int], tuple[Distances, Distances]] = {}
_sums: dict[tuple[int, int], tuple[Distances, Distances, Distances | None]] = {}


def _distances(each: tuple[int, ...]) -> Distances:
    global _size
    known = _known.get(each)
    if known is None:
        _size += len(each)
        if _size > _MOST_KNOWN:
            _known.clear()
            _products.clear()
            _sums.clear()
            _size = len(each)
        known = _known[each] = Distances(each)
    return known


def coefficient(values: tuple[int, ...]) -> Coefficient:
    """One number a lane, or the one of all."""
    base = values[0]
    if base == values[-1] and values.count(base) == len(values):
        return base
    return Lanes(base, _distances(tuple([x - base for x in values]) if base else values))


def each_lane(c: Coefficient, width: int) -> tuple[int, ...]:
    return (c,) * width if isinstance(c, int) else c.values


def pairwise(op: Callable[[int, int], int], a: Coefficient, b: Coefficient) -> Coefficient:
    if isinstance(a, int):
        if isinstance(b, int):
            return op(a, b)
        if op is operator.add:
            return b.moved(a) if a else b
        if op is operator.sub:
            return b.times(-1).moved(a)
        if op is operator.mul:
            return b.times(a) if a else 0
        return coefficient(tuple([op(a, y) for y in b.values]))
    if isinstance(b, int):
        if op is operator.add:
            return a.moved(b) if b else a
        if op is operator.sub:
            return a.moved(-b) if b else a
        if op is operator.mul:
            return a.times(b) if b else 0
        return coefficient(tuple([op(x, b) for x in a.values]))
    if op is operator.add:
        total = a.distances.plus(b.distances)
        return Lanes(a.base + b.base, total) if total is not None else a.base + b.base
    if op is operator.sub:
        if a.distances is b.distances:
            return a.base - b.base
        total = a.distances.plus(b.distances.times(-1))
        return Lanes(a.base - b.base, total) if total is not None else a.base - b.base
    return coefficient(tuple(map(op, a.values, b.values)))


def negative(c: Coefficient) -> Coefficient:
    return -c if isinstance(c, int) else c.times(-1)
