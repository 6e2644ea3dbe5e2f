"""A call that stalls the host or serialises streams sits between work that could overlap.

## What

Work on one created stream, then a call, then work on another created stream. The two pieces of work touch different
memory and nothing asks for an order between them, but the call gives them one:

- an operation on the legacy default stream (a launch or fill without a stream, `cudaMemcpy`, `cudaMemset`) starts after
  all earlier work of blocking streams, and their later work starts after it;
- `cudaFree`, `cudaFreeHost` and `cudaHostUnregister` in practice wait for the whole device.

## Why

The streams were made so that their work overlaps. One such call in between puts it end to end, with the time that the
host needs to start the next piece on top.

## Example

```cuda
for (int k = 0; k < parts; ++k) {
    cudaMemset(counts[k], 0, sizeof(int));  // default stream: waits for the part before, and this part waits for it
    count<<<grid, block, 0, streams[k]>>>(data[k], counts[k]);
}
```

## Use instead

```cuda
for (int k = 0; k < parts; ++k) {
    cudaMemsetAsync(counts[k], 0, sizeof(int), streams[k]);
    count<<<grid, block, 0, streams[k]>>>(data[k], counts[k]);
}
```

Streams made with `cudaStreamNonBlocking` are not held up by the default stream. Memory can be freed with `cudaFreeAsync`,
or behind the last use.

## Fix safety

There is no automatic fix: which stream the call belongs on, and what else relies on the order that it gives, is for the
author to say. The rule stays silent when the call uses results of the earlier work and the later work uses its own, when
the host looks at what a copy brought, and when the order is asked for by an event or a wait.

## References

Ordering rows O3, O4, O5, W8, C1, C3, C8, P5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.finding import Confidence, Finding, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.independence import independent
from stitchcuda.analysis.findings.rounds import around
from stitchcuda.analysis.findings.waits import members
from stitchcuda.analysis.order.machine import same_stream
from stitchcuda.analysis.order.timeline import Op, StreamKind, Timeline
from stitchcuda.analysis.program.ir import HOST_WAITS, RELEASES, ApiKind, Site

CODE = "implicit-sync"
_WORK = frozenset(
    {ApiKind.LAUNCH, ApiKind.COPY, ApiKind.MEMSET, ApiKind.LIBRARY_CALL, ApiKind.GRAPH_LAUNCH, ApiKind.PREFETCH}
)
_STREAMS = 4  # whose nearest operations before and behind a call are looked at
_OFTEN = 4  # occurrences of a call that are looked at


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    if line.source != "static" or sum(s.kind is StreamKind.CREATED for s in line.streams) < 2:
        return
    work = [op for op in line.ops if _is_work(line, op)]
    told: set[Site] = set()
    looked: Counter[Site] = Counter()
    for op in line.ops:
        if (
            op.site in told
            or looked[op.site] >= _OFTEN
            or not (_on_default(line, op) or _frees(op))
            or not op.certain
            or op.unknown
        ):
            continue
        looked[op.site] += 1
        pair = _held_apart(line, op, work)
        if pair is not None:
            told.add(op.site)
            yield _finding(line, op, *pair)


def _is_work(line: Timeline, op: Op) -> bool:
    """Work on a stream that was made for it, of which all is known."""
    if op.stream is None or op.kind not in _WORK or op.graph is not None or not op.certain or op.unknown:
        return False
    return line.streams[op.stream].kind is StreamKind.CREATED and not _may_be_synchronous(line, op)


def _may_be_synchronous(line: Timeline, op: Op) -> bool:
    return op.kind is ApiKind.COPY and not op.asynchronous


def _on_default(line: Timeline, op: Op) -> bool:
    if op.stream is None or op.graph is not None or op.kind not in _WORK:
        return False
    return line.streams[op.stream].kind is StreamKind.LEGACY


def _frees(op: Op) -> bool:
    return op.kind in RELEASES and op.stream is None and bool(op.accesses)


def _held_apart(line: Timeline, call: Op, work: list[Op]) -> tuple[Op, Op] | None:
    """Work before and behind the call that would overlap without it."""
    before = line.earlier[call.id]
    befores = _nearest(op for op in reversed(work) if before >> op.id & 1 and _held_up(line, op, call))
    if not befores:
        return None
    behind = _nearest(op for op in work if line.earlier[op.id] >> call.id & 1 and _held_up(line, op, call))
    for later in behind:
        for first in befores:
            if _would_overlap(line, first, call, later):
                return first, later
    return None


def _nearest(found: Iterator[Op]) -> list[Op]:
    """The first two operations of each of a few streams."""
    by_stream: dict[int, list[Op]] = {}
    for op in found:
        assert op.stream is not None
        known = by_stream.setdefault(op.stream, [])
        if len(known) < 2:
            known.append(op)
        if len(by_stream) > _STREAMS:
            break
    return [op for ops in by_stream.values() for op in ops]


def _held_up(line: Timeline, op: Op, call: Op) -> bool:
    assert op.stream is not None
    return op.thread == call.thread and op.device == call.device and (
        _frees(call) or line.streams[op.stream].blocking is True
    )  # fmt: skip


def _would_overlap(line: Timeline, first: Op, call: Op, later: Op) -> bool:
    assert first.stream is not None and later.stream is not None
    if same_stream(line.streams[first.stream], line.streams[later.stream]) is not False:
        return False
    if {c.text for c in first.conditions} != {c.text for c in later.conditions}:
        return False  # that both run is not known
    if _frees(call) and not _together(line, first, call, later):
        return False  # the end of one piece of work and the beginning of another
    between = line.earlier[later.id] & ~line.earlier[first.id] & ~(1 << first.id)
    if any(_orders(line, line.ops[k], first, call, later) for k in members(between)):
        return False
    if not independent(line, first, later):
        return False
    uses, feeds = not independent(line, first, call), not independent(line, call, later)
    return not ((uses and feeds) or (uses and _frees(call)))


def _together(line: Timeline, first: Op, call: Op, later: Op) -> bool:
    """The two pieces of work stand in one run of a function, or all three in one loop."""
    if (first.function, first.calls) == (later.function, later.calls):
        return True
    return bool(set(around(line, first)) & set(around(line, call)) & set(around(line, later)))


def _orders(line: Timeline, op: Op, first: Op, call: Op, later: Op) -> bool:
    """The two are ordered, or may be, by something else that the program asks for."""
    if op.kind is ApiKind.STREAM_SYNC and op.stream is not None and first.stream is not None:
        same = same_stream(line.streams[op.stream], line.streams[first.stream])
        return same is not False or bool(op.waits >> first.id & 1)
    if op.kind in HOST_WAITS or op.kind is ApiKind.QUERY:
        return True
    if op.kind is ApiKind.EVENT_WAIT:
        return op.stream == later.stream
    if op.kind in (ApiKind.CAPTURE_BEGIN, ApiKind.CAPTURE_END, ApiKind.HOST_FUNC):
        return True
    if op.kind in (ApiKind.HOST_READ, ApiKind.HOST_WRITE):  # what the host does next may depend on what came back
        return call.kind is ApiKind.COPY and not independent(line, call, op)
    return False


def _finding(line: Timeline, call: Op, first: Op, later: Op) -> Finding:
    one, other = (
        f"{wording.operation(first)}{wording.on_stream(line, first)}",
        (f"{wording.operation(later)}{wording.on_stream(line, later)}"),
    )
    if _frees(call):
        message = (
            f"`{call.api}` waits for the device, so {one} and {other} cannot overlap although they are independent"
        )
    else:
        message = (
            f"{wording.operation(call)} on the default stream waits for {one}, and {other} waits for it, although "
            "the two are independent: give it a stream"
        )
    related = (
        Related(first.site, "must be over before"),
        Related(later.site, "must not start until after"),
        *wording.call_path(call),
    )
    return Finding(
        CODE,
        Group.PERFORMANCE,
        Severity.HINT,
        Confidence.LIKELY,
        call.site,
        message,
        wording.distinct(related, call.site),
        (),
        wording.condition(call),
    )


RULE = Rule(
    CODE,
    Group.PERFORMANCE,
    Severity.HINT,
    "a call that stalls the host or serialises streams sits between work that could overlap",
    __doc__ or "",
    check,
)
