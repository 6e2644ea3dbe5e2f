"""A wait orders nothing that is not ordered already.

## What

`cudaDeviceSynchronize`, `cudaStreamSynchronize` or `cudaEventSynchronize` although

- everything it waits for was already waited for, or
- all device work that follows is ordered behind the awaited work by its stream, the host touches none of the data, and
  a later wait (or a blocking device-to-host copy) waits for the same work anyway.

`cudaStreamWaitEvent` for an event that the same stream recorded counts too, unless work of another stream seems to be meant.

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
that prints or asserts, work on other streams, unknown code, or the end of the program or of its function (which then
promises its callers to be done), and in destructors.

## References

Ordering rows O1, O4, C3, E5, W1, W2, W3, W8, P2.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import edits, wording
from stitchcuda.analysis.findings.device_races import device_races
from stitchcuda.analysis.findings.finding import Confidence, Finding, Fix, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.waits import (
    checked_next,
    device_work,
    explicit_waits,
    members,
    newly_done,
    nothing_between,
    plain_statement,
    promises_completion,
    quiet,
    region_is_plain,
    waits_for,
)
from stitchcuda.analysis.order.timeline import Op, StreamKind, Timeline
from stitchcuda.analysis.program.ir import ApiKind, Site

CODE = "redundant-sync"


def check(given: RuleInput) -> Iterator[Finding]:
    for wait, other, earlier in needless(given):
        yield _finding(given, wait, other, earlier=earlier)
    own = _own_stream(given.timeline)
    meant = {race.missed.wait.node for race in device_races(given) if race.missed is not None} if own else set()
    for wait, record in own:  # one that was meant to order something is told by its own rules
        if wait.node not in meant:
            yield _own_finding(given, wait, record)


def _own_stream(line: Timeline) -> list[tuple[Op, Op]]:
    """Waits of a stream for an event that the same stream recorded, wherever the call runs (E5), each with a record."""
    by_site: dict[Site, list[Op]] = {}
    for op in line.ops:
        if op.kind is ApiKind.EVENT_WAIT:
            by_site.setdefault(op.site, []).append(op)
    needless = [w for w in by_site.values() if all(o.certain and o.records and _is_own(line, o) for o in w)]
    return [] if line.cuts else [(waits[0], line.ops[waits[0].records[0]]) for waits in needless]


def _is_own(line: Timeline, wait: Op) -> bool:
    if wait.stream is None or wait.event is None or wait.graph is not None or wait.awaited or wait.thread:
        return False
    if line.events[wait.event].site is None:
        return False  # where it comes from, others may record it too
    created = line.streams[wait.stream].kind is StreamKind.CREATED
    return created and all(line.ops[r].stream == wait.stream and line.ops[r].certain for r in wait.records)


def _own_finding(given: RuleInput, wait: Op, record: Op) -> Finding:
    message = (
        f"`{wait.api}` orders nothing: {wording.event(given.timeline, wait)} was recorded"
        f"{wording.on_stream(given.timeline, wait)} too, which runs its work in order"
    )
    return Finding(
        CODE, Group.PERFORMANCE, Severity.HINT, Confidence.LIKELY, wait.site, message,
        (Related(record.site, "the event is recorded here"), *wording.call_path(wait)), _fixes(given, wait),
        wording.condition(wait),
    )  # fmt: skip


def needless(given: RuleInput) -> Iterator[tuple[Op, Op, bool]]:
    """One occurrence of each needless wait, the wait that makes it so, and whether that comes earlier."""
    line = given.timeline
    work = device_work(line)
    by_site = explicit_waits(line)
    for waits in by_site.values():
        if all(_candidate(given, wait, work) for wait in waits):
            continue
        waits.clear()
    idle: set[Site] = set()
    for site, waits in by_site.items():
        befores = [_wait_before(given, wait, work) for wait in waits]
        if befores and befores[0] is not None and None not in befores:
            idle.add(site)
            yield waits[0], befores[0], True
    for site, waits in by_site.items():
        behinds = [_wait_behind(given, wait, work, idle) for wait in waits] if site not in idle else []
        if behinds and behinds[0] is not None and None not in behinds:
            yield waits[0], behinds[0], False


def _candidate(given: RuleInput, wait: Op, work: int) -> bool:
    """The wait is a plain statement on a path that is fully known, waits for something, and nothing printed before it."""
    line = given.timeline
    body = plain_statement(given, wait)
    if body is None or not wait.certain or line.cuts or checked_next(body, wait, given.program):
        return False
    if wait.calls and promises_completion(given.program, body, wait):
        return False
    printed = line.earlier[wait.id] & work
    return bool(wait.waits & work) and all(quiet(given.program, line, line.ops[k]) for k in members(printed))


def _wait_before(given: RuleInput, wait: Op, work: int) -> Op | None:
    """The last earlier call that waited for all this one waits for."""
    line = given.timeline
    awaited = wait.waits & work
    if newly_done(line, wait, work):
        return None
    before = [o for o in line.ops if line.earlier[wait.id] >> o.id & 1 and waits_for(line, o, awaited)]
    if before and _by_chance(line, wait, before[-1]):
        return None
    return before[-1] if before and region_is_plain(given, before[-1], wait, ()) else None


def _wait_behind(given: RuleInput, wait: Op, work: int, idle: set[Site]) -> Op | None:
    """The next wait in the same round that waits for the same work, when nothing in between needs that work done."""
    line = given.timeline
    pending = newly_done(line, wait, work)
    if not pending or line.may_wait[wait.id] & pending:
        return None
    done = [line.ops[k] for k in members(pending)]
    if any(op.conditions != wait.conditions for op in done):
        return None  # the user asks for this wait in a case of its own
    for later in line.ops:
        if not line.earlier[later.id] >> wait.id & 1 or not waits_for(line, later, pending) or later.site in idle:
            continue
        if later.conditions != wait.conditions or later.site == wait.site:
            continue
        if _by_chance(line, wait, later):
            continue
        if later.loop != wait.loop or later.iteration != wait.iteration:
            continue  # a wait in a loop is the business of sync-in-loop
        if not region_is_plain(given, wait, later, done) or not nothing_between(line, wait, later, done):
            return None
        return later
    return None


def _by_chance(line: Timeline, wait: Op, other: Op) -> bool:
    """The other wait is for another stream, and it is the default stream that brings the two together (O4)."""
    if wait.kind is not ApiKind.STREAM_SYNC or other.kind is not ApiKind.STREAM_SYNC or wait.stream == other.stream:
        return False
    return not any(op.kind is ApiKind.EVENT_WAIT for op in line.ops)


def _finding(given: RuleInput, wait: Op, other: Op, *, earlier: bool) -> Finding:
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
    if body is None or not found or not edits.sole(body, found[-1][0], wait.site.span):
        return ()
    edit = edits.remove(body, found[-1][0].span)
    note = "" if wait.kind is ApiKind.EVENT_WAIT else " (errors are then reported by the next wait)"
    return (Fix(f"Remove `{wait.api}`{note}", (edit,), preferred=True),)


RULE = Rule(
    CODE,
    Group.PERFORMANCE,
    Severity.HINT,
    "a wait orders nothing that is not ordered already",
    __doc__ or "",
    check,
    every_path=True,
)
