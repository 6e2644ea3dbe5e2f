"""Times of a trace, in nanoseconds."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stitchcuda.gpu_validate.trace.model import Call, Trace

_BLOCKING = re.compile(
    r"(cudaDevice|cudaThread|cudaStream|cudaEvent|cuCtx|cuStream|cuEvent)Synchronize$|(cuda|cu)Memcpy(?!.*(Async|Batch))"
)


def cuda_span(trace: Trace) -> int | None:
    """From the first context to the end of the last operation, without what hashing copies took; None when there is none.

    A trace without device operations ends with the last call that waited for the device: the
    host's view, a few microseconds later, and without work that the program never waited for."""
    if not trace.context_end:
        return None
    ends = [op.end for op in trace.ops] or [c.end for c in trace.calls if blocks(c)]
    last = max(ends, default=0)
    if last <= trace.context_end:
        return None
    return last - trace.context_end - reading(trace, last)


def reading(trace: Trace, until: int | None = None) -> int:
    """What the tracer's reading of copies took in calls that began before `until`."""
    if until is None:
        return sum(r.nanoseconds for r in trace.reads)
    begun = {c.index for c in trace.calls if c.end < until}
    return sum(r.nanoseconds for r in trace.reads if r.call in begun)


def blocks(call: Call) -> bool:
    """Whether the call returned after device work that it waited for."""
    if call.status != 0 or call.captured:
        return False
    return bool(_BLOCKING.match(call.api)) and call.copy_kind in ("", "d2h")


def gpu_busy(trace: Trace) -> int | None:
    """How long at least one operation ran; None when the trace has no device operations."""
    return union((op.start, op.end) for op in trace.ops) if trace.ops else None


def union(intervals: Iterable[tuple[int, int]]) -> int:
    """The length of what the intervals cover together."""
    total = covered = 0
    for start, end in sorted(intervals):
        begin = max(start, covered)
        if end > begin:
            total += end - begin
            covered = end
    return total


def calls_by_api(trace: Trace) -> dict[str, tuple[int, int]]:
    """Number of calls and their summed host time by API."""
    totals: dict[str, tuple[int, int]] = {}
    for call in trace.calls:
        count, time = totals.get(call.api, (0, 0))
        totals[call.api] = count + 1, time + call.end - call.start
    return totals
