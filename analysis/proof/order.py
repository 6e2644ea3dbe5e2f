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

from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.lookup import memory_key
from stitchcuda.analysis.order.alias import alias, conflict
from stitchcuda.analysis.order.symbolic import Poly
from stitchcuda.analysis.order.timeline import Buffer, Certainty, Memory, Mode, Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind
from stitchcuda.analysis.proof.correspond import Correspondence
from stitchcuda.analysis.proof.lifetimes import FREE_WAITS, Ordering, free_waits, lifetimes
from stitchcuda.analysis.proof.matching import HOST, MOVING, Pairing, show, where
from stitchcuda.analysis.proof.model import ProofFinding
from stitchcuda.analysis.proof.resident import Residency

_OUTSIDE = ("parameter", "global")
OPAQUE = frozenset({ApiKind.LIBRARY_CALL, ApiKind.HOST_FUNC, ApiKind.GRAPH_LAUNCH})  # they use memory of their own, too


def keeps_order(
    both: Correspondence, made: Pairing, residency: Residency, *, by_name: bool, hiding: frozenset[int]
) -> Ordering:
    """`by_name` is False when buffers cannot be told apart by the names that the Timelines give them: then every pair of
    operations counts as conflicting. So does every pair with one of `hiding`, launches of the original."""
    found = Ordering()
    _same_buffers(both, made, found)
    kinds = MOVING - {ApiKind.FREE} | {
        ApiKind.NEUTRAL
    }  # what the host may see at a point is the matter of `waiting.py`
    compared = [a for a in made.pairs if made.before.ops[a].kind not in kinds]
    known = _old_pairs(both, made, compared, found, by_name=by_name, hiding=hiding)
    _new_pairs(
        both, made, [a for a in compared if made.before.ops[a].kind is not ApiKind.FREE], known, residency, found
    )
    lifetimes(both, made, found)
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
        elif show(one.size) != show(other.size) or (_moved(made, one, other) and not _steady(one.size, other.size)):
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


def _moved(made: Pairing, one: Buffer, other: Buffer) -> bool:
    """Another allocation, or one that stands elsewhere: its size is evaluated at another time."""
    return one.alloc_op is not None and (other.alloc_op is None or made.back.get(other.alloc_op) != one.alloc_op)


def _steady(one: Poly | None, other: Poly | None) -> bool:
    """Sizes that hold nothing but variables that keep their value: a number that the program makes anew (`n.5`) may be
    another one at another time though it is called the same."""
    return all(size is not None and not any("." in s for s in size.symbols) for size in (one, other))


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
    both: Correspondence,
    made: Pairing,
    ids: list[int],
    found: Ordering,
    *,
    by_name: bool,
    hiding: frozenset[int],
) -> set[tuple[int, int]]:
    """The pairs that conflict in the original; those that it orders must be ordered still."""
    line, other = made.before, made.after
    pairs, unnamed = candidates(line, ids)
    unnamed |= {(min(a, b), max(a, b)) for a in hiding for b in ids if a != b}
    pairs |= unnamed
    if not by_name:
        touching = [a for a in ids if line.ops[a].accesses or line.ops[a].unknown]
        unnamed |= set(itertools.combinations(sorted(touching), 2))
        pairs |= unnamed
    known: set[tuple[int, int]] = set()
    outlived = _outlived(made)
    for a, b in sorted(pairs):
        clashes = conflict(line, a, b)
        anything = (a, b) in unnamed
        if not clashes and not anything:
            continue
        known.add((a, b))
        for first, second in ((a, b), (b, a)):
            partly = line.on_some_paths(first, second)
            if not partly and not made.ordered_before(first, second):
                continue
            found.pairs += 1
            x, y = made.pairs[first], made.pairs[second]
            if partly and other.on_some_paths(x, y):
                continue
            if other.ordered(x, y):
                if x in outlived and _rests_on_stream(other, x, y, outlived[x]):
                    what = f"is ordered after {_named(made, first)} only by a stream that was destroyed while that ran"
                    found.unknown.append(where(both, other.ops[y], what))
                if not anything and other.ops[y].kind is not ApiKind.FREE and not conflict(other, x, y):
                    what = f"does not use what {_named(made, first)} used, as it did"
                    (found.failed if any(c.same for c in clashes) else found.unknown).append(
                        where(both, other.ops[y], what)
                    )
                continue
            if other.ops[y].kind is ApiKind.FREE and not conflict(other, x, y):
                continue  # it frees something else now: `lifetimes` looks at that
            if free_waits(other, other.ops[x], other.ops[y]):
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


def _outlived(made: Pairing) -> dict[int, int]:
    """Work that outlives its stream in the changed version alone, with the call that destroys the stream."""
    found: dict[int, int] = {}
    for destroy in made.after.ops:
        was = made.back.get(destroy.id)
        if destroy.kind is not ApiKind.STREAM_DESTROY or was is None:
            continue
        for a, x in made.pairs.items():
            mine = made.after.ops[x].stream == destroy.stream and made.after.earlier[destroy.id] >> x & 1
            if mine and made.ordered_before(a, was) and not made.after.ordered(x, destroy.id):
                found[x] = destroy.id
    return found


def _rests_on_stream(line: Timeline, work: int, then: int, destroy: int) -> bool:
    """No wait of the host stands between the work and what comes behind the end of its stream: whether the default stream
    still waits for it then (O4) is not documented."""
    if not line.earlier[then] >> destroy & 1:
        return False
    return not any(op.waits >> work & 1 and line.earlier[then] >> op.id & 1 for op in line.ops)


def _by_host(line: Timeline, a: int, b: int) -> bool:
    return line.ops[a].kind in HOST or line.ops[b].kind in HOST


def _named(made: Pairing, number: int) -> str:
    return wording.operation(made.after.ops[made.pairs[number]])


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
        met = (min(a, b), max(a, b)) in known
        for clash in conflict(other, x, y):
            found.pairs += 1
            old_a = [
                o.buffer for o, n in zip(line.ops[a].accesses, other.ops[x].accesses, strict=True) if n is clash.first
            ]
            old_b = [
                o.buffer for o, n in zip(line.ops[b].accesses, other.ops[y].accesses, strict=True) if n is clash.second
            ]
            for s, t in ((s, t) for s in old_a for t in old_b):
                if met and (s == t or alias(line.buffers[s], line.buffers[t]) is not False):
                    continue  # there they met in the original, too
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
