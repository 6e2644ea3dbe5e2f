"""Shared-memory accesses of different threads are not separated by a block barrier.

## What

One thread of a block writes an element of a `__shared__` array and another thread, of another warp, reads or writes the
same element, and on the path between the two accesses there is no `__syncthreads()` or other barrier that holds for
both. It counts across the rounds of a loop, too: what is read in one round must not be overwritten in the next before
all threads have read it.

## Why

Warps of a block run in any order (D1). Without a barrier the reading thread sees the old element or the new one. A
variable that one thread initialises has to be published by a barrier before others use it, even with atomics (D6).

The kernel is followed thread by thread for the block that it is launched with, so that indexes such as `s[ty][k]`,
`s[tid ^ 1]` or `if (tid < half) s[tid] += s[tid + half]` are compared exactly. A finding is `certain` when the launch
fixes the block, `likely` when the block's shape is not known, and `possible` when data decides who takes part.

Shared memory of another block of the cluster (`map_shared_rank`) is separated from what that block does by a `sync()` of the
cluster; a barrier of the block does not do. That is told as `likely`, without a fix.

## Example

```cuda
s[threadIdx.x] = in[i];
out[i] = s[blockDim.x - 1 - threadIdx.x];  // written by another warp, perhaps later
```

## Use instead

```cuda
s[threadIdx.x] = in[i];
__syncthreads();
out[i] = s[blockDim.x - 1 - threadIdx.x];
```

## Fix safety

The fix inserts `__syncthreads()` before a statement of the kernel that all threads of the block reach together, and it is
offered only when following the kernel again shows the accesses separated and no thread missing from the barrier. It
costs one wait of the block there.

## References

Ordering rows D1, D6. CUDA C++ Programming Guide, "Synchronization Functions".
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings.block_races import barrier_fix, gap_finding, gaps
from stitchcuda.analysis.findings.cluster_races import cluster_races
from stitchcuda.analysis.findings.finding import Finding, Group, KernelInput, KernelRule, Severity

CODE = "missing-syncthreads"


def check(given: KernelInput) -> Iterator[Finding]:
    for gap in gaps(given, warp=False):
        title = "Insert `__syncthreads()` (the block waits here for its last thread)"
        fix = barrier_fix(given, gap, "__syncthreads();", title)
        yield gap_finding(given, gap, CODE, Severity.ERROR, "__syncthreads", fix)
    yield from cluster_races(given, CODE)


RULE = KernelRule(
    CODE,
    Group.DEVICE,
    Severity.ERROR,
    "shared memory is exchanged between threads without a block barrier",
    __doc__ or "",
    check,
)
