"""A stream forked into a capture is not joined back before the capture ends.

## What

A stream waits for an event of a capture and so becomes part of it. It gets work, and when the capture ends nothing in
the stream that began it waits for that work.

## Why

The graph would hold work that nothing after it is ordered behind. CUDA refuses: `cudaStreamEndCapture` fails with
`cudaErrorStreamCaptureUnjoined` (904) and gives no graph. Every launch of it fails too.

## Example

```cuda
cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
cudaEventRecord(fork, s);
cudaStreamWaitEvent(side, fork, 0);
left<<<grid, block, 0, s>>>(x);
right<<<grid, block, 0, side>>>(y);
cudaStreamEndCapture(s, &graph);  // nothing in s waits for right
```

## Use instead

```cuda
right<<<grid, block, 0, side>>>(y);
cudaEventRecord(join, side);
cudaStreamWaitEvent(s, join, 0);
cudaStreamEndCapture(s, &graph);
```

## Fix safety

The fix records an event on the forked stream and makes the stream that began the capture wait for it, just before the
capture ends. That adds order and no node to the graph. It is offered where both streams have a name at that place.

## References

Ordering rows G4, E1, E2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stitchcuda.analysis.findings import edits, wording
from stitchcuda.analysis.findings.captures import begin_of, faults, stream_argument
from stitchcuda.analysis.findings.finding import Confidence, Finding, Fix, Group, Related, Rule, RuleInput, Severity
from stitchcuda.analysis.order.timeline import Fault, FaultKind

CODE = "capture-unjoined"


def check(given: RuleInput) -> Iterator[Finding]:
    for fault, level in faults(given.timeline, frozenset({FaultKind.UNJOINED})):
        yield _finding(given, fault, level)


def _finding(given: RuleInput, fault: Fault, level: Confidence) -> Finding:
    line = given.timeline
    assert fault.stream is not None and fault.other is not None and fault.op is not None
    work = line.ops[fault.other]
    origin = line.ops[fault.begin].stream if fault.begin is not None else None
    begun = wording.stream(line, origin) if origin is not None else "the stream that began it"
    message = (
        f"`{fault.api}` ends the capture while {wording.stream(line, fault.stream)}, which was forked into it, is not "
        f"joined: nothing in {begun} waits for {wording.operation(work)}, so the call fails"
    )
    forks = [o for o in line.ops if o.graph == work.graph and o.stream == fault.stream and o.event is not None]
    related = [Related(work.site, f"{wording.operation(work)} is not followed by anything in {begun}")]
    if forks and forks[0].id < work.id:
        related.append(Related(forks[0].site, "the stream joins the capture here"))
    return Finding(
        CODE,
        Group.CORRECTNESS,
        Severity.ERROR,
        level,
        fault.site,
        message,
        wording.distinct((*related, *begin_of(line, fault), *wording.called_from(fault.calls)), fault.site),
        _fixes(given, fault),
        wording.condition(line.ops[fault.op]),
    )


def _fixes(given: RuleInput, fault: Fault) -> tuple[Fix, ...]:
    line = given.timeline
    body = edits.body_of(given, fault.site.function)
    if body is None or fault.other is None:
        return ()
    work = line.ops[fault.other]
    origin = stream_argument(body, fault.site.span)
    forked = stream_argument(body, work.site.span) if work.function == fault.site.function else None
    found = edits.statements(body, fault.site.span)
    if not found or origin is None or work.loop != line.ops[fault.op or 0].loop or work.conditions:
        return ()
    place = found[-1][0].span
    if forked is None or not edits.visible(body, forked, place):
        return ()
    into, other = body.slice(origin.span), body.slice(forked.span)
    event = edits.fresh_name(body, re.sub(r"\W+", "_", f"{other}_joined"))
    near = place[0]
    lines = [
        f"cudaEvent_t {event};",
        edits.checked(body, f"cudaEventCreateWithFlags(&{event}, cudaEventDisableTiming)", near),
        edits.checked(body, f"cudaEventRecord({event}, {other})", near),
        edits.checked(body, f"cudaStreamWaitEvent({into}, {event}, 0)", near),
    ]
    behind = edits.after(body, place, [edits.checked(body, f"cudaEventDestroy({event})", near)])
    title = f"Join stream `{other}` before the capture ends"
    return (Fix(title, edits.merged([edits.before(body, place, lines), behind]), preferred=True),)


RULE = Rule(
    CODE,
    Group.CORRECTNESS,
    Severity.ERROR,
    "a stream forked into a capture is not joined back",
    __doc__ or "",
    check,
)
