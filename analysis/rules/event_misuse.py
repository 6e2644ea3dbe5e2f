"""An event is used in a way that CUDA answers with an error.

## What

- `cudaEventElapsedTime` with an event that was created with `cudaEventDisableTiming`, or that was never recorded on any
  path before the call (E4).
- `cudaEventRecord` on a stream of another device than the one that was current when the event was created (E3).

That an event is recorded but not complete yet is reported as `timing-unsynced`.

## Why

These calls fail with `cudaErrorInvalidResourceHandle` and leave the time, or the event, as it was. Programs that do not
look at the status print whatever was in the variable.

## Example

```cuda
cudaEventCreateWithFlags(&start, cudaEventDisableTiming);
cudaEventCreateWithFlags(&stop, cudaEventDisableTiming);
cudaEventRecord(start, s);
work<<<grid, block, 0, s>>>(x);
cudaEventRecord(stop, s);
cudaEventSynchronize(stop);
cudaEventElapsedTime(&ms, start, stop);  // the events keep no time
```

## Use instead

```cuda
cudaEventCreate(&start);
cudaEventCreate(&stop);
```

## Fix safety

There is no automatic fix: whether the event or its use is wrong, only the program's author knows.

## References

Ordering rows E3, E4.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.lifetimes import under
from stitchcuda.analysis.order.timeline import Event, Measurement, Op, StreamKind
from stitchcuda.analysis.program.ir import ApiKind

CODE = "event-misuse"


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    for measured in line.measurements:
        if measured.events is not None:
            yield from _elapsed(given, measured, measured.events)
    for op in line.ops:
        if op.kind is ApiKind.EVENT_RECORD and op.event is not None and op.stream is not None:
            yield from _record(given, op, line.events[op.event])


def _elapsed(given: RuleInput, measured: Measurement, events: tuple[int, int]) -> Iterator[Finding]:
    line = given.timeline
    for number in dict.fromkeys(events):
        event = line.events[number]
        name = f"event `{event.name}`" if event.name else "an event"
        if event.timing is False:
            level, what = Confidence.CERTAIN, f"`{measured.api}` is given {name}, which was created without timing"
        elif number in measured.unrecorded:
            unseen = line.unresolved or line.cuts
            level = Confidence.LIKELY if unseen else Confidence.CERTAIN
            if unseen and ("." in event.name or "[" in event.name):
                level = Confidence.POSSIBLE  # code that is not here may know the structure or array that it is in
            what = f"`{measured.api}` is given {name}, which was never recorded before"
        else:
            continue
        made = () if event.site is None else (Related(event.site, f"{name} is created here"),)
        path = tuple(Related(site, "called from here") for site in reversed(measured.calls))
        yield Finding(
            CODE, Group.CORRECTNESS, Severity.ERROR, level, measured.site, what,
            wording.distinct((*made, *path), measured.site), condition=under(measured.conditions),
        )  # fmt: skip


def _record(given: RuleInput, op: Op, event: Event) -> Iterator[Finding]:
    """E3: event and stream are of one device."""
    line = given.timeline
    assert op.stream is not None
    stream = line.streams[op.stream]
    if stream.kind is StreamKind.CREATED:
        device = stream.device
    elif stream.kind in (StreamKind.LEGACY, StreamKind.PER_THREAD):
        device = op.device
    else:
        return
    if event.site is None or None in (event.device, device) or event.device == device:
        return
    message = (
        f"`{op.api}` records event `{event.name}` of device {event.device}{wording.on_stream(line, op)} "
        f"of device {device}"
    )
    related = (
        Related(event.site, f"event `{event.name}` is created for device {event.device} here"),
        *wording.call_path(op),
    )
    yield Finding(
        CODE, Group.CORRECTNESS, Severity.ERROR, Confidence.CERTAIN, op.site, message,
        wording.distinct(related, op.site), condition=wording.condition(op),
    )  # fmt: skip


RULE = Rule(
    CODE,
    Group.CORRECTNESS,
    Severity.ERROR,
    "an event is used in a way that CUDA answers with an error",
    __doc__ or "",
    check,
)
