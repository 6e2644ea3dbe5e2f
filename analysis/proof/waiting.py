"""Does anything rely on a wait that is gone?

Wherever device work was known to be complete on the host's way and no longer is, nothing may need it: no clock, no code
that is not here, no memory that the host can see, no kernel that prints. Conflicting accesses are the matter of
`order.py`. Errors of the work must still be reported: by a checked call that waits for it, on every path to the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.waits import members
from stitchcuda.analysis.order.execute import END
from stitchcuda.analysis.order.timeline import Memory, Op, Timeline
from stitchcuda.analysis.program.effects import kernel_effects
from stitchcuda.analysis.program.ir import HOST_WAITS, Api, ApiKind, If, Return, Site, walk
from stitchcuda.analysis.proof.correspond import Correspondence, Side, Trees, side_of
from stitchcuda.analysis.proof.matching import HOST, Pairing, where
from stitchcuda.analysis.proof.model import ProofFinding
from stitchcuda.analysis.proof.pieces import Piece
from stitchcuda.analysis.proof.points import ASKS, HANDOVER, LEAVES, TIME, UNKNOWN
from stitchcuda.analysis.proof.shapes import shape_of
from stitchcuda.analysis.proof.surroundings import ends

WORK = frozenset(
    {
        ApiKind.LAUNCH,
        ApiKind.COPY,
        ApiKind.MEMSET,
        ApiKind.LIBRARY_CALL,
        ApiKind.GRAPH_LAUNCH,
        ApiKind.PREFETCH,
        ApiKind.HOST_FUNC,
    }
)
_ORDERS = HOST_WAITS | {ApiKind.EVENT_RECORD, ApiKind.EVENT_WAIT}
_DEVICE_ONLY = frozenset({Memory.DEVICE, Memory.SYMBOL})


@dataclass
class Waiting:
    failed: list[ProofFinding] = field(default_factory=list)
    unknown: list[ProofFinding] = field(default_factory=list)


@dataclass
class Texts:
    """Statements of one version by the calls in them."""

    both: Correspondence
    original: bool
    _sides: dict[str, Side] = field(default_factory=dict)
    _trees: Trees | None = None

    def statement(self, site: Site) -> tuple[Side, Piece] | None:
        analysis = self.both.before if self.original else self.both.after
        side = self._sides.get(site.function)
        if side is None:
            changed = self.both.changed.get(site.function)
            if changed is not None:
                side = changed.before if self.original else changed.after
            else:
                self._trees = self._trees or Trees(analysis)
                side = side_of(analysis, self._trees, analysis.program.functions[site.function])
            self._sides[site.function] = side
        start, end = side.function.base + site.span[0], side.function.base + site.span[1]
        piece = next((p for p in side.body.pieces if p.span[0] <= start and end <= p.span[1]), None)
        return None if piece is None else (side, piece)

    def checked(self, op: Op) -> bool:
        """The status of a call goes to an error check."""
        found = self.statement(op.site)
        if found is None:
            return False
        analysis = self.both.before if self.original else self.both.after
        return bool(shape_of(analysis.program, *found).check)


def relies(
    both: Correspondence,
    made: Pairing,
    reasons: dict[Site, tuple[str, str]],
    *,
    whole: bool,
    timed: bool,
    hiding: frozenset[int],
) -> Waiting:
    """`reasons` are the points of the changed version; `whole`: the entry is a program's main; `timed`: it measures times
    between events; `hiding`: launches of the changed version that use memory which is not listed."""
    found = Waiting()
    line, other = made.before, made.after
    work = sum(1 << a for a in made.pairs if line.ops[a].kind in WORK and line.ops[a].stream is not None)
    asked = {m.site for m in line.measurements if m.events is not None}
    records = sum(1 << a for a in made.pairs if timed and line.ops[a].kind is ApiKind.EVENT_RECORD)
    lost_at: dict[int, int] = {}  # op of the changed version -> work no longer complete there
    for a, b in made.pairs.items():
        done = made.done_before(a)
        lost = made.images(done & work) & ~other.before[b]
        if lost:
            lost_at[b] = lost
        late = made.images(done & records) & ~other.before[b]
        if late and line.ops[a].kind is ApiKind.NEUTRAL and line.ops[a].site in asked:  # E4
            record = other.ops[next(members(late))]
            what = f"`{other.ops[b].api}` takes a time here, and {wording.operation(record)} may not be complete"
            found.failed.append(where(both, other.ops[b], what))
    for wait, done in _gone(made, work):
        _behind(both, made, wait, done, hiding, found)
    _errors(both, made, work, reasons, found)
    for b, lost in sorted(lost_at.items()):
        _point(both, made, other.ops[b], lost, reasons, whole, found)
        if timed and other.ops[b].kind is ApiKind.EVENT_RECORD:
            what = f"the event is recorded before {wording.operation(other.ops[next(members(lost))])} is done: another time"
            found.failed.append(where(both, other.ops[b], what))
    if timed:
        for op in (*made.gone, *made.new):
            if op.kind is ApiKind.EVENT_RECORD:
                what = "an event is recorded in one version only, and times between events are measured"
                found.unknown.append(where(both, op, what, original=op in made.gone))
    _unseen_work(both, made, reasons, found)
    return found


def _unseen_work(both: Correspondence, made: Pairing, reasons: dict[Site, tuple[str, str]], found: Waiting) -> None:
    """Code that is not here may have started work that only a wait or an order that is gone was for."""
    other = made.after
    strange = [op for op in other.ops if op.id in made.back and reasons.get(op.site, ("",))[0] in (UNKNOWN, HANDOVER)]
    strange = [op for op in strange if op.kind is ApiKind.NEUTRAL]
    frees = dict(made.freed)
    for op in made.before.ops:
        if op.id in frees or (op.id not in made.pairs and (op.waits or op.kind in _ORDERS)):
            earlier = made.images(made.before.earlier[op.id])
            first = next((s for s in strange if earlier >> s.id & 1), None)
            if first is not None:
                name = reasons[first.site][1] or first.api
                what = f"`{name}`, whose code is not here, may have started work that a wait was for that is gone"
                found.unknown.append(where(both, first, what))
                return


def _gone(made: Pairing, work: int) -> Iterator[tuple[Op, int]]:
    """Waits of the original that are gone, each with the work that it waited for first."""
    line = made.before
    frees = dict(made.freed)
    for op in line.ops:
        waited = frees.get(op.id, op.waits if op.id not in made.pairs else 0)
        first = waited & work & ~made.done_before(op.id)
        if first:
            yield op, first


def _prints(both: Correspondence, op: Op) -> bool:
    if op.kind is not ApiKind.LAUNCH:
        return op.kind is ApiKind.HOST_FUNC
    program = both.after.program
    uids = program.by_name.get(op.kernel.rsplit("::", 1)[-1].split("<")[0], ())
    effects = [kernel_effects(program, uid) for uid in uids]
    return not effects or any(e.prints or e.supplied for e in effects)


def _seen_by_host(line: Timeline, op: Op) -> str:
    """Memory through which the host could see whether an op is complete; "" for none."""
    if op.unknown or not op.certain or op.kind in (ApiKind.LIBRARY_CALL, ApiKind.HOST_FUNC, ApiKind.GRAPH_LAUNCH):
        return "memory that is not known"
    for access in op.accesses:
        buffer = line.buffers[access.buffer]
        staged = op.kind is ApiKind.COPY and not op.asynchronous and buffer.memory is Memory.PAGEABLE  # C1, C3
        if buffer.memory not in _DEVICE_ONLY and not staged:
            return f"`{buffer.name}`"
    return ""


def _behind(both: Correspondence, made: Pairing, wait: Op, done: int, hiding: frozenset[int], found: Waiting) -> None:
    """Work that the host can see or hear may lose a wait only to one so near that nothing is between."""
    other = made.after
    for number in members(made.images(done)):
        op = other.ops[number]
        prints, seen = _prints(both, op), _seen_by_host(other, op)
        if number in hiding:
            seen = seen or "memory that is not listed"
        if not prints and not seen:
            continue
        if any(_near(both, wait, w) for w in other.ops if w.waits >> number & 1 and w.kind in HOST_WAITS):
            continue
        if prints:
            what = f"{wording.operation(op)} may print or assert, which only a wait brings to light; this one is gone"
            found.failed.append(where(both, wait, what, original=True))
        else:
            what = f"{wording.operation(op)} uses {seen}, which the host may use after this wait, and the wait is gone"
            found.unknown.append(where(both, wait, what, original=True))
        return


def _near(both: Correspondence, wait: Op, cover: Op) -> bool:
    """Both stand in one run of statements, with nothing between but calls of the API."""
    changed = both.changed.get(wait.function)
    if changed is None or cover.function != wait.function or cover.iteration != wait.iteration:
        return False
    if tuple(both.site(c) for c in wait.calls) != cover.calls:
        return False
    base, end = changed.before.function.base + wait.site.span[0], changed.after.function.base + cover.site.span[0]
    for slot in changed.slots:
        first = next(
            (k for k, (p, q) in enumerate(slot) if q is None and p is not None and p.span[0] <= base < p.span[1]), None
        )
        last = next((k for k, (_, q) in enumerate(slot) if q is not None and q.span[0] <= end < q.span[1]), None)
        if first is None or last is None:
            continue
        for p, q in slot[min(first, last) : max(first, last) + 1]:
            side, piece = (changed.after, q) if q is not None else (changed.before, p)
            program = both.after.program if q is not None else both.before.program
            if piece is None or shape_of(program, side, piece).kind not in ("api", "launch"):
                return False
        return True
    return False


def _errors(
    both: Correspondence, made: Pairing, work: int, reasons: dict[Site, tuple[str, str]], found: Waiting
) -> None:
    """What a checked wait would have reported, a later checked wait must; or a later question for the last error."""
    other = made.after
    old, new = Texts(both, original=True), Texts(both, original=False)
    questions = [op for op in other.ops if reasons.get(op.site, ("",))[0] == ASKS and op.kind is ApiKind.NEUTRAL]
    for wait, done in _gone(made, work):
        if not (old.checked(wait) or questions):
            continue
        stands = old.statement(wait.site)
        returned = stands is not None and _returns(stands, both.before.program.functions[wait.function].name)
        if returned and not all(_covered_here(both, other, wait, number) for number in members(made.images(done))):
            what = f"the status of this `{wait.api}` goes to the caller, which may act on it, and it is gone"
            found.unknown.append(where(both, wait, what, original=True))
        for number in members(made.images(done)):
            covers = [w for w in other.ops if w.waits >> number & 1 and not other.before[w.id] >> number & 1]
            unchecked = next((w for w in covers if not new.checked(w)), None)
            if unchecked is None or _asked(other, number, questions):
                continue
            what = f"errors of {wording.operation(other.ops[number])} come up here, where nobody looks at the status"
            found.failed.append(where(both, unchecked, what))
            break


def _covered_here(both: Correspondence, other: Timeline, wait: Op, work: int) -> bool:
    """A later wait in the same run of the same function has the same status."""
    calls = tuple(both.site(c) for c in wait.calls)
    new = Texts(both, original=False)
    return any(
        w.waits >> work & 1
        and w.function == wait.function
        and w.calls == calls
        and w.iteration == wait.iteration
        and set(w.conditions) <= set(wait.conditions)
        and new.checked(w)
        for w in other.ops
    )


def _gives_up(both: Correspondence, question: Op) -> bool:
    """All that depends on the answer is whether the program ends here."""
    program = both.after.program
    function = program.functions[question.function]
    for node in walk(function.body) if function.body is not None else ():
        if isinstance(node, If) and any(
            isinstance(n, Api) and n.span == question.site.span for n in walk(node.condition)
        ):
            return node.otherwise is None and ends(function, node.then)
    found = Texts(both, original=False).statement(question.site)
    if found is None:
        return False
    shape = shape_of(program, *found)
    return bool(shape.check) and not _returns(found, function.name)


def _returns(statement: tuple[Side, Piece], function: str) -> bool:
    """A check hands the status to the caller, which may act on it."""
    side, piece = statement
    return function != "main" and any(isinstance(n, Return) for n in side.nodes.get(piece, []))


def _asked(line: Timeline, work: int, questions: list[Op]) -> bool:
    """The last error is asked for when the work is complete, wherever the work runs."""
    conditions = set(line.ops[work].conditions)
    return any(line.before[q.id] >> work & 1 and set(q.conditions) <= conditions for q in questions)


def _point(
    both: Correspondence,
    made: Pairing,
    op: Op,
    lost: int,
    reasons: dict[Site, tuple[str, str]],
    whole: bool,
    found: Waiting,
) -> None:
    """A point where work was complete and is not any more."""
    work = wording.operation(made.after.ops[next(members(lost))])
    managed = [a for a in op.accesses if made.after.buffers[a.buffer].memory is Memory.MANAGED]
    if op.kind in HOST and managed:
        name = made.after.buffers[managed[0].buffer].name
        what = f"the host uses `{name}` here, and {work} may still be running, which not every device allows"
        found.unknown.append(where(both, op, what))
    if op.kind is not ApiKind.NEUTRAL:
        return
    if op.api == END:
        if not whole:
            what = f"callers may rely on {work} being complete when this function returns"
            found.unknown.append(where(both, op, what))
            return
        reason, name = LEAVES, "the end of main"
    else:
        reason, name = reasons.get(op.site, (UNKNOWN, op.api))
    if reason == LEAVES:
        checked = Texts(both, original=True)
        old = made.back
        behind = sum(1 << old[n] for n in members(lost))
        asked = ASKS in {kind for kind, _ in reasons.values()}
        if any(done & behind and (asked or checked.checked(wait)) for wait, done in _gone(made, behind)):
            what = f"the program may end here ({name}) before errors of {work} are reported"
            found.failed.append(where(both, op, what))
    elif reason == ASKS:
        if not _gives_up(both, op):  # else a later question or wait reports it: `_errors`
            what = f"`{name}` may say something else here, as {work} may still be running, and the program acts on it"
            found.unknown.append(where(both, op, what))
    elif reason == TIME:
        what = f"`{name}` takes a time here, and {work} may still be running: another time is measured"
        found.failed.append(where(both, op, what))
    elif reason == HANDOVER:
        what = f"`{name}` may be handed data here that {work} is still working on"
        found.failed.append(where(both, op, what))
    else:
        what = f"`{name}` is called here, whose code is not here, and {work} may still be running"
        found.unknown.append(where(both, op, what))
