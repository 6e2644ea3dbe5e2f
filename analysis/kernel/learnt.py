"""What a search for conflicts has learnt, and what of it has to be searched again when barriers are put in.

A barrier that is put in takes pairs of accesses away and adds none. So two places in the source that meet keep the conflict
that they have, unless such a barrier stands between two accesses of theirs that counted on the way to it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from stitchcuda.analysis.kernel.model import Access, Buffer, KernelTrace, Mode
from stitchcuda.analysis.program.ir import Site
from stitchcuda.analysis.quick_init import quick_init

Array: TypeAlias = tuple[Buffer, str]  # with the field of a record
Later: TypeAlias = tuple[Site, Mode]
Stretch: TypeAlias = list[int]  # from after one event up to another, as positions
Moment: TypeAlias = tuple[int, int, bool, int]  # in a search: orders what one access finds, too


@quick_init
@dataclass(frozen=True, slots=True)
class Conflict:
    """`earlier` by lane `lanes[0]` and `later` by lane `lanes[1]`. `sure` is False when an access's place is not known
    exactly (an index that is loaded), `barred` when a barrier stands between them under a condition of its own."""

    earlier: Access
    later: Access
    lanes: tuple[int, int]
    warp_only: bool
    sure: bool = True
    barred: bool = False
    collective: bool = False  # a shuffle or vote of the warp, or a fence, stands between them


@dataclass(slots=True)
class Best:
    """The conflict of two sites that is kept."""

    later: Later
    earlier: Site
    conflict: Conflict | None = None
    first: Moment = (0, 0, False, 0)  # when there was one
    counted: list[Stretch] = field(default_factory=list)  # between the accesses of all that was kept for a time


@dataclass(slots=True)
class Watched:
    """What of a walk does not stay as it is learnt when a barrier is put in."""

    arrays: dict[Later, set[Array]] = field(default_factory=dict)  # that a place touches
    left_out: dict[Array, list[Stretch]] = field(default_factory=dict)  # reads that repeated one before
    uncertain: set[Array] = field(default_factory=set)  # copied to in the background, or with an index that may be any


@dataclass(slots=True)
class Learnt:
    trace: KernelTrace
    found: list[Best]  # in the order in which they were found first
    watched: Watched
    conflicts: list[Conflict]


@dataclass(slots=True)
class Asked:
    """What is searched for: conflicts of these later places with these earlier ones (None: with all)."""

    places: dict[Later, set[Site] | None] = field(default_factory=dict)
    arrays: set[Array] = field(default_factory=set)  # that they touch

    def about(self, later: Later, earlier: Site) -> bool:
        sites = self.places.get(later, _NOWHERE)
        return sites is None or earlier in sites


_NOWHERE: set[Site] = set()


def closest(known: Sequence[Learnt], trace: KernelTrace) -> Learnt | None:
    """Of the same walk, with as many as possible of its barriers that were put in, and with no others."""
    out: Learnt | None = None
    for learnt in known:
        put = learnt.trace.put
        if learnt.trace.marks is trace.marks and put <= trace.put and (out is None or len(put) > len(out.trace.put)):
            out = learnt
    return out


def asked_again(known: Learnt, trace: KernelTrace) -> Asked:
    """What of all that is known of a walk may be different with more barriers put in."""
    watched = known.watched
    put, new = [], []
    for mark in trace.marks:
        place = (mark.function.uid, mark.span)
        if place in trace.put:
            put.append(mark.at)
            if place not in known.trace.put:
                new.append(mark.at)
    whole = watched.uncertain | {array for array, reads in watched.left_out.items() if _parted(reads, put)}
    asked = Asked()
    for best in known.found:
        if _parted(best.counted, new):
            sites = asked.places.setdefault(best.later, set())
            if sites is not None:
                sites.add(best.earlier)
    for later, arrays in watched.arrays.items():
        if not whole.isdisjoint(arrays):
            asked.places[later] = None
    for later in asked.places:
        asked.arrays |= watched.arrays[later]
    return asked


def _parted(stretches: Sequence[Stretch], at: Sequence[int]) -> bool:
    """A barrier that has the number of what follows it stands in one of them."""
    for start, end in stretches:
        position = bisect_right(at, start)
        if position < len(at) and at[position] <= end:
            return True
    return False


def merged(known: Sequence[Best], again: Sequence[Best]) -> list[Best]:
    """Both are in the order in which they were found."""
    out: list[Best] = []
    position = 0
    for best in known:
        while position < len(again) and again[position].first < best.first:
            out.append(again[position])
            position += 1
        out.append(best)
    return [*out, *again[position:]]
