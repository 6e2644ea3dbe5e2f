"""Shared-memory exchange within a warp without warp synchronisation.

## What

Two threads of one warp exchange an element of a `__shared__` array, and neither `__syncwarp()`, the `sync()` of a tile,
nor a barrier of the block stands between the two accesses.

## Why

Since Volta the threads of a warp do not run in lock step (D3): the compiler may move the accesses, and one thread may run
ahead of another. Code from before, which relies on `volatile` arrays, is reported as `possible` only; so is an exchange
with a shuffle or a vote in between, at which the threads meet but which does not order memory.

## Example

```cuda
if (lane < 16) s[lane] += s[lane + 16];
if (lane < 8) s[lane] += s[lane + 8];  // may run before lane 8 to 15 have added
```

## Use instead

```cuda
if (lane < 16) s[lane] += s[lane + 16];
__syncwarp();
if (lane < 8) s[lane] += s[lane + 8];
__syncwarp();
```

## Fix safety

There is no automatic fix: whether the threads of a warp all come by, and with which mask, is for the author to say.

## References

Ordering row D3. CUDA C++ Programming Guide, "Independent Thread Scheduling".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stitchcuda.analysis.findings.block_races import gap_finding, gaps
from stitchcuda.analysis.findings.finding import (
    Confidence,
    Finding,
    Group,
    KernelInput,
    KernelRule,
    Severity,
)
from stitchcuda.analysis.kernel.model import BarrierKind
from stitchcuda.analysis.kernel.trace import kernel_traces

CODE = "missing-syncwarp"
_MOST = 4  # of one kernel: one left out is seldom alone


def check(given: KernelInput) -> Iterator[Finding]:
    traces = kernel_traces(given.program, given.kernel, given.sources, given.guesses).traces
    fenced = any(b.kind is BarrierKind.FENCE for trace in traces for b in trace.barriers)
    for gap in gaps(given, warp=True)[:_MOST]:
        # with fences or volatile between the steps of a warp, it was written to run in lock step
        volatile = fenced or not gap.conflict.sure or gap.conflict.earlier.volatile or gap.conflict.later.volatile
        level = Confidence.POSSIBLE if volatile or gap.level is Confidence.POSSIBLE else Confidence.LIKELY
        yield gap_finding(given, replace(gap, level=level), CODE, Severity.ERROR, "__syncwarp", None)


RULE = KernelRule(
    CODE,
    Group.DEVICE,
    Severity.ERROR,
    "shared memory is exchanged within a warp without synchronising it",
    __doc__ or "",
    check,
)
