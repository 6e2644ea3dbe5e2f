"""Uses of what has ended: what the rules about lifetimes share."""

from __future__ import annotations

from collections.abc import Iterator

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.finding import Confidence, Related, RuleInput
from stitchcuda.analysis.findings.race import exclusive
from stitchcuda.analysis.order.machine import same_stream
from stitchcuda.analysis.order.timeline import Certainty, Condition, Op, Released, Stale, StreamKind, Timeline
from stitchcuda.analysis.program.ir import HOST_WAITS, RELEASES, ApiKind

KINDS = {"memory": "the memory", "stream": "stream", "event": "event", "graph": "the graph", "exec": "the graph"}


def stale_uses(given: RuleInput, *, again: bool) -> Iterator[tuple[Stale, Confidence]]:
    """Calls that name what was released before: further releases (`again`), or uses."""
    for stale in given.timeline.stale:
        function = given.program.functions.get(stale.site.function)
        if stale.again is not again or function is None or function.language == "python":
            continue
        if not _apart(given.timeline, stale):
            yield stale, _confidence(given.timeline, stale)


def _apart(line: Timeline, stale: Stale) -> bool:
    """The two calls stand on opposite sides of one decision."""
    if stale.op is not None and stale.released.op is not None:
        return exclusive(line, line.ops[stale.released.op], line.ops[stale.op])
    taken = {c.text: c.taken for c in stale.released.conditions if c.text}
    return any(c.text in taken and taken[c.text] != c.taken for c in stale.conditions)


def _confidence(line: Timeline, stale: Stale) -> Confidence:
    """Certain when every path that leads to the call released it before."""
    if not stale.certain or (stale.again and _family(stale.how) != _family(stale.released.how)):
        return Confidence.POSSIBLE  # host memory is released as such: the paths do not fit together
    if stale.released.sure:
        return Confidence.CERTAIN if _touches(line, stale) else Confidence.LIKELY
    if _in_another_round(line, stale):
        return Confidence.POSSIBLE  # what lets the loop go on may say that nothing was released
    known = {_decision(c) for c in stale.released.conditions}
    own = [c for c in stale.conditions if _decision(c) not in known]
    return (
        Confidence.POSSIBLE if own else Confidence.LIKELY
    )  # under a condition of its own: that both hold is not proved


def _family(how: str) -> str:
    """Releases that may be meant for the same memory."""
    name = how.rsplit("::", 1)[-1]
    if name.startswith(("cudaFreeHost", "cuMemFreeHost")):
        return "pinned"
    return "device" if name.startswith(("cuda", "cu")) else "host"


def _in_another_round(line: Timeline, stale: Stale) -> bool:
    """The release was made in an earlier round of a loop that both stand in."""
    if stale.op is None or stale.released.op is None:
        return False
    one, other = line.ops[stale.released.op], line.ops[stale.op]
    pairs = zip(_loops(line, one.loop), one.iteration, _loops(line, other.loop), other.iteration, strict=False)
    return any(a == b and i != j for a, i, b, j in pairs)


def _loops(line: Timeline, loop: int | None) -> list[int]:
    """The loops around, outermost first."""
    found: list[int] = []
    while loop is not None:
        found.insert(0, loop)
        loop = line.loops[loop].parent
    return found


def _decision(condition: Condition) -> tuple[object, ...]:
    return condition.site, condition.text, condition.taken


def _touches(line: Timeline, stale: Stale) -> bool:
    """Not only on some readings of what the call does."""
    if stale.op is None or stale.buffer is None:
        return True
    mine = [a for a in line.ops[stale.op].accesses if a.buffer == stale.buffer]
    return any(a.certainty is Certainty.MUST for a in mine)


def released_since(line: Timeline, users: int, before: int) -> int:
    """Those of the ops `users` that a `cudaFree` or the like among the ops `before` came after: it waits for them in
    practice, though nobody promises it (W8)."""
    found = 0
    for op in line.ops:
        if op.kind in RELEASES and op.stream is None and before >> op.id & 1:
            found |= users & line.earlier[op.id]
    return found


def perhaps_waited(line: Timeline, op: Op, before: int) -> bool:
    """One of the ops `before` waits behind `op`, and it is not known where its stream or that of `op` comes from: they may be
    one, as in `cudaStreamSynchronize(current_stream())`."""
    for wait in line.ops:
        if wait.kind not in HOST_WAITS or not before >> wait.id & 1 or not line.earlier[wait.id] >> op.id & 1:
            continue
        if wait.event is None:
            if _perhaps_one(line, op, wait):
                return True
        elif line.events[wait.event].site is None or any(
            record.kind is ApiKind.EVENT_RECORD and record.event == wait.event and _perhaps_one(line, op, record)
            for record in line.ops
            if line.earlier[record.id] >> op.id & 1
        ):
            return True
    return False


def _perhaps_one(line: Timeline, op: Op, other: Op) -> bool:
    """The streams of two ops may be one since one of them is not known."""
    if op.stream is None or other.stream is None:
        return False
    streams = line.streams[op.stream], line.streams[other.stream]
    return StreamKind.UNKNOWN in (streams[0].kind, streams[1].kind) and same_stream(*streams) is None


def thing(line: Timeline, stale: Stale) -> str:
    """What was released, in words: "`dX`", "event `done`"."""
    if stale.kind == "memory":
        return f"`{stale.name}`" if stale.name else "the memory"
    return (
        f"{KINDS[stale.kind]} `{stale.name}`" if stale.name and stale.kind in ("stream", "event") else KINDS[stale.kind]
    )


def ended(released: Released) -> str:
    """How something ended: "released by `cudaFree`"."""
    if not released.how:
        return "gone at the end of its scope"
    if "Destroy" in released.how:
        return f"destroyed by `{released.how}`"
    return f"released by `{released.how}`"


def places(line: Timeline, stale: Stale) -> tuple[Related, ...]:
    """The release, the calls that led to both, and where it was made."""
    released = stale.released
    made: tuple[Related, ...] = ()
    if stale.buffer is not None:
        made = wording.allocation(line.buffers[stale.buffer])
    related = (
        Related(released.site, f"{thing(line, stale)} is {ended(released)} here"),
        *(Related(site, "called from here") for site in reversed(stale.calls)),
        *(Related(site, "called from here") for site in reversed(released.calls)),
        *made,
    )
    return wording.distinct(related, stale.site)


def under(conditions: tuple[Condition, ...]) -> str:
    """The branch decisions on the way to a place, as written."""
    return " && ".join(c.text if c.taken else f"!({c.text})" for c in conditions if c.text)
