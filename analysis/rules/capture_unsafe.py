"""A call that is illegal while a stream is being captured.

## What

Between `cudaStreamBeginCapture` and `cudaStreamEndCapture` the program does something that a capture does not allow:

- it waits for, or asks about, the captured stream, an event recorded in it, or the whole device;
- it uses the legacy default stream (a launch without a stream, `cudaMemcpy`, `cudaMemset`) while a blocking stream is
  captured; with a non-blocking stream the call succeeds, but runs once, at once, and is no part of the graph;
- it allocates or frees memory, waits for or asks about another stream or event, or instantiates a graph, in a mode that
  prohibits it (`cudaStreamCaptureModeGlobal`, `ThreadLocal`);
- it calls `cudaStreamAddCallback` or `cudaGraphLaunch` on the captured stream;
- it frees with `cudaFreeAsync` what was allocated outside of the graph;
- it waits for an event that was recorded outside, or in another capture; or it uses outside an event of the capture;
- it ends the capture on another stream, begins it twice, or begins it on the legacy default stream.

## Why

Captured work is only recorded and does not run. A call that would have to wait for it fails with one of
`cudaErrorStreamCaptureUnsupported` to `cudaErrorStreamCaptureWrongThread` (900 to 908), and the capture is lost: the
error shows at `cudaStreamEndCapture`, which gives no graph. A call that succeeds beside the capture is worse: the first
run looks right, every launch of the graph lacks it.

## Example

```cuda
cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
predict<<<grid, block, 0, s>>>(x);
cudaStreamSynchronize(s);  // nothing runs yet: the call fails, and the capture with it
correct<<<grid, block, 0, s>>>(x);
cudaStreamEndCapture(s, &graph);
```

## Use instead

```cuda
cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
predict<<<grid, block, 0, s>>>(x);
correct<<<grid, block, 0, s>>>(x);  // the stream orders it behind predict, in the graph too
cudaStreamEndCapture(s, &graph);
```

Allocate before the capture, or with `cudaMallocAsync` on the captured stream. Give copies, fills and launches the
captured stream.

## Fix safety

A wait inside of the capture is removed: it never worked, and the order of the captured work is that of its streams. A
launch without a stream, and a synchronous `cudaMemset` or `cudaMemcpy` without pageable memory, get the captured stream:
then they are part of the graph, and run at each of its launches. Nothing is changed for the other cases.

## References

Ordering rows G1, G2, G3, G4, O4, O5.
"""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import edits, wording
from stitchcuda.analysis.findings.captures import begin_of, captured_stream, faults, origin_text
from stitchcuda.analysis.findings.finding import Confidence, Finding, Fix, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.order.timeline import Fault, FaultKind, Memory, Op, Timeline
from stitchcuda.analysis.program.ir import HOST_WAITS, Api, Launch

CODE = "capture-unsafe"
KINDS = frozenset(FaultKind) - {FaultKind.UNJOINED, FaultKind.IN_HOST_FUNCTION}
_LASTING = (Memory.DEVICE, Memory.PINNED, Memory.MAPPED, Memory.MANAGED)
OTHER = {
    FaultKind.OUTSIDE_MEMORY: "the memory is allocated here, outside of the graph",
    FaultKind.OUTSIDE_EVENT: "the event is recorded here, outside of the capture",
    FaultKind.MERGED: "the event is recorded here, in another capture",
    FaultKind.CAPTURED_EVENT: "the event is recorded here, in a capture",
}


def check(given: RuleInput) -> Iterator[Finding]:
    for fault, level in faults(given.timeline, KINDS):
        yield _finding(given, fault, level)


def _finding(given: RuleInput, fault: Fault, level: Confidence) -> Finding:
    line = given.timeline
    related = (*begin_of(line, fault), *_other(line, fault), *wording.called_from(fault.calls))
    return Finding(
        CODE,
        Group.CORRECTNESS,
        Severity.ERROR,
        level,
        fault.site,
        _message(line, fault),
        wording.distinct(related, fault.site),
        _fixes(given, fault),
        wording.condition(line.ops[fault.op]) if fault.op is not None else "",
    )


def _other(line: Timeline, fault: Fault) -> tuple[Related, ...]:
    if fault.other is None:
        return ()
    return (Related(line.ops[fault.other].site, OTHER.get(fault.kind, "this is what it is about")),)


def _message(line: Timeline, fault: Fault) -> str:
    stream = captured_stream(line, fault)
    call = f"`{line.ops[fault.op].kernel or fault.api}`" if fault.op is not None else f"`{fault.api}`"
    match fault.kind:
        case FaultKind.WAIT:
            return (
                f"{call} is called while {stream} is being captured: the work before it is only recorded, so the call "
                "fails and the capture is lost"
            )
        case FaultKind.DEFAULT_STREAM:
            return (
                f"{call} uses the default stream while {stream}, a blocking stream, is being captured: it would have to "
                "wait for work that is only recorded, so it fails and the capture is lost"
            )
        case FaultKind.BESIDE:
            return (
                f"{call} on the default stream is not part of the capture of {stream}: it runs once, at once, and not "
                "when the graph is launched"
            )
        case FaultKind.UNSAFE_CALL:
            return f"{call} is prohibited while {stream} is being captured: the call fails and the capture is lost"
        case FaultKind.NOT_CAPTURABLE:
            return f"{call} cannot be captured: the call fails, and the capture of {stream} is lost"
        case FaultKind.OUTSIDE_MEMORY:
            return f"{call} frees in the capture of {stream} memory that the graph did not allocate: the call fails"
        case FaultKind.OUTSIDE_EVENT:
            return (
                f"{call} makes {stream} wait, while it is being captured, for an event that was recorded outside of the "
                "capture: the call fails"
            )
        case FaultKind.MERGED:
            return f"{call} makes the capture of {stream} wait for an event of another capture: the call fails"
        case FaultKind.CAPTURED_EVENT:
            return f"{call} uses an event that was last recorded in a capture, where nothing runs: the call fails"
        case FaultKind.BEGIN_ON_DEFAULT:
            return f"{call} cannot capture the legacy default stream: the call fails"
        case FaultKind.BEGIN_TWICE:
            return f"{call} begins to capture {stream}, which is being captured already: the call fails"
        case FaultKind.END_ELSEWHERE:
            return f"{call} ends the capture on {stream}, on which it did not begin: the call fails"
    return f"{call} is not allowed here"


def _fixes(given: RuleInput, fault: Fault) -> tuple[Fix, ...]:
    body = edits.body_of(given, fault.site.function)
    if body is None or fault.op is None:
        return ()
    op = given.timeline.ops[fault.op]
    if fault.kind is FaultKind.WAIT and op.kind in HOST_WAITS:
        found = edits.statements(body, fault.site.span)
        if not found or not edits.sole(body, found[-1][0], fault.site.span) or not _only_in_captures(given, fault):
            return ()
        edit = edits.remove(body, found[-1][0].span)
        return (Fix(f"Remove `{fault.api}` (the graph keeps the order of the stream)", (edit,), preferred=True),)
    if fault.kind not in (FaultKind.DEFAULT_STREAM, FaultKind.BESIDE):
        return ()
    name = origin_text(given, fault, body)
    call = edits.call_at(body, fault.site.span)
    if name is None or call is None:
        return ()
    title = f"Put it on stream `{name}`, into the graph (it then runs at each launch of the graph)"
    if isinstance(call, Launch) and not call.api.startswith("cu") and call.stream is None and call.block is not None:
        last = call.shared or call.block
        text = body.slice(last.span)
        added = f", {name}" if call.shared is not None else f", 0, {name}"
        return (Fix(title, (edits.replace(body, last.span, text + added),), preferred=True),)
    if (
        isinstance(call, Api)
        and call.name in ("cudaMemset", "cudaMemcpy")
        and call.roles
        and _unpaged(given.timeline, op)
    ):
        last = call.roles[-1][1]
        changes = (
            edits.replace(body, call.name_span, f"{call.name}Async"),
            edits.replace(body, last.span, f"{body.slice(last.span)}, {name}"),
        )
        return (Fix(title, changes, preferred=True),)
    return ()


def _unpaged(line: Timeline, op: Op) -> bool:
    """No pageable memory takes part: an asynchronous call would go on using it after the capture."""
    return op.certain and all(line.buffers[a.buffer].memory in _LASTING for a in op.accesses)


def _only_in_captures(given: RuleInput, fault: Fault) -> bool:
    """No occurrence of the call is a wait that works."""
    faulty = {f.op for f in given.timeline.faults if f.site == fault.site}
    return all(o.id in faulty for o in given.timeline.ops if o.site == fault.site)


RULE = Rule(
    CODE,
    Group.CORRECTNESS,
    Severity.ERROR,
    "a call is illegal while a stream is being captured",
    __doc__ or "",
    check,
)
