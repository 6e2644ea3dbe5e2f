"""Buffers of numbers compared with the standard library alone: about a second for two million different numbers."""

from __future__ import annotations

import heapq
import math
import struct
import sys
from collections.abc import Iterator, Sequence

from stitchcuda.gpu_validate.observe.elements import (
    LEAST_FAR,
    LIKELY_NOISE,
    Element,
    Nearness,
    Noise,
    Ranks,
    Rule,
    noise_from,
    place,
)

_CHUNK = 16 << 10  # elements


class PlainBackEnd:
    """See `numbers.BackEnd`."""

    name = "python"
    most = 64 << 20  # bytes: above it takes minutes

    def nearness(self, element: Element, baseline: bytes, candidate: bytes, rule: Rule, noise: Noise) -> Nearness:
        different = beyond = far = unlike = 0
        first = -1
        max_absolute = max_relative = 0.0
        for index, b, a, same_bits in _different(element, baseline, candidate):
            if math.isnan(a) and math.isnan(b):
                unlike += not same_bits
                continue
            if a == b:
                continue
            different += 1
            unlike += 0 < abs(a) < element.least or 0 < abs(b) < element.least
            finite = math.isfinite(a) and math.isfinite(b)
            away = abs(float(a) - float(b)) if finite else math.inf
            floor = noise.of(b) if finite and element.floating else 0.0
            allowed = max(rule.rtol * abs(b), rule.atol) if finite and element.floating else -1.0
            if not (away <= allowed or away <= LIKELY_NOISE * floor) or not element.floating:
                beyond += 1
                far += not element.floating or not away <= LEAST_FAR * floor
                first = index if first < 0 else first
            if away < math.inf:
                max_absolute = max(max_absolute, away)
                if b:
                    max_relative = max(max_relative, min(away / abs(float(b)), sys.float_info.max))
        elements = len(baseline) // element.size
        return Nearness(elements, different, beyond, far, first, unlike, max_absolute, max_relative)

    def noise(self, element: Element, runs: Sequence[bytes]) -> Noise | None:
        largest: dict[int, float] = {}
        for i, one in enumerate(runs):
            for other in runs[i + 1 :]:
                for _, b, a, _ in _different(element, one, other):
                    if a == b or (math.isnan(a) and math.isnan(b)):
                        continue
                    away = abs(a - b)
                    if not away < math.inf:
                        return None
                    at = min(place(a), place(b))
                    largest[at] = max(largest.get(at, 0.0), away)
        return noise_from(largest)

    def ranks(self, element: Element, baselines: Sequence[bytes], candidate: bytes, k: int, row: int) -> Ranks:
        different = undecided = 0
        first = -1
        width = row * element.size
        for index in range(len(candidate) // width):
            part = candidate[index * width : (index + 1) * width]
            before = [b[index * width : (index + 1) * width] for b in baselines]
            if part in before:
                continue
            found = _largest(_values(element, part), k)
            wanted = [_largest(_values(element, b), k) for b in before]
            if found is not None and found in wanted:
                continue
            unsure = found is None or None in wanted
            undecided += unsure
            different += not unsure
            first = index if first < 0 else first
        return Ranks(len(candidate) // width, different, undecided, first)


def _largest(values: Sequence[float], k: int) -> frozenset[int] | None:
    """Where the k largest are; None when that cannot be told."""
    if k >= len(values) or any(map(math.isnan, values)):
        return None
    best = heapq.nlargest(k + 1, range(len(values)), key=values.__getitem__)
    return None if values[best[-1]] == values[best[-2]] else frozenset(best[:-1])


def _different(element: Element, baseline: bytes, candidate: bytes) -> Iterator[tuple[int, float, float, bool]]:
    """The elements of chunks that are not the same bytes: index, original, version, whether all bits agree."""
    step = _CHUNK * element.size
    for at in range(0, len(baseline), step):
        one, other = baseline[at : at + step], candidate[at : at + step]
        if one == other:
            continue
        size = element.size
        pairs = zip(_values(element, one), _values(element, other), strict=True)
        for i, (b, a) in enumerate(pairs, at // size):
            offset = i * size
            yield i, b, a, b == a or baseline[offset : offset + size] == candidate[offset : offset + size]


def _values(element: Element, data: bytes) -> Sequence[float]:
    count = len(data) // element.size
    if element.code:
        return struct.unpack(f"<{count}{element.code}", data)
    words = struct.unpack(f"<{count}H", data)  # bfloat16: the upper half of a float32
    return struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *(word << 16 for word in words)))
