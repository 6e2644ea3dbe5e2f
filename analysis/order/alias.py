"""Do two accesses touch the same bytes? Three answers: True (provably), False (provably not), None (not known)."""

from __future__ import annotations

from dataclasses import dataclass

from stitchcuda.analysis.order.symbolic import ZERO, Poly, at_least, equal
from stitchcuda.analysis.order.timeline import Access, Buffer, Certainty, Memory, Mode, Range, Shape, Timeline
from stitchcuda.analysis.quick_init import quick_init

SCALAR = 16  # bytes of the largest single variable


@quick_init
@dataclass(frozen=True, slots=True)
class Conflict:
    """Two accesses of which one writes, to memory that may be the same. `same` is True when it provably is."""

    first: Access
    second: Access
    same: bool | None

    @property
    def certain(self) -> bool:
        """Both accesses happen whenever their ops run, and they provably meet."""
        return self.same is True and Certainty.MAY not in (self.first.certainty, self.second.certainty)


def alias(a: Buffer, b: Buffer) -> bool | None:
    """Whether two buffers are the same memory. Parameters of an entry are taken as distinct memory, as are a parameter
    and anything allocated below the entry."""
    if a.id == b.id:
        return True
    if "unknown" in (a.origin, b.origin) or Memory.UNKNOWN in (a.memory, b.memory):
        return None
    if a.site is None or b.site is None or (a.site, a.calls) != (b.site, b.calls):
        return False
    return same_instance(a.instance, b.instance)


def same_instance(a: tuple[Poly, ...], b: tuple[Poly, ...]) -> bool | None:
    """Members of one family are told apart by their indexes: one pair that always differs is enough."""
    if len(a) != len(b):
        return None
    verdicts = [equal(x, y) for x, y in zip(a, b, strict=True)]
    if False in verdicts:
        return False
    # Without an index the allocation ran once, and two buffers of it are two separate runs of its site.
    return True if a and all(verdicts) else None


def overlap(a: Range, b: Range) -> bool | None:
    """Whether two ranges of one buffer share bytes that both accesses touch.

    Accesses that begin at the same byte are taken to meet: a kernel that gets a pointer uses what it points to."""
    if a.member != b.member:
        return _members_meet(a.member, b.member)
    if a.offset is None or b.offset is None:
        return None
    for first, second in ((a, b), (b, a)):
        if first.offset is None or second.offset is None or first.extent is None:
            continue
        if at_least(second.offset, first.offset + first.extent):
            return False
    if equal(a.offset, b.offset) or _covers(a, b) or _covers(b, a):
        return True
    dense = (Shape.WHOLE, Shape.THREAD)
    if a.shape in dense and b.shape in dense and (_inside(a.offset, b) or _inside(b.offset, a)):
        return True
    return None


def _members_meet(a: tuple[str, ...], b: tuple[str, ...]) -> bool | None:
    """Two fields of one record are apart; elements by different indexes and a record against its field: not known."""
    for x, y in zip(a, b, strict=False):
        if x != y:
            return None if x.startswith("[") or y.startswith("[") else False
    return None


def conflict(timeline: Timeline, op_a: int, op_b: int) -> tuple[Conflict, ...]:
    """The pairs of accesses of two ops that conflict: same memory possible and one of them writes. Two atomics do not.
    Accesses at a thread's own index still conflict: the other op's threads are other threads. Looked up once: several
    rules ask, about one pair of ops for each pair of their accesses."""
    if not _memo or _memo[0][0] is not timeline or len(_memo[0][1]) > _KEPT:
        _memo[:] = [(timeline, {})]
    pairs = _memo[0][1].get((op_a, op_b))
    if pairs is None:
        pairs = _memo[0][1][op_a, op_b] = _conflicts(timeline, op_a, op_b)
    return pairs


_KEPT = 50_000
_memo: list[tuple[Timeline, dict[tuple[int, int], tuple[Conflict, ...]]]] = []  # of the Timeline at hand


def _conflicts(timeline: Timeline, op_a: int, op_b: int) -> tuple[Conflict, ...]:
    found = (
        meeting(timeline, first, second)
        for first in timeline.ops[op_a].accesses
        for second in timeline.ops[op_b].accesses
    )
    return tuple(clash for clash in found if clash is not None)


def meeting(timeline: Timeline, first: Access, second: Access) -> Conflict | None:
    """The conflict that two accesses are; None when they are none."""
    if first.mode is second.mode is not Mode.WRITE:
        return None
    same = same_memory(timeline, first, second)
    return None if same is False else Conflict(first, second, same)


def same_memory(timeline: Timeline, first: Access, second: Access) -> bool | None:
    """`alias` of the buffers and `overlap` of the ranges together."""
    one, other = timeline.buffers[first.buffer], timeline.buffers[second.buffer]
    buffers = alias(one, other)
    if buffers is False or (buffers and _other_fields(first, second)):
        return False
    meets = overlap(first.range, second.range)
    if buffers is None:
        return None
    size = one.size.constant if one.size is not None else None
    if meets is None and size is not None and size <= SCALAR and not (first.range.member or second.range.member):
        return True  # a single variable
    if meets is None and (covers_all(first.range, one) or covers_all(second.range, other)):
        return True
    if meets is None and buffers and (_field_within(first, second) or _field_within(second, first)):
        return True
    return meets


def _field_within(records: Access, field: Access) -> bool:
    """The one access uses such a field of the records from the start, the other this field of the first record."""
    path = field.range.member
    if records.range.member or records.range.offset != ZERO or len(path) < 2 or path[0] != "[0]":
        return False
    return any(f.partition(".")[2] == ".".join(path[1:]) for f in records.fields)


def _other_fields(first: Access, second: Access) -> bool:
    """Both accesses are to members of one record type, and to different ones."""
    pairs = [(a.split("."), b.split(".")) for a in first.fields for b in second.fields]
    return bool(pairs) and all(a[0] == b[0] and any(x != y for x, y in zip(a, b, strict=False)) for a, b in pairs)


def covers_all(touched: Range, buffer: Buffer) -> bool:
    """The access touches every byte of its buffer."""
    if (
        touched.shape is Shape.SOME
        or touched.member
        or touched.stride is not None
        or touched.offset is None
        or touched.extent is None
    ):
        return False
    return bool(equal(touched.offset, ZERO)) and buffer.size is not None and bool(at_least(touched.extent, buffer.size))


def _covers(a: Range, b: Range) -> bool:
    """Every byte of `a` is touched and `b` lies within it, so whatever part `b` touches is touched by both."""
    # In rows of a pitched copy the bytes between them are not touched.
    return a.shape is not Shape.SOME and a.stride is None and within(b, a)


def within(b: Range, a: Range) -> bool:
    """`b` provably lies in the bytes between the first and the last of `a`."""
    if a.member != b.member or a.extent is None or b.extent is None or a.offset is None or b.offset is None:
        return False
    return bool(at_least(b.offset, a.offset)) and bool(at_least(a.offset + a.extent, b.offset + b.extent))


def _inside(point: Poly | None, a: Range) -> bool:
    if point is None or a.offset is None or a.extent is None or a.stride is not None:
        return False
    return bool(at_least(point, a.offset)) and at_least(point, a.offset + a.extent) is False
