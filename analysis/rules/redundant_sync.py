"""A host wait orders nothing that is not ordered already.

## What

`cudaDeviceSynchronize`, `cudaStreamSynchronize` or `cudaEventSynchronize` although

- everything it waits for was already waited for, or
- all device work that follows is ordered behind the awaited work by its stream, the host touches none of the data, and
  a later wait (or a blocking device-to-host copy) waits for the same work anyway.

## Why

The host stands still, cannot enqueue the next work, and the GPU runs dry between the two operations: each such wait
costs the launch latency of what follows it.

## Example

```cuda
stage_one<<<grid, block, 0, s>>>(v);
cudaDeviceSynchronize();  // s runs the stages in order anyway
stage_two<<<grid, block, 0, s>>>(v, w);
cudaMemcpyAsync(h, w, bytes, cudaMemcpyDeviceToHost, s);
cudaStreamSynchronize(s);
```

## Use instead

```cuda
stage_one<<<grid, block, 0, s>>>(v);
stage_two<<<grid, block, 0, s>>>(v, w);
cudaMemcpyAsync(h, w, bytes, cudaMemcpyDeviceToHost, s);
cudaStreamSynchronize(s);
```

## Fix safety

The fix deletes the wait. Results stay the same. An error of the awaited work is reported by the next wait instead of
this one. A wait is left alone when it precedes a host access, a release, a time measurement, an error query, a kernel
that prints or asserts, work on other streams, unknown code, or the end of the program or entry function.

## References

Ordering rows O1, O4, C3, W1, W2, W3, W8, P2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from stitchcuda.analysis.order.timeline import Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind, Site
from stitchcuda.analysis.rules import edits, wording
from stitchcuda.analysis.rules.finding import Confidence, Finding, Fix, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.rules.waits import (
    EXPLICIT,
    checked_next,
    device_work,
    host_needs,
    members,
    newly_done,
    plain_statement,
    quiet_kernel,
    region_is_plain,
    stream_ordered,
)

CODE = "redundant-sync"


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    work = device_work(line)
    by_site: dict[Site, list[Op]] = defaultdict(list)
    for op in line.ops:
        if op.kind in EXPLICIT:
            by_site[op.site].append(op)
    for waits in by_site.values():
        covers = [_made_needless_by(given, wait, work) for wait in waits]
        if all(c is not None for c in covers) and covers[0] is not None:
            yield _finding(given, waits[0], *covers[0])


def _made_needless_by(given: RuleInput, wait: Op, work: int) -> tuple[Op, bool] | None:
    """The other wait that makes this one needless, and whether that comes earlier; None when it is needed or unclear."""
    line = given.timeline
    body = plain_statement(given, wait)
    if body is None or not wait.certain or line.cuts or checked_next(body, wait, given.program):
        return None
    if not all(quiet_kernel(given.program, line.ops[k]) for k in members(line.earlier[wait.id] & work)):
        return None
    awaited = wait.waits & work
    if not awaited:
        return None
    pending = newly_done(line, wait, work)
    if line.may_wait[wait.id] & pending:
        return None
    if not pending:
        before = [o for o in line.ops if _waits_for(line, o, awaited) and line.earlier[wait.id] >> o.id & 1]
        if not before or not region_is_plain(given, before[-1], wait):
            return None
        return before[-1], True
    return _later_wait(given, wait, pending)


def _later_wait(given: RuleInput, wait: Op, pending: int) -> tuple[Op, bool] | None:
    line = given.timeline
    done = [line.ops[k] for k in members(pending)]
    if any(op.conditions != wait.conditions for op in done):
        return None  # the user asks for this wait in a case of its own
    for later in line.ops:
        if not line.earlier[later.id] >> wait.id & 1 or not _waits_for(line, later, pending):
            continue
        same_round = later.loop == wait.loop and later.iteration == wait.iteration
        if (
            later.conditions != wait.conditions
            or (later.loop is not None and not same_round)
            or later.site == wait.site
        ):
            continue
        if not region_is_plain(given, wait, later) or not _nothing_between(line, wait, later, done):
            return None
        return later, False
    return None


def _nothing_between(line: Timeline, wait: Op, later: Op, done: list[Op]) -> bool:
    numbers = [op.id for op in done]
    for op in line.ops:
        if (
            op.id in (wait.id, later.id)
            or not line.earlier[op.id] >> wait.id & 1
            or line.earlier[op.id] >> later.id & 1
        ):
            continue
        if host_needs(line, op, numbers):
            return False
        enqueued = op.stream is not None and op.kind not in EXPLICIT
        if enqueued and not all(stream_ordered(line, first, op) for first in done):
            return False
    return True


def _waits_for(line: Timeline, op: Op, work: int) -> bool:
    """The host does not go on behind this op before that work is done (W1-W3, C3)."""
    if op.kind in EXPLICIT:
        return op.waits & work == work
    if op.kind is ApiKind.COPY and not op.asynchronous and op.copy_kind == "d2h":
        return all(stream_ordered(line, line.ops[k], op) for k in members(work))
    return False


def _finding(given: RuleInput, wait: Op, other: Op, earlier: bool) -> Finding:
    if earlier:
        message = f"`{wait.api}` waits for nothing: {wording.operation(other)} already waited for all of this work"
        related = Related(other.site, "this call already waited for it")
    else:
        message = (
            f"`{wait.api}` orders nothing: what follows is ordered by its stream, and {wording.operation(other)} "
            "waits for the same work before the host uses it"
        )
        related = Related(other.site, "the host waits here anyway")
    return Finding(
        CODE,
        Group.PERFORMANCE,
        Severity.HINT,
        Confidence.LIKELY,
        wait.site,
        message,
        (related,),
        _fixes(given, wait),
        wording.condition(wait),
    )


def _fixes(given: RuleInput, wait: Op) -> tuple[Fix, ...]:
    body = edits.body_of(given, wait.function)
    found = edits.statements(body, wait.site.span) if body is not None else []
    if body is None or not found:
        return ()
    edit = edits.remove(body, found[-1][0].span)
    return (Fix(f"Remove `{wait.api}` (errors are then reported by the next wait)", (edit,), preferred=True),)


RULE = Rule(
    CODE,
    Group.PERFORMANCE,
    Severity.HINT,
    "a wait orders nothing that is not ordered already",
    __doc__ or "",
    check,
    every_path=True,
)
