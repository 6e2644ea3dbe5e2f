"""`grid.sync()` in a kernel launched by `<<<>>>` or with more blocks than can be resident.

## What

A kernel synchronises the whole grid with cooperative groups, and is started by an ordinary launch, or by a cooperative
one with so many blocks that no device holds them all at once. A kernel that asks `grid.is_valid()` first is left alone.

## Why

All blocks have to be on the device for a barrier between them, and only a cooperative launch sees to that. Under
`<<<>>>` the synchronisation fails: the kernel is aborted, or the group is not valid and the behaviour undefined (D5).
With too many blocks the cooperative launch itself fails with `cudaErrorCooperativeLaunchTooLarge`, and the kernel does
not run.

## Example

```cuda
__global__ void steps(float* a, float* b, int n) {
    cg::grid_group grid = cg::this_grid();
    half_step(a, b, n);
    grid.sync();
    half_step(b, a, n);
}
steps<<<blocks, threads>>>(a, b, n);
```

## Use instead

```cuda
int perProcessor, processors;
cudaOccupancyMaxActiveBlocksPerMultiprocessor(&perProcessor, steps, threads, 0);
cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
void* args[] = {&a, &b, &n};
cudaLaunchCooperativeKernel((void*)steps, perProcessor * processors, threads, args);
```

with loops over the grid's stride in the kernel; or one launch for each step.

## Fix safety

There is no automatic fix: the grid has to be made as large as the device holds, and the kernel to work with that.

## References

Ordering row D5. CUDA programming guide, "Grid Synchronization"; CUDA runtime API, `cudaLaunchCooperativeKernel`.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.kernel.model import Barrier, BarrierKind
from stitchcuda.analysis.kernel.trace import kernel_traces
from stitchcuda.analysis.order.timeline import Launched, Op
from stitchcuda.analysis.program.ir import Program, Site

CODE = "invalid-grid-sync"
# more than any device has: processors, blocks and threads resident on one of them
_PROCESSORS = 256
_BLOCKS = 32
_THREADS = 2048
_GROUPS = ("this_grid", "grid_group")


def check(given: RuleInput) -> Iterator[Finding]:
    meetings: dict[str, Barrier | None] = {}
    reported: set[Site] = set()
    for op in given.timeline.ops:
        launched = op.launched
        if launched is None or len(launched.kernels) != 1 or op.site in reported:
            continue
        kernel = launched.kernels[0]
        if kernel not in meetings:
            meetings[kernel] = _grid_barrier(given, kernel)
        meeting = meetings[kernel]
        fault = _fault(op, launched) if meeting is not None else ""
        if meeting is not None and fault:
            reported.add(op.site)
            yield _finding(given.program, op, meeting, fault)


def _fault(op: Op, launched: Launched) -> str:
    """What is wrong with a launch of a kernel that synchronises the grid; "" when nothing is known to be."""
    if launched.cooperative is False:
        return (
            f"is launched by `{op.api}`, which does not keep all blocks on the device: only a cooperative launch does"
        )
    blocks = launched.blocks
    if blocks is None or not launched.cooperative:
        return ""
    threads = launched.threads or 1
    if blocks <= _PROCESSORS * min(_BLOCKS, max(1, _THREADS // max(1, threads))):
        return ""
    return f"is launched with {blocks} blocks, more than any device holds at once: the launch fails"


def _finding(program: Program, op: Op, meeting: Barrier, fault: str) -> Finding:
    sure = op.certain and all(guard.loop for guard in meeting.guards)
    related = (Related(meeting.site, f"`{meeting.name}()` is here"), *wording.call_path(op))
    return Finding(
        CODE,
        Group.DEVICE,
        Severity.ERROR,
        Confidence.CERTAIN if sure else Confidence.LIKELY,
        op.site,
        f"`{op.kernel}` synchronises the whole grid, and {fault}",
        wording.distinct(related, op.site),
        condition=wording.condition(op),
    )


def _grid_barrier(given: RuleInput, kernel: str) -> Barrier | None:
    """A barrier of the grid that the kernel gets to without asking whether it may."""
    function = given.program.functions[kernel]
    if function.body is None or not _names_grid(given.program, kernel):
        return None
    traces = kernel_traces(given.program, kernel, given.sources)
    for trace in traces.traces:
        for barrier in trace.barriers:
            if barrier.kind is BarrierKind.GRID and not any("is_valid" in guard.key for guard in barrier.guards):
                return barrier
    return None


def _names_grid(program: Program, kernel: str) -> bool:
    """The kernel or a device function that it may call names a group of the whole grid."""
    waiting, seen = [kernel], {kernel}
    while waiting:
        function = program.functions[waiting.pop()]
        for mention in function.mentions:
            last = mention.rpartition("::")[2]
            if last in _GROUPS:
                return True
            for uid in program.by_name.get(last, ()):
                if uid not in seen and program.functions[uid].space != "host":
                    seen.add(uid)
                    waiting.append(uid)
    return False


RULE = Rule(
    CODE,
    Group.DEVICE,
    Severity.ERROR,
    "the grid is synchronised in a launch that does not allow it",
    __doc__ or "",
    check,
)
