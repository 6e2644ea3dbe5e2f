"""What the rules about captures share: faults of the Timeline, how sure they are, one a call."""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import edits, wording
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import RANK, Confidence, Related, RuleInput
from stitchcuda.analysis.order.timeline import Fault, FaultKind, Timeline
from stitchcuda.analysis.program.ir import Expr, Index, Launch, Member, Name, Site, Span


def faults(line: Timeline, kinds: frozenset[FaultKind]) -> Iterator[tuple[Fault, Confidence]]:
    """The faults of these kinds, the most confident one of each call."""
    found: dict[Site, tuple[Fault, Confidence]] = {}
    for fault in line.faults:
        if fault.kind not in kinds:
            continue
        level = confidence(line, fault)
        known = found.get(fault.site)
        if known is None or RANK[known[1]] < RANK[level]:
            found[fault.site] = (fault, level)
    yield from found.values()


def confidence(line: Timeline, fault: Fault) -> Confidence:
    """How sure it is that the program gets there. A call under a condition of its own inside the capture may be one that
    an earlier pass through its function has made unnecessary (a buffer that is allocated at first use)."""
    op = line.ops[fault.op] if fault.op is not None else None
    begin = line.ops[fault.begin] if fault.begin is not None else None
    sides = [{c.text for c in fault.conditions if c.taken is taken and c.text} for taken in (True, False)]
    contradictory = bool(sides[0] & sides[1])  # a flag is tested again and taken to be another one
    if not fault.certain or contradictory or (op is not None and op.thread != 0):
        return Confidence.POSSIBLE
    if fault.kind is FaultKind.BESIDE:
        return Confidence.LIKELY
    own = set(fault.conditions) - set(begin.conditions if begin is not None else ())
    if own and fault.kind is not FaultKind.UNJOINED:
        warm = begin is not None and any(o.function == fault.site.function for o in line.ops[: begin.id])
        return Confidence.POSSIBLE if warm else Confidence.LIKELY
    return Confidence.CERTAIN


def captured_stream(line: Timeline, fault: Fault) -> str:
    return "a stream" if fault.stream is None else wording.stream(line, fault.stream)


def begin_of(line: Timeline, fault: Fault) -> tuple[Related, ...]:
    """Where the capture begins."""
    if fault.begin is None or fault.begin == fault.op:
        return ()
    return (Related(line.ops[fault.begin].site, "the capture begins here"),)


def origin_text(given: RuleInput, fault: Fault, body: Body) -> str | None:
    """How the captured stream is written at the faulty call: as the argument of the begin, or of a neighbour that is
    captured, in the same run of the same function."""
    line = given.timeline
    if fault.begin is None:
        return None
    ops = [o for o in line.ops if o.stream == fault.stream and o.calls == fault.calls and o.id >= fault.begin]
    for op in ops:
        if op.function != body.function.uid or (op.id != fault.begin and op.graph is None):
            continue
        written = stream_argument(body, op.site.span)
        if written is not None and edits.visible(body, written, fault.site.span):
            return body.slice(written.span)
    return None


def stream_argument(body: Body, call: Span) -> Expr | None:
    """The stream that a call or launch is given, when it is a variable, a member or an element."""
    found = edits.call_at(body, call)
    written = found.stream if isinstance(found, Launch) else found.role("stream") if found is not None else None
    return written if isinstance(written, Name | Member | Index) else None
