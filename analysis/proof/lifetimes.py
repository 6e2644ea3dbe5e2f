"""Memory is allocated before it is used, freed after, and freed once, where a change touched an allocation or a free."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.lookup import memory_key
from stitchcuda.analysis.findings.race import exclusive
from stitchcuda.analysis.order.alias import alias
from stitchcuda.analysis.order.timeline import Buffer, Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind
from stitchcuda.analysis.proof.correspond import Correspondence
from stitchcuda.analysis.proof.matching import MOVING, Pairing, on_waited_stream, where
from stitchcuda.analysis.proof.model import ProofFinding

FREE_WAITS = "cudaFree waits for the work that uses what it frees (row W8; in practice, not by documentation)"


@dataclass
class Ordering:
    failed: list[ProofFinding] = field(default_factory=list)
    unknown: list[ProofFinding] = field(default_factory=list)
    pairs: int = 0
    rests_on: set[str] = field(default_factory=set)


def lifetimes(both: Correspondence, made: Pairing, found: Ordering) -> None:
    """Memory is allocated before it is used, freed after, and freed once, where an allocation or a free changed."""
    line = made.after
    frees = [op for op in line.ops if op.kind is ApiKind.FREE]
    users: dict[object, list[Op]] = defaultdict(list)
    for op in line.ops:
        if op.kind not in MOVING:
            for key in {memory_key(line.buffers[a.buffer]) for a in op.accesses}:
                users[key].append(op)
    for release in frees:
        for access in release.accesses:
            buffer = line.buffers[access.buffer]
            for op in users.get(memory_key(buffer), ()):
                _use_and_free(both, made, op, release, buffer, found)
            for again in frees:
                if again.id != release.id and line.earlier[again.id] >> release.id & 1:
                    _free_again(both, made, release, again, buffer, found)
    _elsewhere(both, made, frees, found)
    used = {n for new in made.buffers.values() for n in new}
    for buffer in line.buffers:
        if buffer.alloc_op is not None and buffer.alloc_op not in made.back and buffer.id not in used:
            what = f"`{buffer.name}` gets memory here that nothing of the original uses"
            found.unknown.append(where(both, line.ops[buffer.alloc_op], what))
    for number in sorted(used):
        buffer = line.buffers[number]
        if buffer.alloc_op is not None:
            _allocation(both, made, buffer, users.get(memory_key(buffer), []), frees, found)


def _elsewhere(both: Correspondence, made: Pairing, frees: list[Op], found: Ordering) -> None:
    """Memory that others hold on to: libraries that were given a workspace, devices that reach it as peers (memory of a pool
    is open to them only by `cudaMemPoolSetAccess`)."""
    line = made.after
    for release in frees:
        was = made.back.get(release.id)
        for op in line.ops:
            use = made.back.get(op.id)
            if op.kind is not ApiKind.LIBRARY_CALL or use is None or not line.earlier[op.id] >> release.id & 1:
                continue
            if was is None or not made.before.earlier[use] >> was & 1:
                what = f"`{op.api}` comes behind this free now, and the library may have been given the memory"
                found.unknown.append(where(both, release, what))
                break
    pooled = any(
        made.before.buffers[o].pooled != line.buffers[n].pooled for o, new in made.buffers.items() for n in new
    )
    if pooled and len({op.device for op in line.ops}) > 1:
        other = next(op for op in line.ops if op.device != line.ops[0].device)
        what = "memory comes from a pool now, and another device works here, to which a pool is not open"
        found.unknown.append(where(both, other, what))


def _use_and_free(both: Correspondence, made: Pairing, op: Op, release: Op, buffer: Buffer, found: Ordering) -> None:
    line = made.after
    meets = {alias(line.buffers[a.buffer], buffer) for a in op.accesses}
    if meets == {False}:
        return
    if exclusive(line, op, release):
        if op.id in made.back and release.id in made.back:
            return
        meets = {None}  # by the text of the branches, which is not certain
    use, free = made.back.get(op.id), made.back.get(release.id)
    if line.earlier[op.id] >> release.id & 1:
        had = use is not None and free is not None and bool(made.before.earlier[use] >> free & 1)
        if (
            use is not None
            and free is not None
            and had
            and (True not in meets or True in _meets(made.before, use, free))
        ):
            return  # so it was in the original
        if True in meets:
            found.failed.append(where(both, op, f"uses `{buffer.name}` after it was freed"))
        else:
            found.unknown.append(where(both, op, f"`{buffer.name}` may be used after it was freed"))
    elif release.stream is not None and not buffer.pooled and _stream_ordered_now(made, free):
        found.unknown.append(
            where(both, release, f"`{buffer.name}` does not come from a pool and is freed in stream order")
        )
    elif line.earlier[release.id] >> op.id & 1 and not line.ordered(op.id, release.id):
        if free_waits(line, op, release):
            if use is None or free is None or made.before.ordered(use, free):
                found.rests_on.add(FREE_WAITS)
            return
        same = use is not None and free is not None and not made.before.ordered(use, free)
        if same and made.before.ops[free or 0].api == release.api:
            return  # the original had it
        what = f"`{buffer.name}` is freed while {wording.operation(op)} may still use it"
        (found.failed if True in meets else found.unknown).append(where(both, release, what))


def _meets(line: Timeline, use: int, free: int) -> set[bool | None]:
    return {
        alias(line.buffers[a.buffer], line.buffers[b.buffer])
        for a in line.ops[use].accesses
        for b in line.ops[free].accesses
    }


def _stream_ordered_now(made: Pairing, free: int | None) -> bool:
    return free is None or made.before.ops[free].stream is None


def _free_again(both: Correspondence, made: Pairing, first: Op, second: Op, buffer: Buffer, found: Ordering) -> None:
    line = made.after
    if first.id in made.back and second.id in made.back:
        return
    meets = {alias(line.buffers[a.buffer], buffer) for a in second.accesses}
    if meets == {False}:
        return
    bucket = found.failed if True in meets and not exclusive(line, first, second) else found.unknown
    bucket.append(where(both, second, f"`{buffer.name}` may be freed twice"))


def _allocation(
    both: Correspondence, made: Pairing, buffer: Buffer, users: list[Op], frees: list[Op], found: Ordering
) -> None:
    line = made.after
    assert buffer.alloc_op is not None
    made_by = line.ops[buffer.alloc_op]
    if made_by.stream is not None:  # A1
        ways = _ways(line, made_by)
        for op in users:
            if not any(a.buffer == buffer.id for a in op.accesses):
                continue
            open_ways = [way for way in ways if line.earlier[op.id] >> way.id & 1] or ways
            if all(line.ordered(way.id, op.id) or _not_ordered_before(made, way, op) for way in open_ways):
                continue
            what = f"`{buffer.name}` is used on a stream that does not wait for its allocation"
            found.failed.append(where(both, op, what))
            return
    olds = [old for old, new in made.buffers.items() if buffer.id in new]
    freed_before = any(
        op.kind is ApiKind.FREE
        and any(alias(made.before.buffers[a.buffer], made.before.buffers[o]) is not False for a in op.accesses)
        for op in made.before.ops
        for o in olds
    )
    if not freed_before:
        return
    now = [op for op in frees if any(alias(line.buffers[a.buffer], buffer) is not False for a in op.accesses)]
    if not now:
        found.failed.append(where(both, made_by, f"`{buffer.name}` is no longer freed"))
    elif not any(set(op.conditions) <= set(made_by.conditions) for op in now) and any(
        op.id not in made.back for op in now
    ):
        found.unknown.append(where(both, made_by, f"`{buffer.name}` may not be freed on every path"))


def _ways(line: Timeline, made_by: Op) -> list[Op]:
    """The occurrences of an allocation on all groups of paths: each makes the same buffer on its own. A use comes after those
    that its own paths took."""
    return [
        op
        for op in line.ops
        if op.node == made_by.node and op.loop == made_by.loop and op.iteration == made_by.iteration
    ]


def _not_ordered_before(made: Pairing, allocation: Op, op: Op) -> bool:
    """The original had it: the use did not come after the allocation there either."""
    use, old = made.back.get(op.id), made.back.get(allocation.id)
    return use is not None and old is not None and not made.before.ordered(old, use)


def free_waits(line: Timeline, work: Op, release: Op) -> bool:
    """W8: `cudaFree` of memory that is no pool's may be relied on to wait for the work on it, and for nothing else."""
    return (
        release.kind is ApiKind.FREE
        and release.api in ("cudaFree", "cuMemFree")
        and release.stream is None
        and release.device == work.device
        and release.device is not None
        and work.thread == release.thread
        and on_waited_stream(line, work)
        and bool(line.earlier[release.id] >> work.id & 1)
        and all(
            not line.buffers[a.buffer].pooled and line.buffers[a.buffer].origin == "alloc" for a in release.accesses
        )
    )
