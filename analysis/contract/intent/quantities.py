"""Numbers with units, and ranges of them. Where each one stands decides later what it means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from stitchcuda.analysis.contract.intent import units
from stitchcuda.analysis.contract.intent.numbers import Number, find_numbers
from stitchcuda.analysis.contract.intent.reading import Reading, Span, pattern_of

_WINDOW = 24  # characters before a number that can belong to it
NONE = "none"  # the dimension of a number without a unit

_LINK = pattern_of(r"\s*(?:(?P<range>-|~|--|\.\.\.?|to|and|到|至|和|与)|(?P<arrow>->|=>|→|—>))\s*")
_BETWEEN = pattern_of(r"\b(?:between|in the range(?: of)?|ranging from)\s*$|(?:在|介于|处于)\s*$")
_BETWEEN_AFTER = pattern_of(r"\s*(?:之间|区间|范围)")
_APPROXIMATE = pattern_of(
    r"(?:\b(?:about|around|roughly|approximately|approx\.?|circa|some|nearly|almost|close to|or so)|~|≈|约|大约|大概|差不多|接近|将近|左右)\s*$"
)
_APPROXIMATE_AFTER = pattern_of(r"\s*(?:or so\b|ish\b|-ish\b|give or take|左右|上下|前后)")
_PER_BEFORE = pattern_of(r"(?:每|一)(?:(?P<s>秒钟?)|(?P<min>分钟)|(?P<hour>小时))(?P<gap>[^，。;!?\n\d每]{0,14})$")
_COUNTED = pattern_of(rf"\s*(?:{units.COUNTED}(?:[\u3400-\u9fff]{{0,3}})?|[a-z]+)?")


@dataclass(frozen=True, slots=True)
class Quantity:
    """`value` in the SI base unit of `dimension`; for a range `low` is its smaller end and `value` the larger.
    `start`, `end`: from the first number to the end of the last unit. `doubt`: why the value cannot be relied on."""

    start: int
    end: int
    dimension: str
    value: Decimal
    low: Decimal | None = None
    doubt: str = ""
    approximate: bool = False
    falls: bool = False  # "12 -> 8 ms": from one value to another, of which `value` is the second
    explicit: bool = False  # "between ... and ..."

    @property
    def span(self) -> Span:
        return self.start, self.end


def find_quantities(reading: Reading) -> list[Quantity]:
    """Every number that no reader has taken, with its unit if it has one; ranges count once."""
    text = reading.text
    numbers = [n for n in find_numbers(text) if reading.free((n.start, n.end))]
    single = [_single(reading, number) for number in numbers]
    out: list[Quantity] = []
    k = 0
    while k < len(single):
        quantity = single[k]
        if quantity is not None:
            second = single[k + 1] if k + 1 < len(single) else None
            joined = (_range(text, quantity, second) or _sum(text, quantity, second)) if second is not None else None
            if joined is not None:
                out.append(joined)
                k += 2
                continue
            out.append(quantity)
        k += 1
    return [_with_approximation(text, quantity) for quantity in out]


def _single(reading: Reading, number: Number) -> Quantity | None:
    text = reading.text
    value = number.value if number.value is not None else Decimal(0)
    doubt = "" if number.value is not None else "is the comma a decimal point?"
    unit = units.unit_at(text, reading.raw, number.end)
    if unit is not None and not reading.free((number.start, unit.end)):
        unit = None
    before = _PER_BEFORE.search(text, max(0, number.start - _WINDOW), number.start)
    if (
        before is not None
        and (unit is None or unit.dimension == units.BYTES and unit.doubt)
        and reading.free(before.span())
    ):
        divisor = 1 if before["s"] else 60 if before["min"] else 3600
        counted = _COUNTED.match(text, number.end)
        end = counted.end() if counted else number.end
        start = before.start() if not before["gap"].strip() else number.start
        if unit is not None:
            doubt = f"is {reading.words((number.start, unit.end))} a number of items or of bytes?"
        return Quantity(start, max(end, number.end), units.RATE, value / divisor, doubt=doubt)
    if unit is None:
        return None if number.spelled else Quantity(number.start, number.end, NONE, value, doubt=doubt)
    return Quantity(number.start, unit.end, unit.dimension, value * unit.factor, doubt=doubt or unit.doubt)


def _range(text: str, first: Quantity, second: Quantity) -> Quantity | None:
    between = text[first.end : second.start]
    link = _LINK.fullmatch(between)
    if link is None or first.dimension not in (second.dimension, NONE):
        return None
    before = bool(_BETWEEN.search(text, max(0, first.start - _WINDOW), first.start))
    explicit = before or bool(_BETWEEN_AFTER.match(text, second.end))
    if between.strip() in ("and", "和", "与") and not explicit:
        return None
    scale = Decimal(1)
    if first.dimension == NONE and second.dimension != NONE:
        unit = units.unit_at(text, text, _number_end(text, second))
        scale = unit.factor if unit is not None else Decimal(1)
    a, b = first.value * scale, second.value
    doubt = first.doubt or second.doubt
    if link["arrow"] or (a > b and not explicit):
        return Quantity(first.start, second.end, second.dimension, b, doubt=doubt, falls=True)
    return Quantity(first.start, second.end, second.dimension, max(a, b), min(a, b), doubt, explicit=explicit)


def _sum(text: str, first: Quantity, second: Quantity) -> Quantity | None:
    """ "1 minute 30 seconds"."""
    if first.dimension != units.TIME or second.dimension != units.TIME or first.value < 60 or second.value >= 60:
        return None
    if text[first.end : second.start].strip() not in ("", "and", "又", "零"):
        return None
    return Quantity(first.start, second.end, units.TIME, first.value + second.value, doubt=first.doubt or second.doubt)


def _number_end(text: str, quantity: Quantity) -> int:
    return next((n.end for n in find_numbers(text) if n.start == quantity.start), quantity.end)


def _with_approximation(text: str, quantity: Quantity) -> Quantity:
    if _APPROXIMATE.search(text, max(0, quantity.start - _WINDOW), quantity.start) or _APPROXIMATE_AFTER.match(
        text, quantity.end
    ):
        return replace(quantity, approximate=True)
    return quantity
