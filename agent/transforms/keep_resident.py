"""keep-resident: data that goes to the host and comes back untouched stays on the device.

Changes: a download and the upload of the same bytes go (or the upload becomes a copy on the device); across functions, the
device buffer itself is handed on. Proved before: the host neither reads nor writes the data in between, every byte that the
upload takes was brought by that download, the buffer is large enough and nobody touches it in between, and what the waits of
the two copies kept in order stays in order. May change: fewer copies, fewer waits, other allocations. The validator must see
exactly the predicted bytes missing, and equal results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stitchcuda.agent.transforms.residency.draft import Draft, Refused, refused_at
from stitchcuda.agent.transforms.residency.groups import Group, connect, grouped
from stitchcuda.agent.transforms.residency.handover import Consumer, Producer, shape_of
from stitchcuda.agent.transforms.residency.handover_edits import rewrite
from stitchcuda.agent.transforms.residency.local_trips import LocalTrip, local_shape, rewrite_local
from stitchcuda.agent.transforms.residency.relied import (
    Order,
    Reliance,
    lost_copy,
    lost_handover,
    lost_order,
    lost_time_or_output,
)
from stitchcuda.agent.transforms.residency.trips import (
    Lap,
    Trip,
    amount,
    as_large,
    broken,
    buffers_of,
    find_trips,
    from_start,
)
from stitchcuda.agent.transforms.transform import Outcome, Proposal, Refusal, Situation
from stitchcuda.agent.units import Obligation
from stitchcuda.analysis.findings.edits import site_of
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.order.timeline import Op
from stitchcuda.analysis.program.ir import ApiKind, Site
from stitchcuda.analysis.proof.model import Declared, May

ID = "keep-resident"
DECLARED = Declared((ID,), waits=May.FEWER, copies=May.FEWER, allocations=May.ANY)


@dataclass(frozen=True)
class _Change:
    """Round trips that are dropped alike."""

    trips: tuple[Trip, ...]
    form: str  # "handover" | "same" | "adopt" | "copy"
    download_goes: bool
    why: str
    sites: tuple[Site, ...]


@dataclass(frozen=True)
class _Candidate:
    """Changes whose texts meet, and the text. What they must keep in order is still to be shown."""

    changes: tuple[_Change, ...]
    draft: Draft


def find(situation: Situation) -> Outcome:
    """Round trips that can be dropped, and for each other one the line that prevents it."""
    analysis = situation.analysis
    if not analysis.timelines:
        return Outcome()
    given = RuleInput(analysis.timelines[0], analysis.program, analysis.sources)
    refusals: list[Refusal] = []
    candidates = _apart(list(_candidates(given, analysis, refusals)))
    accepted: list[_Candidate] = []
    for candidate in candidates:
        reliance = _relied_upon(analysis, [*accepted, candidate])
        if reliance is None:
            accepted.append(candidate)
        else:
            refusals.append(_refusal(analysis, reliance.site, reliance.what))
    return Outcome(tuple(_proposal(analysis, c) for c in accepted), tuple(dict.fromkeys(refusals)))


def _candidates(given: RuleInput, analysis: Analysis, refusals: list[Refusal]) -> Iterable[_Candidate]:
    shapes: list[tuple[Trip, Producer, Consumer]] = []
    trips = find_trips(analysis)
    for trip in trips:
        try:
            shape = shape_of(given, trip)
            if shape is not None:
                shapes.append((trip, *shape))
                continue
            found = broken(analysis.timelines, [trip], downs_all_used=False)
            if found is not None:
                refusals.append(_refusal(analysis, found[1], found[0]))
                continue
            local = local_shape(given, trip)
            if local is None:
                at = "the data goes from function to function in a form that is not known"
                refusals.append(_refusal(analysis, trip.up, at))
                continue
            yield _local_candidate(given, local)
        except Refused as stop:
            refusals.append(_refused(analysis, stop))
    for group in grouped(shapes):
        try:
            yield _handover_candidate(given, analysis, group)
        except Refused as stop:
            refusals.append(_refused(analysis, stop))


def _handover_candidate(given: RuleInput, analysis: Analysis, group: Group) -> _Candidate:
    for found in (broken(analysis.timelines, group.trips, downs_all_used=True), _not_taken_over(group)):
        if found is not None:
            raise refused_at(analysis.program, found[1], found[0])
    connect(given, group)
    draft = rewrite(given, group)
    given_on = [p.pointer.declared.name for p in group.producers.values()]
    to = [c.body.function.name for c in group.consumers.values()]
    makers = [p.body.function.name for p in group.producers.values()]
    why = (
        f"{_list(makers)} {_verb(makers, 'hands', 'hand')} {_list(dict.fromkeys(given_on))} on to {_list(to)} on the device, "
        f"instead of copying it to the host and back; {_list(to)} {_verb(to, 'releases', 'release')} it"
    )
    sites = [s for t in group.trips for s in (t.down, t.up)]
    sites += [site_of(p.body, p.pointer.released.span) for p in group.producers.values()]
    sites += [site_of(c.body, c.pointer.allocated.span) for c in group.consumers.values()]
    return _Candidate((_Change(tuple(group.trips), "handover", True, why, tuple(sites)),), draft)


def _not_taken_over(group: Group) -> tuple[str, Site] | None:
    """What the Timeline knows against giving the buffer on: its size, its kind, and later uses of it."""
    apis = {p.pointer.allocated.name for p in group.producers.values()}
    apis |= {c.pointer.allocated.name for c in group.consumers.values()}
    frees = {p.pointer.released.name for p in group.producers.values()}
    frees |= {c.pointer.released.name for c in group.consumers.values()}
    for trip in group.trips:
        if len(apis) > 1 or len(frees) > 1:
            return "the two buffers are not allocated and released by the same calls", trip.up
        for lap in trip.laps:
            source, target = buffers_of(lap)
            if not from_start(lap):
                return "a copy does not begin at the start of its device buffer", trip.up
            if not as_large(lap):
                return (
                    f"`{source.name}` is not known to be as large as `{target.name}`, which it would replace",
                    trip.up,
                )
            for op in lap.timeline.ops:
                if op.id == lap.down.id or op.kind is ApiKind.FREE or lap.timeline.ordered(op.id, lap.down.id):
                    continue
                if any(a.buffer == source.id for a in op.accesses):
                    return f"`{source.name}` is used after the download, or is still in use then", op.site
    return None


def _local_candidate(given: RuleInput, local: LocalTrip) -> _Candidate:
    source, target = (
        local.body.slice(e.span) if (e := c.role(r)) is not None else ""
        for c, r in ((local.down, "src"), (local.up, "dst"))
    )
    why = {
        "same": f"{target} still holds what the upload brings back",
        "adopt": f"{target} takes over the buffer of {source} instead of a copy of it by way of the host",
        "copy": f"{target} gets its data from {source} on the device instead of by way of the host",
    }[local.form]
    sites = (local.trip.down, local.trip.up) if local.private else (local.trip.up,)
    change = _Change((local.trip,), local.form, local.private, why, sites)
    return _Candidate((change,), rewrite_local(given, local))


def _apart(candidates: list[_Candidate]) -> list[_Candidate]:
    """Candidates whose edits meet become one."""
    out: list[_Candidate] = []
    for candidate in candidates:
        for other in [c for c in out if _meet(c.draft, candidate.draft)]:
            out.remove(other)
            other.draft.join(candidate.draft)
            candidate = _Candidate(other.changes + candidate.changes, other.draft)
        out.append(candidate)
    return out


def _meet(one: Draft, other: Draft) -> bool:
    ours, theirs = one.edits(), other.edits()
    return any(a.path == b.path and a.start < b.end and b.start < a.end for a in ours for b in theirs)


# ------------------------------------------------------------------------------------------------------- what is relied on


def _relied_upon(analysis: Analysis, candidates: Sequence[_Candidate]) -> Reliance | None:
    """What would no longer be kept in order or told in time if all of these were made."""
    changes = [change for candidate in candidates for change in candidate.changes]
    for timeline in analysis.timelines:
        laps = [(c, lap) for c in changes for t in c.trips for lap in t.laps if lap.timeline is timeline]
        if not laps:
            continue
        given = RuleInput(timeline, analysis.program, analysis.sources)
        gone = {lap.up.id for _, lap in laps} | {lap.down.id for c, lap in laps if c.download_goes}
        passed_on = {lap.source.buffer for c, lap in laps if c.form in ("handover", "adopt")}
        released = [op.id for op in timeline.ops if op.kind is ApiKind.FREE and _reaches(op, passed_on)]
        order = Order(timeline, gone, released)
        found = lost_order(order)
        for change, lap in laps:
            found = found or _lost_by(given, order, change, lap)
        if found is not None:
            return found
    return None


def _lost_by(given: RuleInput, order: Order, change: _Change, lap: Lap) -> Reliance | None:
    if change.form in ("handover", "adopt"):
        found = lost_handover(order, lap)
    elif change.form == "copy":
        found = lost_copy(order, lap)
    else:
        found = None
    for copy in (lap.down, lap.up) if change.download_goes else (lap.up,):
        found = found or lost_time_or_output(given, order, copy)
    return found


def _reaches(op: Op, buffers: set[int]) -> bool:
    return any(a.buffer in buffers for a in op.accesses)


# ------------------------------------------------------------------------------------------------- proposals and refusals


def _proposal(analysis: Analysis, candidate: _Candidate) -> Proposal:
    changes = candidate.changes
    first = changes[0].sites[0]
    return Proposal(
        transform=ID,
        why="; ".join(c.why for c in changes),
        path=first.path,
        line=_line(analysis, first.path, analysis.program.locate(first).start),
        edits=candidate.draft.edits(),
        declared=DECLARED,
        obligations=tuple(o for c in changes for o in _obligations(analysis, c)),
        sites=tuple(dict.fromkeys(s for c in changes for s in c.sites)),
    )


def _obligations(analysis: Analysis, change: _Change) -> tuple[Obligation, ...]:
    made: list[Obligation] = []
    for trip in change.trips:
        host = trip.laps[0].timeline.buffers[trip.laps[0].host_read.buffer].name
        down, up = (
            f"{s.path}:{_line(analysis, s.path, analysis.program.locate(s).start)}" for s in (trip.down, trip.up)
        )
        one, back = amount(trip.extent), "download and upload" if change.download_goes else "upload"
        made.append(
            Obligation(
                f"the host neither reads nor writes `{host}` between {down} and {up}",
                "every place that names it was looked at, and the Timeline has no other access",
            )
        )
        made.append(
            Obligation(
                f"each time, {back} of {one} bytes fall away, and nothing else is copied less",
                "both copies move the same bytes by their formulas",
            )
        )
    made.append(
        Obligation(
            "what the waits in these copies kept in order stays in order",
            "stream order or a wait that stays holds for every pair of accesses that the Timeline orders",
        )
    )
    if change.form in ("handover", "adopt"):
        made.append(
            Obligation(
                "the buffer that is handed on is large enough, is not used by anyone else later, and is released once",
                "sizes by formula; the only release of the old buffer goes, the only release of the new one stays",
            )
        )
    return tuple(made)


def _refusal(analysis: Analysis, site: Site, reason: str) -> Refusal:
    return Refusal(ID, site.path, _line(analysis, site.path, analysis.program.locate(site).start), reason)


def _refused(analysis: Analysis, stop: Refused) -> Refusal:
    return Refusal(ID, stop.path, _line(analysis, stop.path, stop.at), stop.reason)


def _line(analysis: Analysis, path: str, at: int) -> int:
    return analysis.sources[path].count(b"\n", 0, at) + 1 if path in analysis.sources else 1


def _list(names: Iterable[str]) -> str:
    known = list(dict.fromkeys(names))
    return known[0] if len(known) == 1 else f"{', '.join(known[:-1])} and {known[-1]}"


def _verb(names: Sequence[str], one: str, several: str) -> str:
    return one if len(set(names)) == 1 else several
