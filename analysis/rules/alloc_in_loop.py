"""Memory of unchanging size is allocated or freed in every iteration.

## What

A loop calls `cudaMalloc` (or its pitched, managed or pinned kin) for a buffer of the same size in each round, the
round's device work uses it, and it is freed before the next round needs it again.

## Why

`cudaMalloc` takes tens of microseconds to milliseconds, `cudaFree` waits for the whole device before it returns, and
pinned memory costs more still. The GPU runs dry in every round while the host gets back the memory it has just given
away.

## Example

```cuda
for (int step = 0; step < steps; ++step) {
    float *scratch;
    cudaMalloc(&scratch, n * sizeof(float));
    gather<<<grid, block, 0, s>>>(field, scratch, n);
    apply<<<grid, block, 0, s>>>(scratch, field, n);
    cudaFree(scratch);
}
```

## Use instead

```cuda
float *scratch;
cudaMalloc(&scratch, n * sizeof(float));
for (int step = 0; step < steps; ++step) {
    gather<<<grid, block, 0, s>>>(field, scratch, n);
    apply<<<grid, block, 0, s>>>(scratch, field, n);
}
cudaFree(scratch);
```

`cudaMallocAsync` and `cudaFreeAsync` on the stream that uses the memory are cheap in a loop, too.

## Fix safety

There is no automatic fix for the text alone: the release that goes out of the loop was also a wait for the device, and
something may rely on it. The transform `hoist-allocation` of `stitchcuda stitch` moves the allocation and proves that.
The rule stays silent when the size may change from round to round, when the allocation depends on a condition within
the loop, when an inner loop puts the memory to long use, and in loops that go through devices or measure time.

## References

Ordering rows W7, W8, P4.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.copies import parting
from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.rounds import Repeated, always, measured, repeated_loops, twins, unchanging
from stitchcuda.analysis.order.timeline import Buffer, Memory, Op
from stitchcuda.analysis.program.ir import RELEASES, Api, ApiKind, Site, walk

CODE = "alloc-in-loop"
_ALLOCATES = frozenset({ApiKind.ALLOC, ApiKind.HOST_ALLOC})
_WORK = frozenset({ApiKind.LAUNCH, ApiKind.LIBRARY_CALL, ApiKind.GRAPH_LAUNCH})


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    owners: dict[int, Buffer] = {b.alloc_op: b for b in line.buffers if b.alloc_op is not None and not b.pooled}
    if not owners:
        return
    told: set[Site] = set()
    for loop in repeated_loops(given):
        for op in loop.rounds[0]:
            if op.id not in owners or op.kind not in _ALLOCATES or op.stream is not None:
                continue
            release = _needless(given, loop, op, owners)
            if release is None:
                continue
            site = parting(op, release)  # of the call to move
            if site not in told:
                told.add(site)
                yield _finding(given, loop, op, release, owners[op.id], site)


def _needless(given: RuleInput, loop: Repeated, op: Op, owners: dict[int, Buffer]) -> Op | None:
    """The release that gives the memory back before the next round allocates it again, when nothing needs that."""
    same = twins(loop, op)
    if len(op.iteration) != loop.depth or len(same) < len(loop.rounds) or not always(loop, op):
        return None
    if any(o.id not in owners or not o.certain for o in same):
        return None
    if op.bytes is None or not all(unchanging(op.bytes, o.bytes) for o in same):
        return None
    release = _release(loop, op, owners[op.id])
    if release is None or not _worked_on(loop, owners[op.id]):
        return None
    if any(isinstance(n, Api) and n.kind is ApiKind.SET_DEVICE for n in walk(loop.statement)):
        return None
    return None if measured(given, loop) else release


def _release(loop: Repeated, op: Op, buffer: Buffer) -> Op | None:
    """In the same round behind the allocation, or early in the next round."""
    for ops in loop.rounds[:2]:
        for other in ops:
            if other.kind in RELEASES and any(a.buffer == buffer.id for a in other.accesses) and always(loop, other):
                return other if len(other.iteration) == loop.depth else None
    return None


def _worked_on(loop: Repeated, buffer: Buffer) -> bool:
    """Device work of the round itself uses the memory (a copy: memory of the host), and no loop within the round, over
    which the cost would be spread."""
    users = [o for o in loop.rounds[0] if o.stream is not None and any(a.buffer == buffer.id for a in o.accesses)]
    kinds = _WORK if buffer.memory is Memory.DEVICE else _WORK | {ApiKind.COPY}
    return any(o.kind in kinds for o in users) and all(len(o.iteration) == loop.depth for o in users)


def _finding(given: RuleInput, loop: Repeated, op: Op, release: Op, buffer: Buffer, site: Site) -> Finding:
    name = wording.buffer(buffer)
    related = (
        Related(release.site, f"{wording.operation(release)} gives it back here"),
        Related(given.timeline.loops[loop.id].site, "the loop"),
        *((Related(op.site, "allocated here"),) if op.site != site else ()),
        *wording.call_path(op),
    )
    return Finding(
        CODE,
        Group.PERFORMANCE,
        Severity.HINT,
        Confidence.LIKELY,
        site,
        f"`{op.api}` allocates {name} with the same size in every iteration, and `{release.api}` frees it again: "
        "allocate it once before the loop",
        wording.distinct(related, site),
        (),
        wording.condition(op),
    )


RULE = Rule(
    CODE,
    Group.PERFORMANCE,
    Severity.HINT,
    "memory of unchanging size is allocated or freed in every iteration",
    __doc__ or "",
    check,
)
