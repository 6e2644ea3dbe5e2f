"""What the race rules about device work say, and how they mend it."""

from __future__ import annotations

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.device_races import DeviceRace
from stitchcuda.analysis.findings.finding import Confidence, Finding, RuleInput
from stitchcuda.analysis.findings.fixes import wait_for_event
from stitchcuda.analysis.findings.race import race_finding, weaker
from stitchcuda.analysis.order.timeline import Mode, Timeline


def sentence(line: Timeline, found: DeviceRace) -> str:
    """Both operations, their streams and the memory."""
    race = found.race
    first, second = race.conflict.first, race.conflict.second
    return (
        f"{wording.operation(race.later)}{wording.on_stream(line, race.later)} {wording.DOES[second.mode]} "
        f"{wording.buffer(race.buffer)} while {wording.operation(race.earlier)}{wording.on_stream(line, race.earlier)} "
        f"may still be {wording.DOING[first.mode]} it"
    )


def level(found: DeviceRace) -> Confidence:
    """A flag that the other side polls is written by atomics."""
    race = found.race
    atomic = race.conflict.first.mode is Mode.ATOMIC and race.conflict.second.mode is Mode.READ
    return weaker(race.confidence, Confidence.LIKELY) if atomic else race.confidence


def plain_finding(given: RuleInput, found: DeviceRace) -> Finding:
    """The finding of a race that no event was meant to order."""
    race = found.race
    does = wording.DOES[race.conflict.first.mode]
    message = sentence(given.timeline, found)
    return race_finding(found.code, race, level(found), message, does, wait_for_event(given, race))
