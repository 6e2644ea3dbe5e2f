"""A stream-ordered allocation is used on work that is not ordered after the allocation.

## What

Memory from `cudaMallocAsync` is used on a stream that nothing orders behind the stream of the allocation: no event, no
host wait, no default-stream rule.

## Why

`cudaMallocAsync` returns at once, but its memory exists only from the point in the stream where the allocation happens
(A1). Work of another stream may run before that point and then touches memory that is not there, or that still belongs
to somebody else.

## Example

```cuda
cudaMallocAsync(&tmp, bytes, a);
fill<<<grid, block, 0, b>>>(tmp);  // b does not wait for a
```

## Use instead

```cuda
cudaMallocAsync(&tmp, bytes, a);
cudaEventRecord(ready, a);
cudaStreamWaitEvent(b, ready, 0);
fill<<<grid, block, 0, b>>>(tmp);
```

Or allocate on the stream that uses the memory first.

## Fix safety

The fix adds an event without timing, records it behind the allocation and makes the using stream wait for it. The host
does not wait. What is in the stream of the allocation before it now also comes before the use.

## References

Ordering rows A1, O3, O4, O5, E1, E2, W7.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.fixes import wait_for_event
from stitchcuda.analysis.findings.race import DEVICE_WORK, Race, exclusive, streams_apart, weaker
from stitchcuda.analysis.order.alias import Conflict
from stitchcuda.analysis.order.timeline import Access, Certainty, Mode, Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind

CODE = "use-before-alloc"
_USES = DEVICE_WORK | {ApiKind.PREFETCH}


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    told: set[tuple[object, ...]] = set()
    for op in line.ops:
        if op.kind not in _USES:
            continue
        for access in op.accesses:
            buffer = line.buffers[access.buffer]
            made = line.ops[buffer.alloc_op] if buffer.pooled and buffer.alloc_op is not None else None
            if made is None or made.stream is None or not line.may_overlap(made.id, op.id):
                continue
            if not made.api.startswith(("cudaM", "cuM")):  # a library's pool hands out memory that is there already
                continue
            key = (buffer.id, op.stream, op.conditions)
            if key in told or exclusive(line, made, op) or made.graph != op.graph or _races(line, made, op, access):
                continue
            told.add(key)
            yield _finding(given, made, op, access)


def _races(line: Timeline, made: Op, op: Op, access: Access) -> bool:
    """Work behind the allocation races with the same use: the finding about that says it, and its order mends both."""
    for other in line.ops:
        if other.kind in _USES and other.id != op.id and line.ordered(made.id, other.id):
            for mine in other.accesses:
                writes = Mode.READ not in (mine.mode, access.mode) or mine.mode is not access.mode
                if mine.buffer == access.buffer and writes and line.may_overlap(other.id, op.id):
                    return True
    return False


def _finding(given: RuleInput, made: Op, op: Op, access: Access) -> Finding:
    line = given.timeline
    buffer = line.buffers[access.buffer]
    level = streams_apart(line, made, op)
    if access.certainty is Certainty.MAY:
        level = weaker(level, Confidence.LIKELY)
    if not op.certain or line.may_wait[op.id] >> made.id & 1 or op.thread != made.thread:
        level = Confidence.POSSIBLE
    message = (
        f"{wording.operation(op)}{wording.on_stream(line, op)} uses {wording.buffer(buffer)}, which "
        f"`{made.api}`{wording.on_stream(line, made)} may not have allocated yet"
    )
    related = (
        Related(made.site, f"{wording.buffer(buffer)} is allocated{wording.on_stream(line, made)} here"),
        *wording.call_path(op),
        *wording.call_path(made),
    )
    race = Race(made, op, Conflict(access, access, True), buffer, level)
    return Finding(
        CODE, Group.CORRECTNESS, Severity.ERROR, level, op.site, message, wording.distinct(related, op.site),
        wait_for_event(given, race), wording.condition(op),
    )  # fmt: skip


RULE = Rule(
    CODE,
    Group.CORRECTNESS,
    Severity.ERROR,
    "a stream-ordered allocation is used on work not ordered after it",
    __doc__ or "",
    check,
)
