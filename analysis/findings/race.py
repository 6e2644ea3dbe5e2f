"""Unordered pairs of operations that touch the same memory: what the race rules share.

A race needs `Timeline.may_overlap(a, b)` and conflicting accesses. Its confidence starts at `certain` and is lowered by
everything that was not proved; the race rules only choose which pairs are theirs and how they say it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.dense import Aside, Surest
from stitchcuda.analysis.findings.finding import RANK, Confidence, Finding, Fix, Group, Related, Severity
from stitchcuda.analysis.findings.lookup import bits, lookup, memory_key
from stitchcuda.analysis.findings.members import counter_from_zero, every_member_meets
from stitchcuda.analysis.findings.parts import Parts
from stitchcuda.analysis.findings.unseen import meets_what_is_unseen
from stitchcuda.analysis.order.alias import SCALAR, Conflict, alias, conflict, covers_all, meeting, within
from stitchcuda.analysis.order.families import same_stream_where_they_meet
from stitchcuda.analysis.order.machine import same_stream
from stitchcuda.analysis.order.symbolic import ZERO
from stitchcuda.analysis.order.timeline import (
    Access,
    Buffer,
    Certainty,
    Condition,
    Memory,
    Mode,
    Op,
    Range,
    Shape,
    StreamKind,
    Timeline,
)
from stitchcuda.analysis.program.effects import kernel_effects
from stitchcuda.analysis.program.ir import RELEASES, ApiKind, Program

DEVICE_WORK = frozenset(
    {
        ApiKind.LAUNCH,
        ApiKind.COPY,
        ApiKind.MEMSET,
        ApiKind.LIBRARY_CALL,
        ApiKind.GRAPH_LAUNCH,
        ApiKind.HOST_FUNC,
    }
)


Choose: TypeAlias = Callable[[Op, Access, Op, Access], bool]


@dataclass(frozen=True, slots=True)
class Race:
    """Two ops that may run at the same time, of which one writes what the other uses."""

    earlier: Op
    later: Op
    conflict: Conflict
    buffer: Buffer  # as the later op names it
    confidence: Confidence


def writes_later(earlier: Op, first: Access, later: Op, second: Access) -> bool:
    """Chooses the races in which the later op writes."""
    return second.mode is not Mode.READ


def read_after_write(earlier: Op, first: Access, later: Op, second: Access) -> bool:
    """Chooses the races in which the later op reads what the earlier one writes."""
    return first.mode is not Mode.READ and second.mode is Mode.READ


def race_finding(
    code: str,
    race: Race,
    level: Confidence,
    message: str,
    does: str,
    fixes: tuple[Fix, ...],
    more: tuple[Related, ...] = (),
) -> Finding:
    """The finding that a race is, at its later op. `does`: what the earlier op does to the memory ("writes"); `more`:
    related places besides the usual ones."""
    related = (
        Related(race.earlier.site, f"{wording.operation(race.earlier)} {does} {wording.buffer(race.buffer)} here"),
        *more,
        *wording.call_path(race.later),
        *wording.call_path(race.earlier),
        *wording.allocation(race.buffer),
    )
    return Finding(
        code,
        Group.CORRECTNESS,
        Severity.ERROR,
        level,
        race.later.site,
        message,
        wording.distinct(related, race.later.site),
        fixes,
        wording.condition(race.later),
    )


def weaker(a: Confidence, b: Confidence) -> Confidence:
    """The lesser of the two."""
    return a if RANK[a] <= RANK[b] else b


def races(
    program: Program,
    timeline: Timeline,
    earlier_kinds: frozenset[ApiKind],
    later_kinds: frozenset[ApiKind],
    choose: Choose,
) -> list[Race]:
    """The races whose ops are of the given kinds and whose accesses `choose` takes, one a pair of sites and buffer, the
    most confident first. Pairs that another pair implies are left out: when the same later op also races with something
    that runs after the earlier one, and when something before the later op in its stream already races with it."""
    found: dict[tuple[object, ...], Race] = {}
    aside = Aside(timeline, lambda op: op.site, surest(program, timeline, choose), streams_apart)
    for earlier, later, clash in _clashes(timeline, earlier_kinds, later_kinds, choose, aside):
        buffer = timeline.buffers[clash.second.buffer]
        key = (earlier.site, later.site, memory_key(buffer))
        known = found.get(key)
        if known is not None and known.confidence is Confidence.CERTAIN:
            continue  # no other is surer
        sure = confidence(program, timeline, earlier, later, clash)
        if known is None or RANK[known.confidence] < RANK[sure]:
            found[key] = Race(earlier, later, clash, buffer, sure)
    return without_implied(timeline, list(found.values()), aside)


def all_races(
    program: Program,
    timeline: Timeline,
    earlier_kinds: frozenset[ApiKind],
    later_kinds: frozenset[ApiKind],
    choose: Choose,
    aside: Aside | None = None,
) -> Iterator[Race]:
    """Every pair of accesses that races, also those that `races` leaves out, but for pairs of ops that are set aside;
    `choose` is asked before anything costly."""
    for earlier, later, clash in _clashes(timeline, earlier_kinds, later_kinds, choose, aside):
        sure = confidence(program, timeline, earlier, later, clash)
        yield Race(earlier, later, clash, timeline.buffers[clash.second.buffer], sure)


def surest(program: Program, timeline: Timeline, choose: Choose) -> Surest:
    """How sure the race of two ops is, of the accesses that `choose` takes."""
    memory = lookup(timeline).memory

    def found(earlier: Op, later: Op, only: int | None) -> Confidence | None:
        best: Confidence | None = None
        for second in later.accesses:
            of = memory[second.buffer]
            for first in earlier.accesses if only is None or only == of else ():
                clash = _clash(timeline, earlier, first, later, second, choose) if memory[first.buffer] == of else None
                if clash is not None:
                    sure = confidence(program, timeline, earlier, later, clash)
                    if sure is Confidence.CERTAIN:
                        return sure
                    best = sure if best is None or RANK[sure] > RANK[best] else best
        return best

    return found


def _clashes(
    timeline: Timeline,
    earlier_kinds: frozenset[ApiKind],
    later_kinds: frozenset[ApiKind],
    choose: Choose,
    aside: Aside | None,
) -> Iterator[tuple[Op, Op, Conflict]]:
    for earlier, first, later, second in _pairs(timeline, earlier_kinds, later_kinds, aside):
        clash = _clash(timeline, earlier, first, later, second, choose)
        if clash is not None:
            yield earlier, later, clash


def _clash(
    timeline: Timeline, earlier: Op, first: Access, later: Op, second: Access, choose: Choose
) -> Conflict | None:
    """The conflict of two accesses whose ops may overlap; None when they do not race."""
    if not choose(earlier, first, later, second):
        return None
    if exclusive(timeline, earlier, later) or _staged(timeline, earlier, first):
        return None
    clash = meeting(timeline, first, second)
    if clash is not None and same_stream_where_they_meet(timeline, earlier, later, clash):
        return None
    return clash


def _staged(timeline: Timeline, earlier: Op, first: Access) -> bool:
    """A synchronous call is done with host memory when it returns, though its copy may go on (C1)."""
    memory = timeline.buffers[first.buffer].memory
    return not earlier.asynchronous and memory in (Memory.PAGEABLE, Memory.PINNED)


def confidence(program: Program, timeline: Timeline, earlier: Op, later: Op, clash: Conflict) -> Confidence:
    """How sure a race between two ops that may overlap is: as sure as the least of what is known about it. What costs least
    is looked at first."""
    level = streams_apart(timeline, earlier, later)
    if earlier.thread != later.thread:
        level = Confidence.POSSIBLE  # X1: order between host threads is only partly seen
    if level is not Confidence.POSSIBLE and timeline.on_some_paths(earlier.id, later.id):
        # A wait behind a condition; an operation behind one may run just when the wait does.
        unconditional = not earlier.conditions and not later.conditions
        level = weaker(level, Confidence.LIKELY if unconditional else Confidence.POSSIBLE)
    if level is not Confidence.POSSIBLE and timeline.may_wait[later.id] >> earlier.id & 1:
        level = weaker(level, _across_may_wait(timeline, earlier, later))
    if level is Confidence.POSSIBLE or _parts_by_number(earlier, later, clash) or _arrived(timeline, earlier, later):
        return Confidence.POSSIBLE
    freed = later.kind in RELEASES and alias(*(timeline.buffers[a.buffer] for a in (clash.first, clash.second)))
    if clash.same is not True and not freed:
        level = weaker(level, _partial(program, timeline, earlier, later, clash))
    if earlier.conditions and later.conditions and _texts(earlier) != _texts(later):
        level = weaker(level, Confidence.LIKELY)  # each on a condition of its own: that both hold is not proved
    if level is Confidence.POSSIBLE:
        return level
    return weaker(level, _by_access(program, timeline, earlier, later, clash))


def _by_access(program: Program, timeline: Timeline, earlier: Op, later: Op, clash: Conflict) -> Confidence:
    """How sure it is that both operations run and touch the memory as is thought."""
    level = Confidence.CERTAIN
    whichever = clash.second.one_of and _whichever(timeline, earlier, later, clash)
    unseen = (
        meets_what_is_unseen(program, timeline, earlier, clash.first, later, clash.second),
        meets_what_is_unseen(program, timeline, later, clash.second, earlier, clash.first),
    )
    if True in unseen:
        level = Confidence.LIKELY
    for op, access, used in ((earlier, clash.first, unseen[0]), (later, clash.second, unseen[1])):
        if whichever and op is later or used:
            continue
        if access.one_of:
            level = Confidence.POSSIBLE
        if access.certainty is Certainty.MAY:
            level = weaker(level, Confidence.LIKELY if _depends_on_data(program, op) else Confidence.POSSIBLE)
    sure = (earlier.certain or unseen[0]) and (later.certain or unseen[1] or whichever)
    return level if sure else Confidence.POSSIBLE


def _whichever(timeline: Timeline, earlier: Op, later: Op, clash: Conflict) -> bool:
    """The later op uses one of several buffers, as after a loop that swaps them, and each of them was used by a round of
    what stands at the earlier op: it races whichever one it is."""
    table = lookup(timeline)
    alike = table.by_place[earlier.site, earlier.calls]
    key = (alike[0].id, later.id, clash.second.via, clash.second.mode)
    known = table.whichever.get(key)
    if known is None:
        known = table.whichever[key] = _met_by_any(timeline, alike, later, clash)
    return known


def _met_by_any(timeline: Timeline, alike: list[Op], later: Op, clash: Conflict) -> bool:
    rounds = [op for op in alike if timeline.may_overlap(op.id, later.id)]
    for access in later.accesses:
        if access.one_of and (access.via, access.mode) == (clash.second.via, clash.second.mode):
            met = (c for op in rounds for c in conflict(timeline, op.id, later.id) if c.second is access)
            if not any(c.first.certainty is Certainty.MUST and not c.first.one_of for c in met):
                return False
    return True


def _arrived(timeline: Timeline, earlier: Op, later: Op) -> bool:
    """A synchronous upload from pageable memory (C1), and the host has waited since for work issued after it: nothing
    promises that the upload has arrived, but it has had its time."""
    upload = earlier.kind is ApiKind.COPY and earlier.copy_kind == "h2d" and not earlier.asynchronous
    if not upload or not any(timeline.buffers[a.buffer].memory is Memory.PAGEABLE for a in earlier.accesses):
        return False
    since = timeline.earlier[later.id] & ~((1 << earlier.id + 1) - 1)
    return any(since >> op.id & 1 and op.waits >> (earlier.id + 1) for op in lookup(timeline).waiting)


def _parts_by_number(earlier: Op, later: Op, clash: Conflict) -> bool:
    """One kernel twice, with other numbers: they may pick the part that it works on, in a way that was not understood."""
    unclear = all(a.range.extent is None and a.range.shape is Shape.SOME for a in (clash.first, clash.second))
    same = earlier.kind is later.kind is ApiKind.LAUNCH and earlier.kernel == later.kernel
    return unclear and same and clash.first.via == clash.second.via and earlier.scalars != later.scalars


def _texts(op: Op) -> set[str]:
    return {c.text for c in op.conditions}


def _depends_on_data(program: Program, op: Op) -> bool:
    """A kernel that is here and whose access stands behind a test of its data: some run makes it."""
    uids = program.by_name.get(op.kernel.rsplit("::", 1)[-1].split("<")[0], ()) if op.kind is ApiKind.LAUNCH else ()
    return bool(uids) and not any(kernel_effects(program, uid).calls_unknown for uid in uids)


def exclusive(timeline: Timeline, a: Op, b: Op) -> bool:
    """The two ops stand on opposite sides of one decision, taken in the same round of the loops around it. Tests of the
    same text count as one decision: a mode flag is often tested again at each stage."""
    opposite = lookup(timeline).opposite(a, b) if a.conditions and b.conditions else ()
    return any(_rounds(timeline, a, one) == _rounds(timeline, b, other) for one, other in opposite)


def _rounds(timeline: Timeline, op: Op, decision: Condition) -> list[tuple[int, int]]:
    """The loops around a decision on the way to an op, outermost first, each with the round it was in."""
    chain: list[int] = []
    loop = op.loop
    while loop is not None:
        chain.insert(0, loop)
        loop = timeline.loops[loop].parent
    depth = next((d for d, site in enumerate(op.calls) if site.function == decision.site.function), len(op.calls))
    rounds = []
    for number, index in zip(chain, op.iteration, strict=False):
        info = timeline.loops[number]
        around = len(info.calls) == depth and info.site.span[0] <= decision.site.span[0]
        if len(info.calls) < depth or around:
            rounds.append((number, index))
    return rounds


def _pairs(
    timeline: Timeline, earlier_kinds: frozenset[ApiKind], later_kinds: frozenset[ApiKind], aside: Aside | None
) -> Iterator[tuple[Op, Access, Op, Access]]:
    """Accesses of the right kinds to the same allocation or family, earlier op first."""
    table = lookup(timeline)
    for memory in table.used_by(later_kinds):
        accesses = table.users[memory]
        firsts: dict[int, list[tuple[Op, Access]]] = defaultdict(list)
        users = 0  # bitset of the ops in `firsts`
        for op, access in accesses:
            if op.kind in earlier_kinds:
                firsts[op.id].append((op, access))
                users |= 1 << op.id
        asked, numbers = -1, 0  # the accesses of one op follow each other
        parts = Parts(accesses if users else ())
        for op, second in accesses if users else ():
            if op.kind in later_kinds:
                if op.id != asked:
                    open_ = timeline.earlier[op.id] & ~timeline.before[op.id] & users
                    if open_:
                        open_ &= ~parts.apart(op.id)
                    asked, numbers = op.id, open_ if aside is None else aside.left(op, open_, memory)
                for number in bits(numbers):
                    for other, first in firsts[number]:
                        yield other, first, op, second


def _partial(program: Program, timeline: Timeline, earlier: Op, later: Op, clash: Conflict) -> Confidence:
    """Whether they meet was not proved. A device gather or scatter somewhere in an array that the other access walks
    from its start is `likely` to, and so is a host access within the range that a kernel works on, or a host loop over
    all of what is written, or over all of an array that a kernel counts into, and so are two loops over the same members;
    anything else may be a partition that was not understood (halves, slots, fields)."""
    swept = _swept(program, timeline, later, clash.second.range) if later.stream is None else None
    whole = swept is not None and clash.first.range.stride is None and within(clash.first.range, swept)
    if whole and _texts(later) <= _texts(earlier):
        return Confidence.LIKELY
    if every_member_meets(program, timeline, earlier, later, clash):
        return Confidence.LIKELY
    if timeline.buffers[clash.first.buffer].id != timeline.buffers[clash.second.buffer].id:
        return Confidence.POSSIBLE
    scattered = clash.first.range
    counted = clash.first.mode is Mode.ATOMIC and scattered.shape is Shape.SOME and scattered.extent is None
    if later.stream is None and counted and not (scattered.member or clash.second.range.member):
        buffer = timeline.buffers[clash.second.buffer]
        if any(r is not None and covers_all(r, buffer) for r in (swept, clash.second.range)):
            return Confidence.LIKELY
    for walked, anywhere in ((clash.first.range, clash.second.range), (clash.second.range, clash.first.range)):
        size = None if walked.extent is None else walked.extent.constant
        array = size is None or size > SCALAR  # not one field or element
        if later.stream is None:
            if within(anywhere, walked):
                return Confidence.LIKELY
        elif array and walked.offset == ZERO and walked.shape is not Shape.SOME and anywhere.offset is None:
            return Confidence.LIKELY
    return Confidence.POSSIBLE


def _swept(program: Program, timeline: Timeline, op: Op, touched: Range) -> Range | None:
    """What a host access at `i` touches over all rounds of its loop `for (i = 0; i < n; ...)`."""
    if op.loop is None or touched.offset is None or touched.extent is None:
        return None
    trip, counter = timeline.loops[op.loop].trip, counter_from_zero(program, timeline, op.loop)
    if trip is None or counter is None:
        return None
    rest = touched.offset - touched.extent * counter
    if rest.symbols & counter.symbols:
        return None
    return replace(touched, offset=rest, extent=touched.extent * trip)


def _across_may_wait(timeline: Timeline, earlier: Op, later: Op) -> Confidence:
    """An upload from pageable memory returns when its source is staged, which is not yet the end of the copy (C1, C6).
    W8: a free in between waits in practice but is not promised to. Anything else that may have waited is unknown code."""
    pageable = any(timeline.buffers[a.buffer].memory is Memory.PAGEABLE for a in earlier.accesses)
    others = timeline.may_wait[later.id] >> (earlier.id + 1)  # work issued after the copy that may be done as well
    if (
        earlier.kind is ApiKind.COPY
        and earlier.copy_kind == "h2d"
        and pageable
        and not others
        and later.stream is not None
    ):
        return Confidence.LIKELY
    between = lookup(timeline).releases_after(earlier) & timeline.earlier[later.id]
    return Confidence.LIKELY if between else Confidence.POSSIBLE


def streams_apart(timeline: Timeline, earlier: Op, later: Op) -> Confidence:
    """What is known about the two streams being different and unordered (O3, O4)."""
    streams = [timeline.streams[s] for s in (earlier.stream, later.stream) if s is not None]
    if any(s.kind is StreamKind.UNKNOWN for s in streams):
        return Confidence.POSSIBLE
    if len(streams) < 2:
        return Confidence.CERTAIN
    first, second = streams
    if later.early and first.id == second.id:  # O1: that the kernel is still running is what the launch is for
        return Confidence.LIKELY
    if StreamKind.GRAPH in (first.kind, second.kind):  # unordered nodes of one graph
        return Confidence.CERTAIN
    if StreamKind.LEGACY in (first.kind, second.kind):
        other = second if first.kind is StreamKind.LEGACY else first
        # A stream from outside may be a blocking one or the default stream itself.
        return Confidence.CERTAIN if other.blocking is False else Confidence.POSSIBLE
    if same_stream(first, second) is False:
        return Confidence.CERTAIN
    return Confidence.POSSIBLE


def without_implied(
    timeline: Timeline, found: list[Race], aside: Aside | None = None, *, any_buffer: bool = False
) -> list[Race]:
    """Without pairs that another pair implies (see `races`), by their places; the other pair may be one that was set
    aside. `any_buffer`: also when it is about other memory, since what orders the one orders the other."""
    memory = lookup(timeline).memory
    behind: dict[int, list[Race]] = defaultdict(list)  # by the earlier op
    before: dict[int, list[Race]] = defaultdict(list)  # by the later op
    for race in found:
        behind[race.earlier.id].append(race)
        before[race.later.id].append(race)

    asked = None if any_buffer else memory
    kept = [race for race in found if not _implied(race, timeline, behind, before, asked)]
    if aside is not None:
        kept = [
            race
            for race in kept
            if not aside.implies(
                race.earlier, race.later, race.confidence, None if any_buffer else memory[race.buffer.id]
            )
        ]
    return sorted(kept, key=lambda r: (r.later.site, -RANK[r.confidence], r.earlier.site))


def _implied(
    race: Race,
    timeline: Timeline,
    behind: dict[int, list[Race]],
    before: dict[int, list[Race]],
    memory: tuple[int, ...] | None,
) -> bool:
    later, stream = race.later.id, race.later.stream
    for other in before[later]:
        if timeline.ordered(race.earlier.id, other.earlier.id) and _stronger(other, race, memory):
            return True
    for other in behind[race.earlier.id]:
        if other.later.stream == stream and _stronger(other, race, memory):
            number = other.later.id
            if timeline.ordered(number, later) or (stream is None and timeline.earlier[later] >> number & 1):
                return True
    return False


def _stronger(other: Race, race: Race, memory: tuple[int, ...] | None) -> bool:
    """Another one that is as sure, and about the same memory unless that does not matter."""
    same = memory is None or memory[other.buffer.id] == memory[race.buffer.id]
    return other is not race and same and RANK[other.confidence] >= RANK[race.confidence]
