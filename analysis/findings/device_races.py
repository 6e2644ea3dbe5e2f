"""Races between operations on the device: each missing order is told once, and as what it is.

An unordered pair is a read after a write, a write after a read or a write after a write; when the later operation's
stream did wait for an event that was meant to give the order, the fault is that event (`missed_events`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from stitchcuda.analysis.findings.dense import Aside
from stitchcuda.analysis.findings.finding import RANK, RuleInput
from stitchcuda.analysis.findings.missed_events import MissedWait, missed_wait
from stitchcuda.analysis.findings.race import DEVICE_WORK, Race, all_races, streams_apart, surest, without_implied
from stitchcuda.analysis.order.timeline import Access, Mode, Op, Timeline

RAW = "stream-race-raw"
WAR = "stream-race-war"
WAW = "stream-race-waw"
_PREFERRED = (RAW, WAW, WAR)


@dataclass(frozen=True, slots=True)
class DeviceRace:
    """A race with the code that it is reported under; `missed`: the event wait that was meant to order it."""

    race: Race
    code: str
    missed: MissedWait | None = None


def device_races(given: RuleInput) -> tuple[DeviceRace, ...]:
    """All races between device operations, one a pair of operations. Kept for the rules that ask one after the other."""
    if not _memo or _memo[0][0] is not given.timeline:
        _memo[:] = [(given.timeline, _found(given))]
    return _memo[0][1]


_memo: list[tuple[Timeline, tuple[DeviceRace, ...]]] = []


def one_a_wait(found: Iterable[DeviceRace]) -> list[DeviceRace]:
    """Of the races that one event wait misses, the surest: mending the wait mends them all."""
    best: dict[int, DeviceRace] = {}
    for race in found:
        if race.missed is not None:
            known = best.get(race.missed.wait.node)
            if known is None or RANK[known.race.confidence] < RANK[race.race.confidence]:
                best[race.missed.wait.node] = race
    return list(best.values())


def kind(first: Access, second: Access) -> str:
    """The code of a pair by itself. An atomic update reads what is there and writes it: after a write it needs that
    write, after a read it spoils the read."""
    if second.mode is Mode.READ or (first.mode is Mode.WRITE and second.mode is Mode.ATOMIC):
        return RAW
    return WAR if first.mode is Mode.READ else WAW


def _found(given: RuleInput) -> tuple[DeviceRace, ...]:
    line = given.timeline
    pairs: dict[tuple[int, int], list[Race]] = defaultdict(list)
    aside = Aside(line, lambda op: op.node, surest(given.program, line, _any), streams_apart)
    for race in all_races(given.program, line, DEVICE_WORK, DEVICE_WORK, _any, aside):
        pairs[race.earlier.node, race.later.node].append(race)
    best = {key: min(races, key=_order) for key, races in pairs.items()}
    out = []
    for race in without_implied(line, list(best.values()), aside, any_buffer=True):
        alike = [r for r in pairs[race.earlier.node, race.later.node] if r.confidence is race.confidence]
        found = next(((r, m) for r in alike if (m := missed_wait(line, r)) is not None), None)
        shown, missed = found if found is not None else (race, None)
        code = kind(shown.conflict.first, shown.conflict.second)
        out.append(DeviceRace(shown, missed.code if missed is not None else code, missed))
    return tuple(out)


def _any(earlier: Op, first: Access, later: Op, second: Access) -> bool:
    return not (first.mode is Mode.READ and second.mode is Mode.READ)


def _order(race: Race) -> tuple[int, int]:
    return -RANK[race.confidence], _PREFERRED.index(kind(race.conflict.first, race.conflict.second))
