"""What one block reads of what another block of the same launch has written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import gcd

from stitchcuda.analysis.kernel.coefficients import Coefficient
from stitchcuda.analysis.kernel.lanes import Form, Monomial, lanes_of
from stitchcuda.analysis.kernel.model import Access, Barrier, BarrierKind, Buffer, KernelTrace, Memory, Mode
from stitchcuda.analysis.program.ir import Site

_MOST_PAIRS = 300  # of accesses that are compared
_ROUNDS = 3  # of a loop
_BLOCK = "blockIdx."
_OPAQUE = re.compile(r"[u~^]\S*\d+$")
_ORDERING = (BarrierKind.FENCE, BarrierKind.GRID, BarrierKind.CLUSTER, BarrierKind.NAMED)
_Key = tuple[tuple[Monomial, int], ...]


def plain(access: Access, mode: Mode) -> bool:
    """A plain access of global memory that surely is to its buffer."""
    return (
        access.mode is mode
        and access.certain
        and access.buffer.memory is Memory.GLOBAL
        and not access.buffer.name.endswith("[]")
    )


def meets_other_block(write: Access, read: Access) -> bool:
    """Some block reads an element that another block writes; False when that is not sure."""
    if write.buffer != read.buffer or write.field != read.field or write.offset.unknown or read.offset.unknown:
        return False
    axes = [a for a in "xyz" if _coefficient(write.offset, a)]
    if not axes or any(
        "blockIdx" in s and not s.startswith(_BLOCK) for s in write.offset.symbols | read.offset.symbols
    ):
        return False
    if not any(s.startswith(_BLOCK) for s in read.offset.symbols):
        # one place, or a walk over all from the first on
        return not read.offset.symbols and _hits(write, read) and not _of_the_reader(write, read)
    if any(_OPAQUE.match(s) for g in read.guards if g.margin is not None for s in g.margin.symbols):
        return False  # it may say where the part of the block ends
    return any(_shifted(write, read, axis) or _mirrored(write, read, axis) for axis in axes)


def _hits(write: Access, read: Access) -> bool:
    """A fixed place is one of those that the blocks write."""
    rest = [mono for mono, _ in write.offset.terms if mono and not any(s.startswith(_BLOCK) for s in mono)]
    if rest:
        return False  # `a[(i + 1) * n]` may leave the first row alone
    steps = [c for mono, c in write.offset.terms if mono and isinstance(c, int)]
    first = {dict(write.offset.at(lane)).get((), 0) for lane in lanes_of(write.lanes)}
    wanted = {dict(read.offset.at(lane)).get((), 0) for lane in lanes_of(read.lanes)}
    grain = gcd(*steps) if steps else 0
    return bool(grain) and any((r - w) % grain == 0 and r >= w for r in wanted for w in first)


def _of_the_reader(write: Access, read: Access) -> bool:
    """Under `i == 0` the first thread of the first block reads the element that it has written itself."""
    lanes = lanes_of(read.lanes)
    first = any(
        g.holds and g.equal is not None and of_one_block(read) and not any(_own_part(g.equal, lane) for lane in lanes)
        for g in read.guards
    )
    writers = set(lanes_of(write.lanes))
    return first and all(lane in writers and _own_part(write.offset, lane) == read.offset.at(lane) for lane in lanes)


def _own_part(offset: Form, lane: int) -> _Key:
    """What is left of an index in the first block."""
    return tuple(item for item in offset.at(lane) if not _of_block(item[0]))


def _coefficient(offset: Form, axis: str) -> dict[Monomial, int]:
    """What an index grows by from one block to the next; empty when that is not the same for all lanes."""
    name = _BLOCK + axis
    out: dict[Monomial, int] = {}
    for mono, c in offset.terms:
        if name in mono:
            if not isinstance(c, int) or mono.count(name) != 1:
                return {}
            rest = list(mono)
            rest.remove(name)
            out[tuple(rest)] = c
    return out


def _shifted(write: Access, read: Access, axis: str) -> bool:
    """`a[i - 1]` after `a[i]`: one lane reads, in its block's neighbour, what another lane writes."""
    step = _coefficient(write.offset, axis)
    if step != _coefficient(read.offset, axis):
        return False
    numbers = [{mono: c for mono, c in offset.terms if mono} for offset in (write.offset, read.offset)]
    if all(isinstance(c, int) for terms in numbers for c in terms.values()):
        apart = {
            m: _int(numbers[1].get(m, 0)) - _int(numbers[0].get(m, 0)) for m in numbers[0].keys() | numbers[1].keys()
        }
        apart = {m: c for m, c in apart.items() if c}
        mine, theirs = _constants(read), _constants(write)
        if tuple(step) == ((),):
            return not apart and any(
                at not in theirs and (at - step[()] in theirs or at + step[()] in theirs) for at in mine
            )
        if () not in step:
            return apart in (step, {m: -c for m, c in step.items()}) and not mine.isdisjoint(theirs)
    written = {write.offset.at(lane) for lane in lanes_of(write.lanes)}
    own = {read.offset.at(lane) for lane in lanes_of(read.lanes)} - written
    return any(_moved(key, step, by) in written for key in own for by in (-1, 1))


def _int(c: Coefficient) -> int:
    return c if isinstance(c, int) else 0


def _constants(access: Access) -> set[int]:
    c = dict(access.offset.terms).get((), 0)
    return {c} if isinstance(c, int) else {c[lane] for lane in lanes_of(access.lanes)}


def _moved(key: _Key, step: dict[Monomial, int], by: int) -> _Key:
    terms = dict(key)
    for mono, c in step.items():
        terms[mono] = terms.get(mono, 0) + by * c
    return tuple(sorted((mono, c) for mono, c in terms.items() if c))


def _mirrored(write: Access, read: Access, axis: str) -> bool:
    """`a[n - 1 - i]` after `a[i]`."""
    step = _coefficient(write.offset, axis)
    return bool(step) and {mono: -c for mono, c in step.items()} == _coefficient(read.offset, axis)


def of_one_block(access: Access) -> bool:
    """It stands under `blockIdx.x == 0`, or another test for one block."""
    return any(
        g.holds and g.equal is not None and any(s.startswith(_BLOCK) for s in g.equal.symbols) for g in access.guards
    )


def reaches_readers(write: Access, read: Access) -> bool:
    """One block writes an element that other blocks read, too."""
    if write.buffer != read.buffer or write.field != read.field or not of_one_block(write) or of_one_block(read):
        return False
    if write.offset.unknown or read.offset.unknown or any("blockIdx" in s for s in write.offset.symbols):
        return False
    written = {write.offset.at(lane) for lane in lanes_of(write.lanes)}
    steps = {axis: _coefficient(read.offset, axis) for axis in "xyz"}
    moving = [step for step in steps.values() if step]
    if not moving:
        return any(read.offset.at(lane) in written for lane in lanes_of(read.lanes))
    if len(moving) > 1 or tuple(moving[0]) != ((),):
        return False
    grain = moving[0][()]
    places = {_split(key) for key in written}
    for lane in lanes_of(read.lanes):
        rest, start = _split(tuple(item for item in read.offset.at(lane) if not _of_block(item[0])))
        if any(other == rest and (at - start) % grain == 0 and (at - start) // grain >= 1 for other, at in places):
            return True
    return False


def _of_block(mono: Monomial) -> bool:
    return any(s.startswith(_BLOCK) for s in mono)


def _split(key: _Key) -> tuple[_Key, int]:
    """The symbolic part and the constant."""
    return tuple(item for item in key if item[0]), dict(key).get((), 0)


def ordered_between(trace: KernelTrace, first: int, last: int) -> bool:
    """A fence, or a barrier of more than the block, stands between two events."""
    return any(
        isinstance(event, Barrier) and event.kind in _ORDERING and event.scope != "block"
        for event in trace.events[first + 1 : last]
    )


def barrier_between(trace: KernelTrace, first: int, last: int) -> Barrier | None:
    """The last block barrier between two events."""
    found = [e for e in trace.events[first + 1 : last] if isinstance(e, Barrier) and e.kind is BarrierKind.BLOCK]
    return found[-1] if found else None


def crossings(trace: KernelTrace) -> Iterator[tuple[Access, Access]]:
    """Plain writes, each with the plain reads behind it that get to other blocks' elements. Of what a loop repeats, the
    first writes and the last reads stand for all."""
    writes: dict[Buffer, dict[Site, dict[Form, Access]]] = {}
    for access in trace.accesses:
        if plain(access, Mode.WRITE) and any(s.startswith(_BLOCK) for s in access.offset.symbols):
            places = writes.setdefault(access.buffer, {}).setdefault(access.site, {})
            if len(places) < _ROUNDS:
                places.setdefault(access.offset, access)
    reads: dict[Buffer, dict[Site, dict[Form, Access]]] = {}
    for access in reversed(trace.accesses):
        if access.buffer in writes and plain(access, Mode.READ):
            places = reads.setdefault(access.buffer, {}).setdefault(access.site, {})
            if len(places) < _ROUNDS:
                places.setdefault(access.offset, access)
    pairs = 0
    for buffer, sites in reads.items():
        stored = [write for same in writes[buffer].values() for write in same.values()]
        for read in sorted((r for same in sites.values() for r in same.values()), key=lambda r: r.at):
            for write in stored:
                if write.at < read.at:
                    pairs += 1
                    if pairs > _MOST_PAIRS:
                        return
                    if meets_other_block(write, read):
                        yield write, read
