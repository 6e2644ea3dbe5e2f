"""Symbolic integers: polynomials with integer coefficients over named symbols.

Every unknown integer of the program (a parameter, a loop counter, the result of a division) is a symbol. Sizes, counts
and indexes are what the analysis needs them for, so a symbol is taken to be >= 0 unless its name starts with "-" (the
negation of something unknown); a comparison that this does not settle is `None`, "not known".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from stitchcuda.analysis.quick_init import quick_init

Monomial: TypeAlias = tuple[str, ...]  # sorted symbol names; () is the constant term


@quick_init
@dataclass(frozen=True, slots=True)
class Poly:
    """Sum of `coefficient * product of symbols`, terms sorted, no zero coefficients: equal polynomials compare equal."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Poly) -> Poly:
        if not other.terms:
            return self
        if not self.terms:
            return other
        out = dict(self.terms)
        for mono, coeff in other.terms:
            out[mono] = out.get(mono, 0) + coeff
        return _make(out)

    def __neg__(self) -> Poly:
        return Poly(tuple([(m, -c) for m, c in self.terms]))

    def __sub__(self, other: Poly) -> Poly:
        if not other.terms:
            return self
        if self.terms == other.terms:
            return ZERO
        out = dict(self.terms)
        for mono, coeff in other.terms:
            out[mono] = out.get(mono, 0) - coeff
        return _make(out)

    def __mul__(self, other: Poly) -> Poly:
        if other.terms == _ONE:
            return self
        if self.terms == _ONE:
            return other
        out: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in other.terms:
                mono = tuple(sorted(m1 + m2))
                out[mono] = out.get(mono, 0) + c1 * c2
        product = _make(out)
        return product if len(out) <= MAX_TERMS and product.followed() else unfollowed("*", self, other)

    @property
    def constant(self) -> int | None:
        """The value when it holds no symbol, else None."""
        terms = self.terms
        if not terms:
            return 0
        if len(terms) == 1 and not terms[0][0]:
            return terms[0][1]
        return None

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(s for mono, _ in self.terms for s in mono)

    def substitute(self, values: Mapping[str, Poly]) -> Poly:
        """Replaces symbols; the names inside opaque symbols such as "(n/4)" are replaced only when a whole name matches."""
        if values.keys().isdisjoint(self.symbols):
            return self
        total = ZERO
        for mono, coeff in self.terms:
            product = number(coeff)
            for s in mono:
                product = product * values.get(s, symbol(s))
            total = total + product
        return total

    def nonnegative(self) -> bool:
        """True when it is provably >= 0 with every symbol >= 0 (False means "not known")."""
        for mono, coeff in self.terms:
            if coeff < 0:
                return False
            for name in mono:
                if name[:1] == "-":
                    return False
        return True

    def followed(self) -> bool:
        """Whether its numbers and products are small enough to compute with: `x = x * x`, forty times, is a number of 10^12 bits."""
        for mono, coeff in self.terms:
            if len(mono) > MAX_DEGREE or not -LARGEST <= coeff <= LARGEST:
                return False
        return True

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts = []
        for mono, coeff in self.terms:
            body = "*".join(mono)
            parts.append(str(coeff) if not mono else body if coeff == 1 else f"{coeff}*{body}")
        return "+".join(parts).replace("+-", "-")


class Covering:
    """A polynomial of which is asked whether others are below it, without making the differences."""

    def __init__(self, poly: Poly) -> None:
        self._terms = dict(poly.terms)
        # what only another with the same term can make up for
        self._wanted = [mono for mono, coeff in poly.terms if coeff < 0 or _may_be_negative(mono)]

    def covers(self, other: Poly) -> bool:
        """Whether the polynomial less `other` is `nonnegative`."""
        own = self._terms
        terms = other.terms
        for mono, coeff in terms:
            left = own.get(mono, 0) - coeff
            if left < 0 or (left and _may_be_negative(mono)):
                return False
        for mono in self._wanted:
            for known, _ in terms:
                if known == mono:
                    break
            else:
                return False
        return True


def _may_be_negative(mono: Monomial) -> bool:
    for name in mono:
        if name[:1] == "-":
            return True
    return False


def _short(name: str) -> str:
    """The name, or what stands for one that is very long: names hold the names of what they are made of."""
    return name if len(name) <= 200 else f"({hashlib.blake2b(name.encode(), digest_size=12).hexdigest()})"


MAX_TERMS = 24
MAX_DEGREE = 6
LARGEST = 1 << 127  # of a coefficient: more than any integer type of the program holds


_ONE: tuple[tuple[Monomial, int], ...] = (((), 1),)


def _make(terms: Mapping[Monomial, int]) -> Poly:
    left = [item for item in terms.items() if item[1]]
    if len(left) > 1:
        left.sort()
    return Poly(tuple(left))


def number(value: int) -> Poly:
    """The constant polynomial."""
    return _SMALL.get(value) or Poly((((), value),))


def integer(text: str) -> int | None:
    """The value of a plain decimal number, None for any other text."""
    return int(text) if len(text) < 20 and text.isascii() and text.isdecimal() else None


@lru_cache(maxsize=1 << 14)
def symbol(name: str) -> Poly:
    """The polynomial that is one unknown (see the module docstring about its sign)."""
    return Poly((((name,), 1),))


def unfollowed(op: str, a: Poly, b: Poly) -> Poly:
    """What stands for `a op b` that is not `followed`: it may be negative when a term of either may."""
    name = _short(f"({a}{op}{b})")
    return symbol(name if a.nonnegative() and b.nonnegative() else f"-{name}")


ZERO = Poly(())
_SMALL: Mapping[int, Poly] = {k: Poly((((), k),)) if k else ZERO for k in range(-64, 1025)}
ONE = number(1)


def equal(a: Poly, b: Poly) -> bool | None:
    """True: always equal; False: never equal; None: not known."""
    if a.terms == b.terms:
        return True
    x, y = a.constant, b.constant
    if x is not None and y is not None:
        return False
    difference = a - b
    if difference.constant is not None:
        return False
    return False if _above(difference) or _below(difference) else None


def at_least(a: Poly, b: Poly) -> bool | None:
    """a >= b: True always, False never, None not known."""
    x, y = a.constant, b.constant
    if x is not None and y is not None:
        return x >= y
    difference = a - b
    if difference.nonnegative():
        return True
    return False if _below(difference) else None


def _above(poly: Poly) -> bool:
    """Whether `poly - ONE` is `nonnegative`: no symbol and no coefficient may be below 0, the constant is 1 or more."""
    constant = 0
    for mono, coeff in poly.terms:
        if not mono:
            constant = coeff
        elif coeff < 0 or _may_be_negative(mono):
            return False
    return constant > 0


def _below(poly: Poly) -> bool:
    """Whether `-poly - ONE` is `nonnegative`: no symbol may be below 0, no coefficient above, the constant is -1 or less."""
    constant = 0
    for mono, coeff in poly.terms:
        if not mono:
            constant = coeff
        elif coeff > 0 or _may_be_negative(mono):
            return False
    return constant < 0
