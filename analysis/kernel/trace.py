"""The traces of a kernel: one for each shape of its block that the program launches or that fits the kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from stitchcuda.analysis.kernel.lanes import Form, number
from stitchcuda.analysis.kernel.launches import Constants, KernelLaunch, launches_of
from stitchcuda.analysis.kernel.model import Barrier, BarrierKind, BlockShape, Event, KernelTrace
from stitchcuda.analysis.kernel.walk import KernelWalk
from stitchcuda.analysis.program import ir
from stitchcuda.analysis.program.device.environment import is_scalar
from stitchcuda.analysis.program.ir import Function, Program, Site, Span

MAX_THREADS = 1024
MAX_SHAPES = 3  # that launches tell
MAX_GUESSES = 4  # when none does
MAX_BARRED = 20_000  # events of traces with barriers put in that are kept, of one kernel


@dataclass(frozen=True, slots=True)
class KernelTraces:
    """All traces of a kernel. With `fixed` each is of a shape that the program launches: what one shows can happen.
    Otherwise the shapes are guesses, and only what all of them show is worth telling."""

    function: Function
    traces: tuple[KernelTrace, ...]
    fixed: bool
    launches: tuple[KernelLaunch, ...]

    @property
    def typical(self) -> bool:
        """All traces are such that rules look at them."""
        return not any(t.outside or t.broken or t.uses_locks for t in self.traces)

    @property
    def speaks_for_others(self) -> bool:
        """What these traces of guessed shapes do not show, those of no others need to be asked for: only what all show is told.
        Not of a shape that does not fit, which is given up for others, nor when rules pass over a trace and may not
        pass over the next."""
        return self.typical or self.function.has_error and not any(t.outside for t in self.traces)


def kernel_traces(
    program: Program, kernel: str, sources: Mapping[str, bytes], guesses: int = MAX_GUESSES
) -> KernelTraces:
    """Computed once for a kernel of a program: its rules ask one after the other. At most so many `guesses` are walked
    when no launch tells the shape."""
    global _last
    known = None
    if _last is not None and _last[0] is program and _last[1] == kernel:
        if _last[2] == guesses or _last[3].fixed:
            return _last[3]
        known = _last[3]
    made = _traces(program, program.functions[kernel], sources, guesses, known)
    _last = (program, kernel, guesses, made)
    return made


_last: tuple[Program, str, int, KernelTraces] | None = None


def with_barriers(trace: KernelTrace, before: Collection[tuple[str, Span]]) -> KernelTrace:
    """The same walk with a block barrier before each of these statements of the kernel and its device functions. Events
    keep their positions: `at` of a barrier that was put in is that of the event that follows it."""
    wanted = frozenset(before)
    for known, places, with_them in _barred:
        if known is trace and places == wanted:
            return with_them
    if _barred and not trace.is_of_same_text(_barred[-1][0]):
        _barred.clear()
    made = _with_barriers(trace, wanted)
    _barred.append((trace, wanted, made))
    while len(_barred) > 1 and sum([len(t.events) for _, _, t in _barred]) > MAX_BARRED:
        del _barred[0]
    return made


_barred: list[tuple[KernelTrace, frozenset[tuple[str, Span]], KernelTrace]] = []  # several rules ask for the same


def _with_barriers(trace: KernelTrace, before: frozenset[tuple[str, Span]]) -> KernelTrace:
    events: list[Event] = []
    done = 0
    for mark in trace.marks:
        if (mark.function.uid, mark.span) not in before:
            continue
        events += trace.events[done : mark.at]
        done = mark.at
        events.append(
            Barrier(
                mark.at,
                Site(mark.function.uid, mark.function.path, mark.span),
                BarrierKind.BLOCK,
                "__syncthreads",
                mark.lanes,
                mark.alive,
                mark.guards,
                calls=mark.calls,
                loops=mark.loops,
                left_early=mark.left_early,
            )
        )
    return replace(trace, events=(*events, *trace.events[done:]), put=before)


def _traces(
    program: Program, function: Function, sources: Mapping[str, bytes], guesses: int, known: KernelTraces | None
) -> KernelTraces:
    launches = known.launches if known is not None else launches_of(program, function)
    asked: Lookups = {}
    cases, fixed = _cases(program, function, launches, asked)
    traces: list[KernelTrace] = []
    for shape, binding in cases if fixed else cases[:guesses]:
        trace = next((t for t in known.traces if t.block == shape), None) if known is not None else None
        traces.append(trace or _walked(program, function, sources, shape, binding, launches, asked))
        if not fixed and sum(not t.outside for t in traces) >= 2:
            break
    if not fixed:
        traces = [t for t in traces if not t.outside] or traces
    return KernelTraces(function, tuple(traces), fixed, launches)


Binding = dict[str, Form | ir.TypeRef]
Lookups = dict[str, tuple[str, ...]]  # names of functions that were asked for, and what they meant


def _walked(
    program: Program,
    function: Function,
    sources: Mapping[str, bytes],
    shape: BlockShape,
    binding: Binding,
    launches: tuple[KernelLaunch, ...],
    asked: Lookups,
) -> KernelTrace:
    walk = KernelWalk(program, sources, shape)
    walk.given = _given(function, launches)
    walk.sizes = _sizes(function, launches, shape)
    walk.kernel(function, dict(binding))
    lookups = {**walk.lookups, **asked}
    seen = walk.visited.union(*lookups.values()) if lookups else walk.visited
    return KernelTrace(
        function.uid,
        shape,
        tuple(walk.events),
        walk.complete,
        function.has_error or any(program.functions[uid].has_error for uid in walk.visited),
        walk.uses_locks,
        walk.outside,
        marks=tuple(walk.marks),
        functions=tuple((uid, program.functions[uid].digest) for uid in sorted(seen)),
        lookups=tuple(sorted(lookups.items())),
    )


def _cases(
    program: Program, function: Function, launches: tuple[KernelLaunch, ...], asked: Lookups
) -> tuple[list[tuple[BlockShape, Binding]], bool]:
    """The shapes to walk with, each with what template parameters are; and whether launches fix them."""
    cases: list[tuple[BlockShape, Binding]] = []
    for launch in launches:
        x, y, z = launch.block
        if x is None or y is None or z is None or not 0 < x * y * z <= MAX_THREADS:
            continue
        case = (BlockShape(x, y, z, "launch"), _binding(function, launch))
        if case not in cases and len(cases) < MAX_SHAPES:
            cases.append(case)
    if cases:
        return cases, True
    binding = _binding(function, launches[0]) if len({launch.template for launch in launches}) == 1 else {}
    return [(shape, binding) for shape in _guesses(program, function, binding, asked)], False


def _binding(function: Function, launch: KernelLaunch) -> Binding:
    """What the launch fixes: template parameters, by name."""
    out: Binding = {}
    for name, value in zip(function.template, launch.template, strict=False):
        if isinstance(value, int):
            out[name] = number(value)
        elif isinstance(value, ir.TypeRef):
            out[name] = value
    return out


def _given(function: Function, launches: tuple[KernelLaunch, ...]) -> dict[str, int]:
    """Integer parameters for which every launch passes the same constant."""
    out: dict[str, int] = {}
    for position, param in enumerate(function.params):
        values = {launch.args[position] if position < len(launch.args) else None for launch in launches}
        value = values.pop() if len(values) == 1 else None
        if value is not None and not param.type.pointer and is_scalar(param.type):
            out[param.name] = value
    return out


def _sizes(function: Function, launches: tuple[KernelLaunch, ...], shape: BlockShape) -> dict[str, int]:
    """Integer parameters that are the number of threads in the block at every launch; where that is the only block, its
    number as well."""
    if not launches or shape.y != 1 or shape.z != 1:
        return {}
    everywhere = frozenset.intersection(*(launch.sizes for launch in launches))
    out = {
        param.name: shape.x
        for position, param in enumerate(function.params)
        if position in everywhere and not param.type.pointer and is_scalar(param.type)
    }
    if out and all(launch.grid == (1, 1, 1) for launch in launches):
        out["blockIdx.x"] = 0
    return out


def _guesses(program: Program, function: Function, binding: Binding, asked: Lookups) -> list[BlockShape]:
    """Shapes that a kernel is likely to be written for: by its launch bounds and the sizes of its shared arrays."""
    assert function.body is not None
    constants = Constants(program, function, asked=asked)
    axes = {
        n.name
        for n in ir.walk(function.body)
        if isinstance(n, ir.Member) and isinstance(n.base, ir.Name) and n.base.name == "threadIdx"
    }
    sizes: list[tuple[int, ...]] = []
    for node in ir.walk(function.body):
        if isinstance(node, ir.Declare) and node.space == "shared":
            dims = []
            for d in node.type.dims:
                value = constants.integer(d)
                if value is None and isinstance(d, ir.Name) and isinstance(bound := binding.get(d.name), Form):
                    value = bound.constant
                dims.append(value or 0)
            sizes.append(tuple(dims))
    limit = constants.integer(function.launch_bounds[0]) if function.launch_bounds else None
    strides = list(_strides(function, constants, binding))
    return list(dict.fromkeys(_shapes(axes, [*((s,) for s in strides), *sizes], limit)))[:MAX_GUESSES]


def _strides(function: Function, constants: Constants, binding: Binding) -> Iterator[int]:
    """`blockIdx.x * 128 + threadIdx.x`: as many threads as elements a block."""
    assert function.body is not None
    for node in ir.walk(function.body):
        if not isinstance(node, ir.Binary) or node.op != "*":
            continue
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(side, ir.Member) and isinstance(side.base, ir.Name) and side.base.name == "blockIdx":
                bound = binding.get(other.name) if isinstance(other, ir.Name) else None
                value = bound.constant if isinstance(bound, Form) else constants.integer(other)
                if value is not None:
                    yield value


def _shapes(axes: set[str], sizes: list[tuple[int, ...]], limit: int | None) -> Iterator[BlockShape]:
    most = limit if limit is not None and 0 < limit <= MAX_THREADS else MAX_THREADS
    flat = "y" not in axes and "z" not in axes
    if flat:
        if limit is not None and limit == most:
            yield BlockShape(limit, known="bounds")
        for dims in sizes:
            for size in dims:
                if 32 <= size <= most and size % 32 == 0:
                    yield BlockShape(size, known="shape")
        for size in (256, 128, 64):
            if size <= most:
                yield BlockShape(size)
        return
    for dims in sizes:
        if len(dims) >= 2:
            height, width = dims[-2], dims[-1]
            for x, y in ((width, height), (width - 1, height), (width - 2, height - 2)):
                if 4 <= x <= 64 and 4 <= y <= 64 and x % 4 == 0 and x * y <= most:
                    yield BlockShape(x, y, known="shape")
    for x, y in ((16, 16), (32, 8), (8, 8)):
        if x * y <= most:
            yield replace(BlockShape(x, y))
