"""A device write is not ordered after an earlier read of the same data.

## What

An operation on one stream reads memory, and an operation that is issued later on another stream overwrites it, with
nothing that orders the write after the read: no event, no host wait, no default-stream rule. Typical places are the next
round of a loop that reuses a buffer, and an upload into a buffer that a kernel of another stream still works on.

## Why

Work of different streams runs in any order and at the same time (O3). The reader then sees data of the next round, or a
mixture. Waiting in one direction only, from producer to consumer, is not enough when the buffer is used again.

## Example

```cuda
for (int i = 0; i < n; ++i) {
    render<<<grid, block, 0, compute>>>(frame);  // may overwrite a frame that is still being copied
    cudaEventRecord(rendered, compute);
    cudaStreamWaitEvent(copy, rendered, 0);
    cudaMemcpyAsync(movie + i * size, frame, bytes, cudaMemcpyDeviceToHost, copy);
}
```

## Use instead

```cuda
for (int i = 0; i < n; ++i) {
    cudaStreamWaitEvent(compute, copied, 0);  // does nothing in the first round
    render<<<grid, block, 0, compute>>>(frame);
    cudaEventRecord(rendered, compute);
    cudaStreamWaitEvent(copy, rendered, 0);
    cudaMemcpyAsync(movie + i * size, frame, bytes, cudaMemcpyDeviceToHost, copy);
    cudaEventRecord(copied, copy);
}
```

## Fix safety

The fix adds an event without timing, records it behind the reader and makes the writer's stream wait for it. The host
does not wait. Results can only become those of the intended order; the two operations no longer overlap.

## References

Ordering rows O1, O3, O4, O5, E1, E2; C7 for pinned memory that a copy reads or fills, C9 for symbols.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings.device_races import WAR, device_races
from stitchcuda.analysis.findings.device_wording import plain_finding
from stitchcuda.analysis.findings.finding import Finding, Group, Rule, RuleInput, Severity


def check(given: RuleInput) -> Iterator[Finding]:
    for found in device_races(given):
        if found.code == WAR:
            yield plain_finding(given, found)


RULE = Rule(
    WAR,
    Group.CORRECTNESS,
    Severity.ERROR,
    "a device write is not ordered after an earlier read of the same data",
    __doc__ or "",
    check,
)
