"""Integers of all threads of a block at once.

A `Form` is a polynomial over symbols whose coefficients are numbers that may differ between lanes: `row * n + col` is
`{("n",): rows, (): cols}`. Symbols stand for what the source does not say. The first character of a symbol's name
tells how it varies: "~" differs between lanes in an unknown way, "^" is the same within a warp, all others are the same
in the whole block. A coefficient is one `int` (the same in every lane) or one number a lane (`coefficients.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from stitchcuda.analysis.kernel.coefficients import Coefficient, coefficient, each_lane, negative, pairwise
from stitchcuda.analysis.quick_init import quick_init

Monomial: TypeAlias = tuple[str, ...]
Key: TypeAlias = tuple[tuple[Monomial, int], ...]  # a Form's value in one lane; equal keys are equal numbers

WARP = 32
MAX_TERMS = 12
MAX_DEGREE = 4
LARGEST = 1 << 127  # of a number: more than any integer type of the program holds


@quick_init
@dataclass(frozen=True, slots=True)
class Form:
    """Terms are sorted, and no coefficient is zero in all lanes."""

    terms: tuple[tuple[Monomial, Coefficient], ...]

    @property
    def exact(self) -> Coefficient | None:
        """The numbers when no symbol is left, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def constant(self) -> int | None:
        """The one number that it is in every lane, else None."""
        exact = self.exact
        return exact if isinstance(exact, int) else None

    @property
    def unknown(self) -> bool:
        """It differs between lanes in an unknown way."""
        for mono, _ in self.terms:
            for s in mono:
                if s[0] in "~^":
                    return True
        return False

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset([s for mono, _ in self.terms for s in mono])

    def with_known(self, values: Mapping[str, int]) -> Form:
        """The same number with the values of some symbols put in."""
        if values.keys().isdisjoint(self.symbols):
            return self
        total = ZERO
        for mono, c in self.terms:
            kept = tuple(s for s in mono if s not in values)
            factor = prod(values[s] for s in mono if s in values)
            total = total + form({kept: pairwise(operator.mul, c, factor)})
        return total

    def at(self, lane: int) -> Key:
        """Its value in one lane. Two lanes hold the same number if their keys are equal and the Form is not `unknown`."""
        out = []
        for mono, c in self.terms:
            value = c if isinstance(c, int) else c[lane]
            if value:
                out.append((mono, value))
        return tuple(out)

    def at_each(self, lanes: tuple[int, ...]) -> tuple[Key, ...]:
        """`at` for each of these lanes."""
        columns: list[list[tuple[Monomial, int]]] = []
        gaps = False  # some value is 0 in some lane
        for mono, c in self.terms:
            if isinstance(c, int):
                columns.append([(mono, c)] * len(lanes))
            else:
                values = list(c.values) if len(lanes) == len(c) else [c[lane] for lane in lanes]
                gaps = gaps or 0 in values
                columns.append([(mono, value) for value in values])
        if not columns:
            return ((),) * len(lanes)
        rows = zip(*columns, strict=True)
        return tuple([tuple([p for p in row if p[1]]) for row in rows] if gaps else rows)

    def keys(self, lanes: tuple[int, ...]) -> list[object]:
        """One value for each of these lanes: equal where the number is, if it is not `unknown`."""
        own = [c.distances.each for _, c in self.terms if not isinstance(c, int)]
        if not own:
            return [0] * len(lanes)
        if len(own) == 1:
            return [own[0][lane] for lane in lanes]
        return [tuple([c[lane] for c in own]) for lane in lanes]

    def same_on(self, lanes: int, group: int = 0) -> bool:
        """All of these lanes hold the same number (with `group`: all of each group of so many neighbours)."""
        for mono, c in self.terms:
            for s in mono:
                if s[0] == "~" or s[0] == "^" and group != WARP:
                    return False
            if not isinstance(c, int) and not c.distances.same_on(lanes, group, groups_of):
                return False
        return True

    def __add__(self, other: Form) -> Form:
        if not other.terms:
            return self
        if not self.terms:
            return other
        if len(self.terms) == 1 and len(other.terms) == 1:  # as most are
            (mono, c), (last, d) = self.terms[0], other.terms[0]
            if mono == last:
                return _single(mono, pairwise(operator.add, c, d))
            return Form(((mono, c), (last, d)) if mono < last else ((last, d), (mono, c)))
        out = dict(self.terms)
        for mono, c in other.terms:
            known = out.get(mono)
            out[mono] = c if known is None else pairwise(operator.add, known, c)
        return form(out)

    def __neg__(self) -> Form:
        return Form(tuple([(m, negative(c)) for m, c in self.terms]))

    def __sub__(self, other: Form) -> Form:
        if self is other:
            return ZERO
        if not other.terms:
            return self
        if not self.terms:
            return -other
        if len(self.terms) == 1 and len(other.terms) == 1:
            (mono, c), (last, d) = self.terms[0], other.terms[0]
            if mono == last:
                return _single(mono, pairwise(operator.sub, c, d))
        out = dict(self.terms)
        for mono, c in other.terms:
            out[mono] = pairwise(operator.sub, out.get(mono, 0), c)
        return form(out)

    def __mul__(self, other: Form) -> Form | None:
        """None when it grows too large to follow."""
        if len(self.terms) == 1 and len(other.terms) == 1:
            (first, c), (second, d) = self.terms[0], other.terms[0]
            mono = tuple(sorted(first + second)) if first and second else first or second
            return _single(mono, pairwise(operator.mul, c, d)) if len(mono) <= MAX_DEGREE else None
        out: dict[Monomial, Coefficient] = {}
        for m1, c1 in self.terms:
            for m2, c2 in other.terms:
                mono = tuple(sorted(m1 + m2)) if m1 and m2 else m1 or m2
                product = pairwise(operator.mul, c1, c2)
                known = out.get(mono)
                out[mono] = product if known is None else pairwise(operator.add, known, product)
        if len(out) > MAX_TERMS or any(len(m) > MAX_DEGREE for m in out):
            return None
        return form(out)

    def __str__(self) -> str:
        parts = []
        for mono, c in self.terms:
            head = str(c) if isinstance(c, int) else f"[{c[0]},{c[1] if len(c) > 1 else ''}..]"
            parts.append("*".join((head, *mono)))
        return "+".join(parts) or "0"


def form(terms: Mapping[Monomial, Coefficient]) -> Form:
    out = []
    for mono, c in sorted(terms.items()) if len(terms) > 1 else terms.items():
        if not isinstance(c, int) or c:
            out.append((mono, c))
    return Form(tuple(out))


def _single(mono: Monomial, c: Coefficient) -> Form:
    """The Form of one term."""
    return Form(((mono, c),)) if not isinstance(c, int) or c else ZERO


def number(value: int) -> Form:
    return Form((((), value),)) if value else ZERO


def symbol(name: str) -> Form:
    return Form((((name,), 1),))


def per_lane(values: tuple[int, ...]) -> Form:
    return Form((((), c),)) if (c := coefficient(values)) != 0 else ZERO


ZERO = Form(())
ONE = Form((((), 1),))


def select(lanes: int, chosen: Form, other: Form, width: int) -> Form:
    """`chosen` in these lanes, `other` elsewhere; exact, symbol by symbol."""
    if chosen == other:
        return chosen
    a, b = dict(chosen.terms), dict(other.terms)
    out: dict[Monomial, Coefficient] = {}
    runs = runs_of(lanes, width)
    for mono in {*a, *b}:
        x, y = a.get(mono, 0), b.get(mono, 0)
        if x == y:
            out[mono] = x
            continue
        left, right = each_lane(x, width), each_lane(y, width)
        picked: list[int] = []
        for chosen_here, start, end in runs:
            picked += left[start:end] if chosen_here else right[start:end]
        out[mono] = coefficient(tuple(picked))
    return form(out)


_runs: dict[tuple[int, int], tuple[tuple[bool, int, int], ...]] = {}


def runs_of(lanes: int, width: int) -> tuple[tuple[bool, int, int], ...]:
    """Neighbours that are all in a mask or all not, from the first lane on: whether they are in it, their first and what follows."""
    known = _runs.get((lanes, width))
    if known is None:
        if len(_runs) > 4096:
            _runs.clear()
        found: list[tuple[bool, int, int]] = []
        start = 0
        while start < width:
            inside = bool(lanes >> start & 1)
            rest = ~lanes >> start if inside else lanes >> start
            end = min(width, start + (rest & -rest).bit_length() - 1) if rest else width
            found.append((inside, start, end))
            start = end
        known = _runs[lanes, width] = tuple(found)
    return known


_members: dict[int, tuple[int, ...]] = {}


def lanes_of(lanes: int) -> tuple[int, ...]:
    """The lanes in a mask, ascending."""
    known = _members.get(lanes)
    if known is None:
        if len(_members) > 4096:
            _members.clear()
        found = []
        rest = lanes
        while rest:
            low = rest & -rest
            found.append(low.bit_length() - 1)
            rest ^= low
        known = _members[lanes] = tuple(found)
    return known


_groups: dict[tuple[int, int], tuple[tuple[int, ...], ...]] = {}


def groups_of(lanes: int, group: int) -> tuple[tuple[int, ...], ...]:
    """The lanes in a mask, ascending, those of each so many neighbours together (0: all)."""
    known = _groups.get((lanes, group))
    if known is None:
        if len(_groups) > 4096:
            _groups.clear()
        found: dict[int, list[int]] = {}
        for lane in lanes_of(lanes):
            found.setdefault(lane // group if group else 0, []).append(lane)
        known = _groups[lanes, group] = tuple([tuple(each) for each in found.values()])
    return known


def mask_where(values: Coefficient, width: int) -> int:
    """The lanes whose number is not zero."""
    if isinstance(values, int):
        return (1 << width) - 1 if values else 0
    return ((1 << width) - 1) & ~values.at(0)
