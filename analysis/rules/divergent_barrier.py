"""A block barrier is not reached by all threads of the block.

## What

`__syncthreads()` (or a block-wide `sync()` of cooperative groups) stands under a condition that is not the same for all
threads of the block, or in a loop that threads leave after different numbers of rounds.

## Why

The barrier waits for all threads of the block that have not exited (D2). Threads that pass by it wait at the next one, or
never: the block hangs, or threads meet at different barriers and see half-written data. Conditions on parameters,
`blockIdx` and values loaded from one address are the same for a block; those on `threadIdx` and on what each thread loads
are not.

Threads that have ended are not waited for on current GPUs: a barrier after `if (i >= n) return;` is reported as `possible`
only. One under `if (i < n)` with nothing of the kernel after that branch works for the same reason, as long as nothing is added
there; the programming guide allows no barrier under such a condition, and it is reported as a warning.

## Example

```cuda
if (threadIdx.x < half) {
    s[threadIdx.x] += s[threadIdx.x + half];
    __syncthreads();  // the other threads never come
}
```

## Use instead

```cuda
if (threadIdx.x < half) {
    s[threadIdx.x] += s[threadIdx.x + half];
}
__syncthreads();
```

## Fix safety

There is no automatic fix: what stands after the barrier in the branch has to be moved along, and that changes who does
it.

## References

Ordering row D2. CUDA C++ Programming Guide, "Synchronization Functions".
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings.finding import (
    RANK,
    Confidence,
    Finding,
    Group,
    KernelInput,
    KernelRule,
    Related,
    Severity,
)
from stitchcuda.analysis.kernel.divergence import Divergence, Why, divergences
from stitchcuda.analysis.kernel.lanes import lanes_of
from stitchcuda.analysis.kernel.model import Guard, KernelTrace, Uniformity
from stitchcuda.analysis.kernel.trace import kernel_traces
from stitchcuda.analysis.program.ir import Site

CODE = "divergent-barrier"


def check(given: KernelInput) -> Iterator[Finding]:
    traces = kernel_traces(given.program, given.kernel, given.sources, given.guesses)
    best: dict[Site, Finding] = {}
    counts: dict[Site, int] = {}
    for trace in traces.traces:
        for one in divergences(trace):
            site = one.barrier.site
            counts[site] = counts.get(site, 0) + 1
            level = _level(one, trace, traces.fixed)
            if site not in best or RANK[level] > RANK[best[site].confidence]:
                best[site] = _finding(given, one, level)
    needed = 1 if traces.fixed else len(traces.traces)
    told: set[Site] = set()
    for site, finding in best.items():
        reason = finding.related[0].site if finding.related else site
        if counts[site] >= needed and reason not in told:  # one finding for all barriers under one condition
            told.add(reason)
            yield finding


def _level(one: Divergence, trace: KernelTrace, fixed: bool) -> Confidence:
    if one.elsewhere or trace.broken:
        return Confidence.POSSIBLE
    if one.why is Why.LEFT:
        passed = one.ends and one.guard is not None and one.guard.uniformity is Uniformity.THREAD
        return Confidence.LIKELY if passed else Confidence.POSSIBLE
    if one.why is Why.DATA and not fixed or any(_by_template(g) for g in one.barrier.guards):
        return Confidence.POSSIBLE
    if one.why is Why.THREAD and one.loop and one.guard is not None and not _bounded(one.guard):
        return Confidence.POSSIBLE  # the bound may be a multiple of the block
    if one.why is Why.LANES and fixed and not one.barrier.guards and not one.ends:
        return Confidence.CERTAIN
    return Confidence.LIKELY


def _by_template(guard: Guard) -> bool:
    """A branch that the compiler takes: what is not instantiated does not matter."""
    return guard.uniformity is Uniformity.BLOCK and ("'<" in guard.key or "'sizeof(" in guard.key)


def _bounded(guard: Guard) -> bool:
    symbols = guard.margin.symbols if guard.margin is not None else frozenset({""})
    return all(s.startswith(("blockIdx.", "gridDim.")) for s in symbols)


def _finding(given: KernelInput, one: Divergence, level: Confidence) -> Finding:
    barrier = one.barrier
    kernel = given.program.functions[given.kernel].name
    match one.why:
        case Why.LANES:
            missing = lanes_of(barrier.alive & ~barrier.lanes)
            what = f"thread {missing[0]} of its block does not reach it" + (
                f" (nor do {len(missing) - 1} others)" if len(missing) > 1 else ""
            )
            if one.loop:
                what += " in each round that others do"
        case Why.THREAD:
            what = "the condition around it differs between the threads of a block"
            if one.loop:
                what = "the threads of a block leave the loop around it after different numbers of rounds"
        case Why.DATA:
            what = "the condition around it depends on data that each thread loads for itself"
        case Why.LEFT:
            what = "some threads of the block may have returned before it"
            if one.ends:
                what = "threads for which the condition does not hold pass by it and end"
    related = [Related(one.guard.site, "this decides who reaches it")] if one.guard is not None else []
    related += [Related(site, "called from here") for site in reversed(barrier.calls)]
    return Finding(
        CODE,
        Group.DEVICE,
        Severity.ERROR if one.why is not Why.LEFT else Severity.WARNING,
        level,
        barrier.site,
        f"`{barrier.name}` in `{kernel}` must be reached by the whole block, but {what}",
        tuple(related),
    )


RULE = KernelRule(
    CODE,
    Group.DEVICE,
    Severity.ERROR,
    "a block barrier that not all threads of the block reach",
    __doc__ or "",
    check,
)
