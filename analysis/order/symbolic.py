"""Symbolic integers: polynomials with integer coefficients over named symbols.

Every unknown integer of the program (a parameter, a loop counter, the result of a division) is a symbol. Sizes, counts
and indexes are what the analysis needs them for, so a symbol is taken to be >= 0 unless its name starts with "-" (the
negation of something unknown); a comparison that this does not settle is `None`, "not known".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Monomial: TypeAlias = tuple[str, ...]  # sorted symbol names; () is the constant term


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
        if self.terms == other.terms:
            return ZERO
        return self + (-other)

    def __mul__(self, other: Poly) -> Poly:
        out: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in other.terms:
                mono = tuple(sorted(m1 + m2))
                out[mono] = out.get(mono, 0) + c1 * c2
        if len(out) > MAX_TERMS or any(len(m) > MAX_DEGREE for m in out):
            return symbol(f"({self}*{other})")
        return _make(out)

    @property
    def constant(self) -> int | None:
        """The value when it holds no symbol, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return self.terms[0][1]
        return None

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(s for mono, _ in self.terms for s in mono)

    def substitute(self, values: Mapping[str, Poly]) -> Poly:
        """Replaces symbols; the names inside opaque symbols such as "(n/4)" are replaced only when a whole name matches."""
        if not self.symbols & values.keys():
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

    def covers(self, other: Poly) -> bool:
        """Whether `self - other` is `nonnegative`, without making it."""
        if not other.terms:
            return self.nonnegative()
        rest = dict(self.terms)
        for mono, coeff in other.terms:
            left = rest.pop(mono, 0) - coeff
            if left < 0 or (left and any(name[:1] == "-" for name in mono)):
                return False
        return all(coeff >= 0 and not any(name[:1] == "-" for name in mono) for mono, coeff in rest.items())

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts = []
        for mono, coeff in self.terms:
            body = "*".join(mono)
            parts.append(str(coeff) if not mono else body if coeff == 1 else f"{coeff}*{body}")
        return "+".join(parts).replace("+-", "-")


MAX_TERMS = 24
MAX_DEGREE = 6


def _make(terms: Mapping[Monomial, int]) -> Poly:
    return Poly(tuple(sorted([item for item in terms.items() if item[1]])))


def number(value: int) -> Poly:
    """The constant polynomial."""
    return Poly((((), value),)) if value else Poly(())


def symbol(name: str) -> Poly:
    """The polynomial that is one unknown (see the module docstring about its sign)."""
    return Poly((((name,), 1),))


ZERO = number(0)
ONE = number(1)


def equal(a: Poly, b: Poly) -> bool | None:
    """True: always equal; False: never equal; None: not known."""
    if a.terms == b.terms:
        return True
    difference = a - b
    if difference.constant is not None:
        return False
    if (difference - ONE).nonnegative() or (-difference - ONE).nonnegative():
        return False
    return None


def at_least(a: Poly, b: Poly) -> bool | None:
    """a >= b: True always, False never, None not known."""
    x, y = a.constant, b.constant
    if x is not None and y is not None:
        return x >= y
    difference = a - b
    if difference.nonnegative():
        return True
    if (-difference - ONE).nonnegative():
        return False
    return None
