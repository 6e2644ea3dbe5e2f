"""Cross-block dependency within one launch without grid synchronisation.

## What

A kernel writes global memory, passes a `__syncthreads()`, and reads elements there that other blocks of the same launch
write: the results of all blocks, the cells next to its own part, the array in reverse, what one block has prepared for
all, a total to which all blocks add with atomics. Nothing in the kernel makes the blocks wait for each other. Kernels
that use fences, locks, tickets or `grid.sync()` are left alone, as are launches of one block.

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
from dataclasses import replace
from itertools import pairwise

from stitchcuda.analysis.findings.finding import (
    Confidence,
    Finding,
    Group,
    KernelInput,
    KernelRule,
    Related,
    Severity,
)
from stitchcuda.analysis.findings.kernel_wording import written
from stitchcuda.analysis.findings.shapes import agreed
from stitchcuda.analysis.findings.wording import called_from
from stitchcuda.analysis.kernel.across import (
    barrier_between,
    crossings,
    of_one_block,
    ordered_between,
    plain,
    reaches_readers,
)
from stitchcuda.analysis.kernel.conditions import Conditions, conditions_of, redefined, words
from stitchcuda.analysis.kernel.lanes import lanes_of
from stitchcuda.analysis.kernel.model import Access, Barrier, BarrierKind, KernelTrace, Memory, Mode, Uniformity
from stitchcuda.analysis.kernel.sharing import Grid
from stitchcuda.analysis.kernel.trace import KernelTraces, kernel_traces
from stitchcuda.analysis.program.ir import Site

CODE = "missing-grid-sync"
_MOST = 60  # accesses that are compared


def check(given: KernelInput) -> Iterator[Finding]:
    traces = kernel_traces(given.program, given.kernel, given.sources, given.guesses)
    conditions = conditions_of(given.program)
    found = [_found(given, conditions, traces, t) for t in traces.traces if not t.broken and not t.uses_locks]
    yield from agreed(traces, found)


def _found(given: KernelInput, conditions: Conditions, traces: KernelTraces, trace: KernelTrace) -> dict[Site, Finding]:
    """One finding for each buffer: at the first read that comes too early."""
    out: dict[Site, Finding] = {}
    if not any(b.kind is BarrierKind.BLOCK for b in trace.barriers) or _ordered_by_other_means(trace):
        return out
    grid = Grid(traces, conditions, trace)
    buffers = set()
    for write, read in (*_plain(trace, grid), *_totals(trace, grid, conditions)):
        barrier = barrier_between(trace, write.at, read.at)
        if read.buffer in buffers or barrier is None or write.volatile or read.volatile:
            continue
        if ordered_between(trace, write.at, read.at):
            continue
        if not any(_unclear(given, access) for access in (write, read)):
            buffers.add(read.buffer)
            out[read.site] = _finding(given, write, read, barrier)
    return out


def _ordered_by_other_means(trace: KernelTrace) -> bool:
    """Fences, objects or clusters: the blocks may tell each other in a way that is not followed."""
    kinds = (BarrierKind.FENCE, BarrierKind.CLUSTER, BarrierKind.NAMED)
    return any(b.kind in kinds and b.scope != "block" for b in trace.barriers)


def _between_grid_barriers(trace: KernelTrace) -> Iterator[KernelTrace]:
    """What happens from one barrier of the grid to the next."""
    at = [k for k, event in enumerate(trace.events) if isinstance(event, Barrier) and event.kind is BarrierKind.GRID]
    if not at:
        yield trace
        return
    for start, end in pairwise([0, *at, len(trace.events)]):
        yield replace(trace, events=trace.events[start:end])


def _plain(trace: KernelTrace, grid: Grid) -> Iterator[tuple[Access, Access]]:
    """Plain writes with the reads of other blocks. With atomics on global memory the blocks may have their own ways to
    tell each other."""
    if any(a.mode is Mode.ATOMIC and a.buffer.memory is Memory.GLOBAL for a in trace.accesses):
        return
    for part in _between_grid_barriers(trace):
        for write, read in crossings(part):
            if _several_blocks(grid, write):
                yield write, read
    if any(grid.several(axis) is not False for axis in "xyz"):
        reads = [a for a in trace.accesses if plain(a, Mode.READ)][:_MOST]
        for write in [a for a in trace.accesses if plain(a, Mode.WRITE) and of_one_block(a)][:_MOST]:
            yield from ((write, read) for read in reads if read.at > write.at and reaches_readers(write, read))


def _totals(trace: KernelTrace, grid: Grid, conditions: Conditions) -> Iterator[tuple[Access, Access]]:
    """A total to which all blocks add, and which each reads behind its own barrier as if it were complete."""
    if all(grid.several(axis) is False for axis in "xyz"):
        return
    added = [a for a in trace.accesses if _is_total(a)]
    for read in trace.accesses:
        if not added or not plain(read, Mode.READ) or any("blockIdx" in s for s in read.offset.symbols):
            continue
        if read.offset.unknown or conditions.decides(read.site):
            continue  # a look at a flag, again and again
        for total in added:
            if total.buffer != read.buffer or total.at > read.at or not _as_open(read, total, grid):
                continue
            if total.offset.unknown or _meet(total, read):
                yield total, read


def _is_total(access: Access) -> bool:
    return (
        access.mode is Mode.ATOMIC
        and access.certain
        and access.buffer.memory is Memory.GLOBAL
        and access.atomic.startswith(("atomicAdd", "atomicSub", "atomicMin", "atomicMax"))
        and not any("blockIdx" in s for s in access.offset.symbols)
    )


def _as_open(read: Access, total: Access, grid: Grid) -> bool:
    """Nothing but bounds, loops and the block's number stands before the read: no block was chosen by a ticket."""
    before = {(g.key, g.holds) for g in total.guards}
    return all(
        g.loop
        or (g.key, g.holds) in before
        or g.margin is not None
        and (g.uniformity is Uniformity.THREAD or grid.fixed(g.margin))
        or g.equal is not None
        and grid.fixed(g.equal)
        for g in read.guards
    )


def _meet(total: Access, read: Access) -> bool:
    places = {total.offset.at(lane) for lane in lanes_of(total.lanes)}
    return any(read.offset.at(lane) in places for lane in lanes_of(read.lanes))


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
        Related(write.site, f"{_writes(write)} {name} here"),
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


def _writes(write: Access) -> str:
    if write.mode is Mode.ATOMIC:
        return "all blocks add to"
    return "one block writes" if of_one_block(write) else "each block writes its part of"


RULE = KernelRule(
    CODE,
    Group.DEVICE,
    Severity.ERROR,
    "a block reads what other blocks of the same launch write",
    __doc__ or "",
    check,
)
