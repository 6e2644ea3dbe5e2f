"""The host overwrites memory that device work may still be using.

## What

Host code writes pinned, mapped or managed memory, and an asynchronous copy or a kernel that reads it (or writes it) was
enqueued before, with no host wait in between that covers that work. The usual place is a staging buffer that is filled
again in the next round of a loop while the upload of the round before may still be running. Assignments, `memcpy`,
`std::copy`, `fread` and functions that fill the memory count.

## Why

`cudaMemcpyAsync` from pinned memory and every launch return at once (C7, O2): the device then gets the new data, the old
data or a mixture. A synchronous copy of pageable memory has staged its source when it returns (C1). An asynchronous one
of pageable memory may or may not (C6); it is reported as `possible` only.

## Example

```cuda
for (int i = 0; i < n; ++i) {
    fill(staging, i);  // the copy of the round before may still read it
    cudaMemcpyAsync(d, staging, bytes, cudaMemcpyHostToDevice, s);
    step<<<grid, block, 0, s>>>(d);
}
```

## Use instead

```cuda
for (int i = 0; i < n; ++i) {
    cudaEventSynchronize(copied);  // returns at once in the first round
    fill(staging, i);
    cudaMemcpyAsync(d, staging, bytes, cudaMemcpyHostToDevice, s);
    cudaEventRecord(copied, s);
    step<<<grid, block, 0, s>>>(d);
}
```

## Fix safety

The fix inserts `cudaStreamSynchronize` on the stream of the earlier work before the statement that writes. It stalls the
host there until the stream is done; an event behind the copy, or a second buffer, would stall it less.

## References

Ordering rows C1, C2, C6, C7, C11, C12, W1, W2, W3, W7, W8.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.fixes import wait_on_host
from stitchcuda.analysis.findings.lookup import memory_key
from stitchcuda.analysis.findings.race import DEVICE_WORK, Race, race_finding, races, writes_later
from stitchcuda.analysis.findings.signals import signals
from stitchcuda.analysis.order.timeline import Memory, Mode, Timeline
from stitchcuda.analysis.program.ir import ApiKind

CODE = "host-write-before-copy-done"
_HOST_WRITE = frozenset({ApiKind.HOST_WRITE})
# the host touches device memory in messages only (X1)
_ASYNCHRONOUS_MEMORY = (Memory.PINNED, Memory.MAPPED, Memory.MANAGED, Memory.DEVICE)


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    for race in races(given.program, line, DEVICE_WORK, _HOST_WRITE, writes_later):
        named_only = race.buffer.memory is Memory.SYMBOL  # host code can name a device variable, but not write it
        released = bool(race.later.api)  # `free(p)`
        if not named_only and not released and not _read_first(line, race):
            yield _finding(given, race)


def _read_first(line: Timeline, race: Race) -> bool:
    """The host reads what that work writes before it writes there itself: `host-read-before-sync` tells it."""
    if race.conflict.first.mode is Mode.READ:
        return False
    key = memory_key(race.buffer)
    return any(
        op.kind is ApiKind.HOST_READ
        and line.may_overlap(race.earlier.id, op.id)
        and any(memory_key(line.buffers[a.buffer]) == key for a in op.accesses)
        and (line.earlier[race.later.id] >> op.id & 1 or op.site == race.later.site)
        for op in line.ops
    )


def _finding(given: RuleInput, race: Race) -> Finding:
    line = given.timeline
    level = race.confidence
    pageable = race.buffer.memory not in _ASYNCHRONOUS_MEMORY and race.earlier.kind is not ApiKind.HOST_FUNC
    if pageable or signals(given, race):
        level = Confidence.POSSIBLE  # C6; C12
    first = race.conflict.first.mode
    message = (
        f"the host writes {wording.memory(race.buffer)} while {wording.operation(race.earlier)}"
        f"{wording.on_stream(line, race.earlier)} may still be {wording.DOING[first]} it"
    )
    return race_finding(CODE, race, level, message, wording.DOES[first], wait_on_host(given, race))


RULE = Rule(
    CODE,
    Group.CORRECTNESS,
    Severity.ERROR,
    "the host overwrites memory that device work may still be using",
    __doc__ or "",
    check,
)
