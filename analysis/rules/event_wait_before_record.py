"""A wait is enqueued on an event that was never recorded before it, so it waits for nothing.

## What

`cudaStreamWaitEvent` on an event that no path has recorded when the wait is enqueued, in any round of the loops around it,
although later work of the stream relies on the wait; or a wait on an event that is recorded nowhere at all. In a loop whose
later rounds wait for the record of the round before, the first wait is meant to do nothing and is not reported.

## Why

A wait takes the snapshot that is current at the call; before any record there is none, and the call returns success and
does nothing (E2). A record that comes after it does not count.

## Example

```cuda
produce<<<grid, block, 0, a>>>(x);
cudaStreamWaitEvent(b, ready, 0);  // nothing recorded yet
cudaEventRecord(ready, a);
consume<<<grid, block, 0, b>>>(x, y);
```

## Use instead

```cuda
produce<<<grid, block, 0, a>>>(x);
cudaEventRecord(ready, a);
cudaStreamWaitEvent(b, ready, 0);
consume<<<grid, block, 0, b>>>(x, y);
```

## Fix safety

The fix moves the wait behind the record that it was meant for, or adds the record behind the producer when there is none.
When neither place is clear it adds an event of its own. The host does not wait; results can only become those of the
intended order. A wait that nothing relies on has no fix.

## References

Ordering rows E1, E2, O3.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.device_races import DeviceRace, device_races, one_a_wait
from stitchcuda.analysis.findings.device_wording import level, sentence
from stitchcuda.analysis.findings.event_fixes import mended_wait
from stitchcuda.analysis.findings.finding import Confidence, Finding, Fix, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.missed_events import NEVER, Flaw, unrecorded_waits
from stitchcuda.analysis.order.timeline import Op, Timeline
from stitchcuda.analysis.program.ir import Api, ApiKind, Program, walk


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    reported = set()
    for found in one_a_wait(f for f in device_races(given) if f.code == NEVER):
        assert found.missed is not None
        reported.add(found.missed.wait.node)
        yield _relied_on(given, found, found.missed.wait)
    for wait in unrecorded_waits(line):
        if wait.node not in reported and _all_seen(given.program, line):
            message = f"{_what(line, wait)} that is recorded nowhere, so it waits for nothing"
            yield _finding(given, wait, Confidence.LIKELY, message, (*_made(line, wait), *wording.call_path(wait)), ())


def _relied_on(given: RuleInput, found: DeviceRace, wait: Op) -> Finding:
    line, race = given.timeline, found.race
    message = f"{_what(line, wait)} that was never recorded before, so it waits for nothing: {sentence(line, found)}"
    late = found.missed is not None and found.missed.flaw is Flaw.LATER  # calls in another order mend it
    fixes = () if late else mended_wait(given, found)
    first = wording.DOES[race.conflict.first.mode]
    second = wording.DOES[race.conflict.second.mode]
    what = wording.buffer(race.buffer)
    records = [
        op
        for op in line.ops
        if op.kind is ApiKind.EVENT_RECORD and op.event == wait.event and line.earlier[op.id] >> wait.id & 1
    ]
    related = (
        Related(race.earlier.site, f"{wording.operation(race.earlier)} {first} {what} here"),
        Related(race.later.site, f"{wording.operation(race.later)} {second} {what} here"),
        *(Related(op.site, f"{wording.event(line, op)} is recorded here, after the wait") for op in records[:1]),
        *wording.call_path(wait),
        *wording.allocation(race.buffer),
    )
    return _finding(given, wait, level(found), message, related, fixes)


def _finding(
    given: RuleInput,
    wait: Op,
    confidence: Confidence,
    message: str,
    related: tuple[Related, ...],
    fixes: tuple[Fix, ...],
) -> Finding:
    site = wording.asked_at(given.program, wait)
    return Finding(
        NEVER,
        Group.CORRECTNESS,
        Severity.ERROR,
        confidence,
        site,
        message,
        wording.distinct(related, site),
        fixes,
        wording.condition(wait),
    )


def _what(line: Timeline, wait: Op) -> str:
    return f"{wording.stream(line, wait.stream or 0)} waits for event {wording.event(line, wait)}"


def _made(line: Timeline, wait: Op) -> tuple[Related, ...]:
    site = line.events[wait.event].site if wait.event is not None else None
    return () if site is None else (Related(site, f"{wording.event(line, wait)} is made here"),)


def _all_seen(program: Program, line: Timeline) -> bool:
    """Nothing was left out that could record an event: no calls that are not followed, no function that records."""
    if line.cuts or line.unresolved:
        return False
    return not any(
        isinstance(node, Api) and node.kind is ApiKind.EVENT_RECORD
        for uid, function in program.functions.items()
        if function.body is not None and uid not in line.functions
        for node in walk(function.body)
    )


RULE = Rule(
    NEVER,
    Group.CORRECTNESS,
    Severity.ERROR,
    "a wait on an event that was never recorded before it",
    __doc__ or "",
    check,
    asks_beyond=lambda line: any(True for _ in unrecorded_waits(line)),
)
