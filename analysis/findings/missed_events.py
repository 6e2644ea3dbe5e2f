"""Event waits that were meant to order a race and do not: what is wrong with them.

The later operation's stream waited for an event, yet the earlier operation is not in the snapshot that the wait took
(E1, E2): the event was never recorded before, was recorded too early, on another stream, or was recorded again since. A
wait that orders what later work of its stream needs from elsewhere is not blamed for what it does not cover.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from stitchcuda.analysis.findings.lookup import bits, lookup
from stitchcuda.analysis.findings.race import DEVICE_WORK, Race
from stitchcuda.analysis.order.machine import same_event, same_stream
from stitchcuda.analysis.order.timeline import Mode, Op, Timeline
from stitchcuda.analysis.program.ir import RELEASES, ApiKind

NEVER = "event-wait-before-record"
WRONG = "event-wrong-stream"
_USES = DEVICE_WORK | RELEASES | {ApiKind.HOST_READ, ApiKind.HOST_WRITE}


class Flaw(StrEnum):
    """Why the snapshot does not hold the earlier operation."""

    NEVER = "never recorded before"
    LATER = "recorded only after what it should wait for, which follows"
    EARLY = "recorded before it"
    ELSEWHERE = "recorded on another stream"
    AGAIN = "recorded again since"


@dataclass(frozen=True, slots=True)
class MissedWait:
    """A wait that does not cover the race it was meant for, and the record that it took instead."""

    wait: Op
    flaw: Flaw
    record: Op | None

    @property
    def code(self) -> str:
        return NEVER if self.flaw in (Flaw.NEVER, Flaw.LATER) else WRONG


def missed_wait(line: Timeline, race: Race) -> MissedWait | None:
    """The event wait of the later operation's stream that was meant to order the race; None when there is none."""
    if race.earlier.stream is None or race.later.stream is None:
        return None
    for wait in _waits_before(line, race.later):
        flaw, record = _flaw(line, race, wait)
        if flaw is not None:
            return MissedWait(wait, flaw, record)
    return _waited_too_soon(line, race)


def _waited_too_soon(line: Timeline, race: Race) -> MissedWait | None:
    """What reads waits for the event of what writes, and the host issues them the other way round: the event has not been
    recorded yet, and the writer follows."""
    if race.conflict.first.mode is not Mode.READ or race.conflict.second.mode is not Mode.WRITE:
        return None
    for wait in _waits_before(line, race.earlier):
        if wait.records or wait.event is None:
            continue
        for record in lookup(line).records[wait.event]:
            if record.stream == race.later.stream and line.ordered(race.later.id, record.id):
                return MissedWait(wait, Flaw.LATER, None)
    return None


def _waits_before(line: Timeline, later: Op) -> Iterator[Op]:
    """The waits of the stream that come before an op in it, the last one first."""
    if later.stream is not None:
        before = line.before[later.id]
        yield from (op for op in lookup(line).waits_of(later.stream) if before >> op.id & 1)


def _flaw(line: Timeline, race: Race, wait: Op) -> tuple[Flaw | None, Op | None]:
    if not wait.records:
        return (Flaw.NEVER, None) if never_recorded(line, wait) else (None, None)
    taken = [line.ops[r] for r in wait.records]
    if any(record.event != wait.event for record in taken):
        return None, None  # which event it is is not known
    source = race.earlier.id
    if any(line.ordered(source, record.id) for record in taken):
        return None, None  # the wait is right where it is made: on another path it is not
    issued = bool(line.earlier[wait.id] >> source & 1)
    for record in lookup(line).records[wait.event]:
        replaced = record.id not in wait.records and line.earlier[wait.id] >> record.id & 1
        if replaced and line.ordered(source, record.id):
            return Flaw.AGAIN, taken[-1]
    own = [record for record in taken if _one_stream(line, record, race.earlier)]
    if own and issued:
        return Flaw.EARLY, own[-1]
    if useful(line, wait):
        return None, None
    if own:
        return Flaw.EARLY, own[-1]
    return (Flaw.ELSEWHERE, taken[-1]) if issued else (None, None)


def never_recorded(line: Timeline, wait: Op) -> bool:
    """No path and no round of a loop records the event before this wait (the first round of a loop may)."""
    return not any(op.records for op in lookup(line).by_node[wait.node])


def useful(line: Timeline, wait: Op) -> bool:
    """Some occurrence of the wait orders work that what comes behind it depends on."""
    table = lookup(line)
    known = table.useful.get(wait.node)
    if known is None:
        known = any(_orders_something(line, op) for op in table.by_node[wait.node])
        table.useful[wait.node] = known
    return known


def unrecorded_waits(line: Timeline) -> Iterator[Op]:
    """Waits on events that are made in sight and recorded nowhere, before or after; the first occurrence of each."""
    recorded = [line.events[op.event] for op in line.ops if op.kind is ApiKind.EVENT_RECORD and op.event is not None]
    seen: set[int] = set()
    for op in line.ops:
        if op.kind is not ApiKind.EVENT_WAIT or op.event is None or op.node in seen:
            continue
        event = line.events[op.event]
        if event.site is not None and all(same_event(event, other) is False for other in recorded):
            seen.add(op.node)
            yield op


def _orders_something(line: Timeline, wait: Op) -> bool:
    table = lookup(line)
    done = [op for op in map(line.ops.__getitem__, bits(wait.awaited)) if op.kind in DEVICE_WORK]
    if any(not op.certain or op.unknown for op in done):
        return True
    touched: dict[int, Mode] = {}
    for op in done:
        for access in op.accesses:
            key = table.memory[access.buffer]
            if touched.get(key, Mode.READ) is Mode.READ:
                touched[key] = access.mode
    for key, mode in touched.items():
        for op, access in table.users[key]:
            harmless = mode is access.mode is Mode.READ
            if not harmless and op.kind in _USES and line.ordered(wait.id, op.id):
                return True
    return False


def _one_stream(line: Timeline, a: Op, b: Op) -> bool:
    if a.stream is None or b.stream is None:
        return False
    return same_stream(line.streams[a.stream], line.streams[b.stream]) is not False
