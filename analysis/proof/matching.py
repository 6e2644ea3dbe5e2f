"""The operations of two Timelines of one entry, matched by where they stand: call path, statement, loops and rounds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from stitchcuda.analysis.order.timeline import Access, Op, Range, StreamKind, Timeline
from stitchcuda.analysis.program.ir import HOST_WAITS, ApiKind, Site
from stitchcuda.analysis.proof.correspond import Correspondence
from stitchcuda.analysis.proof.model import ProofFinding

MOVING = (
    frozenset({ApiKind.ALLOC, ApiKind.FREE, ApiKind.EVENT_CREATE, ApiKind.EVENT_DESTROY}) | HOST_WAITS
)  # no data of their own
HOST = frozenset({ApiKind.HOST_READ, ApiKind.HOST_WRITE})
_NUMBER = re.compile(r"@\d+|\.\d+")  # tells apart variables of one name, and numbers without a name


@dataclass
class Pairing:
    """`pairs` holds operations of both, by id; `gone` and `new` are those of one version alone. `buffers`: which buffers of
    the changed version stand for one of the original (more than one: something is wrong)."""

    before: Timeline
    after: Timeline
    pairs: dict[int, int] = field(default_factory=dict)
    back: dict[int, int] = field(default_factory=dict)
    gone: list[Op] = field(default_factory=list)
    new: list[Op] = field(default_factory=list)
    buffers: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    streams: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    unlike: list[tuple[Op, Op, str]] = field(default_factory=list)
    freed: list[tuple[int, int]] = field(
        default_factory=list
    )  # changed frees of the original, with what each waited for

    def done_before(self, op: int) -> int:
        """What is complete when an op of the original starts. A `cudaFree` that is gone or became stream-ordered counts as
        the wait that it is in practice (W8)."""
        done = self.before.before[op]
        for free, waited in self.freed:
            if done >> free & 1:
                done |= waited
        return done

    def ordered_before(self, a: int, b: int) -> bool:
        """Whether the original orders `a` before `b`."""
        return bool(self.done_before(b) >> a & 1)

    def images(self, bits: int) -> int:
        """The same set of operations in the changed version, as far as they are there."""
        out = 0
        while bits:
            low = bits & -bits
            partner = self.pairs.get(low.bit_length() - 1)
            if partner is not None:
                out |= 1 << partner
            bits ^= low
        return out


def pair(
    both: Correspondence,
    before: Timeline,
    after: Timeline,
    *,
    given: Mapping[int, int] = MappingProxyType({}),
    apart: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset()),
) -> Pairing:
    """`given` are pairs that are known already; those in `apart`, of either version, have no counterpart."""
    made = Pairing(before, after)
    there: dict[tuple[object, ...], list[Op]] = defaultdict(list)
    for op in after.ops:
        if op.id not in apart[1]:
            there[key_of(after, op, None)].append(op)
    for op in before.ops:
        if op.id in given:
            made.pairs[op.id], made.back[given[op.id]] = given[op.id], op.id
            continue
        candidates = there.get(key_of(before, op, both)) if op.id not in apart[0] else None
        if candidates:
            partner = candidates.pop(0)
            made.pairs[op.id], made.back[partner.id] = partner.id, op.id
        else:
            made.gone.append(op)
    made.new = [op for op in after.ops if op.id not in made.back]
    for a, b in made.pairs.items():
        _compare(made, before.ops[a], after.ops[b])
    made.freed = [
        (op.id, _waited(before, op)) for op in before.ops if op.kind is ApiKind.FREE and _may_not_wait(made, op)
    ]
    return made


def _may_not_wait(made: Pairing, free: Op) -> bool:
    """A `cudaFree` of the original that no longer stands where it stood, or no longer waits."""
    if free.stream is not None or any(made.before.buffers[a.buffer].pooled for a in free.accesses):
        return False
    partner = made.pairs.get(free.id)
    if partner is None:
        return True
    now = made.after.ops[partner]
    return now.stream is not None or any(made.after.buffers[a.buffer].pooled for a in now.accesses)


def _waited(line: Timeline, free: Op) -> int:
    """Work of its device that was issued before: what `cudaFree` does wait for in practice, on any stream."""
    bits = 0
    for op in line.ops[: free.id]:
        if line.earlier[free.id] >> op.id & 1 and op.stream is not None and op.device in (free.device, None):
            bits |= 1 << op.id
    return bits


def on_waited_stream(line: Timeline, work: Op) -> bool:
    """`cudaFree` is taken to wait for work on such streams (W8)."""
    if work.stream is None:
        return False
    stream = line.streams[work.stream]
    return stream.kind is StreamKind.LEGACY or stream.blocking is True


def key_of(line: Timeline, op: Op, both: Correspondence | None) -> tuple[object, ...]:
    """Where an operation stands, in terms of the changed version. `both` is None for one of that version."""

    def place(site: Site) -> object:
        return site if both is None else both.site(site)

    loops: list[object] = []
    loop = op.loop
    while loop is not None:
        info = line.loops[loop]
        loops.append((place(info.site), tuple(place(c) for c in info.calls)))
        loop = info.parent
    conditions = tuple((c.text, c.taken) for c in op.conditions)  # where they stand follows from the call path
    return (
        op.kind,
        tuple(place(c) for c in op.calls),
        place(op.site),
        tuple(loops),
        op.iteration,
        conditions,
        op.thread,
        op.kernel,
    )


def _compare(made: Pairing, a: Op, b: Op) -> None:
    """Notes the buffers and streams that the two use in the same roles, and how else they differ."""
    if a.kind in HOST_WAITS:
        return
    released = a.kind in (ApiKind.FREE, ApiKind.ALLOC)  # may become stream-ordered: its range says nothing
    if len(a.accesses) != len(b.accesses):
        made.unlike.append((a, b, "touches memory otherwise than before"))
        return
    for x, y in zip(a.accesses, b.accesses, strict=True):
        if not released and _shown(x) != _shown(y):
            made.unlike.append((a, b, "touches memory otherwise than before"))
            return
        if a.kind is not ApiKind.FREE:  # what is freed follows from what is used (`order.py`)
            made.buffers[x.buffer].add(y.buffer)
    if a.stream is not None and b.stream is not None and not released:
        made.streams[a.stream].add(b.stream)
    same = (
        a.unknown == b.unknown
        and a.copy_kind == b.copy_kind
        and a.device == b.device
        and a.certain == b.certain
        and a.asynchronous == b.asynchronous
        and (a.graph is None) == (b.graph is None)
        and show(a.bytes) == show(b.bytes)
        and (released or (a.stream is None) == (b.stream is None))
    )
    if not same and not released:
        made.unlike.append((a, b, "is not the same operation as before"))


def _shown(access: Access) -> tuple[object, ...]:
    where: Range = access.range
    return (
        access.mode,
        access.certainty,
        access.via,
        access.fields,
        show(where.offset),
        show(where.extent),
        show(where.stride),
        where.shape,
        where.member,
    )


def show(value: object) -> str:
    """A symbolic number without what tells runs of the analysis apart."""
    return _NUMBER.sub("", str(value))


def where(both: Correspondence, op: Op, what: str, *, original: bool = False) -> ProofFinding:
    """A finding at an operation. One of the original has no line in the changed version when its statement is gone."""
    analysis = both.before if original else both.after
    at = analysis.program.locate(op.site)
    line = analysis.sources[at.path].count(b"\n", 0, at.start) + 1 if at.path in analysis.sources else 0
    return ProofFinding(what, at.path, line, original)
