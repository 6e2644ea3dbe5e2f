"""What rules share that tell of accesses between which a barrier of the block or the warp is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.finding import RANK, Confidence, Finding, Fix, Group, KernelInput, Related, Severity
from stitchcuda.analysis.findings.kernel_wording import written
from stitchcuda.analysis.kept import KeptWith
from stitchcuda.analysis.kernel.arithmetic import LOADED
from stitchcuda.analysis.kernel.conditions import conditions_of
from stitchcuda.analysis.kernel.conflicts import conflicts
from stitchcuda.analysis.kernel.divergence import Why, divergences
from stitchcuda.analysis.kernel.elections import emptiness
from stitchcuda.analysis.kernel.lanes import Form, Monomial, lanes_of
from stitchcuda.analysis.kernel.learnt import Conflict
from stitchcuda.analysis.kernel.model import Access, KernelTrace, Mode, Uniformity
from stitchcuda.analysis.kernel.trace import KernelTraces, kernel_traces, with_barriers
from stitchcuda.analysis.program.ir import Site, Span

_VERB = {Mode.READ: "reads", Mode.WRITE: "writes", Mode.ATOMIC: "updates", Mode.ASYNC_WRITE: "copies into"}
_MOST = 6  # findings of one kernel
_TRIES = 5  # places for a barrier that are tried


@dataclass(frozen=True)
class Gap:
    """A place where one barrier is missing: the conflict that shows it, and others that the same barrier mends."""

    conflict: Conflict
    others: tuple[Conflict, ...]
    level: Confidence
    before: Site | None = None  # the statement before which a barrier closes the gap

    @property
    def key(self) -> tuple[Site, Site]:
        return self.conflict.earlier.site, self.conflict.later.site


def gaps(given: KernelInput, *, warp: bool) -> list[Gap]:
    """The places where a barrier of the block (of the warp) is missing, each once, the surest first.

    A kernel that several launches run with different shapes has the gaps of all. When no launch tells the shape, only
    what every shape shows counts."""
    traces = kernel_traces(given.program, given.kernel, given.sources, given.guesses)
    found: dict[tuple[Site, Site], Gap] = {}
    counts: dict[tuple[Site, Site], int] = {}
    for trace in traces.traces:
        seen: set[tuple[Site, Site]] = set()
        for gap in _warp_gaps(given, traces, trace) if warp else _block_gaps(given, traces, trace):
            seen.update((c.earlier.site, c.later.site) for c in (gap.conflict, *gap.others))
            known = found.get(gap.key)
            if known is None or RANK[known.level] < RANK[gap.level]:
                found[gap.key] = gap
        for key in seen:
            counts[key] = counts.get(key, 0) + 1
    everywhere = 1 if traces.fixed else len(traces.traces)
    kept = [gap for key, gap in found.items() if counts[key] >= everywhere]
    kept.sort(key=lambda g: (-RANK[g.level], g.conflict.later.at))
    return _one_a_place(given, kept)[:_MOST]


def _one_a_place(given: KernelInput, kept: list[Gap]) -> list[Gap]:
    """One gap may show by several accesses: of one line, or with different shapes of the block."""
    places: set[object] = set()
    out = []
    for gap in kept:
        site = gap.conflict.later.site
        source = given.sources.get(site.path, b"")
        line = source.rfind(b"\n", 0, given.program.functions[site.function].base + site.span[0])
        if gap.before not in places and (site.path, line) not in places:
            out.append(gap)
        places.add((site.path, line))
        if gap.before is not None:
            places.add(gap.before)
    return out


def _block_gaps(given: KernelInput, traces: KernelTraces, trace: KernelTrace) -> Iterator[Gap]:
    """Barriers are put in one by one, each where it closes the first gap that is left, and the kernel is walked again."""
    left = _sorted(traces, trace, [c for c in _in_need(given, trace) if not c.warp_only])
    missed = _missed(trace)
    put: frozenset[tuple[str, Span]] = frozenset()
    for _ in range(_MOST):
        if not left or _level(traces, trace, left[0]) is Confidence.POSSIBLE:
            break
        first = left[0]
        mended = _mended(given, traces, trace, first, put, missed)
        if mended is None:
            break
        place, after = mended
        put |= {(place.function, place.span)}
        keys = {(c.earlier.site, c.later.site) for c in after if not c.barred}
        others = [c for c in left[1:] if (c.earlier.site, c.later.site) not in keys]
        yield Gap(first, tuple(others), _level(traces, trace, first), place)
        left = _sorted(traces, trace, [c for c in after if not c.warp_only and not c.barred])
    yield from _stabbed(traces, trace, left)


def _warp_gaps(given: KernelInput, traces: KernelTraces, trace: KernelTrace) -> Iterator[Gap]:
    """What a missing barrier of the block explains is told by its own rule."""
    found = _in_need(given, trace)
    across = [c for c in found if not c.warp_only]
    buffers = {c.later.buffer for c in across if _level(traces, trace, c) is not Confidence.POSSIBLE}
    within = [
        c for c in found if c.warp_only and c.later.buffer not in buffers and not any(_overlap(c, o) for o in across)
    ]
    yield from _stabbed(traces, trace, _sorted(traces, trace, within))


def _in_need(given: KernelInput, trace: KernelTrace) -> list[Conflict]:
    """The conflicts that ask for order."""
    return [c for c in conflicts(trace) if not _elects(given, c)]


def _elects(given: KernelInput, conflict: Conflict) -> bool:
    """A thread that looks whether a place is empty, and one that takes it in the same statement."""
    read, write = conflict.earlier, conflict.later
    if read.mode is not Mode.READ:
        read, write = write, read
    if (
        read.mode is not Mode.READ
        or write.mode is not Mode.WRITE
        or (read.site.function, read.calls) != (write.site.function, write.calls)
    ):
        return False
    program, site = given.program, write.site
    place = emptiness(
        write,
        conditions_of(program),
        program,
        lambda part: written(program, given.sources, Site(site.function, site.path, part.span), 200),
    )
    return place == read.site.span


def _sorted(traces: KernelTraces, trace: KernelTrace, found: list[Conflict]) -> list[Conflict]:
    return sorted(found, key=lambda c: (-RANK[_level(traces, trace, c)], c.later.at))


def _stabbed(traces: KernelTraces, trace: KernelTrace, left: list[Conflict]) -> Iterator[Gap]:
    """A barrier right before the first later access closes all gaps that span this moment."""
    while left:
        first = left[0]
        same = [c for c in left if c.earlier.at < first.later.at <= c.later.at]
        left = [c for c in left if not c.earlier.at < first.later.at <= c.later.at]
        yield Gap(first, tuple(c for c in same if c is not first), _level(traces, trace, first))


def _overlap(a: Conflict, b: Conflict) -> bool:
    return a.earlier.at < b.later.at and b.earlier.at < a.later.at


def _level(traces: KernelTraces, trace: KernelTrace, conflict: Conflict) -> Confidence:
    level = Confidence.CERTAIN if traces.fixed else Confidence.LIKELY
    if not traces.fixed and trace.block.known == "guess" and trace.block.y > 1:
        return Confidence.POSSIBLE  # which threads share a row is a matter of the shape
    first, second = conflict.earlier, conflict.later
    if trace.outside and not traces.fixed or trace.broken or trace.uses_locks or conflict.barred or conflict.collective:
        return Confidence.POSSIBLE
    if not first.certain or not second.certain:
        return Confidence.POSSIBLE
    if not {Mode.READ, Mode.ATOMIC} & {first.mode, second.mode} and not _differ(first, second):
        return Confidence.POSSIBLE  # the same value, perhaps: then the order does not matter
    if first.site == second.site and _crowded(second):
        return Confidence.POSSIBLE  # all threads update one place in one statement: an atomic is missing
    if first.mode is Mode.ATOMIC and second.mode is Mode.READ and _polled(trace, second):
        return Confidence.POSSIBLE  # a loop that goes on until a counter says so
    if second.mode is Mode.WRITE and second.offset.constant is not None and _flag(second):
        return Confidence.POSSIBLE
    if first.mode is Mode.READ and second.mode is Mode.WRITE and _found_once(first, second):
        return Confidence.POSSIBLE
    if first.mode is Mode.READ and second.mode is Mode.ATOMIC:
        return Confidence.POSSIBLE  # look, then update: what was read is only a hint
    own = {(g.key, g.holds) for g in first.guards} ^ {(g.key, g.holds) for g in second.guards}
    apart = [g for g in (*first.guards, *second.guards) if (g.key, g.holds) in own and not g.loop]
    if not conflict.sure and any(g.uniformity is Uniformity.DATA for g in (*first.guards, *second.guards)):
        return Confidence.POSSIBLE  # the data may part the threads
    if apart or not conflict.sure:
        level = Confidence.LIKELY
    if any(g.uniformity is Uniformity.DATA for g in (*first.guards, *second.guards)):
        level = Confidence.LIKELY
    return level


def _crowded(access: Access) -> bool:
    """Several threads touch one element at the same time."""
    lanes = lanes_of(access.lanes)
    return len({access.offset.at(lane) for lane in lanes}) < len(lanes)


def _polled(trace: KernelTrace, read: Access) -> bool:
    """The read stands in the condition of a loop."""
    return any(
        c.function == read.site.function and c.span[0] <= read.site.span[0] and read.site.span[1] <= c.span[1]
        for c in _of_loops(trace)
    )


def _of_loops(trace: KernelTrace) -> frozenset[Site]:
    """The conditions of loops; they are asked for at many conflicts of one trace."""
    known = _loops.get(trace)
    if known is None:
        known = _loops.keep(trace, frozenset([g.site for access in trace.accesses for g in access.guards if g.loop]))
    return known


_loops: KeptWith[frozenset[Site]] = KeptWith()  # by trace


def _flag(write: Access) -> bool:
    """A constant that is stored when the data say so: a flag, which threads may raise at any time."""
    constant = write.value is not None and write.value.constant is not None
    return constant and any(g.uniformity is Uniformity.DATA for g in write.guards)


def _found_once(read: Access, write: Access) -> bool:
    """Who loads the number that is looked for writes what those read that load a larger one: where that was read it was
    found before, and it is there once. A search that another loop begins again is not the same one."""
    if len(read.loops) != 1 or [s for s, _ in read.loops] != [s for s, _ in write.loops]:
        return False
    wanted = [_compared(g.equal) for g in write.guards if g.uniformity is Uniformity.DATA and g.equal is not None]
    others = [_compared(g.margin) for g in read.guards if g.uniformity is Uniformity.DATA and g.margin is not None]
    return any(a == b or a == {m: -c for m, c in b.items()} for a in wanted for b in others)


def _compared(form: Form) -> dict[Monomial, int]:
    """What a condition compares, whatever number was loaded in which round."""
    out: dict[Monomial, int] = {}
    for mono, c in form.terms:
        if mono and isinstance(c, int):
            out[tuple(LOADED if s.startswith(LOADED) else s for s in mono)] = c
    return out


def _differ(first: Access, second: Access) -> bool:
    a = first.value.constant if first.value is not None else None
    b = second.value.constant if second.value is not None else None
    return a is not None and b is not None and a != b


# ------------------------------------------------------------------------------------------------------------- the finding


def gap_finding(given: KernelInput, gap: Gap, code: str, severity: Severity, barrier: str, fix: Fix | None) -> Finding:
    first, second = gap.conflict.earlier, gap.conflict.later
    name = f"`{second.buffer.name}{'.' if second.field else ''}{second.field}`"
    kernel = given.program.functions[given.kernel].name
    whose = "another thread" if barrier == "__syncthreads" else "another thread of the warp"
    if first.site == second.site:
        message = f"in the next round a thread {_VERB[second.mode]} {name} here that {whose} still {_VERB[first.mode]}"
    else:
        message = f"`{kernel}`: a thread {_VERB[second.mode]} an element of {name} that {whose} {_VERB[first.mode]}"
    message += f", with no `{barrier}()` in between"
    related = [Related(first.site, f"the other access: {whose} {_VERB[first.mode]} {name} here")]
    related += [Related(site, "called from here") for site in reversed(second.calls)]
    seen = {second.site, *(r.site for r in related)}
    for other in gap.others:
        if other.later.site not in seen and len(related) < 6:
            seen.add(other.later.site)
            related.append(Related(other.later.site, f"`{other.later.buffer.name}` is accessed here, too"))
    return Finding(
        code,
        Group.DEVICE,
        severity,
        gap.level,
        second.site,
        message,
        tuple(related),
        (fix,) if fix is not None else (),
    )


def barrier_fix(given: KernelInput, gap: Gap, statement: str, title: str) -> Fix | None:
    """A barrier before a statement that all threads reach together, where the walk found the gap closed by it and no
    barrier that some threads miss."""
    body = edits.body_of(given, gap.before.function) if gap.before is not None else None
    if body is None or gap.before is None:
        return None
    return Fix(title, (edits.before(body, gap.before.span, [statement]),), preferred=True)


def _mended(
    given: KernelInput,
    traces: KernelTraces,
    trace: KernelTrace,
    conflict: Conflict,
    put: frozenset[tuple[str, Span]],
    missed: set[Site],
) -> tuple[Site, list[Conflict]] | None:
    """A statement before which a barrier separates the two accesses, the place next to the later one first, and the
    conflicts that are left then."""
    key = (conflict.earlier.site, conflict.later.site)
    tried: set[Site] = set()
    for place in _places(given, conflict):
        if place in tried or (place.function, place.span) in put:
            continue
        tried.add(place)
        if len(tried) > _TRIES:
            return None
        again = with_barriers(trace, put | {(place.function, place.span)})
        if _missed(again) - missed:
            continue
        after = _in_need(given, again)
        if not any((c.earlier.site, c.later.site) == key and not c.barred and not c.warp_only for c in after):
            return place, after
    return None


def _missed(trace: KernelTrace) -> set[Site]:
    """Barriers that threads of the block miss which have not ended."""
    return {d.barrier.site for d in divergences(trace) if d.why is not Why.LEFT}


def _places(given: KernelInput, conflict: Conflict) -> Iterator[Site]:
    """Statements before which a barrier may close the gap: in the function of the accesses, then in the kernel."""
    for access in (conflict.later, conflict.earlier):
        sites = [access.site]
        if access.site.function != given.kernel:
            sites += [site for site in access.calls if site.function == given.kernel][-1:]
        for site in sites:
            body = edits.body_of(given, site.function)
            if body is None:
                continue
            for statement, parent in reversed(edits.statements(body, site.span)):
                if access is conflict.later:
                    yield Site(site.function, site.path, statement.span)
                    continue
                following = [s for s in getattr(parent, "body", ()) if s.span[0] >= statement.span[1]]
                if following:
                    yield Site(site.function, site.path, following[0].span)
