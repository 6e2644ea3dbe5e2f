"""The same unchanged data is uploaded again in every iteration.

## What

A loop copies the same bytes of host memory to the same place on the device in each round. The host does not change them
in the loop, and no device work writes the destination.

## Why

Each round pays for the transfer (and, when the copy is synchronous, for a stall of the host) and gets what it already
has.

## Example

```cuda
for (int step = 0; step < steps; ++step) {
    cudaMemcpy(weights, host_weights, bytes, cudaMemcpyHostToDevice);
    forward<<<grid, block>>>(weights, state);
}
```

## Use instead

```cuda
cudaMemcpy(weights, host_weights, bytes, cudaMemcpyHostToDevice);
for (int step = 0; step < steps; ++step) {
    forward<<<grid, block>>>(weights, state);
}
```

## Fix safety

The fix moves the copy before the loop. Results stay the same. It is offered when the copy is a statement of its own
that means the same there, and nothing in the loop reads the destination before it. The rule stays silent when the loop
is timed, when the copy depends on a condition within the loop, and when code that is not here may change the data.

## References

Ordering rows C1, C2, C7.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import edits, wording
from stitchcuda.analysis.findings.copies import Transfer, host_code, may_change, names_of, transfer
from stitchcuda.analysis.findings.finding import Confidence, Finding, Fix, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.findings.independence import may_meet
from stitchcuda.analysis.findings.rounds import Repeated, always, measured, repeated_loops, twins, unchanging
from stitchcuda.analysis.order.timeline import Memory, Mode, Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind, PreprocIf, Site

CODE = "invariant-transfer"
_USES = frozenset({ApiKind.LAUNCH, ApiKind.LIBRARY_CALL})
_HOST = (Memory.PAGEABLE, Memory.PINNED, Memory.UNKNOWN)
_DEVICE = (Memory.DEVICE, Memory.SYMBOL, Memory.UNKNOWN)


def check(given: RuleInput) -> Iterator[Finding]:
    line = given.timeline
    if (
        line.source != "static"
        or line.cuts
        or not any(op.copy_kind == "h2d" and op.loop is not None for op in line.ops)
    ):
        return
    told: set[Site] = set()
    for loop in repeated_loops(given):
        for op in loop.rounds[0]:
            up = transfer(op, "h2d") if len(op.iteration) == loop.depth and op.site not in told else None
            if up is not None and _invariant(given, loop, up):
                told.add(op.site)
                yield _finding(given, loop, up)


def _invariant(given: RuleInput, loop: Repeated, up: Transfer) -> bool:
    line = given.timeline
    if line.buffers[up.host.buffer].memory not in _HOST or line.buffers[up.device.buffer].memory not in _DEVICE:
        return False
    again = twins(loop, up.op)
    if len(again) < len(loop.rounds) or not always(loop, up.op):
        return False
    if not all(_same(up, transfer(other, "h2d")) for other in again):
        return False
    mine = {op.id for op in again}
    used = False
    for ops in loop.rounds:
        for op in ops:
            if op.id in mine:
                continue
            if op.stream is not None and (op.unknown or not op.certain):
                return False  # may write anything
            if _writes(line, op, up):
                return False
            used = used or (op.kind in _USES and any(a.buffer == up.device.buffer for a in op.accesses))
    if not used:
        return False
    names = names_of(given, up.op, "src")
    if any(may_change(given.program, node, names) for node in host_code(given, loop)):
        return False
    return not measured(given, loop)


def _same(up: Transfer, other: Transfer | None) -> bool:
    if other is None or (up.host.buffer, up.device.buffer) != (other.host.buffer, other.device.buffer):
        return False
    if up.host.range.member != other.host.range.member or up.device.range.member != other.device.range.member:
        return False
    pairs = (
        (up.host.range.offset, other.host.range.offset),
        (up.device.range.offset, other.device.range.offset),
        (up.host.range.extent, other.host.range.extent),
    )
    return up.op.device == other.op.device and all(unchanging(a, b) for a, b in pairs)


def _writes(line: Timeline, op: Op, up: Transfer) -> bool:
    return any(
        a.mode is not Mode.READ and (may_meet(line, a, up.device) or may_meet(line, a, up.host)) for a in op.accesses
    )


def _finding(given: RuleInput, loop: Repeated, up: Transfer) -> Finding:
    line = given.timeline
    source, target = line.buffers[up.host.buffer], line.buffers[up.device.buffer]
    related = (
        Related(line.loops[loop.id].site, "nothing in this loop changes either side"),
        *wording.call_path(up.op),
        *wording.allocation(source),
    )
    return Finding(
        CODE,
        Group.PERFORMANCE,
        Severity.HINT,
        Confidence.LIKELY,
        up.op.site,
        f"`{up.op.api}` uploads the same unchanged {wording.buffer(source)} to {wording.buffer(target)} in every "
        "iteration: once before the loop is enough",
        wording.distinct(related, up.op.site),
        _fixes(loop, up),
        wording.condition(up.op),
    )


def _fixes(loop: Repeated, up: Transfer) -> tuple[Fix, ...]:
    body, span = loop.body, up.op.site.span
    if up.op.function != body.function.uid:
        return ()
    for op in loop.rounds[0]:
        if op.id < up.op.id and any(a.buffer == up.device.buffer for a in op.accesses):
            return ()
    found = edits.statements(body, span)
    call = edits.call_at(body, span)
    if not found or call is None or not edits.sole(body, found[-1][0], span):
        return ()
    if any(isinstance(n, PreprocIf) for n in edits.nodes_around(body, span)):
        return ()
    statement = found[-1][0].span
    ahead = (loop.statement.span[0], loop.statement.span[0])
    written = edits.statement_text(body, statement)
    if "\n" in written or not edits.visible(body, call, ahead):
        return ()
    changes = (edits.before(body, loop.statement.span, [written]), edits.remove(body, statement))
    return (Fix(f"Move `{up.op.api}` before the loop", changes, preferred=True),)


RULE = Rule(
    CODE,
    Group.PERFORMANCE,
    Severity.HINT,
    "the same unchanged data is uploaded again in every iteration",
    __doc__ or "",
    check,
)
