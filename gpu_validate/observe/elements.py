"""The element types that results can be read as, and what a comparison of two buffers of them finds."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Sizes of numbers by binary exponent: place 0 is zero, place e + OFFSET a number of [2^(e-1), 2^e) in double precision.
OFFSET = 1074
SIZES = 1024 + OFFSET + 1
LIKELY_NOISE, LEAST_FAR = 2.0, 10.0  # times the noise floor


@dataclass(frozen=True, slots=True)
class Element:
    """`code` is the `struct` format of a stored number, "" for bfloat16, which has none. A complex number is stored as two `parts`,
    which are compared each for itself; `size` is that of a part, in bytes. `least`: numbers of the type that are smaller, and not
    0, look like something else (whole numbers, text); 0.0 when no number does."""

    name: str
    size: int
    code: str
    floating: bool
    parts: int = 1
    least: float = 0.0


_TINY = 2.0**-100
_ALL = (
    Element("float16", 2, "e", True, least=2.0**-14),
    Element("bfloat16", 2, "", True, least=_TINY),
    Element("float32", 4, "f", True, least=_TINY),
    Element("float64", 8, "d", True, least=2.0**-800),
    Element("complex64", 4, "f", True, 2, _TINY),
    Element("complex128", 8, "d", True, 2, 2.0**-800),
    Element("int8", 1, "b", False),
    Element("uint8", 1, "B", False),
    Element("int16", 2, "h", False),
    Element("uint16", 2, "H", False),
    Element("int32", 4, "i", False),
    Element("uint32", 4, "I", False),
    Element("int64", 8, "q", False),
    Element("uint64", 8, "Q", False),
    Element("bool", 1, "B", False),
)
ELEMENTS = {element.name: element for element in _ALL}
_ALIASES = {
    "float": "float32", "fp32": "float32", "f32": "float32", "double": "float64", "fp64": "float64", "f64": "float64",
    "half": "float16", "fp16": "float16", "f16": "float16", "bf16": "bfloat16", "int": "int32",
}  # fmt: skip


def element_of(dtype: str) -> Element | None:
    """The element type of a contract's dtype; None for one that cannot be compared (8-bit floats)."""
    name = dtype.strip().lower()
    return ELEMENTS.get(_ALIASES.get(name, name))


@dataclass(frozen=True, slots=True)
class Rule:
    """How near a number must be to the original's `b`: rtol |b|, or atol."""

    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True, slots=True)
class Noise:
    """By how much numbers differ between runs of the original, by the size of the number: `floors[i]` for one of place i or any
    smaller one, never less for larger ones. Without floors there is no noise."""

    floors: tuple[float, ...] = ()

    def of(self, b: float) -> float:
        return self.floors[place(b)] if self.floors else 0.0


def noise_from(largest: dict[int, float]) -> Noise:
    """From the largest difference by place."""
    floors, floor = [], 0.0
    for at in range(SIZES):
        floor = max(floor, largest.get(at, 0.0))
        floors.append(floor)
    return Noise(tuple(floors))


def place(b: float) -> int:
    """Where a finite number stands in `Noise.floors`."""
    return math.frexp(b)[1] + OFFSET if b else 0


@dataclass(frozen=True, slots=True)
class Nearness:
    """What comparing two buffers found. `different` elements are not the same number; of those `beyond` are neither within the
    rule nor within the likely noise, and `far` of these are also beyond anything that is noise. `at` is the first one beyond,
    `unlike` counts different ones that do not look like the type. The largest differences are those of finite numbers, the relative one where the original is not 0."""

    elements: int
    different: int = 0
    beyond: int = 0
    far: int = 0
    at: int = -1
    unlike: int = 0
    max_absolute: float = 0.0
    max_relative: float = 0.0


@dataclass(frozen=True, slots=True)
class Ranks:
    """What comparing the k largest of every row found: `different` rows have others, `undecided` ones cannot tell theirs from the
    next. `at` is the first row of either kind."""

    rows: int
    different: int = 0
    undecided: int = 0
    at: int = -1
