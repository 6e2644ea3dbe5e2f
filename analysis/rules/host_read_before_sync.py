"""The host reads memory that device work may still be writing.

## What

Host code reads pinned, mapped or managed memory, and an asynchronous copy or a kernel that writes it was enqueued
before, with no host wait in between: no stream, event or device synchronisation that covers the writer.

## Why

`cudaMemcpyAsync` into pinned memory and every launch return at once (C7, O2): the host reads whatever is there. An
asynchronous copy to pageable memory may or may not wait (C6); it is reported as `possible` only.

## Example

```cuda
cudaMemcpyAsync(h, d, bytes, cudaMemcpyDeviceToHost, s);
printf("%f\\n", h[0]);  // the copy may not have happened yet
```

## Use instead

```cuda
cudaMemcpyAsync(h, d, bytes, cudaMemcpyDeviceToHost, s);
cudaStreamSynchronize(s);
printf("%f\\n", h[0]);
```

## Fix safety

The fix inserts `cudaStreamSynchronize` on the writer's stream before the statement that reads. It stalls the host there
until the stream is done, which is what the read needs; work enqueued on that stream in between is waited for as well.

## References

Ordering rows C3, C6, C7, C11, C12, W1, W2, W3, W4, W7, W8.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.fixes import wait_on_host
from stitchcuda.analysis.findings.polling import polls, shares, steers, watches
from stitchcuda.analysis.findings.race import DEVICE_WORK, Race, race_finding, races, read_after_write, weaker
from stitchcuda.analysis.order.timeline import Memory, Mode
from stitchcuda.analysis.program.ir import ApiKind

CODE = "host-read-before-sync"
_HOST_READ = frozenset({ApiKind.HOST_READ})
# the host touches device memory in messages only (X1)
_ASYNCHRONOUS_MEMORY = (Memory.PINNED, Memory.MAPPED, Memory.MANAGED, Memory.DEVICE)


def check(given: RuleInput) -> Iterator[Finding]:
    for race in races(given.program, given.timeline, DEVICE_WORK, _HOST_READ, read_after_write):
        named_only = race.buffer.memory is Memory.SYMBOL  # host code can name a device variable, but not read it
        if named_only:
            continue
        if not polls(given.program, race.later) or steers(given, race.earlier, race.later):
            yield _finding(given, race, published=_published(given, race))


def _published(given: RuleInput, race: Race) -> bool:
    """The host has watched something else that the same work writes: a flag that says the data is there (C12)."""
    line = given.timeline
    written = {a.buffer for a in race.earlier.accesses if a.mode is not Mode.READ}
    return any(
        op.kind is ApiKind.HOST_READ
        and line.earlier[op.id] >> race.earlier.id & 1
        and line.earlier[race.later.id] >> op.id & 1
        and any(a.buffer in written for a in op.accesses)
        and polls(given.program, op)
        for op in line.ops
    )


def _finding(given: RuleInput, race: Race, *, published: bool) -> Finding:
    line = given.timeline
    level = Confidence.POSSIBLE if published else race.confidence
    if race.buffer.memory not in _ASYNCHRONOUS_MEMORY and race.earlier.kind is not ApiKind.HOST_FUNC:
        level = Confidence.POSSIBLE  # C6
    if race.conflict.first.mode is Mode.ATOMIC:
        on_purpose = watches(given.program, race.later) or shares(given.program, race.later)
        # C12: progress counters are read on purpose while they change
        level = weaker(level, Confidence.POSSIBLE if on_purpose else Confidence.LIKELY)
    what = wording.memory(race.buffer)
    message = (
        f"the host reads {what} while {wording.operation(race.earlier)}{wording.on_stream(line, race.earlier)} "
        "may still be writing it"
    )
    return race_finding(CODE, race, level, message, "writes", wait_on_host(given, race))


RULE = Rule(
    CODE,
    Group.CORRECTNESS,
    Severity.ERROR,
    "the host reads memory that device work may still be writing",
    __doc__ or "",
    check,
)
