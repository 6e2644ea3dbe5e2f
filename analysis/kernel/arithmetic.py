"""Operators on numbers of all lanes. What cannot be followed becomes a symbol, the same one for the same operands."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import gcd
from typing import NamedTuple

from stitchcuda.analysis.kernel.coefficients import Coefficient, negative, pairwise
from stitchcuda.analysis.kernel.lanes import (
    LARGEST,
    ONE,
    WARP,
    ZERO,
    Form,
    Monomial,
    form,
    mask_where,
    number,
    symbol,
)

_NONNEGATIVE = ("blockIdx.", "gridDim.", "sizeof(")
MAYBE = "~/"  # first characters of a symbol that differs between lanes, but perhaps not within a warp
LOADED = "~@"  # of one that each lane has loaded for itself: it may be any number
COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})


class Step(NamedTuple):
    """Something that is not a sum or product: a comparison of `left` with zero ("<" or "=="), with the lanes in which it
    surely holds and surely does not, or an operator with its operands."""

    what: str
    left: Form
    right: Form = ZERO
    yes: int = 0
    no: int = 0


class Arithmetic:
    """`width` is the number of lanes."""

    def __init__(self, width: int) -> None:
        self.trail: list[Step] | None = None  # where it is kept what was decided and computed
        self.width = width
        self.full = (1 << width) - 1
        self._opaque: dict[tuple[str, Form, Form], Form] = {}
        self._signs: dict[Form, tuple[int, int]] = {}
        self._fresh = 0

    def fresh(self, prefix: str) -> Form:
        """A new symbol: prefix "~" differs between lanes, "^" between warps, "u" between blocks at most, "<" is fixed when
        the kernel is compiled."""
        self._fresh += 1
        return symbol(f"{prefix}{self._fresh}")

    def opaque(self, op: str, a: Form, b: Form = ZERO) -> Form:
        known = self._opaque.get((op, a, b))
        if known is None:
            uniform = a.same_on(self.full) and b.same_on(self.full)
            warp = uniform or a.same_on(self.full, WARP) and b.same_on(self.full, WARP)
            fixed = uniform and all(x.startswith(("<", "sizeof(")) for x in a.symbols | b.symbols)
            prefix = "<" if fixed else "u" if uniform else "^" if warp else self._prefix(op, a, b)
            known = self._opaque[op, a, b] = self.fresh(prefix)
        return known

    def _prefix(self, op: str, a: Form, b: Form) -> str:
        """`threadIdx.x / n` with an `n` that is not known: it may well be the same in a whole warp."""
        coordinates = not a.unknown and not b.unknown
        if coordinates and op in ("/", ">>") and b.constant is None:
            return MAYBE
        symbols = [s for s in a.symbols | b.symbols if s[0] == "~"]
        for kind in (MAYBE, LOADED):
            if symbols and all(s.startswith(kind) for s in symbols):
                return kind
        return "~"

    def binary(self, op: str, a: Form, b: Form) -> Form:
        match op:
            case "+":
                return a + b
            case "-":
                return a - b
            case "*":
                product = a * b
                return product if product is not None and _followed(product) else self.opaque("*", a, b)
        if self.trail is not None:
            self.trail.append(Step(op, a, b))
        x, y = a.exact, b.exact
        if x is not None and y is not None:
            done = _exact(op, x, y)
            return _number(done) if done is not None and _small(done) else self.opaque(op, a, b)
        k = b.constant
        if k is not None:
            if op == ">>" and 0 <= k < 63:
                op, k = "/", 1 << k
            elif op == "&" and k > 0 and k & (k + 1) == 0:
                op, k = "%", k + 1
            elif op == "<<" and 0 <= k < 63:
                product = a * number(1 << k)
                return product if product is not None and _followed(product) else self.opaque(op, a, b)
            if op in ("/", "%") and k > 0:
                return self._divided(op, a, k)
        return self.opaque(op, a, b)

    def _divided(self, op: str, a: Form, k: int) -> Form:
        """`(256 * blockIdx.x + t) / 32`: what is a multiple of the divisor comes out."""
        whole: dict[Monomial, Coefficient] = {}
        rest: dict[Monomial, Coefficient] = {}
        for mono, c in a.terms:
            exact = c % k == 0 if isinstance(c, int) else c.multiple_of(k)
            (whole if exact and mono else rest)[mono] = c
        left = form(rest)
        if left.exact is None:
            if op == "/" and whole:
                return form({m: _over(c, k) for m, c in whole.items()}) + self.opaque("/", left, number(k))
            return self.opaque(op, left, number(k))
        if op == "%":
            return _number(pairwise(operator.mod, left.exact, k))
        return form({m: _over(c, k) for m, c in whole.items()}) + _number(_over(left.exact, k))

    def least_and_most(self, op: str, a: Form, b: Form) -> Form:
        if self.trail is not None:
            self.trail.append(Step(op, a, b))
        x, y = a.exact, b.exact
        if x is not None and y is not None:
            return _number(pairwise(min if op == "min" else max, x, y))
        return self.opaque(op, a, b)

    def sign(self, value: Form) -> tuple[int, int]:
        """The lanes in which it is certainly >= 0, and those in which it is certainly < 0."""
        known = self._signs.get(value)
        if known is None:
            known = self._signs[value] = self._sign(_grounded(value))
        return known

    def _sign(self, value: Form) -> tuple[int, int]:
        if not value.terms:
            return self.full, 0
        # in each lane: whether a term may be less than zero, and whether one may be more
        constant: Coefficient = 0
        symbolic: list[Coefficient] = []
        bad = 0
        for mono, c in value.terms:
            if not mono:
                constant = c
                continue
            symbolic.append(c)
            if not all(s.startswith(_NONNEGATIVE) for s in mono):
                bad |= self._nonzero(c)
        if bad == self.full:
            return 0, 0
        plus = self._at_least_zero(constant)
        minus = self.full & ~plus
        for c in symbolic:
            plus &= self._at_least_zero(c)
            minus &= self._at_least_zero(negative(c))
        return plus & ~bad, minus & ~bad

    def _at_least_zero(self, c: Coefficient) -> int:
        if isinstance(c, int):
            return self.full if c >= 0 else 0
        return c.reaching(0)

    def zero(self, value: Form) -> tuple[int, int]:
        """The lanes in which it is certainly 0, and those in which it certainly is not."""
        exact = value.exact
        if exact is None and any(s.startswith("gridDim.") for s in value.symbols):
            above, below = self.sign(value - ONE), self.sign(value)
            return 0, above[0] | below[1]  # `blockIdx.x == gridDim.x` never holds
        if exact is not None:
            nonzero = self._nonzero(exact)
            return self.full & ~nonzero, nonzero
        symbolic = 0
        constant: Coefficient = 0
        for mono, c in value.terms:
            if mono:
                symbolic |= self._nonzero(c)
            else:
                constant = c
        nonzero = self._nonzero(constant)
        apart = nonzero & ~symbolic
        if nonzero & symbolic:  # `256 * blockIdx.x + threadIdx.x == 0`
            apart |= self.sign(value - ONE)[0] | self.sign(value)[1]
        return self.full & ~symbolic & ~nonzero, apart

    def _nonzero(self, c: Coefficient) -> int:
        return mask_where(c, self.width)


def _grounded(value: Form) -> Form:
    """A grid has more blocks than the index of any block: `gridDim.x` is `blockIdx.x + 1` and something more."""
    for axis in "xyz":
        size = (f"gridDim.{axis}",)
        for mono, c in value.terms:
            if mono == size:
                more = Form((((f"blockIdx.{axis}",), c), ((), c)))
                rest = Form((((f"gridDim.{axis}.more",), c),))
                value = value - Form(((size, c),)) + form(dict(more.terms)) + rest
    return value


def comes_from_unseen(number: Form) -> bool:
    """What differs between lanes is only what code gives back that is not seen."""
    return not any(s.startswith((LOADED, MAYBE)) for s in number.symbols)


def in_step(margin: Form) -> bool:
    """Its sign is the same in all lanes although its value is not: all that is unknown comes in multiples of a number,
    and the lanes' own part stays within one multiple. `n / 256 * 256 - 256 * blockIdx.x - threadIdx.x > 0`."""
    unit = 0
    own: Coefficient = 0
    for mono, c in margin.terms:
        if not mono:
            own = c
        elif isinstance(c, int):
            unit = gcd(unit, c)
        else:
            return False
    if unit < 2 or isinstance(own, int) or margin.unknown:
        return False
    return own.low // unit == own.high // unit


def _number(c: Coefficient) -> Form:
    return number(c) if isinstance(c, int) else Form((((), c),))


def _over(c: Coefficient, k: int) -> Coefficient:
    return pairwise(_truncated, c, k)


def _truncated(x: int, y: int) -> int:
    return x // y if (x >= 0) == (y > 0) else -(-x // y) if y > 0 else -(x // -y)


def _remainder(x: int, y: int) -> int:
    return x - y * _truncated(x, y)


_EXACT: dict[str, Callable[[int, int], int]] = {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": lambda x, y: int(x < y),
    "<=": lambda x, y: int(x <= y),
    ">": lambda x, y: int(x > y),
    ">=": lambda x, y: int(x >= y),
    "==": lambda x, y: int(x == y),
    "!=": lambda x, y: int(x != y),
}


def _followed(product: Form) -> bool:
    """`x = x * x`, forty times, is a number of 10^12 bits."""
    for _, c in product.terms:
        if not _small(c):
            return False
    return True


def _small(c: Coefficient) -> bool:
    if isinstance(c, int):
        return -LARGEST <= c <= LARGEST
    return c.within(-LARGEST, LARGEST)


def _exact(op: str, x: Coefficient, y: Coefficient) -> Coefficient | None:
    if op in ("/", "%"):
        if (y == 0) if isinstance(y, int) else y.at(0):
            return None
        return pairwise(_truncated if op == "/" else _remainder, x, y)
    if op in ("<<", ">>"):
        if not (0 <= y <= 63 if isinstance(y, int) else y.within(0, 63)):
            return None
        return pairwise(operator.lshift if op == "<<" else operator.rshift, x, y)
    action = _EXACT.get(op)
    return pairwise(action, x, y) if action is not None else None
