"""What each group of launches must keep.

The new launches of a group write what the old ones wrote and anything else may read, write nothing else, and read nothing
but what the old ones read, or what they wrote themselves before. What the values are is not known here: a run must show
them (G3).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from stitchcuda.analysis.findings.waits import last_name
from stitchcuda.analysis.order.alias import alias, overlap, within
from stitchcuda.analysis.order.symbolic import Poly, at_least
from stitchcuda.analysis.order.timeline import Access, Certainty, Memory, Mode, Op, Range, Shape, Timeline
from stitchcuda.analysis.program.effects import kernel_effects
from stitchcuda.analysis.program.ir import ApiKind, Program, Site
from stitchcuda.analysis.proof.correspond import Correspondence
from stitchcuda.analysis.proof.coverage import covers, reads_behind, written
from stitchcuda.analysis.proof.device_code import DeviceChange
from stitchcuda.analysis.proof.groups import Group, Grouped, groups_of, place
from stitchcuda.analysis.proof.hidden import hidden_memory, starts_early
from stitchcuda.analysis.proof.matching import MOVING, Pairing, pair, show, where
from stitchcuda.analysis.proof.recomposed import Recomposed
from stitchcuda.analysis.proof.sooner import may_wait

_OPAQUE = frozenset({ApiKind.LIBRARY_CALL, ApiKind.HOST_FUNC, ApiKind.GRAPH_LAUNCH})
_WRITES = (Mode.WRITE, Mode.ATOMIC)
_DENSE = (Shape.WHOLE, Shape.THREAD)  # from end to end


def grouped(
    both: Correspondence, before: Timeline, after: Timeline, parts: Recomposed, change: DeviceChange, *, whole: bool
) -> Grouped:
    """The groups of one entry, and where one does not keep what it must. `whole`: the entry is a program's main."""
    found = Grouped()
    found.groups = groups_of(both, before, after, parts, change, found)
    if not found.groups:
        return found
    apart = tuple(frozenset().union(*(members(g) for g in found.groups)) for members in (_all_old, _all_new))
    made = pair(both, before, after, apart=(apart[0], apart[1]))
    obligations = _Obligations(both, made, found, whole)
    for group in found.groups:
        obligations.check(group)
    obligations.check_scratch()
    found.image, found.speaks = obligations.image, obligations.speaks
    return found


def _all_old(group: Group) -> frozenset[int]:
    return group.inside[0].union(group.old)


def _all_new(group: Group) -> frozenset[int]:
    return group.inside[1].union(group.new)


class _Obligations:
    """What a group must keep, in one entry."""

    def __init__(self, both: Correspondence, made: Pairing, found: Grouped, whole: bool) -> None:
        self._both, self._made, self._found, self._whole = both, made, found, whole
        self._old, self._new = self._lines = made.before, made.after
        self._names = [[self._named(line, b.id, k) for b in line.buffers] for k, line in enumerate(self._lines)]
        self._hidden = (
            hidden_memory(both.before.program, self._old),
            hidden_memory(both.after.program, self._new),
        )
        self._images: dict[int, int | None] = {}
        self._group_of = {op: group for group in found.groups for op in group.old}
        self._exposed = {id(group): exposed([self._old.ops[n] for n in group.old]) for group in found.groups}

    def check(self, group: Group) -> None:
        old, new = [self._old.ops[n] for n in group.old], [self._new.ops[n] for n in group.new]
        known = len(self._found.unknown)
        for line, ops, which in ((self._old, old, 0), (self._new, new, 1)):
            self._understood(line, ops, which)
            self._together(line, ops, group.inside[which], which)
        self._same_place(old, new)
        if len(self._found.unknown) > known:
            return
        self._kernels(old, new)
        self._writes(group, old, new)
        self._reads(group, new)

    def _say(self, op: Op, what: str, *, original: bool = False, failed: bool = False) -> None:
        bucket = self._found.failed if failed else self._found.unknown
        bucket.append(where(self._both, op, what, original=original))

    # ------------------------------------------------------------------------------------------------- what is issued

    def _understood(self, line: Timeline, ops: list[Op], which: int) -> None:
        for op in ops:
            what = ""
            if op.unknown or not op.certain:
                what = f"it is not known what `{op.kernel}` does to memory"
            elif op.id in self._hidden[which]:
                what = f"`{op.kernel}` may reach memory that is not listed"
            elif starts_early(op) or op.early or op.graph is not None:
                what = f"`{op.kernel}` may start early or is part of a graph"
            elif any(line.buffers[a.buffer].origin == "unknown" or _unknown(line, a) for a in op.accesses):
                what = f"it is not known which memory `{op.kernel}` is given"
            if what:
                self._say(op, what, original=not which)

    def _together(self, line: Timeline, ops: list[Op], inside: frozenset[int], which: int) -> None:
        """One stream, and nothing else comes between them."""
        first, bits = ops[0], sum(1 << op.id for op in ops)
        if any(op.stream != first.stream or op.device != first.device or op.stream is None for op in ops):
            self._say(first, "launches that stand for others are on several streams or devices", original=not which)
            return
        for a, b in itertools.pairwise(ops):
            if not line.ordered(a.id, b.id):
                self._say(b, f"`{b.kernel}` is not ordered after `{a.kernel}`", original=not which)
                return
        for x in line.ops:
            if bits >> x.id & 1 or x.id in inside:
                continue
            for masks in (line.before, line.earlier, line.may_wait, line.partly):
                if not masks:
                    continue
                mine = {masks[op.id] >> x.id & 1 for op in ops}
                theirs = masks[x.id] & bits
                if len(mine) > 1 or theirs not in (0, bits):
                    what = f"`{x.api or x.kind.value}` comes between launches that others stand for, or that stand for others"
                    self._say(x, what, original=not which)
                    return

    def _same_place(self, old: list[Op], new: list[Op]) -> None:
        one, other = self._old.streams[old[0].stream or 0], self._new.streams[new[0].stream or 0]
        site = self._both.site(one.site) if one.site is not None else None
        calls = tuple(map(self._call, one.calls))
        same = (one.kind, one.name, site, calls, tuple(map(show, one.instance))) == (
            other.kind,
            other.name,
            other.site,
            other.calls,
            tuple(map(show, other.instance)),
        )
        if not same:
            self._say(new[0], f"`{new[0].kernel}` is on stream `{other.name}`, and what it stands for on `{one.name}`")
        if old[0].device != new[0].device:
            self._say(new[0], f"`{new[0].kernel}` may run on another device")

    def _kernels(self, old: list[Op], new: list[Op]) -> None:
        before, after = self._both.before.program, self._both.after.program
        if any(_prints(after, op) for op in new) != any(_prints(before, op) for op in old):
            self._say(new[0], "the kernels print or assert otherwise than before")
        if any(may_wait(after, op.kernel) for op in new) and not any(may_wait(before, op.kernel) for op in old):
            self._say(new[0], "a kernel may wait for memory to change, which the ones before did not")

    def speaks(self, op: Op) -> bool:
        return _prints(self._both.after.program, op) or may_wait(self._both.after.program, op.kernel)

    # ------------------------------------------------------------------------------------------------------- memory

    def image(self, buffer: int) -> int | None:
        """The buffer of the changed version that stands for one of the original; None: not known."""
        if buffer not in self._images:
            others = self._made.buffers.get(buffer) or self._alike(buffer)
            self._images[buffer] = next(iter(others)) if len(others) == 1 else None
        return self._images[buffer]

    def _alike(self, buffer: int) -> set[int]:
        """By name and place. Those of one family come in the same order in both versions, with the same indexes."""
        name = self._names[0][buffer]
        family, others = (
            [b for b in line.buffers if self._names[k][b.id] == name] for k, line in enumerate(self._lines)
        )
        if [b.instance for b in family] != [b.instance for b in others]:
            return set()
        return {others[[b.id for b in family].index(buffer)].id}

    def _named(self, line: Timeline, number: int, which: int) -> tuple[object, ...]:
        b = line.buffers[number]
        return (
            b.name,
            b.memory,
            b.origin,
            b.owner,
            None if b.site is None else place(self._both, b.site, which) or "?",
            tuple(c if which else self._call(c) for c in b.calls),
        )

    def _call(self, call: Site) -> Site | None:
        """Where a call on the way to an allocation is in the changed version."""
        span = self._both.spans.get(call.function, {}).get(call.span)
        return None if span is None else replace(call, span=span)

    def _touched(self, ops: Iterable[Op]) -> dict[int, list[Access]]:
        """Accesses of the original, by the buffer of the changed version."""
        touched: dict[int, list[Access]] = defaultdict(list)
        for op in ops:
            for access in op.accesses:
                image = self.image(access.buffer)
                if image is not None:
                    touched[image].append(access)
        return touched

    def _writes(self, group: Group, old: list[Op], new: list[Op]) -> None:
        touched = self._touched(old)
        for op in new:
            for access in op.accesses:
                name = self._new.buffers[access.buffer].name
                had = touched.get(access.buffer, [])
                if not had and self._is_scratch(access.buffer):
                    continue
                if not had:
                    self._say(op, f"`{op.kernel}` uses `{name}`, which the launches that it stands for do not use")
                elif access.mode in _WRITES and not any(a.mode in _WRITES for a in had):
                    sure = access.certainty is Certainty.MUST and not access.one_of
                    what = f"`{op.kernel}` writes `{name}`, which the launches that it stands for only read"
                    self._say(op, what, failed=sure and self._read_outside(group, had[0].buffer) is True)
                elif not _covered(access, had):
                    self._other_part(group, op, access, had)
        writes: dict[int | None, list[Access]] = defaultdict(list)
        for op in new:
            for access in op.accesses:
                if access.mode in _WRITES:
                    writes[access.buffer].append(access)
        for op in old:
            for access in op.accesses:
                if access.mode not in _WRITES:
                    continue
                image, name = self.image(access.buffer), self._old.buffers[access.buffer].name
                met = [a for a in writes.get(image, ()) if overlap(a.range, access.range) is not False]
                enough = any(a.certainty is Certainty.MUST or access.certainty is Certainty.MAY for a in met)
                read = self._read_outside(group, access.buffer)
                if read is False:
                    continue
                if enough and not _misses_an_end(access.range, met):
                    self._full(group, op, access, new)
                    continue
                some, sure = bool(met), access.certainty is Certainty.MUST
                how = "may leave" if some or image is None else "leaves"
                what = f"`{new[-1].kernel}` {how} `{name}` unwritten, which `{op.kernel}` wrote and others read"
                self._say(new[-1], what, failed=not some and image is not None and read is True and sure)

    def _full(self, group: Group, op: Op, access: Access, new: list[Op]) -> None:
        """Whether the new launches write all that `op` wrote of a buffer: told when that is not shown, since results show it."""
        image, name = self.image(access.buffer), self._old.buffers[access.buffer].name
        parts = [
            written(self._both.after.program, o, a)
            for o in new
            for a in o.accesses
            if a.buffer == image and a.mode in _WRITES
        ]
        if covers([p for p in parts if p], access.range):
            return
        before, ends = written(self._both.before.program, op, access), [p.most for p in parts if p]
        misses = before is not None and all(parts) and all(at_least(end, before.end) is False for end in ends)
        if misses and self._read_behind(group, access.buffer, ends) and not self._held_before(group, image):
            what = f"`{new[-1].kernel}` leaves the end of `{name}` unwritten, which `{op.kernel}` wrote and others read"
            self._say(new[-1], what, failed=True)
            return
        what = (
            f"coverage of `{name}` is not shown: whether all that `{op.kernel}` wrote is written is left to the results"
        )
        self._found.told.append(where(self._both, new[-1], what))

    def _read_behind(self, group: Group, buffer: int, ends: list[Poly]) -> bool:
        """Whether something surely reads, behind all of the ends, what the group left there: nothing else writes it after the group."""
        line, held = self._old, self._old.buffers[buffer]
        later = [o for o in line.ops if o.id not in group.old and line.earlier[o.id] >> group.old[-1] & 1]
        for o in later:
            for a in o.accesses:
                again = a.mode in _WRITES and o.kind not in MOVING
                if again and alias(line.buffers[a.buffer], held) is not False:
                    return False
        return any(a.buffer == buffer and reads_behind(a, ends) for o in later if o.certain for a in o.accesses)

    def _held_before(self, group: Group, image: int | None) -> bool:
        """Whether something may have put values into a buffer of the changed version before: they may be the right ones still."""
        line = self._new
        earlier = line.earlier[group.new[0]]
        return image is None or any(
            a.mode in _WRITES and alias(line.buffers[a.buffer], line.buffers[image]) is not False
            for o in line.ops
            if earlier >> o.id & 1 and o.id not in group.new and o.kind not in MOVING
            for a in o.accesses
        )

    def _is_scratch(self, buffer: int) -> bool:
        """Device memory that the original does not use, and the changed version for its new launches alone."""
        held = self._new.buffers[buffer]
        if held.memory is not Memory.DEVICE or held.origin != "alloc":
            return False
        if buffer not in self._found.scratch:
            olds = [b.id for b in self._old.buffers if self.image(b.id) == buffer]
            news = {n for group in self._found.groups for n in group.new}
            used = [
                op
                for line, mine in ((self._old, olds), (self._new, [buffer]))
                for op in line.ops
                if op.kind not in MOVING
                and not (line is self._new and op.id in news)
                and any(alias(line.buffers[a.buffer], line.buffers[b]) is not False for a in op.accesses for b in mine)
            ]
            if used or len(olds) > 1:
                return False
            self._found.scratch[buffer] = olds[0] if olds else None
        return True

    def check_scratch(self) -> None:
        """Launches of several groups that use the same scratch memory come one after the other."""
        group_of = {n: k for k, group in enumerate(self._found.groups) for n in group.new}
        for buffer in self._found.scratch:
            held = self._new.buffers[buffer]
            users = [
                self._new.ops[n]
                for n in group_of
                if any(alias(self._new.buffers[a.buffer], held) is not False for a in self._new.ops[n].accesses)
            ]
            for one, other in itertools.combinations(users, 2):
                apart = group_of[one.id] != group_of[other.id]
                if apart and not (self._new.ordered(one.id, other.id) or self._new.ordered(other.id, one.id)):
                    self._say(other, f"`{other.kernel}` and `{one.kernel}` may use `{held.name}` at the same time")
                    return

    def _read_outside(self, group: Group, buffer: int) -> bool | None:
        """Whether anything but the group reads what it leaves in a buffer of the original; None: not known."""
        line, held = self._old, self._old.buffers[buffer]
        if held.memory is not Memory.DEVICE or held.origin != "alloc":
            return None  # the host, a caller or another kernel may
        answer: bool | None = False
        freed = False
        for op in line.ops:
            if op.id in group.old:
                continue
            if op.unknown or not op.certain or op.kind in _OPAQUE or op.id in self._hidden[0]:
                answer = None if answer is False else answer
            other = self._group_of.get(op.id)
            for access in op.accesses:
                same = alias(line.buffers[access.buffer], held)
                if same is False:
                    continue
                if op.kind is ApiKind.FREE:
                    freed = freed or bool(same)
                if access.mode is Mode.WRITE or op.kind in MOVING:
                    continue
                if other is not None and access.buffer not in self._exposed[id(other)]:
                    continue  # it wrote that itself before
                if same and access.certainty is Certainty.MUST and line.earlier[op.id] >> group.old[-1] & 1:
                    return True
                answer = None
        return answer if freed or self._whole else None

    def _other_part(self, group: Group, op: Op, access: Access, had: list[Access]) -> None:
        """The access may lie where none of the original's lay: then nothing else may be there."""
        name = self._new.buffers[access.buffer].name
        for other in self._old.ops:
            if other.id in group.old or other.kind in MOVING:
                continue
            for theirs in other.accesses:
                if all(alias(self._old.buffers[theirs.buffer], self._old.buffers[a.buffer]) is False for a in had):
                    continue
                if access.mode is Mode.READ and theirs.mode is Mode.READ:
                    continue
                met = any(
                    overlap(a.range, theirs.range) is not False and (a.mode in _WRITES or theirs.mode in _WRITES)
                    for a in had
                )
                if not met:
                    self._say(
                        op, f"`{op.kernel}` may reach another part of `{name}` than the launches that it stands for"
                    )
                    return

    def _reads(self, group: Group, new: list[Op]) -> None:
        """What is read before the group wrote it is what the original read so."""
        before: dict[int | None, list[Access]] = {
            self.image(buffer): [a for _, a in reads] for buffer, reads in self._exposed[id(group)].items()
        }
        for buffer, reads in exposed(new).items():
            for op, access in reads:
                if not any(overlap(access.range, a.range) is not False for a in before.get(buffer, ())):
                    name = self._new.buffers[buffer].name
                    self._say(op, f"`{op.kernel}` may read `{name}` before it is written: the original wrote it first")
                    break


def _unknown(line: Timeline, access: Access) -> bool:
    return line.buffers[access.buffer].memory is Memory.UNKNOWN


def exposed(ops: Sequence[Op]) -> dict[int, list[tuple[Op, Access]]]:
    """Reads of a sequence of launches, by buffer, of what they did not write before, or not in full."""
    found: dict[int, list[tuple[Op, Access]]] = defaultdict(list)
    written: dict[int, list[Access]] = defaultdict(list)
    for op in ops:
        for access in op.accesses:
            before = written.get(access.buffer, ())
            apart = all(overlap(w.range, access.range) is False for w in before)
            if access.mode is not Mode.WRITE and (apart or _misses_an_end(access.range, before)):
                found[access.buffer].append((op, access))
        for access in op.accesses:
            if access.mode in _WRITES and access.certainty is Certainty.MUST and not access.one_of:
                written[access.buffer].append(access)
    return dict(found)


def _covered(access: Access, had: list[Access]) -> bool:
    """Provably within what the original touched, in a way that clashes with no less."""
    fit = [a for a in had if a.mode in _WRITES or access.mode is Mode.READ]
    return any(
        (show(a.range.offset), show(a.range.extent), a.range.member)
        == (show(access.range.offset), show(access.range.extent), access.range.member)
        or (a.range.offset is None and not a.range.member)
        or within(access.range, a.range)
        for a in fit
    )


def _misses_an_end(whole: Range, parts: Sequence[Access]) -> bool:
    """Provably none of the parts reaches to the end of what is touched, or none to its beginning."""
    if whole.shape not in _DENSE or whole.offset is None or whole.extent is None:
        return False
    ends = whole.offset + whole.extent
    begun, ended = False, False
    for part in parts:
        placed = part.range
        if placed.member != whole.member or placed.offset is None or placed.extent is None:
            return False
        begun = begun or at_least(whole.offset, placed.offset) is not False
        ended = ended or at_least(placed.offset + placed.extent, ends) is not False
    return not (begun and ended)


def _prints(program: Program, op: Op) -> bool:
    uids = program.by_name.get(last_name(op.kernel).split("<")[0], ())
    effects = [kernel_effects(program, uid) for uid in uids]
    return not effects or any(e.prints or e.supplied for e in effects)
