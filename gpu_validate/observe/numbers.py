"""Two buffers of numbers compared under a tolerance, on the GPU where that is worth it.

For every element, with `b` the original's and `a` the version's and differences taken in double precision:

- relative: |a - b| <= rtol |b|. Where the original is 0 the version must be 0: for results that cancel out, an absolute tolerance
  is the right one. absolute: |a - b| <= atol. In both, -0.0 is 0.0, an infinity must be the same infinity, a NaN must be a NaN.
- Whole numbers must be equal.
- top_k: in each row the k largest stand in the same places. A row in which they cannot be told (the k-th and the next are equal,
  there is a NaN, k is the whole row) is undecided, unless it is the same bits.

The noise floor: runs of the original differ from each other, by as much as `Noise` says for numbers of about that size or less. An
element within twice that is near, whatever the tolerance; one beyond ten times it, and beyond the tolerance, is far; between them
nothing is decided. Large elements never lend their noise to small ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from stitchcuda.analysis.contract.types import Tolerance
from stitchcuda.gpu_validate.extras import how_to_install
from stitchcuda.gpu_validate.observe.array_numbers import DeviceTrouble, cupy_back_end, numpy_back_end
from stitchcuda.gpu_validate.observe.elements import Element, Nearness, Noise, Ranks, Rule
from stitchcuda.gpu_validate.observe.plain_numbers import PlainBackEnd

ON_DEVICE = 16 << 20  # bytes of a buffer from which on the GPU is used


class BackEnd(Protocol):
    """What does the arithmetic. All buffers of a call have the same size, a whole number of elements (`ranks`: of rows of `row`
    elements). All back ends find the same. `most` is the largest buffer that does not take minutes, in bytes."""

    @property
    def name(self) -> str: ...

    @property
    def most(self) -> int: ...

    def nearness(self, element: Element, baseline: bytes, candidate: bytes, rule: Rule, noise: Noise) -> Nearness: ...

    def noise(self, element: Element, runs: Sequence[bytes]) -> Noise | None:
        """None when the runs differ in where they have numbers at all."""
        ...

    def ranks(self, element: Element, baselines: Sequence[bytes], candidate: bytes, k: int, row: int) -> Ranks: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a buffer agrees; None when that was not decided. `what` says how it differs or why nothing was decided, as a sentence
    that follows the buffer's name. `evidence` holds plain JSON values."""

    near: bool | None
    what: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)


def back_ends(size: int) -> tuple[list[BackEnd], str]:
    """Those that can be used for buffers of that many bytes, best first, and what is wrong with the GPU."""
    found: list[BackEnd] = []
    trouble = ""
    if size >= ON_DEVICE:
        try:
            on_device = cupy_back_end()
            found += [on_device] if on_device is not None else []
        except DeviceTrouble as error:
            trouble = str(error)
    with_numpy = numpy_back_end()
    found += [with_numpy] if with_numpy is not None else []
    plain = PlainBackEnd()
    return found + ([plain] if size <= plain.most else []), trouble


def compare(
    element: Element,
    baselines: Sequence[bytes],
    candidate: bytes,
    tolerance: Tolerance,
    row: int | None,
    sure: bool,
    using: Sequence[BackEnd] | None = None,
) -> Answer:
    """Compares the candidate's buffer with the different ones of the original's runs. `row` is the length of a row, for top_k. `sure`:
    the source says that these are the elements; without it what does not look like them is not decided."""
    if len(candidate) % (element.size * element.parts):
        return Answer(None, f"has {len(candidate)} bytes, no whole number of {element.name}")
    trouble = ""
    if using is None:
        using, trouble = back_ends(len(candidate))
    for back_end in using:
        try:
            answer = _compare(back_end, element, baselines, candidate, tolerance, row, sure)
        except DeviceTrouble as error:
            trouble = str(error)
            continue
        return Answer(answer.near, answer.what, answer.evidence | ({"trouble": trouble} if trouble else {}))
    return Answer(None, f"has {len(candidate)} bytes: to compare so many, {how_to_install('gpu')}")


def _compare(
    back_end: BackEnd,
    element: Element,
    baselines: Sequence[bytes],
    candidate: bytes,
    tolerance: Tolerance,
    row: int | None,
    sure: bool,
) -> Answer:
    if tolerance.mode == "top_k" and element.floating:
        return _ranked(back_end, element, baselines, candidate, tolerance.k or 1, row)
    rule = Rule(tolerance.rtol or 0.0, tolerance.atol or 0.0)
    noise: Noise | None = Noise()
    steady = True
    if len(baselines) > 1 and element.floating:
        noise = back_end.noise(element, baselines)
        others = [back_end.nearness(element, baselines[0], other, rule, Noise()) for other in baselines[1:]]
        steady = not any(o.beyond for o in others)
    elif len(baselines) > 1:
        return Answer(None, "holds whole numbers that vary between runs of the original")
    if noise is None:
        return Answer(None, "holds infinities or NaN that vary between runs of the original")
    found = back_end.nearness(element, baselines[0], candidate, rule, noise)
    evidence = {
        "back_end": back_end.name,
        "dtype": element.name,
        "elements": found.elements // element.parts,
        "different": found.different,
        "max_absolute": found.max_absolute,
        "max_relative": found.max_relative,
    }
    if found.unlike and not sure:
        what = f"does not look like {element.name} in {found.unlike} places that differ"
        return Answer(None, what, evidence)
    if found.beyond:
        limit = _limit(tolerance) if element.floating else "whole numbers must be equal"
        away = f"differs by up to {found.max_absolute:.3g}, relative {found.max_relative:.3g}"
        away = away if found.max_absolute else "has numbers where the original has none, or none where it has"
        what = f"{away}: {found.beyond} of {found.elements} {element.name} numbers are outside ({limit}), the first at {found.at}"
        if found.far and (steady or not element.floating):
            return Answer(False, what, evidence)
        return Answer(None, f"{what}, where runs of the original differ as well", evidence)
    return Answer(True, "", evidence)


def _ranked(
    back_end: BackEnd, element: Element, baselines: Sequence[bytes], candidate: bytes, k: int, row: int | None
) -> Answer:
    if row is None:
        return Answer(None, 'differs, and its rows are not known: say its shape, such as "output is float32[8, 1000]"')
    if element.parts > 1:
        return Answer(None, "differs, and complex numbers have no largest one")
    if not row or len(candidate) % (row * element.size):
        return Answer(None, f"has {len(candidate)} bytes, no whole number of rows of {row} {element.name}")
    found = back_end.ranks(element, baselines, candidate, k, row)
    evidence = {
        "back_end": back_end.name,
        "dtype": element.name,
        "elements": len(candidate) // element.size,
        "rows": found.rows,
    }
    best = f"the {k} largest" if k > 1 else "the largest"
    if found.different:
        return Answer(False, f"has {best} elsewhere in {found.different} of {found.rows} rows", evidence)
    if found.undecided:
        what = f"has {found.undecided} of {found.rows} rows in which {best} cannot be told from the next"
        return Answer(None, what, evidence)
    return Answer(True, "", evidence)


def _limit(tolerance: Tolerance) -> str:
    return f"relative {tolerance.rtol:g}" if tolerance.mode == "relative" else f"absolute {tolerance.atol:g}"
