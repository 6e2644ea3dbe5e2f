"""Allocations that the program makes again and again and releases in the same function, and what must hold for them to
live elsewhere: their uses, their order, what is read from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stitchcuda.agent.transforms.allocation.pointer_uses import PointerUses, declared_once
from stitchcuda.analysis.findings import edits
from stitchcuda.analysis.findings.edits import Body
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.findings.outline import outline
from stitchcuda.analysis.order.alias import within
from stitchcuda.analysis.order.symbolic import ZERO, at_least, equal
from stitchcuda.analysis.order.timeline import Access, Buffer, Certainty, Mode, Op, StreamKind, Timeline
from stitchcuda.analysis.program.ir import AddressOf, Api, ApiKind, Name, PreprocIf, Site, bare

ALLOCATES, FREES = "cudaMalloc", "cudaFree"
_USES = frozenset({ApiKind.LAUNCH, ApiKind.COPY, ApiKind.MEMSET, ApiKind.LIBRARY_CALL})


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One allocation call with the calls that release what it made; all in one function, through one local pointer."""

    body: Body
    pointer: str
    allocation: Api
    frees: tuple[Api, ...]

    @property
    def uid(self) -> str:
        return self.body.function.uid

    def site(self, call: Api) -> Site:
        return Site(self.uid, self.body.function.path, call.span)

    @property
    def sites(self) -> tuple[Site, ...]:
        return (self.site(self.allocation), *(self.site(f) for f in self.frees))


@dataclass(frozen=True, slots=True)
class Unfit:
    """An allocation that stays as it is: what prevents the change, and where."""

    site: Site
    reason: str


def repeated(lines: Sequence[Timeline]) -> list[Site]:
    """The `cudaMalloc` calls that some loop makes again and again, and whose memory is freed again in the loop."""
    found: dict[Site, None] = {}
    for line in lines:
        made: dict[int, Op] = {}
        for op in line.ops:
            if op.kind is ApiKind.ALLOC and op.api == ALLOCATES and op.loop is not None:
                made[op.id] = op
        rounds = {b.id: made[b.alloc_op] for b in line.buffers if b.alloc_op in made}
        for op in line.ops:
            if op.kind is ApiKind.FREE:
                for access in op.accesses:
                    alloc = rounds.get(access.buffer)
                    if alloc is not None and same_round(line, alloc, op):
                        found.setdefault(alloc.site)
    return sorted(found)


def same_round(line: Timeline, outer: Op, inner: Op) -> bool:
    """`inner` runs within the round of the loops that `outer` runs in."""
    if outer.loop is None:
        return True
    loop = inner.loop
    while loop is not None and loop != outer.loop:
        loop = line.loops[loop].parent
    return loop is not None and inner.iteration[: len(outer.iteration)] == outer.iteration


def lifetime(lines: Sequence[Timeline], given: RuleInput, site: Site, uses: PointerUses) -> Lifetime | Unfit:
    """The calls that belong to an allocation, as they are written."""
    body = edits.body_of(given, site.function)
    if body is None or body.function.has_error or body.function.body is None:
        return Unfit(site, "its function could not be read")
    call = edits.call_at(body, site.span)
    if not isinstance(call, Api) or not body.slice(site.span).startswith(ALLOCATES):
        return Unfit(site, "it is written within a macro that serves other places too")
    out = bare(call.role("out"))
    target = out.operand if isinstance(out, AddressOf) else None
    if not isinstance(target, Name) or declared_once(body.function, target.name) is None:
        return Unfit(site, "its result is not kept in a variable of this function alone")
    pointer = target.name
    written = outline(body.function.body).written.get(pointer, ())
    if len(written) != 1:
        return Unfit(site, f"`{pointer}` is given a value in several places")
    released = _releases(lines, site)
    elsewhere = next((s for s in released if s.function != site.function), None)
    if elsewhere is not None:
        return Unfit(elsewhere, f"`{pointer}` is released in another function")
    frees = []
    for place in sorted(released):
        free = edits.call_at(body, place.span)
        argument = free.role("ptr") if isinstance(free, Api) else None
        if not isinstance(free, Api) or not body.slice(place.span).startswith(FREES) or free.name != FREES:
            return Unfit(place, f"`{pointer}` is not released by a plain `{FREES}`")
        if not isinstance(argument, Name) or argument.name != pointer:
            return Unfit(place, f"what `{FREES}` releases here is not known to be `{pointer}`")
        frees.append(free)
    around = edits.statements(body, site.span)
    if not around or not all(edits.contains(around[-1][1].span, f.span) and f.span > call.span for f in frees):
        return Unfit(site, f"`{pointer}` may be released without having been allocated here")
    for each in (call, *frees):
        if any(isinstance(n, PreprocIf) for n in edits.nodes_around(body, each.span)):
            return Unfit(Site(site.function, site.path, each.span), "it stands within `#if`")
    made = Lifetime(body, pointer, call, tuple(frees))
    kept = uses.kept(body.function, pointer, frozenset({site}), frozenset(made.sites[1:]))
    return made if kept is None else Unfit(kept.site, f"{kept.reason}: `{pointer}` may be used when it is gone")


def _releases(lines: Sequence[Timeline], allocation: Site) -> set[Site]:
    found = set()
    for line in lines:
        buffers = {b.id for b in line.buffers if b.site == allocation}
        for op in line.ops:
            if op.kind is ApiKind.FREE and any(a.buffer in buffers for a in op.accesses):
                found.add(op.site)
    return found


def unfit_in(line: Timeline, made: Lifetime, *, library_streams: bool) -> Unfit | None:
    """What the uses of the memory in one entry have against another place for the allocation. `library_streams`: somewhere
    a library is given a stream."""
    site = made.site(made.allocation)
    frees = set(made.sites[1:])
    by_buffer: dict[int, list[tuple[Op, Access]]] = defaultdict(list)
    buffers = {b.id: b for b in line.buffers if b.site == site}
    for op in line.ops:
        if op.site == site and not op.certain:
            return Unfit(site, "the call is reached through something that is not resolved")
        if op.site in frees and not (op.certain and all(a.buffer in buffers for a in op.accesses)):
            return Unfit(op.site, f"what is released here is not known to be `{made.pointer}`")
        for access in op.accesses:
            if access.buffer in buffers:
                by_buffer[access.buffer].append((op, access))
    for number, touched in by_buffer.items():
        for op, _ in touched:
            found = _unfit_use(line, made, op, frees, library_streams)
            if found is not None:
                return found
        found = _read_unwritten(line, buffers[number], touched, made.pointer)
        if found is not None:
            return found
    return None


def _unfit_use(line: Timeline, made: Lifetime, op: Op, frees: set[Site], library_streams: bool) -> Unfit | None:
    if op.site in frees:
        return None
    if op.kind not in _USES:
        return Unfit(op.site, f"`{op.api}` uses `{made.pointer}`")
    if op.graph is not None:
        return Unfit(op.site, f"a CUDA graph uses `{made.pointer}`")
    if op.kind is ApiKind.LIBRARY_CALL and library_streams:
        return Unfit(op.site, f"the stream on which `{op.api}` uses `{made.pointer}` is not certain")
    if op.stream is None or op.copy_kind == "peer":
        return Unfit(op.site, f"`{op.api}` uses `{made.pointer}` on no stream of its own")
    stream = line.streams[op.stream]
    if stream.kind is not StreamKind.LEGACY and not (stream.kind is StreamKind.CREATED and stream.blocking is True):
        name = stream.name or "another stream"
        return Unfit(op.site, f"`{made.pointer}` is used on `{name}`, which the default stream does not wait for")
    return None


def _read_unwritten(line: Timeline, buffer: Buffer, touched: Sequence[tuple[Op, Access]], pointer: str) -> Unfit | None:
    """A read of what nothing has surely written since the allocation: memory that is used again holds other values."""
    for op, access in touched:
        if access.mode is Mode.WRITE or op.kind is ApiKind.FREE:
            continue
        if not any(_fills(line, buffer, first, by, op, access) for first, by in touched):
            return Unfit(op.site, f"nothing is known to have written all that is read of `{pointer}` here")
    return None


def _fills(line: Timeline, buffer: Buffer, first: Op, by: Access, op: Op, access: Access) -> bool:
    """`first` surely writes what `op` reads, on every path that leads to `op`."""
    if by.mode is not Mode.WRITE or by.certainty is not Certainty.MUST or not line.earlier[op.id] >> first.id & 1:
        return False
    if any(a.buffer == by.buffer and a.mode is not Mode.WRITE for a in first.accesses):
        return False  # reads it, too
    if op.conditions[: len(first.conditions)] != first.conditions:
        return False
    if not same_round(line, first, op):
        return False
    if by.range.extent is None or buffer.size is None:
        return by.range.offset is None or bool(equal(by.range.offset, ZERO))  # how much is not known: poisoning tells
    if by.range.offset is not None and equal(by.range.offset, ZERO) and at_least(by.range.extent, buffer.size):
        return True
    return within(access.range, by.range)


def single_device(line: Timeline) -> Unfit | None:
    """Several devices or host threads, or work that the analysis cut off."""
    if line.cuts:
        return Unfit(line.cuts[0].site, f"the analysis does not know what happens here: {line.cuts[0].what}")
    for op in line.ops:
        if op.device is None or op.device != line.ops[0].device:
            return Unfit(op.site, "the program uses several devices")
        if op.thread != line.ops[0].thread:
            return Unfit(op.site, "several host threads issue work")
        if op.kind is ApiKind.CAPTURE_BEGIN:
            return Unfit(op.site, "a CUDA graph is captured")
    return None


def hidden_waits(line: Timeline, frees: frozenset[Site], work: int) -> list[int]:
    """For each op, the work that may be complete when it starts only because one of these `cudaFree` waits (W8)."""
    passed = [op for op in line.ops if op.site in frees]
    pending = {op.id: line.earlier[op.id] & work & ~line.before[op.id] for op in passed}
    lost = []
    for op in line.ops:
        through = 0
        for free in passed:
            if line.earlier[op.id] >> free.id & 1:
                through |= pending[free.id]
        lost.append(through & ~line.before[op.id])
    return lost


def grouped(lifetimes: Sequence[Lifetime]) -> Mapping[str, list[Lifetime]]:
    """By function, in source order."""
    found: dict[str, list[Lifetime]] = defaultdict(list)
    for made in sorted(lifetimes, key=lambda m: (m.body.function.path, m.body.function.base, m.allocation.span)):
        found[made.uid].append(made)
    return found
