"""The event waited for does not cover the producer.

## What

A stream waits for an event before it uses memory, but the event does not stand for the work that produced (or last used)
that memory: it was recorded on another stream, it was recorded before that work was enqueued, or it was recorded again in
the meantime. The finding stands at the operation that is not ordered, with the record and the wait as related places.

## Why

A record takes a snapshot of one stream at the moment of the call (E1), and a wait takes the snapshot that is current when
the wait is enqueued (E2). A wait on an event that was recorded on the waiting stream itself orders nothing (E5). The code
looks synchronised, and the race is still there.

## Example

```cuda
cudaMemcpyAsync(in, host, bytes, cudaMemcpyHostToDevice, copy);
cudaEventRecord(ready, compute);  // meant to be the stream of the copy
cudaStreamWaitEvent(compute, ready, 0);
scale<<<grid, block, 0, compute>>>(in, out);
```

## Use instead

```cuda
cudaMemcpyAsync(in, host, bytes, cudaMemcpyHostToDevice, copy);
cudaEventRecord(ready, copy);
cudaStreamWaitEvent(compute, ready, 0);
scale<<<grid, block, 0, compute>>>(in, out);
```

## Fix safety

When nothing else relies on the record, the fix records the event on the producer's stream. Otherwise it adds an event of
its own, recorded behind the producer. The host does not wait; results can only become those of the intended order.

## References

Ordering rows O1, O3, E1, E2, E5.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.device_races import DeviceRace, device_races, one_a_wait
from stitchcuda.analysis.findings.device_wording import level, sentence
from stitchcuda.analysis.findings.event_fixes import mended_wait
from stitchcuda.analysis.findings.finding import Finding, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.missed_events import WRONG, Flaw, MissedWait
from stitchcuda.analysis.findings.race import race_finding
from stitchcuda.analysis.order.timeline import Timeline


def check(given: RuleInput) -> Iterator[Finding]:
    for found in one_a_wait(f for f in device_races(given) if f.code == WRONG):
        assert found.missed is not None
        yield _finding(given, found, found.missed)


def _finding(given: RuleInput, found: DeviceRace, missed: MissedWait) -> Finding:
    line, race = given.timeline, found.race
    message = f"{sentence(line, found)}: {_reason(line, found, missed)}"
    event = wording.event(line, missed.wait)
    more = [Related(missed.wait.site, f"{wording.stream(line, missed.wait.stream or 0)} waits for {event} here")]
    if missed.record is not None:
        where = wording.stream(line, missed.record.stream or 0)
        more.append(Related(missed.record.site, f"{event} is recorded on {where} here"))
    does = wording.DOES[race.conflict.first.mode]
    return race_finding(WRONG, race, level(found), message, does, mended_wait(given, found), tuple(more))


def _reason(line: Timeline, found: DeviceRace, missed: MissedWait) -> str:
    event = wording.event(line, missed.wait)
    waiting = wording.stream(line, missed.wait.stream or 0)
    recorded = wording.stream(line, missed.record.stream or 0) if missed.record is not None else waiting
    producer = wording.operation(found.race.earlier)
    match missed.flaw:
        case Flaw.EARLY:
            return f"event {event}, which {waiting} waits for, was recorded before {producer}"
        case Flaw.AGAIN:
            return f"event {event}, which {waiting} waits for, was recorded again on {recorded}"
    return f"event {event}, which {waiting} waits for, was recorded on {recorded}"


RULE = Rule(
    WRONG,
    Group.CORRECTNESS,
    Severity.ERROR,
    "the event waited for does not cover the producer",
    __doc__ or "",
    check,
)
