"""Asynchronously copied shared memory is read without waiting for the copy.

## What

`__pipeline_memcpy_async`, `cooperative_groups::memcpy_async` or `cp.async` copies into shared memory, and the copied
elements are read before the thread that issued the copy has waited for it: no `__pipeline_wait_prior`, `cg::wait`,
`cp.async.wait_group` in between, or one that still leaves the copy's group under way.

## Why

The copy goes on while the thread does (D4). A barrier of the block does not wait for it: the thread that issued it has to
wait first, then the barrier makes the data visible to the other threads.

## Example

```cuda
__pipeline_memcpy_async(&s[t], &in[i], sizeof(float));
__pipeline_commit();
__syncthreads();
out[i] = s[255 - t];  // the copy may still be on its way
```

## Use instead

```cuda
__pipeline_memcpy_async(&s[t], &in[i], sizeof(float));
__pipeline_commit();
__pipeline_wait_prior(0);
__syncthreads();
out[i] = s[255 - t];
```

## Fix safety

There is no automatic fix: how many groups may stay under way is the design of the pipeline.

## References

Ordering row D4. CUDA C++ Programming Guide, "Asynchronous Data Copies".
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings.finding import (
    Confidence,
    Finding,
    Group,
    KernelInput,
    KernelRule,
    Related,
    Severity,
)
from stitchcuda.analysis.kernel.async_copies import unwaited
from stitchcuda.analysis.kernel.model import Access
from stitchcuda.analysis.kernel.trace import KernelTraces, kernel_traces
from stitchcuda.analysis.program.ir import Site

CODE = "missing-async-wait"


def check(given: KernelInput) -> Iterator[Finding]:
    traces = kernel_traces(given.program, given.kernel, given.sources, given.guesses)
    found: dict[Site, tuple[Access, Access]] = {}
    counts: dict[Site, int] = {}
    broken = any(t.broken or t.uses_locks for t in traces.traces)
    for trace in traces.traces:
        seen: set[Site] = set()
        for copy, read in unwaited(trace):
            found.setdefault(read.site, (copy, read))
            if read.site not in seen:
                seen.add(read.site)
                counts[read.site] = counts.get(read.site, 0) + 1
    needed = 1 if traces.fixed else len(traces.traces)
    told: set[Site] = set()
    for site, (copy, read) in found.items():
        if counts[site] < needed or copy.site in told:
            continue
        told.add(copy.site)
        yield _finding(given, copy, read, _level(traces, copy, read, broken))


def _level(traces: KernelTraces, copy: Access, read: Access, broken: bool) -> Confidence:
    if broken or not copy.certain or not read.certain:
        return Confidence.POSSIBLE
    exact = copy.offset.exact is not None and {g.key for g in read.guards} == {g.key for g in copy.guards}
    return Confidence.CERTAIN if traces.fixed and exact else Confidence.LIKELY


def _finding(given: KernelInput, copy: Access, read: Access, level: Confidence) -> Finding:
    kernel = given.program.functions[given.kernel].name
    message = (
        f"`{kernel}` reads `{read.buffer.name}` here, but the asynchronous copy into it has not been waited for by the "
        "thread that issued it"
    )
    related = [Related(copy.site, "the copy is issued here")]
    related += [Related(site, "called from here") for site in reversed(read.calls)]
    return Finding(CODE, Group.DEVICE, Severity.ERROR, level, read.site, message, tuple(related))


RULE = KernelRule(
    CODE,
    Group.DEVICE,
    Severity.ERROR,
    "asynchronously copied shared memory is read without waiting for the copy",
    __doc__ or "",
    check,
)
