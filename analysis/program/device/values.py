"""Values of the device-code walk: integers as polynomials, pointers as the places they may point to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from stitchcuda.analysis.order.symbolic import ONE, ZERO, Poly, at_least, symbol
from stitchcuda.analysis.order.timeline import Certainty, Mode
from stitchcuda.analysis.program.ir import Lambda
from stitchcuda.analysis.quick_init import quick_init


@quick_init
@dataclass(frozen=True, slots=True)
class Place:
    """Memory reached from a root: `root` is `p:<parameter>`, `s:<symbol>` or `c:<cell>` (a local of the walk). `offset`
    counts elements of type `element` from where the root points; None is unknown. `field` is the part of a struct in
    that memory; `value` marks a struct passed by value, whose members are themselves parameters, not memory."""

    root: str
    member: str = ""
    offset: Poly | None = ZERO
    element: str = ""
    const: bool = False
    field: str = ""
    value: bool = False

    @property
    def local(self) -> bool:
        return self.root.startswith("c:")

    def loaded(self) -> Place:
        """Where a pointer read from this place points."""
        step = f".{self.field}" if self.field else "[]"
        return Place(self.root, (self.member + step).lstrip("."))

    def moved(self, by: Poly | None) -> Place:
        offset = None if by is None or self.offset is None else self.offset + by
        return Place(self.root, self.member, offset, self.element, self.const, self.field, self.value)

    def viewed_as(self, element: str, const: bool) -> Place:
        """After a cast. A byte offset survives only when it is zero: element sizes are not known here."""
        keep = element == self.element or self.offset == ZERO
        return replace(self, element=element, const=const, offset=self.offset if keep else None)


@quick_init
@dataclass(frozen=True, slots=True)
class Value:
    number: Poly | None = None
    places: frozenset[Place] = frozenset()
    data: bool = False  # depends on memory content
    thread: bool = False  # differs between threads
    function: Lambda | None = None

    def join(self, other: Value) -> Value:
        if self == other:
            return self
        return Value(
            number=self.number if self.number == other.number else None,
            places=_join_places(self.places | other.places),
            data=self.data or other.data,
            thread=self.thread or other.thread,
            function=self.function or other.function,
        )


UNKNOWN = Value()


def _join_places(places: frozenset[Place]) -> frozenset[Place]:
    """One place for each root and member, so that pointers that move in a loop reach a fixed point."""
    merged: dict[tuple[str, str], Place] = {}
    for place in places:
        key = (place.root, place.member)
        known = merged.get(key)
        if known is None:
            merged[key] = place
        elif known != place:
            merged[key] = Place(
                place.root,
                place.member,
                offset=place.offset if place.offset == known.offset else None,
                element=place.element if place.element == known.element else "",
                const=place.const and known.const,
                field=place.field if place.field == known.field else "",
                value=place.value and known.value,
            )
    return frozenset(merged.values())


def combine(values: Iterable[Value], number: Poly | None = None) -> Value:
    """The result of an operation on `values`: flags are inherited, pointers are not."""
    data = thread = False
    for value in values:
        data = data or value.data
        thread = thread or value.thread
    return Value(number=number, data=data, thread=thread)


@quick_init
@dataclass(frozen=True, slots=True)
class Touch:
    """One access the walk met. `low`..`high` are the first and last element, inclusive, in parameters and launch
    dimensions only; None is unknown."""

    root: str
    member: str
    mode: Mode
    certainty: Certainty
    element: str
    own: bool  # at the thread's own linear index
    low: Poly | None
    high: Poly | None
    field: str = ""  # of a record in memory: its type and the path of the member, "Out.mean"

    @property
    def key(self) -> tuple[str, str, Mode]:
        return self.root, self.member, self.mode

    def perhaps(self) -> Touch:
        """The same access, which may not happen."""
        return self if self.certainty is Certainty.MAY else replace(self, certainty=Certainty.MAY)


THREAD_INDEXES = tuple(
    (f"@thread.{a}", symbol(f"blockIdx.{a}") * symbol(f"blockDim.{a}") + symbol(f"threadIdx.{a}")) for a in "xyz"
)


def fold(poly: Poly, pattern: Poly, name: str) -> Poly:
    """Writes every multiple of `pattern` in `poly` as a multiple of the symbol `name`. The pattern must hold an inner
    symbol with coefficient 1, by which multiples are found."""
    lead = next((m for m, c in pattern.terms if c == 1 and len(m) == 1 and is_inner(m[0])), None)
    if lead is None or lead[0] not in poly.symbols:
        return poly
    for mono, coefficient in poly.terms:
        if mono.count(lead[0]) != 1:
            continue
        rest = list(mono)
        rest.remove(lead[0])
        factor = Poly(((tuple(rest), coefficient),))
        covered, terms = dict((factor * pattern).terms), dict(poly.terms)
        if all(terms.get(m) == c for m, c in covered.items()):
            poly = poly - factor * pattern + factor * symbol(name)
    return poly


def fold_thread_index(poly: Poly) -> Poly:
    """Writes `blockIdx.a*blockDim.a + threadIdx.a` (times anything) as one symbol, so that guards on it can bound it."""
    for name, pattern in THREAD_INDEXES:
        poly = fold(poly, pattern, name)
    return poly


def is_inner(name: str) -> bool:
    """Symbols that exist only inside the kernel: they must be bounded away before an extent is told to a caller."""
    return name.startswith(("@", "-", "threadIdx.", "blockIdx."))


def extreme(poly: Poly, lower: Mapping[str, Poly], upper: Mapping[str, Poly], *, highest: bool) -> Poly | None:
    """The largest (or smallest) value, with each inner symbol at the end of its range that gives it; None when a symbol
    has no known range or pulls both ways."""
    for _ in range(4):  # a bound may itself hold an inner symbol (triangular loops)
        inner = [s for s in poly.symbols if is_inner(s)]
        if not inner:
            return poly
        values: dict[str, Poly] = {}
        for name in inner:
            signs = {c > 0 for mono, c in poly.terms if name in mono}
            if len(signs) != 1:
                return None
            bound = (upper if signs.pop() is highest else lower).get(name)
            if bound is None:
                return None
            values[name] = bound
        poly = poly.substitute(values)
    return None


def smaller(a: Poly | None, b: Poly | None) -> Poly | None:
    if a is None or b is None:
        return None
    return b if at_least(a, b) else a if at_least(b, a) else None


def larger(a: Poly | None, b: Poly | None) -> Poly | None:
    if a is None or b is None:
        return None
    return a if at_least(a, b) else b if at_least(b, a) else None


def launch_bounds() -> tuple[dict[str, Poly], dict[str, Poly]]:
    """Ranges of the thread's coordinates in launch dimensions."""
    lower: dict[str, Poly] = {}
    upper: dict[str, Poly] = {}
    for axis in "xyz":
        grid, block = symbol(f"gridDim.{axis}"), symbol(f"blockDim.{axis}")
        for name, size in ((f"threadIdx.{axis}", block), (f"blockIdx.{axis}", grid), (f"@thread.{axis}", grid * block)):
            lower[name], upper[name] = ZERO, size - ONE
    return lower, upper
