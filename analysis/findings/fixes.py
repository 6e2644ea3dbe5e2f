"""Fixes that several rules share: order two streams by an event, wait on the host, free on the right stream.

A race may span functions. Its fix goes where the two call paths part: in the innermost function that leads to both ops.
A stream is named there by following the arguments of the calls in between; when that does not work there is no fix.
"""

from __future__ import annotations

from dataclasses import dataclass

from stitchcuda.analysis.findings import edits, wording
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import Fix, RuleInput
from stitchcuda.analysis.findings.passing import Written, in_caller
from stitchcuda.analysis.findings.race import Race
from stitchcuda.analysis.order.timeline import Op, StreamKind
from stitchcuda.analysis.program.ir import Api, ApiKind, Block, Continue, Expr, Launch, Span, walk


@dataclass(frozen=True)
class Meeting:
    """Where two ops' call paths part: the function, and the statements in it that lead to each op. `first_outer` and
    `later_outer` are the statements of the innermost common block."""

    body: Body
    depth: int  # length of the common call path
    first: Span
    later: Span
    first_outer: Span
    later_outer: Span
    first_above: Span  # in the innermost common block outside loops: where something may live that both need
    later_above: Span


def wait_for_event(given: RuleInput, race: Race) -> tuple[Fix, ...]:
    """Record an event behind the earlier op and make the later op's stream wait for it (E1, E2)."""
    meeting = meeting_of(given, race.earlier, race.later)
    if meeting is None:
        return ()
    # In a loop that the later op is not in, the last round's record must take in what all rounds put on the stream.
    rounds = [
        n.span for n in edits.loops_around(meeting.body, meeting.first) if not edits.contains(n.span, meeting.later)
    ]
    producer = stream_text(given, race.earlier, meeting, _behind(rounds[0] if rounds else meeting.first))
    consumer = stream_text(given, race.later, meeting, meeting.later)
    if producer is None or consumer is None or producer == consumer:
        return ()
    body = meeting.body
    event = edits.fresh_name(body, f"{race.buffer.name}_ready")
    near = meeting.later[0]
    first, last = sorted((meeting.first_above, meeting.later_above))
    create = f"cudaEventCreateWithFlags(&{event}, cudaEventDisableTiming)"
    wait = f"cudaStreamWaitEvent({consumer}, {event}, 0)"
    changes = [
        edits.before(body, first, [f"cudaEvent_t {event};", edits.checked(body, create, near)]),
        edits.after(body, meeting.first, [edits.checked(body, f"cudaEventRecord({event}, {producer})", near)]),
        edits.before(body, meeting.later, [edits.checked(body, wait, near)]),
        edits.after(body, last, [edits.checked(body, f"cudaEventDestroy({event})", near)]),
    ]
    title = f"Make {_stream(given, race.later)} wait for {wording.operation(race.earlier)} with an event (host does not wait)"
    return (Fix(title, edits.merged(changes), preferred=True),)


def wait_on_host(given: RuleInput, race: Race) -> tuple[Fix, ...]:
    """Wait for the earlier op's stream before the later statement (W2)."""
    meeting = meeting_of(given, race.earlier, race.later)
    if meeting is None:
        return _wait_at_the_end_of_the_loop(given, race)
    after = meeting.first_outer[1] <= meeting.later_outer[0]
    place = meeting.later_outer if after else meeting.later
    producer = stream_text(given, race.earlier, meeting, place)
    if producer is not None:
        call, awaited = f"cudaStreamSynchronize({producer})", _stream(given, race.earlier)
    elif stream_text(given, race.earlier, meeting) is not None and race.earlier.device == race.later.device:
        call, awaited = "cudaDeviceSynchronize()", "the device"  # the stream has no name at that place
    else:
        return ()
    line = edits.checked(meeting.body, call, place[0])
    title = f"Wait for {awaited} first (stalls the host until its work is done)"
    return (Fix(title, (edits.before(meeting.body, place, [line]),), preferred=True),)


def _wait_at_the_end_of_the_loop(given: RuleInput, race: Race) -> tuple[Fix, ...]:
    """The later access stands in the head of the loop that the earlier op runs in: `while (fread(...))`."""
    earlier, later = race.earlier, race.later
    depth = len(later.calls)
    body = edits.body_of(given, later.function)
    if body is None or earlier.calls[:depth] != later.calls:
        return ()
    inside = earlier.site_at(depth)
    loop = next(
        (
            n
            for n in reversed(edits.loops_around(body, later.site.span))
            if inside.function == later.function and edits.contains(n.body.span, inside.span)
        ),
        None,
    )
    if loop is None or edits.contains(loop.body.span, later.site.span) or not isinstance(loop.body, Block):
        return ()
    if not loop.body.body or any(isinstance(n, Continue) for n in walk(loop.body)):
        return ()
    last = loop.body.body[-1].span
    where = Meeting(body, depth, inside.span, last, inside.span, last, loop.span, loop.span)
    producer = stream_text(given, earlier, where, (last[1] + 1, last[1] + 1))
    if producer is None:
        return ()
    line = edits.checked(body, f"cudaStreamSynchronize({producer})", last[0])
    title = f"Wait for {_stream(given, earlier)} at the end of each round (stalls the host until its work is done)"
    return (Fix(title, (edits.after(body, last, [line]),), preferred=True),)


def free_on_stream(given: RuleInput, race: Race) -> tuple[Fix, ...]:
    """Free on the stream that used the memory: then stream order is enough (A2)."""
    meeting = meeting_of(given, race.earlier, race.later)
    if meeting is None or race.later.function != meeting.body.function.uid:
        return ()
    producer = stream_text(given, race.earlier, meeting, race.later.site.span)
    call = edits.call_at(meeting.body, race.later.site.span)
    written = call.role("stream") if isinstance(call, Api) else None
    if producer is None or written is None:
        return ()
    edit = edits.replace(meeting.body, written.span, producer)
    return (Fix(f"Release {wording.buffer(race.buffer)} on {_stream(given, race.earlier)}", (edit,), preferred=True),)


def stream_text(given: RuleInput, op: Op, meeting: Meeting, place: Span | None = None) -> str | None:
    """How the op's stream is written in the function where the paths meet; None when that means nothing, or something
    else, at the place."""
    if op.stream is None:
        return None
    if given.timeline.streams[op.stream].kind is StreamKind.LEGACY:
        return "0"
    body = edits.body_of(given, op.function)
    if body is None:
        return None
    call = edits.call_at(body, op.site.span)
    written: Expr | None = None
    if isinstance(call, Launch):
        written = call.stream
    elif isinstance(call, Api):
        written = call.role("stream") or _bound_to(given, op, body, call)
    if written is None:
        return None
    found = Written(body.slice(written.span), body, (written,), written.span)
    for depth in range(len(op.calls) - 1, meeting.depth - 1, -1):
        outer = edits.body_of(given, op.calls[depth].function)
        inner = in_caller(found, outer, op.calls[depth].span) if outer is not None else None
        if inner is None:
            return None
        found = inner
    if found.body.function.uid != meeting.body.function.uid or not _plain(found.text):
        return None
    if place is not None and not all(edits.visible(found.body, part, place) for part in found.parts):
        return None
    return found.text


def _bound_to(given: RuleInput, op: Op, body: Body, call: Api) -> Expr | None:
    """The stream as it was written when the library handle of a call was bound to it, in the same function (O9)."""
    handle = call.role("handle")
    if handle is None or body.function.body is None or op.stream is None:
        return None
    for node in walk(body.function.body):
        if isinstance(node, Api) and node.kind is ApiKind.SET_STREAM and node.span[0] < call.span[0]:
            bound, stream = node.role("handle"), node.role("stream")
            same = bound is not None and body.slice(bound.span) == body.slice(handle.span)
            if same and stream is not None and body.slice(stream.span) == given.timeline.streams[op.stream].name:
                return stream
    return None


def meeting_of(given: RuleInput, earlier: Op, later: Op) -> Meeting | None:
    """Where the paths to two ops part; None when there is no such place in C or C++ text."""
    depth = 0
    while depth < min(len(earlier.calls), len(later.calls)) and earlier.calls[depth] == later.calls[depth]:
        depth += 1
    first, second = earlier.site_at(depth), later.site_at(depth)
    if first.function != second.function or first == second:
        return None
    body = edits.body_of(given, first.function)
    if body is None:
        return None
    firsts, seconds = edits.statements(body, first.span), edits.statements(body, second.span)
    pairs = [(a[0], b[0]) for a, b in zip(firsts, seconds, strict=False) if a[1] is b[1]]
    if not pairs or pairs[-1][0] is pairs[-1][1]:
        return None
    inner = pairs[-1]
    loops = edits.loops_around(body, _hull(inner[0].span, inner[1].span))
    above = inner
    if loops:
        outermost = loops[0].span
        holder = next((s for s, _ in firsts if edits.contains(s.span, outermost)), None)
        if holder is None:
            return None
        above = (holder, holder)
    return Meeting(
        body,
        depth,
        firsts[-1][0].span,
        seconds[-1][0].span,
        inner[0].span,
        inner[1].span,
        above[0].span,
        above[1].span,
    )


def _behind(statement: Span) -> Span:
    return statement[1] + 1, statement[1] + 1


def _hull(a: Span, b: Span) -> Span:
    return min(a[0], b[0]), max(a[1], b[1])


def _plain(text: str) -> bool:
    """An expression that can be written again without side effects."""
    return bool(text) and not any(mark in text for mark in ("++", "--", "=", "\n", ";")) and len(text) < 80


def _stream(given: RuleInput, op: Op) -> str:
    return wording.stream(given.timeline, op.stream) if op.stream is not None else "the host"
