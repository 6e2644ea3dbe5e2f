"""Is the order of every pair of conflicting accesses kept, and does every read see the same value?

When both versions do the same operations on the same memory, and every two that conflict and are ordered in the original
are ordered in the same way in the other, each read sees the same writes. Where buffers of the original share memory in
the changed version (a value stays on the device, an allocation is used again) the pairs that are new are held to stricter
rules: all of the first buffer's life comes before the second's, and the second is written before it is read, or its first
value is exactly what the first held (`resident.py`).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field

from stitchcuda.analysis.order.alias import alias, conflict
from stitchcuda.analysis.order.timeline import Buffer, Certainty, Memory, Mode, Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind
from stitchcuda.analysis.proof.correspond import Correspondence
from stitchcuda.analysis.proof.matching import HOST, MOVING, Pairing, on_waited_stream, show, where
from stitchcuda.analysis.proof.model import ProofFinding
from stitchcuda.analysis.proof.resident import Residency
from stitchcuda.analysis.rules import wording
from stitchcuda.analysis.rules.race import exclusive, memory_key

_OUTSIDE = ("parameter", "global")
OPAQUE = frozenset({ApiKind.LIBRARY_CALL, ApiKind.HOST_FUNC, ApiKind.GRAPH_LAUNCH})  # they use memory of their own, too
FREE_WAITS = "cudaFree waits for the work that uses what it frees (row W8; in practice, not by documentation)"


@dataclass
class Ordering:
    failed: list[ProofFinding] = field(default_factory=list)
    unknown: list[ProofFinding] = field(default_factory=list)
    pairs: int = 0
    rests_on: set[str] = field(default_factory=set)


def keeps_order(both: Correspondence, made: Pairing, residency: Residency, *, by_name: bool) -> Ordering:
    """`by_name` is False when buffers cannot be told apart by the names that the Timelines give them: then every pair of
    operations counts as conflicting."""
    found = Ordering()
    _same_buffers(both, made, found)
    kinds = MOVING - {ApiKind.FREE} | {
        ApiKind.NEUTRAL
    }  # what the host may see at a point is the matter of `waiting.py`
    compared = [a for a in made.pairs if made.before.ops[a].kind not in kinds]
    known = _old_pairs(both, made, compared, found, by_name=by_name)
    _new_pairs(
        both, made, [a for a in compared if made.before.ops[a].kind is not ApiKind.FREE], known, residency, found
    )
    _lifetimes(both, made, found)
    _carried_on(both, made, residency, found)
    return found


def _carried_on(both: Correspondence, made: Pairing, residency: Residency, found: Ordering) -> None:
    """What two copies carried over must be what is used now: the memory of the source, unchanged in between."""
    line = made.before
    for carry in residency.carries:
        source, target = made.buffers.get(carry.source, set()), made.buffers.get(carry.target, set())
        upload = line.ops[carry.upload]
        name = line.buffers[carry.target].name
        if target and source != target:
            what = f"`{name}` no longer gets its value: the copies to it are gone, and its users use other memory"
            found.failed.append(where(both, upload, what, original=True))
        if carry.source != carry.target:
            continue  # pairs that are new in the changed version are compared there
        for a in made.pairs:
            writes = any(
                x.mode is not Mode.READ and alias(line.buffers[x.buffer], line.buffers[carry.source]) is not False
                for x in line.ops[a].accesses
            )
            if writes and not line.ordered(a, carry.download) and not line.ordered(carry.upload, a):
                what = f"`{name}` is changed here, which the copy that is gone undid"
                found.failed.append(where(both, made.after.ops[made.pairs[a]], what))


# ------------------------------------------------------------------------------------------------------------- buffers


def _same_buffers(both: Correspondence, made: Pairing, found: Ordering) -> None:
    """Each buffer of the original is one buffer of the changed version, of one size and kind."""
    for old, new in made.buffers.items():
        user = _user(made, old)
        if len(new) > 1:
            what = f"`{made.before.buffers[old].name}` was one buffer, and its users now use different memory"
            found.failed.append(where(both, user, what))
            continue
        one, other = made.before.buffers[old], made.after.buffers[next(iter(new))]
        if one.memory is not other.memory:
            what = f"`{other.name}` is {other.memory.value} memory here, and was {one.memory.value} memory"
            found.failed.append(where(both, user, what))
        elif show(one.size) != show(other.size):
            what = f"`{other.name}` has {show(other.size)} bytes here, and had {show(one.size)}"
            found.unknown.append(where(both, user, what))
        elif one.device != other.device:
            found.unknown.append(where(both, user, f"`{other.name}` may be on another device"))
        if _renewed(made, old) and not _written_first(made.before, old, [made.before.ops[a] for a in made.pairs]):
            what = f"`{other.name}` may be read before it is written, and its allocation changed"
            found.unknown.append(where(both, user, what))
    for stream, others in made.streams.items():
        if len(others) > 1 or made.before.streams[stream].kind is not made.after.streams[next(iter(others))].kind:
            name = made.before.streams[stream].name
            found.unknown.append(ProofFinding(f"work of stream `{name}` is on another stream in the changed version"))


def _user(made: Pairing, buffer: int) -> Op:
    return next(
        made.after.ops[b] for a, b in made.pairs.items() if any(x.buffer == buffer for x in made.before.ops[a].accesses)
    )


def _renewed(made: Pairing, old: int) -> bool:
    """The memory comes from an allocation that was added or changed its kind: it may hold something else at first."""
    one = made.before.buffers[old]
    if one.alloc_op is None:
        return False
    for new in made.buffers[old]:
        other = made.after.buffers[new]
        if other.alloc_op is None or made.back.get(other.alloc_op) != one.alloc_op:
            return True
        if one.pooled != other.pooled:
            return True
    return False


def _written_first(line: Timeline, buffer: int, ops: list[Op]) -> bool:
    """Every read of a buffer comes after a write to it, by another operation. (All bytes that a program reads were written:
    anything else is undefined in the original.)"""
    touching = [(op, a) for op in line.ops for a in op.accesses if a.buffer == buffer and op.kind is not ApiKind.FREE]
    writers = [op.id for op, a in touching if a.mode is Mode.WRITE and a.certainty is Certainty.MUST]
    return all(
        any(line.ordered(w, op.id) for w in writers if w != op.id) for op, a in touching if a.mode is not Mode.WRITE
    )


# --------------------------------------------------------------------------------------------------------------- pairs


def candidates(line: Timeline, ids: list[int]) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Pairs of operations that may touch the same memory, one of them writing; and which of them may do so through memory
    that has no name here (what comes from outside the entry may be one memory under several names)."""
    touching: dict[object, dict[int, bool]] = defaultdict(dict)
    wild: set[int] = set()
    for number in ids:
        op = line.ops[number]
        if op.unknown or not op.certain or op.kind in OPAQUE:
            wild.add(number)
        for access in op.accesses:
            buffer = line.buffers[access.buffer]
            if buffer.origin == "unknown" or buffer.memory is Memory.UNKNOWN:
                wild.add(number)
            for key in {memory_key(buffer), "outside" if buffer.origin in _OUTSIDE else memory_key(buffer)}:
                group = touching[key]
                group[number] = group.get(number, False) or access.mode is not Mode.READ
    unnamed = {(min(a, b), max(a, b)) for a in wild for b in ids if a != b} | _pairs(touching.pop("outside", {}))
    return set().union(unnamed, *map(_pairs, touching.values())), unnamed


def _pairs(group: dict[int, bool]) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a, writes in group.items() if writes for b in group if a != b}


def _old_pairs(
    both: Correspondence, made: Pairing, ids: list[int], found: Ordering, *, by_name: bool
) -> set[tuple[int, int]]:
    """The pairs that conflict in the original; those that it orders must be ordered still."""
    line, other = made.before, made.after
    pairs, unnamed = candidates(line, ids)
    if not by_name:
        touching = [a for a in ids if line.ops[a].accesses or line.ops[a].unknown]
        unnamed |= set(itertools.combinations(sorted(touching), 2))
        pairs |= unnamed
    known: set[tuple[int, int]] = set()
    for a, b in sorted(pairs):
        clashes = conflict(line, a, b)
        anything = (a, b) in unnamed
        if not clashes and not anything:
            continue
        known.add((a, b))
        for first, second in ((a, b), (b, a)):
            if not made.ordered_before(first, second):
                continue
            found.pairs += 1
            x, y = made.pairs[first], made.pairs[second]
            if other.ordered(x, y):
                if not anything and other.ops[y].kind is not ApiKind.FREE and not conflict(other, x, y):
                    what = f"does not use what {_named(made, first)} used, as it did"
                    (found.failed if any(c.same for c in clashes) else found.unknown).append(
                        where(both, other.ops[y], what)
                    )
                continue
            if other.ops[y].kind is ApiKind.FREE and not conflict(other, x, y):
                continue  # it frees something else now: `_lifetimes` looks at that
            if _free_waits(other, other.ops[x], other.ops[y]):
                found.rests_on.add(FREE_WAITS)
                continue
            sure = any(
                c.same or (alias(line.buffers[c.first.buffer], line.buffers[c.second.buffer]) and _by_host(line, a, b))
                for c in clashes
            )
            sure = sure and line.ops[a].certain and line.ops[b].certain
            names = sorted({line.buffers[c.first.buffer].name for c in clashes}) or ["memory that is not known"]
            what = (
                f"{wording.operation(other.ops[y])} is no longer ordered after {_named(made, first)}, which also uses "
                f"`{names[0]}`"
            )
            (found.failed if sure else found.unknown).append(where(both, other.ops[y], what))
    return known


def _by_host(line: Timeline, a: int, b: int) -> bool:
    return line.ops[a].kind in HOST or line.ops[b].kind in HOST


def _named(made: Pairing, number: int) -> str:
    return wording.operation(made.after.ops[made.pairs[number]])


def _free_waits(line: Timeline, work: Op, release: Op) -> bool:
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


# ----------------------------------------------------------------------------------------------------------- new pairs


def _new_pairs(
    both: Correspondence,
    made: Pairing,
    ids: list[int],
    known: set[tuple[int, int]],
    residency: Residency,
    found: Ordering,
) -> None:
    """Pairs that meet in memory only in the changed version."""
    line, other = made.before, made.after
    pairs, _ = candidates(other, [made.pairs[a] for a in ids])
    shared: dict[tuple[int, int], Op] = {}
    for x, y in sorted(pairs):
        a, b = made.back[x], made.back[y]
        if (min(a, b), max(a, b)) in known:
            continue
        for clash in conflict(other, x, y):
            found.pairs += 1
            old_a = [
                o.buffer for o, n in zip(line.ops[a].accesses, other.ops[x].accesses, strict=True) if n is clash.first
            ]
            old_b = [
                o.buffer for o, n in zip(line.ops[b].accesses, other.ops[y].accesses, strict=True) if n is clash.second
            ]
            for s, t in ((s, t) for s in old_a for t in old_b):
                forward, backward = residency.between(s, t), residency.between(t, s)
                if forward is not None:
                    ok = _carried(made, a, s, b, t, forward[0].download, forward[1].upload)
                elif backward is not None:
                    ok = _carried(made, b, t, a, s, backward[0].download, backward[1].upload)
                else:
                    shared.setdefault((min(s, t), max(s, t)), other.ops[y])
                    continue
                if not ok:
                    what = (
                        f"`{other.buffers[clash.second.buffer].name}` does not hold here what it held in the original"
                    )
                    found.failed.append(where(both, other.ops[y], what))
    for (s, t), op in shared.items():
        if not _disjoint(made, s, t):
            what = (
                f"`{line.buffers[s].name}` and `{line.buffers[t].name}` share memory in the changed version, and it is not "
                "shown that their uses do not overlap"
            )
            found.unknown.append(where(both, op, what))


def _carried(made: Pairing, a: int, source: int, b: int, target: int, download: int, upload: int) -> bool:
    """`a` uses the buffer that a value came from and `b` the one that it went to: the value is the same when all writes
    to the first came before the download, all uses of the second after the upload, and `b` still comes after `a`."""
    line = made.before
    writes = any(x.buffer == source and x.mode is not Mode.READ for x in line.ops[a].accesses)
    if writes and not line.ordered(a, download):
        return False
    return line.ordered(upload, b) and made.after.ordered(made.pairs[a], made.pairs[b])


def _disjoint(made: Pairing, s: int, t: int) -> bool:
    line = made.before
    users: list[list[int]] = []
    for buffer in (s, t):
        users.append(
            [
                a
                for a in made.pairs
                if line.ops[a].kind not in MOVING and any(x.buffer == buffer for x in line.ops[a].accesses)
            ]
        )
    for first, second, later in ((users[0], users[1], t), (users[1], users[0], s)):
        if all(made.after.ordered(made.pairs[a], made.pairs[b]) for a in first for b in second):
            return _written_first(line, later, [])
    return False


# ----------------------------------------------------------------------------------------------------------- lifetimes


def _lifetimes(both: Correspondence, made: Pairing, found: Ordering) -> None:
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
    for number in sorted({n for new in made.buffers.values() for n in new}):
        buffer = line.buffers[number]
        if buffer.alloc_op is not None:
            _allocation(both, made, buffer, users.get(memory_key(buffer), []), frees, found)


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
        if use is not None and free is not None and made.before.earlier[use] >> free & 1 and True not in meets:
            return  # so it was, and it was not known whether they meet
        if True in meets:
            found.failed.append(where(both, op, f"uses `{buffer.name}` after it was freed"))
        else:
            found.unknown.append(where(both, op, f"`{buffer.name}` may be used after it was freed"))
    elif release.stream is not None and not buffer.pooled and _stream_ordered_now(made, free):
        found.unknown.append(
            where(both, release, f"`{buffer.name}` does not come from a pool and is freed in stream order")
        )
    elif line.earlier[release.id] >> op.id & 1 and not line.ordered(op.id, release.id):
        if _free_waits(line, op, release):
            if use is None or free is None or made.before.ordered(use, free):
                found.rests_on.add(FREE_WAITS)
            return
        same = use is not None and free is not None and not made.before.ordered(use, free)
        if same and made.before.ops[free or 0].api == release.api:
            return  # the original had it
        what = f"`{buffer.name}` is freed while {wording.operation(op)} may still use it"
        (found.failed if True in meets else found.unknown).append(where(both, release, what))


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
        for op in users:
            if any(a.buffer == buffer.id for a in op.accesses) and not line.ordered(made_by.id, op.id):
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
