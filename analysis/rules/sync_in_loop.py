"""A wait in every iteration although the host uses no intermediate result.

## What

A loop enqueues device work and waits for it in each iteration, while the host neither reads what that work wrote, nor
refills what it reads, nor measures it; the next iteration's work is ordered behind it by its stream anyway.

## Why

The GPU idles between iterations for the time of the wait and of the next launch. Without the wait the host runs ahead
and the GPU never runs dry; one wait after the loop gives the same results.

## Example

```cuda
for (int step = 0; step < steps; ++step) {
    advance<<<grid, block, 0, s>>>(state);
    cudaStreamSynchronize(s);
}
```

## Use instead

```cuda
for (int step = 0; step < steps; ++step) {
    advance<<<grid, block, 0, s>>>(state);
}
cudaStreamSynchronize(s);
```

## Fix safety

The fix moves the wait behind the loop. Results stay the same; an error of the device work is reported after the loop.
The rule stays silent when the loop reads or writes shared or staging memory on the host, copies results back, frees,
measures time, repeats the same thing to be measured or to warm up for it, changes device, calls unknown code, needs the
wait between streams, or its kernels print or assert.

## References

Ordering rows O1, O4, W1, W2, W3, C3, C7, P3.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import edits, wording
from stitchcuda.analysis.findings.finding import Confidence, Finding, Fix, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.rounds import repeats_for_measuring
from stitchcuda.analysis.findings.waits import (
    checked_next,
    device_work,
    explicit_waits,
    host_needs,
    members,
    names_given,
    newly_done,
    nothing_between,
    plain_statement,
    quiet,
    region_is_plain,
    span_is_plain,
    stream_ordered,
    waits_for,
)
from stitchcuda.analysis.order.timeline import Op, Timeline
from stitchcuda.analysis.program.ir import (
    HOST_WAITS,
    ApiKind,
    Assign,
    Call,
    Expr,
    Goto,
    Loop,
    Member,
    Name,
    Return,
    Site,
    Throw,
    walk,
)
from stitchcuda.analysis.rules import redundant_sync

CODE = "sync-in-loop"
_WORK = (ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH)


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    work = device_work(line)
    by_site = explicit_waits(line)
    told = {wait.site for wait, _, _ in redundant_sync.needless(given)}
    for site, waits in by_site.items():
        if site not in told and _recurs(line, waits) and all(_needless(given, wait, work) for wait in waits):
            yield _finding(given, waits[-1], told)


def _recurs(line: Timeline, waits: list[Op]) -> bool:
    """Not in a single one of the rounds of a loop of which each was followed: those of a chain of stages differ."""
    loop = waits[0].loop
    return loop is None or not line.loops[loop].unrolled or len({wait.iteration for wait in waits}) > 1


def _needless(given: RuleInput, wait: Op, work: int) -> bool:
    line = given.timeline
    if wait.loop is None or not wait.certain or line.cuts:
        return False
    loop = _statement(given, wait.loop)
    body = plain_statement(given, wait)
    if loop is None or body is None or checked_next(body, wait, given.program):
        return False
    pending = [line.ops[k] for k in members(newly_done(line, wait, work))]
    inside = [op for op in pending if _inside(line, op, wait.loop)]  # in the first round there may be earlier work too
    if not any(op.kind in _WORK for op in inside) or any(op.conditions != wait.conditions for op in inside):
        return False
    if not all(quiet(given.program, line, op) for op in pending):
        return False
    holder = given.program.functions[line.loops[wait.loop].site.function]
    if repeats_for_measuring(given.program, holder, loop):
        return False
    names = names_given(given, pending)
    if not span_is_plain(given.program, holder, loop.span, names):
        return False
    if wait.function != holder.uid and not span_is_plain(given.program, body.function, body.function.span, names):
        return False
    numbers = [op.id for op in pending]
    for op in line.ops:
        if not _inside(line, op, wait.loop):
            continue
        if host_needs(line, op, numbers) or (op.kind is ApiKind.COPY and not op.asynchronous):
            return False
        if op.kind is ApiKind.LIBRARY_CALL:  # may hand a result to the host (O9)
            return False
        # The pending work of one round stands for that of the round before: the later round must be ordered behind it.
        if op.stream is not None and op.kind not in HOST_WAITS and not all(_follows(line, p, op) for p in pending):
            return False
    return True


def _follows(line: Timeline, first: Op, second: Op) -> bool:
    if not line.earlier[second.id] >> first.id & 1:
        # Issued before it in the executed rounds; one round later it follows if the stream is the same.
        return first.stream == second.stream and first.device == second.device
    return stream_ordered(line, first, second)


def _inside(line: Timeline, op: Op, loop: int) -> bool:
    current = op.loop
    while current is not None:
        if current == loop:
            return True
        current = line.loops[current].parent
    return False


def _statement(given: RuleInput, number: int) -> Loop | None:
    """The loop as written, when it is one that ends by counting."""
    info = given.timeline.loops[number]
    body = edits.body_of(given, info.site.function)
    if body is None or (info.trip is not None and info.trip.constant in (0, 1)):
        return None
    loops = edits.loops_around(body, info.site.span)
    if not loops:
        return None
    loop = loops[-1]
    if any(_leaves(body, node) for node in walk(loop)):
        return None  # whoever called relies on the wait of the last round
    if loop.form == "range":
        return loop
    return loop if loop.condition is not None and _counts(loop, loop.condition) else None


def _leaves(body: edits.Body, node: object) -> bool:
    """A way out of the function as written, not within a check macro."""
    return isinstance(node, (Return, Goto, Throw)) and body.slice(node.span).startswith(("return", "goto", "throw"))


def _counts(loop: Loop, condition: Expr) -> bool:
    """The condition is about something that the loop changes, not a flag that is set from elsewhere."""
    tested = {n.name for n in walk(condition) if isinstance(n, (Name, Member))}
    changed = {n.target.name for n in walk(loop) if isinstance(n, Assign) and isinstance(n.target, (Name, Member))}
    return bool(tested & changed) or any(isinstance(n, Call) for n in walk(condition))


def _finding(given: RuleInput, wait: Op, told: set[Site]) -> Finding:
    assert wait.loop is not None
    info = given.timeline.loops[wait.loop]
    return Finding(
        CODE,
        Group.PERFORMANCE,
        Severity.HINT,
        Confidence.LIKELY,
        wait.site,
        f"`{wait.api}` stalls the host in every iteration, but nothing in the loop uses the result on the host",
        (Related(info.site, "the loop"), *wording.call_path(wait)),
        _fixes(given, wait, told),
        wording.condition(wait),
    )


def _wait_behind(given: RuleInput, wait: Op, told: set[Site]) -> Op | None:
    """A wait of the same function behind the loop that covers the loop's work before anything needs it, and that is not
    itself told to go."""
    assert wait.loop is not None
    line = given.timeline
    work = device_work(line)
    done = [line.ops[k] for k in members(wait.waits & work) if _inside(line, line.ops[k], wait.loop)]
    bits = sum(1 << op.id for op in done)
    outer = line.loops[wait.loop].parent
    for later in line.ops:
        if later.site in told:
            continue
        if later.loop != outer or later.function != wait.function or not line.earlier[later.id] >> wait.id & 1:
            continue
        if later.iteration == wait.iteration[:-1] and waits_for(line, later, bits):
            plain = region_is_plain(given, wait, later, done) and nothing_between(line, wait, later, done)
            return later if plain else None
    return None


def _fixes(given: RuleInput, wait: Op, told: set[Site]) -> tuple[Fix, ...]:
    assert wait.loop is not None
    covered = _wait_behind(given, wait, told)
    loop = _statement(given, wait.loop)
    body = edits.body_of(given, wait.function)
    if loop is None or body is None or given.timeline.loops[wait.loop].site.function != wait.function:
        return ()
    found = edits.statements(body, wait.site.span)
    around = [s for s, _ in found if s.span == loop.span]
    if not found or not around or not edits.sole(body, found[-1][0], wait.site.span):
        return ()
    statement = found[-1][0].span
    if covered is not None:
        title = f"Remove `{wait.api}`: {wording.operation(covered)} behind the loop waits for the same work"
        return (Fix(title, (edits.remove(body, statement),), preferred=True),)
    written = edits.statement_text(body, statement)
    call = edits.call_at(body, wait.site.span)
    stays = call is not None and edits.visible(body, call, (loop.span[1] + 1, loop.span[1] + 1))
    if "\n" in written or not stays:
        return ()
    changes = (edits.remove(body, statement), edits.after(body, loop.span, [written]))
    return (Fix(f"Move `{wait.api}` behind the loop", changes, preferred=True),)


RULE = Rule(
    CODE,
    Group.PERFORMANCE,
    Severity.HINT,
    "a wait in every iteration although the host uses no intermediate result",
    __doc__ or "",
    check,
    every_path=True,
)
