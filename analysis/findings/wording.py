"""How findings name operations, streams and buffers: in CUDA's words and the user's own."""

from __future__ import annotations

from stitchcuda.analysis.findings.finding import Related
from stitchcuda.analysis.order.timeline import Buffer, Memory, Mode, Op, StreamKind, Timeline
from stitchcuda.analysis.program.ir import Api, ApiKind, Call, Launch, Program, Site, walk

_MEMORY = {
    Memory.PINNED: "pinned ",
    Memory.PAGEABLE: "pageable ",
    Memory.MANAGED: "managed ",
    Memory.MAPPED: "mapped pinned ",
}

DOES = {Mode.READ: "reads", Mode.WRITE: "writes", Mode.ATOMIC: "updates"}
DOING = {Mode.READ: "reading", Mode.WRITE: "writing", Mode.ATOMIC: "updating"}


def operation(op: Op) -> str:
    """`produce` for a launch, `cudaMemcpyAsync` for a call."""
    if op.kind in (ApiKind.HOST_READ, ApiKind.HOST_WRITE):
        return "the host"
    return f"`{op.kernel or op.api}`"


def on_stream(timeline: Timeline, op: Op) -> str:
    """ " on stream `a`", " on the default stream", " in graph `g`", or nothing for a host op."""
    if op.stream is not None and timeline.streams[op.stream].kind is StreamKind.GRAPH:
        return f" in {stream(timeline, op.stream)}"
    return f" on {stream(timeline, op.stream)}" if op.stream is not None else ""


def stream(timeline: Timeline, number: int) -> str:
    known = timeline.streams[number]
    if known.kind is StreamKind.LEGACY:
        return "the default stream"
    if known.kind is StreamKind.GRAPH:
        return f"graph `{known.name}`"
    if known.kind is StreamKind.PER_THREAD:
        return "the per-thread default stream"
    return f"stream `{known.name}`" if known.name else "an unknown stream"


def event(timeline: Timeline, op: Op) -> str:
    """The event of a record or wait."""
    name = timeline.events[op.event].name if op.event is not None else ""
    return f"`{name}`" if name else "of unknown origin"


def buffer(known: Buffer) -> str:
    return f"`{known.name}`" if known.name else "the memory"


def memory(known: Buffer) -> str:
    """ "pinned `h`"."""
    return f"{_MEMORY.get(known.memory, '')}{buffer(known)}"


def condition(op: Op) -> str:
    """The branch decisions on the way to an op, as written."""
    return " && ".join(c.text if c.taken else f"!({c.text})" for c in op.conditions if c.text)


def asked_at(program: Program, op: Op) -> Site:
    """Where a call is asked for: a wrapper that does nothing else stands for its caller."""
    site = op.site
    for outer in reversed(op.calls):
        function = program.functions.get(site.function)
        if function is None or function.body is None or len(function.body.body) != 1:
            return site
        calls = [n for n in walk(function.body) if isinstance(n, Api | Call | Launch)]
        if len([n for n in calls if isinstance(n, Api | Launch) or n.span == site.span]) != 1:
            return site
        if outer.function not in program.functions:
            return site
        site = outer
    return site


def call_path(op: Op) -> tuple[Related, ...]:
    """Where the function that holds the op was called from, innermost first."""
    return called_from(op.calls)


def called_from(calls: tuple[Site, ...], without: Site | None = None) -> tuple[Related, ...]:
    """The calls that led to a place, innermost first."""
    return tuple(Related(site, "called from here") for site in reversed(calls) if site != without)


def allocation(known: Buffer) -> tuple[Related, ...]:
    if known.site is None:
        return ()
    verb = {"alloc": "allocated", "parameter": "passed in"}.get(known.origin, "declared")
    return (Related(known.site, f"{buffer(known)} is {verb} here"),)


def distinct(sites: tuple[Related, ...], without: Site) -> tuple[Related, ...]:
    """Related places without the finding's own and without repetitions."""
    seen = {without}
    out = []
    for related in sites:
        if related.site not in seen:
            seen.add(related.site)
            out.append(related)
    return tuple(out)
