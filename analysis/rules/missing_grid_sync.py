"""Cross-block dependency within one launch without grid synchronisation.

## What

A kernel writes global memory, passes a `__syncthreads()`, and reads elements there that other blocks of the same launch
write: the results of all blocks, the cells next to its own part, the array in reverse. Nothing in the kernel makes the
blocks wait for each other. Kernels that use fences, locks, atomics on global memory or `grid.sync()` are left alone, as
are launches of one block.

## Why

`__syncthreads()` is a barrier of one block (D5). Other blocks may not even have started when the barrier is passed, so
the reader gets what was in memory before, for some elements, on some runs. With a small grid all blocks happen to run
at once, and the program seems to work.

## Example

```cuda
if (threadIdx.x == 0) peak[blockIdx.x] = blockMax;
__syncthreads();
for (int b = 0; b < gridDim.x; ++b) top = fmaxf(top, peak[b]);   // other blocks may not be there yet
```

## Use instead

```cuda
findPeaks<<<blocks, threads>>>(data, peak, n);      // the second launch starts when the first is done
normalise<<<blocks, threads>>>(data, peak, n);
```

Or a cooperative launch with `cg::this_grid().sync()` in place of the barrier.

## Fix safety

There is no automatic fix: the kernel is split in two, or launched cooperatively with as many blocks as the device holds.

## References

Ordering row D5. CUDA programming guide, "Grid Synchronization".
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
from stitchcuda.analysis.findings.kernel_wording import called_from, written
from stitchcuda.analysis.kernel.across import barrier_between, crossings, ordered_between
from stitchcuda.analysis.kernel.conditions import Conditions, redefined, words
from stitchcuda.analysis.kernel.model import Access, Barrier, KernelTrace, Memory, Mode
from stitchcuda.analysis.kernel.sharing import Grid
from stitchcuda.analysis.kernel.trace import KernelTraces, kernel_traces
from stitchcuda.analysis.program.ir import Site

CODE = "missing-grid-sync"


def check(given: KernelInput) -> Iterator[Finding]:
    traces = kernel_traces(given.program, given.kernel, given.sources)
    conditions = Conditions(given.program)
    found = [_found(given, conditions, traces, t) for t in traces.traces if not t.broken and not t.uses_locks]
    reported: set[Site] = set()
    for position, findings in enumerate(found):
        for site, finding in findings.items():
            everywhere = all(site in other for other in found)
            if site not in reported and (traces.fixed or everywhere and position == 0):
                reported.add(site)
                yield finding


def _found(given: KernelInput, conditions: Conditions, traces: KernelTraces, trace: KernelTrace) -> dict[Site, Finding]:
    """One finding for each buffer: at the first read that comes too early."""
    out: dict[Site, Finding] = {}
    if any(a.mode is Mode.ATOMIC and a.buffer.memory is Memory.GLOBAL for a in trace.accesses):
        return out  # the blocks have their own ways to tell each other
    grid = Grid(traces, conditions, trace)
    buffers = set()
    for write, read in crossings(trace):
        barrier = barrier_between(trace, write.at, read.at)
        if read.buffer in buffers or barrier is None or write.volatile or read.volatile:
            continue
        if ordered_between(trace, -1, len(trace.events)) or not _several_blocks(grid, write):
            continue
        if any(_unclear(given, access) for access in (write, read)):
            continue
        buffers.add(read.buffer)
        out[read.site] = _finding(given, write, read, barrier)
    return out


def _several_blocks(grid: Grid, write: Access) -> bool:
    return any(grid.several(axis) is not False for axis in "xyz" if f"blockIdx.{axis}" in write.offset.symbols)


def _unclear(given: KernelInput, access: Access) -> bool:
    """Which definition of a macro in the index holds is not followed."""
    text = written(given.program, given.sources, access.site, 400)
    return bool(redefined(given.sources.get(access.site.path, b"")) & words(text))


def _finding(given: KernelInput, write: Access, read: Access, barrier: Barrier) -> Finding:
    text = written(given.program, given.sources, read.site)
    place = f"`{text}`" if text else "an element"
    name = f"`{read.buffer.name}`"
    related = (
        Related(write.site, f"each block writes its part of {name} here"),
        Related(barrier.site, "a barrier of one block: other blocks do not wait at it"),
        *called_from(read.calls, read.site),
    )
    return Finding(
        CODE,
        Group.DEVICE,
        Severity.ERROR,
        Confidence.LIKELY,
        read.site,
        f"{place} is read while other blocks may still have to write it: `{barrier.name}()` orders the threads of one "
        "block only",
        related,
    )


RULE = KernelRule(
    CODE,
    Group.DEVICE,
    Severity.ERROR,
    "a block reads what other blocks of the same launch write",
    __doc__ or "",
    check,
)
