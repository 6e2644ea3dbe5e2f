"""Two device writes to the same data are not ordered.

## What

Two operations on different streams write the same memory, and nothing orders them: no event, no host wait, no
default-stream rule. Kernels, copies, memsets and library calls count. Parts that are provably apart (chunks, fields,
slots) do not clash.

## Why

Work of different streams runs in any order and at the same time (O3). Which value stays is left to chance, and parts of
both may. Often the memory is a scratch buffer that was meant to be one a stream.

## Example

```cuda
for (int k = 0; k < 2; ++k)
    expand<<<grid, block, 0, streams[k]>>>(in + k * n, scratch, n);  // one scratch for both streams
```

## Use instead

```cuda
for (int k = 0; k < 2; ++k)
    expand<<<grid, block, 0, streams[k]>>>(in + k * n, scratch + k * n, n);
```

## Fix safety

The fix adds an event without timing, records it behind the first writer and makes the other stream wait for it. The host
does not wait, but the two operations no longer overlap: memory of its own for each stream keeps the overlap, which the
fix cannot decide.

## References

Ordering rows O1, O3, O4, O5, E1, E2; C1 and C8 for copies and fills that the host does not wait for.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings.device_races import WAW, device_races
from stitchcuda.analysis.findings.device_wording import plain_finding
from stitchcuda.analysis.findings.finding import Finding, Group, Rule, RuleInput, Severity


def check(given: RuleInput) -> Iterator[Finding]:
    for found in device_races(given):
        if found.code == WAW:
            yield plain_finding(given, found)


RULE = Rule(
    WAW,
    Group.CORRECTNESS,
    Severity.ERROR,
    "two device writes to the same data are not ordered",
    __doc__ or "",
    check,
)
