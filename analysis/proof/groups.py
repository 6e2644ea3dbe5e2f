"""Launches of the original that others stand for, as groups: which launches stand for which.

A group is what one run of statements launches at one place, in one round, on one way through the program. What it must
keep is in `obligations.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from stitchcuda.analysis.order.timeline import Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind, Site
from stitchcuda.analysis.proof.correspond import Correspondence
from stitchcuda.analysis.proof.device_code import DeviceChange
from stitchcuda.analysis.proof.matching import key_of, where
from stitchcuda.analysis.proof.model import ProofFinding
from stitchcuda.analysis.proof.pieces import Piece
from stitchcuda.analysis.proof.recomposed import Recomposed, Region


@dataclass(frozen=True)
class Group:
    """Launches by id: `old` of the original, `new` of the changed version. `inside` are operations between them that belong
    to the same statements: waits, and questions for errors."""

    old: tuple[int, ...]
    new: tuple[int, ...]
    inside: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())


@dataclass
class Grouped:
    """`image` gives the buffer of the changed version that stands for one of the original; `speaks` the launches of the
    changed version that print, assert, or may wait for memory to change. `scratch` holds buffers of the changed version that
    new launches use among themselves, each with the one of the original, that nobody uses, if there is one."""

    groups: list[Group] = field(default_factory=list)
    scratch: dict[int, int | None] = field(default_factory=dict)
    image: Callable[[int], int | None] = lambda _: None
    speaks: Callable[[Op], bool] = lambda _: True
    failed: list[ProofFinding] = field(default_factory=list)
    unknown: list[ProofFinding] = field(default_factory=list)
    told: list[ProofFinding] = field(default_factory=list)


def groups_of(
    both: Correspondence, before: Timeline, after: Timeline, parts: Recomposed, change: DeviceChange, found: Grouped
) -> list[Group]:
    """The groups of one entry; what cannot be told apart is noted in `found`."""
    return [*_of_regions(both, before, after, parts, found), *_alone(both, before, after, parts, change)]


@dataclass
class _Members:
    launches: list[Op] = field(default_factory=list)
    inside: set[int] = field(default_factory=set)


def _of_regions(
    both: Correspondence, before: Timeline, after: Timeline, parts: Recomposed, found: Grouped
) -> Iterator[Group]:
    if not parts.regions:
        return
    old, new = _members(both, before, parts, 0), _members(both, after, parts, 1)
    for key, members in old.items():
        others = new.get(key)
        if others is None or not members.launches or not others.launches:
            continue
        fine = True
        for group, original in ((members, True), (others, False)):
            twice = len({op.node for op in group.launches}) < len(group.launches)
            if twice:
                what = "launches that others stand for are reached on several ways, which are not told apart"
                found.unknown.append(where(both, group.launches[0], what, original=original))
                fine = False
        if fine:
            yield Group(
                tuple(op.id for op in members.launches),
                tuple(op.id for op in others.launches),
                (frozenset(members.inside), frozenset(others.inside)),
            )


def _members(both: Correspondence, line: Timeline, parts: Recomposed, which: int) -> dict[object, _Members]:
    """What each instance of a region launches, by what is the same in both versions."""
    made: dict[object, _Members] = {}
    for op in line.ops:
        found = _region_of(both, op, parts, which)
        if found is None:
            continue
        depth, region, issues = found
        key = (
            op.site_at(depth).function,
            region.number,
            tuple(place(both, c, which) for c in op.calls[:depth]),
            *_way(both, line, op, which),
        )
        members = made.setdefault(key, _Members())
        if op.kind is ApiKind.LAUNCH and issues:
            members.launches.append(op)
        else:
            members.inside.add(op.id)
    return made


def _way(both: Correspondence, line: Timeline, op: Op, which: int) -> tuple[object, ...]:
    loops, loop = [], op.loop
    while loop is not None:
        info = line.loops[loop]
        loops.append((place(both, info.site, which), tuple(place(both, c, which) for c in info.calls)))
        loop = info.parent
    return tuple(loops), op.iteration, tuple((c.text, c.taken) for c in op.conditions), op.thread


def place(both: Correspondence, site: Site, which: int) -> Site | None:
    """A place as the changed version has it; None: it has none."""
    return site if which else both.site(site)


def _region_of(both: Correspondence, op: Op, parts: Recomposed, which: int) -> tuple[int, Region, bool] | None:
    """The outermost region in whose statements an operation is issued, how deep in the calls that is, and whether the
    statement is one that issues work of this version alone."""
    for depth in range(len(op.calls) + 1):
        site = op.site_at(depth)
        changed = both.changed.get(site.function)
        if changed is None or site.function not in parts.regions:
            continue
        function = (changed.before, changed.after)[which].function
        start, end = function.base + site.span[0], function.base + site.span[1]
        for region in parts.regions[site.function]:
            if any(_holds(p, start, end) for p in (region.old, region.new)[which]):
                return depth, region, True
            if any(_holds(p, start, end) for p in region.around[which]):
                return depth, region, False
    return None


def _holds(piece: Piece, start: int, end: int) -> bool:
    return piece.span[0] <= start and end <= piece.span[1]


def _alone(
    both: Correspondence, before: Timeline, after: Timeline, parts: Recomposed, change: DeviceChange
) -> Iterator[Group]:
    """Launches that both versions have, of kernels that changed or with numbers that changed."""
    there: dict[object, list[Op]] = defaultdict(list)
    for op in after.ops:
        if op.kind is ApiKind.LAUNCH:
            there[key_of(after, op, None)].append(op)
    taken: set[int] = set()
    for op in before.ops:
        if op.kind is not ApiKind.LAUNCH:
            continue
        found = _region_of(both, op, parts, 0)
        if found is not None and found[2]:
            continue
        candidates = [o for o in there.get(key_of(before, op, both), ()) if o.id not in taken]
        if not candidates:
            continue
        taken.add(candidates[0].id)  # in their order, as `pair` has them
        numbered = op.site.span in parts.numbered.get(op.site.function, ())
        if numbered or change.concerns(op.kernel):
            yield Group((op.id,), (candidates[0].id,))


def told(
    both: Correspondence, before: Timeline, after: Timeline, groups: Iterable[Group]
) -> Iterator[dict[str, object]]:
    """Each group once, however often it runs: where it stands and what launches what stands for what."""
    seen: set[object] = set()
    for group in groups:
        old, new = [before.ops[n] for n in group.old], [after.ops[n] for n in group.new]
        key = (tuple(op.node for op in old), tuple(op.node for op in new))
        if key in seen:
            continue
        seen.add(key)
        at = where(both, new[0], "")
        yield {
            "path": at.path,
            "line": at.line,
            "before": [op.kernel for op in old],
            "after": [op.kernel for op in new],
        }
