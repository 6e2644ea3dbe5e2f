"""What rules share that tell of accesses between which a barrier of the block or the warp is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.finding import Confidence, Edit, Finding, Fix, Group, KernelInput, Related, Severity
from stitchcuda.analysis.kernel.conflicts import Conflict, conflicts
from stitchcuda.analysis.kernel.divergence import divergences
from stitchcuda.analysis.kernel.model import Access, KernelTrace, Mode, Uniformity
from stitchcuda.analysis.kernel.trace import KernelTraces, kernel_traces, walk_again
from stitchcuda.analysis.program.ir import Site, Span

_RANK = {Confidence.POSSIBLE: 0, Confidence.LIKELY: 1, Confidence.CERTAIN: 2}
_VERB = {Mode.READ: "reads", Mode.WRITE: "writes", Mode.ATOMIC: "updates", Mode.ASYNC_WRITE: "copies into"}
_MOST = 12  # findings of one kernel
_TRIES = 4  # places for a barrier that are tried


@dataclass(frozen=True)
class Gap:
    """A place where one barrier is missing: the conflict that shows it, and others that the same barrier mends."""

    conflict: Conflict
    others: tuple[Conflict, ...]
    level: Confidence
    trace: KernelTrace

    @property
    def key(self) -> tuple[Site, Site]:
        return self.conflict.earlier.site, self.conflict.later.site


def gaps(given: KernelInput, *, warp: bool) -> list[Gap]:
    """The places where a barrier of the block (of the warp) is missing, each once, the surest first.

    A kernel that several launches run with different shapes has the gaps of all. When no launch tells the shape, only
    what every shape shows counts."""
    traces = kernel_traces(given.program, given.kernel, given.sources)
    found: dict[tuple[Site, Site], Gap] = {}
    counts: dict[tuple[Site, Site], int] = {}
    for trace in traces.traces:
        for gap in _of_trace(traces, trace, warp):
            counts[gap.key] = counts.get(gap.key, 0) + 1
            known = found.get(gap.key)
            if known is None or _RANK[known.level] < _RANK[gap.level]:
                found[gap.key] = gap
    everywhere = 1 if traces.fixed else len(traces.traces)
    kept = [gap for key, gap in found.items() if counts[key] >= everywhere]
    return sorted(kept, key=lambda g: (-_RANK[g.level], g.conflict.later.at))[:_MOST]


def _of_trace(traces: KernelTraces, trace: KernelTrace, warp: bool) -> Iterator[Gap]:
    found = conflicts(trace)
    across = [c for c in found if not c.warp_only]
    chosen = across
    if warp:
        # what a missing block barrier explains is told by its own rule
        chosen = [c for c in found if c.warp_only and not any(_overlap(c, other) for other in across)]
    chosen.sort(key=lambda c: (-_RANK[_level(traces, trace, c)], c.later.at))
    left = chosen
    while left:
        first = left[0]
        same = [c for c in left if c.earlier.at < first.later.at <= c.later.at]
        left = [c for c in left if c not in same]
        yield Gap(first, tuple(c for c in same if c is not first), _level(traces, trace, first), trace)


def _overlap(a: Conflict, b: Conflict) -> bool:
    return a.earlier.at < b.later.at and b.earlier.at < a.later.at


def _level(traces: KernelTraces, trace: KernelTrace, conflict: Conflict) -> Confidence:
    level = Confidence.CERTAIN if traces.fixed else Confidence.LIKELY
    first, second = conflict.earlier, conflict.later
    if trace.broken or trace.uses_locks or conflict.barred or conflict.collective:
        return Confidence.POSSIBLE
    if not first.certain or not second.certain:
        return Confidence.POSSIBLE
    if first.mode is not Mode.READ and second.mode is not Mode.READ and Mode.ATOMIC not in (first.mode, second.mode):
        if not _differ(first, second):
            return Confidence.POSSIBLE  # the same value, perhaps: then the order does not matter
    if first.mode is Mode.READ and second.mode is Mode.ATOMIC:
        return Confidence.POSSIBLE  # look, then update: what was read is only a hint
    own = {(g.key, g.holds) for g in first.guards} ^ {(g.key, g.holds) for g in second.guards}
    apart = [g for g in (*first.guards, *second.guards) if (g.key, g.holds) in own and not g.loop]
    if apart or not conflict.sure:
        level = Confidence.LIKELY
    if any(g.uniformity is Uniformity.DATA for g in (*first.guards, *second.guards)):
        level = Confidence.LIKELY
    return level


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
    """A barrier before a statement of the kernel that all threads reach together, such that the walk finds the gap
    closed and no barrier that some threads miss; the place next to the later access first."""
    body = edits.body_of(given, given.kernel)
    if body is None or gap.level is Confidence.POSSIBLE:
        return None
    traces = kernel_traces(given.program, given.kernel, given.sources)
    diverging = {d.barrier.site for d in divergences(gap.trace)}
    tried = 0
    for span in _places(body, given.kernel, gap):
        if tried >= _TRIES:
            break
        tried += 1
        again = walk_again(given.program, traces, gap.trace, given.sources, frozenset({span}))
        if {d.barrier.site for d in divergences(again)} - diverging:
            continue
        if any((c.earlier.site, c.later.site) == gap.key and not c.barred for c in conflicts(again)):
            continue
        edit: Edit = edits.before(body, span, [statement])
        return Fix(title, (edit,), preferred=True)
    return None


def _places(body: edits.Body, kernel: str, gap: Gap) -> Iterator[Span]:
    """Statements of the kernel before which a barrier may close the gap."""
    later = _in_kernel(kernel, gap.conflict.later)
    earlier = _in_kernel(kernel, gap.conflict.earlier)
    for span in (later, earlier):
        if span is None:
            continue
        around = edits.statements(body, span)
        if span is later:
            yield from (s.span for s, _ in reversed(around))
            continue
        for statement, parent in reversed(around):
            siblings = list(getattr(parent, "body", ()))
            following = [s for s in siblings if s.span[0] >= statement.span[1]]
            if following:
                yield following[0].span


def _in_kernel(kernel: str, access: Access) -> Span | None:
    if access.site.function == kernel:
        return access.site.span
    return access.calls[0].span if access.calls and access.calls[0].function == kernel else None
