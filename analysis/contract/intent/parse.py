"""Words to a contract. Each reader takes the words that it understands and leaves the rest to those after it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from stitchcuda.analysis.contract.intent import clauses as speech
from stitchcuda.analysis.contract.intent.bounds import read_bounds, with_units_from_names
from stitchcuda.analysis.contract.intent.clauses import Clause
from stitchcuda.analysis.contract.intent.hardware import read_hardware
from stitchcuda.analysis.contract.intent.numbers import find_numbers
from stitchcuda.analysis.contract.intent.precision import read_precision
from stitchcuda.analysis.contract.intent.quantities import Quantity, find_quantities
from stitchcuda.analysis.contract.intent.reading import Found, Reading, Span, one_spelling
from stitchcuda.analysis.contract.intent.restrictions import read_restrictions
from stitchcuda.analysis.contract.intent.scope import read_scope
from stitchcuda.analysis.contract.intent.speedups import read_speedups
from stitchcuda.analysis.contract.intent.statistics import statistic_spans
from stitchcuda.analysis.contract.intent.task import read_task
from stitchcuda.analysis.contract.intent.tensors import read_tensors
from stitchcuda.analysis.contract.intent.tolerance import read_tolerance
from stitchcuda.analysis.contract.types import Bound, Contract, Evidence, Tolerance


def parse_intent(text: str) -> Contract:
    """Reads a request in English or Chinese. What the words leave open stands in `questions`, and its field is left out.

    Spans count characters of `text`. Units are SI base units (docs/json.md). Never raises."""
    reading = Reading(text, one_spelling(text))
    inputs, outputs = read_tensors(reading)
    hardware, hardware_words = read_hardware(reading)
    numbers = [(n.start, n.end) for n in find_numbers(reading.text)]
    parts = speech.split(reading, [*reading.taken, *numbers])
    forbidden, streams = read_restrictions(reading, parts)
    scope = read_scope(reading)
    tolerance = read_tolerance(reading, parts, _quantities(reading))
    allowed, excluded = read_precision(reading, parts)
    bounds = read_speedups(reading, parts)
    quantities = _quantities(reading)
    parts = speech.split(reading, [*reading.taken, *numbers, *(q.span for q in quantities)])
    bounds += read_bounds(reading, parts, quantities)
    bounds = _without_alternatives(reading, bounds, parts)
    bounds = _consistent(reading, sorted(bounds, key=lambda one: one.span))
    task = read_task(reading, parts, [one.span for one in bounds])
    evidence = [
        *_listed("bounds", bounds),
        *_listed("inputs", inputs),
        *_listed("outputs", outputs),
        *_listed("precision", allowed),
        *_listed("precision_forbidden", excluded),
        *_listed("forbid", forbidden),
        *_listed("scope", scope),
        *(("hardware", one.span) for one in hardware_words),
        *([("tolerance", tolerance.span)] if tolerance else []),
        *([("max_streams", streams.span)] if streams else []),
        *([("task", task.span)] if task else []),
    ]
    return Contract(
        task=task.value if task else "",
        scope=tuple(one.value for one in scope),
        bounds=tuple(one.value for one in bounds),
        tolerance=tolerance.value if tolerance else Tolerance(),
        hardware=hardware,
        precision=tuple(one.value for one in allowed),
        precision_forbidden=tuple(one.value for one in excluded),
        inputs=tuple(one.value for one in inputs),
        outputs=tuple(one.value for one in outputs),
        forbid=tuple(one.value for one in forbidden),
        max_streams=streams.value if streams else None,
        evidence=tuple(
            sorted((_evidence(text, name, span) for name, span in evidence), key=lambda e: (e.span, e.field))
        ),
        questions=tuple(reading.questions),
    )


def _evidence(text: str, name: str, span: Span) -> Evidence:
    """Without the blanks around the words."""
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return Evidence(name, text[start:end], (start, end))


def _quantities(reading: Reading) -> list[Quantity]:
    inside = statistic_spans(reading, (0, len(reading.text)))
    found = [q for q in find_quantities(reading) if not any(a < q.end and q.start < b for a, b in inside)]
    return with_units_from_names(reading.text, found)


def _listed(name: str, found: Sequence[Found[Any]]) -> list[tuple[str, Span]]:
    return [(f"{name}[{k}]", one.span) for k, one in enumerate(found)]


def _without_alternatives(reading: Reading, bounds: list[Found[Bound]], parts: list[Clause]) -> list[Found[Bound]]:
    """Of "A or B" neither must hold: both are left out and asked."""
    dropped: list[Found[Bound]] = []
    for before, clause in pairwise(parts):
        here = [one for one in bounds if clause.start <= one.span[0] < clause.end]
        there = [one for one in bounds if before.start <= one.span[0] < before.end]
        if clause.joiner == "or" and here and there:
            dropped += [*there, *here]
            words = dict.fromkeys(reading.words(one.span) for one in (*there, *here))
            reading.ask("bounds", "Which of these must hold?", *words, "all of them")
    return [one for one in bounds if one not in dropped]


def _consistent(reading: Reading, bounds: list[Found[Bound]]) -> list[Found[Bound]]:
    """Two limits of one statistic in the same direction, or limits that exclude each other, are asked about."""
    kept = list({one.value: one for one in reversed(bounds)}.values())[::-1]
    out = []
    for one in kept:
        rivals = [other for other in kept if _rivals(one.value, other.value)]
        if not rivals:
            out.append(one)
            continue
        group = sorted([one, *rivals], key=lambda each: each.span)
        reading.ask(
            "bounds",
            f"Which of these limits of {one.value.metric} holds?",
            *dict.fromkeys(reading.words(each.span) for each in group),
        )
    return out


def _rivals(one: Bound, other: Bound) -> bool:
    if one == other or (one.metric, one.statistic) != (other.metric, other.statistic):
        return False
    if one.relation[0] == other.relation[0]:
        return True
    low, high = (one, other) if one.relation[0] == ">" else (other, one)
    return low.value > high.value or (low.value == high.value and len(low.relation + high.relation) < 4)
