"""Which operations on one memory provably use other parts of it: a buffer that many operations work on slot by slot.

Of N operations on slots of one buffer N * N / 2 pairs would be compared, to find that none of them meet. Here they are sorted
by where they begin and end, once. What `alias.overlap` would say of each pair is the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

from stitchcuda.analysis.order.symbolic import Monomial
from stitchcuda.analysis.order.timeline import Access, Op

# From and to, counted in one unit: a byte, or a product of symbols such as `4 * n` (then the number of `n`).
_Span: TypeAlias = tuple[int, int]
# What spans can be compared: of one buffer and member, in one unit, from one symbolic place on.
_Key: TypeAlias = tuple[int, tuple[str, ...], Monomial, tuple[tuple[Monomial, int], ...]]

FEW = 32  # so many accesses are compared pair by pair
_STEP = 32  # ids between two sums that are kept


class Parts:
    """Of the accesses to one memory. Ops with several accesses to it take no part."""

    def __init__(self, accesses: Sequence[tuple[Op, Access]]) -> None:
        self._key: dict[int, tuple[_Key, _Span]] = {}  # by op
        self._spans: dict[_Key, _Sorted] = {}
        if len(accesses) <= FEW:
            return
        several: set[int] = set()
        seen: set[int] = set()
        for op, _ in accesses:
            (several if op.id in seen else seen).add(op.id)
        by_key: dict[_Key, list[tuple[int, _Span]]] = defaultdict(list)
        for op, access in accesses:
            if op.id not in several and (found := _span(access)) is not None:
                self._key[op.id] = found
                by_key[found[0]].append((op.id, found[1]))
        self._spans = {key: _Sorted(spans) for key, spans in by_key.items() if len(spans) > 1}

    def apart(self, op: int) -> int:
        """Bitset of the ops that provably share no byte of the memory with this one."""
        known = self._key.get(op)
        spans = self._spans.get(known[0]) if known is not None else None
        return 0 if known is None or spans is None else spans.apart(*known[1])


class _Sorted:
    """Spans by their ends and by their starts, with the ops behind each."""

    def __init__(self, spans: list[tuple[int, _Span]]) -> None:
        self._by_end = _Sums([(span[1], op) for op, span in spans])
        self._by_start = _Sums([(span[0], op) for op, span in spans])

    def apart(self, start: int, end: int) -> int:
        """The ops whose spans end at or before `start` or start at or after `end`."""
        ended = self._by_end.first(bisect_right(self._by_end.values, start))
        begun = self._by_start.first(bisect_left(self._by_start.values, end))
        return ended | (self._by_start.all & ~begun)


class _Sums:
    """Ops by a value, and the bitsets of the first few of them."""

    def __init__(self, items: list[tuple[int, int]]) -> None:
        items.sort()
        self.values = [value for value, _ in items]
        self._ops = [op for _, op in items]
        self._sums: list[int] = []  # of the first 0, `_STEP`, 2 * `_STEP`, ...
        self.all = 0
        for k, op in enumerate(self._ops):
            if k % _STEP == 0:
                self._sums.append(self.all)
            self.all |= 1 << op

    def first(self, count: int) -> int:
        """Bitset of the first `count` ops."""
        if count == len(self._ops):
            return self.all
        total = self._sums[count // _STEP]
        for op in self._ops[count - count % _STEP : count]:
            total |= 1 << op
        return total


def _span(access: Access) -> tuple[_Key, _Span] | None:
    """The bytes of an access, where its first one and their number are known in one unit that is never negative."""
    touched = access.range
    if touched.offset is None or touched.extent is None or len(touched.extent.terms) != 1:
        return None
    ((unit, length),) = touched.extent.terms
    if any(name.startswith("-") for name in unit):
        return None
    start = 0
    rest = []
    for mono, coeff in touched.offset.terms:
        if mono == unit:
            start = coeff
        else:
            rest.append((mono, coeff))
    return (access.buffer, touched.member, unit, tuple(rest)), (start, start + length)
