"""A read on the device is not ordered after the write it needs.

## What

An operation on one stream writes memory that an operation on another stream reads, and nothing orders the read after
the write: no event, no host wait, no default-stream rule. Kernels, copies, memsets and library calls count, on both
sides. When the reader's stream waits for an event that misses the writer, it is `event-wrong-stream` or
`event-wait-before-record` instead.

## Why

Work of different streams runs in any order and at the same time (O3). The reader gets old data, half-written data or
the right data, depending on timing: the program is wrong even when its tests pass. Streams made by
`cudaStreamCreateWithFlags(..., cudaStreamNonBlocking)` are not even ordered with the default stream (O5).

## Example

```cuda
produce<<<grid, block, 0, a>>>(x);
consume<<<grid, block, 0, b>>>(x, y);  // reads x while produce may still be writing it
```

## Use instead

```cuda
produce<<<grid, block, 0, a>>>(x);
cudaEventRecord(ready, a);
cudaStreamWaitEvent(b, ready, 0);
consume<<<grid, block, 0, b>>>(x, y);
```

## Fix safety

The fix adds an event without timing, records it behind the writer and makes the reader's stream wait for it. The host
does not wait. Results can only become those of the intended order; the two operations no longer overlap.

## References

Ordering rows O1, O3, O4, O5, E1, E2; C9 for symbols, C11 and C12 for managed and mapped memory; W7 and W8 for
allocations and frees in between.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings.device_races import RAW, device_races
from stitchcuda.analysis.findings.device_wording import plain_finding
from stitchcuda.analysis.findings.finding import Finding, Group, Rule, RuleInput, Severity


def check(given: RuleInput) -> Iterator[Finding]:
    for found in device_races(given):
        if found.code == RAW:
            yield plain_finding(given, found)


RULE = Rule(
    RAW,
    Group.CORRECTNESS,
    Severity.ERROR,
    "a device read is not ordered after the write it needs",
    __doc__ or "",
    check,
)
