"""Fixes for event waits that miss the operation that they were meant for."""

from __future__ import annotations

import re

from stitchcuda.analysis.findings import edits, wording
from stitchcuda.analysis.findings.device_races import DeviceRace
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import Fix, RuleInput
from stitchcuda.analysis.findings.fixes import Meeting, meeting_of, stream_text, wait_for_event
from stitchcuda.analysis.findings.missed_events import Flaw, useful
from stitchcuda.analysis.findings.race import Race
from stitchcuda.analysis.order.timeline import Op, Timeline
from stitchcuda.analysis.program.ir import Api, ApiKind, Const, Index, Name, Span


def mended_wait(given: RuleInput, found: DeviceRace) -> tuple[Fix, ...]:
    """The nearest thing to what was meant; else an event of its own for the race."""
    assert found.missed is not None
    meeting = meeting_of(given, found.race.earlier, found.race.later)
    if meeting is None:
        return ()
    fix = None
    if found.missed.flaw is Flaw.NEVER:
        fix = _wait_moved(given, found, meeting) or _record_added(given, found, meeting)
    elif found.missed.flaw is Flaw.ELSEWHERE:
        fix = _record_on_other_stream(given, found, meeting) or _other_member(given, found, meeting)
    elif found.missed.flaw is Flaw.AGAIN:
        fix = _wait_repeated(given, found, meeting)
    return (fix,) if fix is not None else wait_for_event(given, found.race)


def _record_on_other_stream(given: RuleInput, found: DeviceRace, meeting: Meeting) -> Fix | None:
    """The record names the wrong stream, and nothing relies on what it records now."""
    line = given.timeline
    assert found.missed is not None
    record, race = found.missed.record, found.race
    if record is None or not line.earlier[record.id] >> race.earlier.id & 1:
        return None
    if any(useful(line, op) for op in line.ops if op.kind is ApiKind.EVENT_WAIT and record.id in op.records):
        return None
    if any(
        op.kind in (ApiKind.EVENT_SYNC, ApiKind.ELAPSED_TIME, ApiKind.QUERY) and op.event == record.event
        for op in line.ops
    ):
        return None
    call = edits.call_at(meeting.body, record.site.span) if record.function == meeting.body.function.uid else None
    written = call.role("stream") if isinstance(call, Api) else None
    producer = stream_text(given, race.earlier, meeting, record.site.span)
    if written is None or producer is None:
        return None
    title = f"Record {wording.event(line, record)} on {wording.stream(line, race.earlier.stream or 0)}"
    return Fix(title, (edits.replace(meeting.body, written.span, producer),), preferred=True)


def _wait_moved(given: RuleInput, found: DeviceRace, meeting: Meeting) -> Fix | None:
    """The wait stands before the record that it was meant for: it goes behind it."""
    line, body = given.timeline, meeting.body
    assert found.missed is not None
    wait, race = found.missed.wait, found.race
    record = _covering(line, race, wait.event, race.later)
    if record is None or record.loop != wait.loop:
        return None
    old, new = _sole_statement(body, wait), _statement(body, meeting, record)
    if old is None or new is None or old[0] >= new[0]:
        return None
    changes = [edits.remove(body, old), edits.after(body, new, [edits.statement_text(body, old)])]
    title = f"Wait for {wording.event(line, wait)} behind its record"
    return Fix(title, edits.merged(changes), preferred=True)


def _wait_repeated(given: RuleInput, found: DeviceRace, meeting: Meeting) -> Fix | None:
    """The event is recorded again before the wait: another wait goes behind the record that covers the earlier op."""
    line, body = given.timeline, meeting.body
    assert found.missed is not None
    wait, race = found.missed.wait, found.race
    record = _covering(line, race, wait.event, wait)
    if record is None:
        return None
    old, new = _sole_statement(body, wait), _statement(body, meeting, record)
    call = edits.call_at(body, wait.site.span)
    if old is None or new is None or not isinstance(call, Api):
        return None
    behind = (new[1] + 1, new[1] + 1)
    if not all(edits.visible(body, e, behind) for e in (call.role("event"), call.role("stream")) if e is not None):
        return None
    title = f"Wait for {wording.event(line, wait)} behind each record (host does not wait)"
    return Fix(title, (edits.after(body, new, [edits.statement_text(body, old)]),), preferred=True)


def _other_member(given: RuleInput, found: DeviceRace, meeting: Meeting) -> Fix | None:
    """Another event of the same array covers the earlier op: the wait takes that one."""
    line, body = given.timeline, meeting.body
    assert found.missed is not None
    wait, race = found.missed.wait, found.race
    call = edits.call_at(body, wait.site.span) if wait.function == body.function.uid else None
    event = call.role("event") if isinstance(call, Api) else None
    if not isinstance(event, Index) or not isinstance(event.base, Name) or not isinstance(event.index, Const):
        return None
    for op in line.ops:
        if op.kind is not ApiKind.EVENT_RECORD or op.event is None or not line.earlier[wait.id] >> op.id & 1:
            continue
        name = line.events[op.event].name
        if line.ordered(race.earlier.id, op.id) and re.fullmatch(rf"{re.escape(event.base.name)}\[\d+\]", name):
            title = f"Wait for `{name}`, which is recorded behind {wording.operation(race.earlier)}"
            return Fix(title, (edits.replace(body, event.span, name),), preferred=True)
    return None


def _covering(line: Timeline, race: Race, event: int | None, before: Op) -> Op | None:
    """A record of the event that takes in the earlier op and is made before `before`."""
    for op in line.ops:
        recorded = op.kind is ApiKind.EVENT_RECORD and op.event == event
        if recorded and line.ordered(race.earlier.id, op.id) and line.earlier[before.id] >> op.id & 1:
            return op
    return None


def _record_added(given: RuleInput, found: DeviceRace, meeting: Meeting) -> Fix | None:
    """The event is recorded nowhere: it is recorded behind the earlier op."""
    line, body = given.timeline, meeting.body
    assert found.missed is not None
    wait, race = found.missed.wait, found.race
    if any(op.kind is ApiKind.EVENT_RECORD and op.event == wait.event for op in line.ops):
        return None
    if not line.earlier[wait.id] >> race.earlier.id & 1 or wait.function != body.function.uid:
        return None
    call = edits.call_at(body, wait.site.span)
    event = call.role("event") if isinstance(call, Api) else None
    behind = (meeting.first[1] + 1, meeting.first[1] + 1)
    producer = stream_text(given, race.earlier, meeting, behind)
    if event is None or producer is None or not edits.visible(body, event, behind):
        return None
    text = edits.checked(body, f"cudaEventRecord({body.slice(event.span)}, {producer})", meeting.first[0])
    title = f"Record {wording.event(line, wait)} behind {wording.operation(race.earlier)}"
    return Fix(title, (edits.after(body, meeting.first, [text]),), preferred=True)


def _statement(body: Body, meeting: Meeting, op: Op) -> Span | None:
    """The statement of the function of the fix that leads to an op."""
    site = op.calls[meeting.depth] if meeting.depth < len(op.calls) else op.site
    around = edits.statements(body, site.span) if site.function == body.function.uid else []
    return around[-1][0].span if around else None


def _sole_statement(body: Body, op: Op) -> Span | None:
    """The statement that does nothing but this call, in the function of the fix."""
    if op.function != body.function.uid:
        return None
    around = edits.statements(body, op.site.span)
    if not around or not edits.sole(body, around[-1][0], op.site.span):
        return None
    return around[-1][0].span
