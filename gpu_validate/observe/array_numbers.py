"""Buffers of numbers compared with array operations: by CuPy on the GPU, or by numpy. Both do the same arithmetic as
`plain_numbers`, so that all find the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from stitchcuda.gpu_validate.observe.elements import (
    LEAST_FAR,
    LIKELY_NOISE,
    OFFSET,
    Element,
    Nearness,
    Noise,
    Ranks,
    Rule,
    noise_from,
)

_NUMPY_CHUNK = 1 << 20  # elements
_MOST_CHUNK = 64 << 20
_ELEMENT_COST = 200  # bytes of device memory for one element and what is computed of it, at most
_SHARE = 0.5  # of the free device memory


T = TypeVar("T")


class DeviceTrouble(Exception):
    """The GPU could not be used for it; the text says why."""


class ArrayBackEnd:
    """See `numbers.BackEnd`. `xp` is the array module."""

    most = sys.maxsize

    def __init__(self, name: str, xp: Any, numpy: Any, chunk: Callable[[], int], release: Callable[[], None]) -> None:
        self.name = name
        self._xp, self._numpy, self._chunk, self._release = xp, numpy, chunk, release

    def nearness(self, element: Element, baseline: bytes, candidate: bytes, rule: Rule, noise: Noise) -> Nearness:
        return self._done(lambda: self._nearness(element, baseline, candidate, rule, noise))

    def noise(self, element: Element, runs: Sequence[bytes]) -> Noise | None:
        return self._done(lambda: self._noise(element, runs))

    def ranks(self, element: Element, baselines: Sequence[bytes], candidate: bytes, k: int, row: int) -> Ranks:
        return self._done(lambda: self._ranks(element, baselines, candidate, k, row))

    def _done(self, work: Callable[[], T]) -> T:
        try:
            with self._numpy.errstate(all="ignore"):
                return work()
        except Exception as error:
            if self.name == "numpy":
                raise
            raise DeviceTrouble(f"CuPy failed: {type(error).__name__}: {error}"[:200]) from error
        finally:
            self._release()

    def _nearness(self, element: Element, baseline: bytes, candidate: bytes, rule: Rule, noise: Noise) -> Nearness:
        xp = self._xp
        floors = xp.asarray(noise.floors, dtype=xp.float64) if noise.floors and element.floating else None
        different = beyond = far = unlike = 0
        first = -1
        max_absolute = max_relative = 0.0
        for at, b, a, bits in self._chunks(element, baseline, candidate):
            both_nan = xp.isnan(a) & xp.isnan(b) if element.floating else xp.zeros(a.shape, dtype=bool)
            unlike += int((both_nan & bits).sum())
            changed = (a != b) & ~both_nan
            count = int(changed.sum())
            if not count:
                continue
            different += count
            where = xp.nonzero(changed)[0]
            b, a = b[where].astype(xp.float64), a[where].astype(xp.float64)
            if element.least:
                unlike += int(
                    (((abs(a) > 0) & (abs(a) < element.least)) | ((abs(b) > 0) & (abs(b) < element.least))).sum()
                )
            finite = xp.isfinite(a) & xp.isfinite(b)
            away = xp.where(finite, abs(a - b), xp.inf)
            if element.floating:
                allowed = xp.where(finite, xp.maximum(rule.rtol * abs(b), rule.atol), -1.0)
                near, noisy = away <= allowed, xp.zeros(a.shape, dtype=bool)
                if floors is not None:
                    floor = xp.where(finite, floors[self._places(xp.where(finite, b, 0.0))], 0.0)
                    near |= away <= LIKELY_NOISE * floor
                    noisy = away <= LEAST_FAR * floor
                outside = ~near
                far += int((outside & ~noisy).sum())
            else:
                outside = xp.ones(a.shape, dtype=bool)
                far += count
            beyond += int(outside.sum())
            if first < 0 and bool(outside.any()):
                first = at + int(where[outside.argmax()])
            countable = away < xp.inf
            if bool(countable.any()):
                max_absolute = max(max_absolute, float(away[countable].max()))
                divisible = countable & (b != 0)
                if bool(divisible.any()):
                    ratio = float((away[divisible] / abs(b[divisible])).max())
                    max_relative = max(max_relative, min(ratio, sys.float_info.max))
        elements = len(baseline) // element.size
        return Nearness(elements, different, beyond, far, first, unlike, max_absolute, max_relative)

    def _noise(self, element: Element, runs: Sequence[bytes]) -> Noise | None:
        xp = self._xp
        largest: dict[int, float] = {}
        for i, one in enumerate(runs):
            for other in runs[i + 1 :]:
                for _, b, a, _ in self._chunks(element, one, other):
                    changed = (a != b) & ~(xp.isnan(a) & xp.isnan(b))
                    if not bool(changed.any()):
                        continue
                    b, a = b[changed].astype(xp.float64), a[changed].astype(xp.float64)
                    away = abs(a - b)
                    if not bool((away < xp.inf).all()):
                        return None
                    places = xp.minimum(self._places(a), self._places(b))
                    for at in xp.unique(places).tolist():
                        largest[at] = max(largest.get(at, 0.0), float(away[places == at].max()))
        return noise_from(largest)

    def _ranks(self, element: Element, baselines: Sequence[bytes], candidate: bytes, k: int, row: int) -> Ranks:
        width = row * element.size
        rows = len(candidate) // width
        step = max(1, self._chunk() // (row * (1 + len(baselines))))
        different = undecided = 0
        first = -1
        for at in range(0, rows, step):
            part = slice(at * width, min(rows, at + step) * width)
            equal, unsure = self._ranked(element, [b[part] for b in baselines], candidate[part], k, row)
            undecided += int((~equal & unsure).sum())
            different += int((~equal & ~unsure).sum())
            if first < 0 and not bool(equal.all()):
                first = at + int((~equal).argmax())
        return Ranks(rows, different, undecided, first)

    def _ranked(self, element: Element, baselines: Sequence[bytes], candidate: bytes, k: int, row: int) -> Any:
        """By row: whether it is equal, and whether that cannot be told otherwise."""
        xp = self._xp
        bytes_found = self._raw(candidate).reshape(-1, row * element.size)
        found, unsure = self._members(element, candidate, k, row)
        found_unsure = unsure
        equal = xp.zeros(unsure.shape, dtype=bool)
        for baseline in baselines:
            members, not_told = self._members(element, baseline, k, row)
            equal |= (self._raw(baseline).reshape(bytes_found.shape) == bytes_found).all(axis=1)
            equal |= (members == found).all(axis=1) & ~not_told & ~found_unsure
            unsure = unsure | not_told
        return equal, unsure

    def _members(self, element: Element, data: bytes, k: int, row: int) -> Any:
        """By element whether it is among the k largest of its row, and by row whether that cannot be told."""
        xp = self._xp
        values = self._values(element, data).reshape(-1, row)
        if k >= row:
            return xp.ones(values.shape, dtype=bool), xp.ones(values.shape[0], dtype=bool)
        ordered = xp.sort(values, axis=1)
        least, following = ordered[:, row - k], ordered[:, row - k - 1]
        unsure = (least == following) | xp.isnan(values).any(axis=1)
        return values >= least[:, None], unsure

    def _chunks(self, element: Element, baseline: bytes, candidate: bytes) -> Iterator[tuple[int, Any, Any, Any]]:
        """Chunks that are not the same bytes: index of the first element, originals, versions, whether their bits differ."""
        chunk = self._chunk()
        for at in range(0, len(baseline), chunk * element.size):
            one, other = baseline[at : at + chunk * element.size], candidate[at : at + chunk * element.size]
            if one != other:
                b, a = self._values(element, one), self._values(element, other)
                shape = (-1, element.size)
                bits = (self._raw(one).reshape(shape) != self._raw(other).reshape(shape)).any(axis=1)
                yield at // element.size, b, a, bits

    def _raw(self, data: bytes) -> Any:
        return self._xp.asarray(self._numpy.frombuffer(data, dtype=self._numpy.uint8))

    def _values(self, element: Element, data: bytes) -> Any:
        xp, numpy = self._xp, self._numpy
        if element.code == "f":
            return self._exact(xp.asarray(numpy.frombuffer(data, dtype="<u4")))
        if element.code:
            return xp.asarray(numpy.frombuffer(data, dtype=f"<{_CODES[element.code]}"))
        words = xp.asarray(numpy.frombuffer(data, dtype="<u2"))  # bfloat16: the upper half of a float32
        return self._exact(words.astype(xp.uint32) << 16)

    def _exact(self, bits: Any) -> Any:
        """The float32 of these bits, as float64. Subnormal ones are made from their bits: a GPU may take them for zero."""
        xp = self._xp
        tiny = (bits & 0x007FFFFF).astype(xp.float64) * 2.0**-149
        tiny = xp.where(bits >> 31 != 0, -tiny, tiny)
        return xp.where((bits & 0x7F800000) == 0, tiny, bits.view(xp.float32).astype(xp.float64))

    def _places(self, values: Any) -> Any:
        xp = self._xp
        return xp.where(values != 0, xp.frexp(values)[1] + OFFSET, 0)


_CODES = {"e": "f2", "f": "f4", "d": "f8", "b": "i1", "B": "u1", "h": "i2", "H": "u2", "i": "i4", "I": "u4", "q": "i8",
          "Q": "u8"}  # fmt: skip


def numpy_back_end() -> ArrayBackEnd | None:
    """None without numpy."""
    try:
        import numpy
    except ImportError:
        return None
    return ArrayBackEnd("numpy", numpy, numpy, lambda: _NUMPY_CHUNK, lambda: None)


def cupy_back_end() -> ArrayBackEnd | None:
    """None without CuPy. Raises DeviceTrouble when there is no GPU that it can use."""
    try:
        import cupy
        import numpy
    except ImportError:
        return None
    try:
        if cupy.cuda.runtime.getDeviceCount() < 1:
            raise DeviceTrouble("CuPy sees no GPU")
        memory = cupy.get_default_memory_pool()
    except RuntimeError as error:
        raise DeviceTrouble(f"CuPy cannot use the GPU: {error}") from error

    def chunk() -> int:
        free = cupy.cuda.runtime.memGetInfo()[0]
        return max(1 << 16, min(_MOST_CHUNK, int(free * _SHARE) // _ELEMENT_COST))

    return ArrayBackEnd("cupy", cupy, numpy, chunk, memory.free_all_blocks)
