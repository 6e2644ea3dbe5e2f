"""What relies on the waits of copies that go: order that they gave, time that is measured, output that they bring out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stitchcuda.agent.transforms.residency.trips import Lap
from stitchcuda.analysis.findings.finding import RuleInput
from stitchcuda.analysis.findings.waits import device_work, members, quiet, region_is_plain, stream_ordered
from stitchcuda.analysis.order.alias import conflict
from stitchcuda.analysis.order.timeline import Mode, Op, Timeline
from stitchcuda.analysis.program.ir import RELEASES, ApiKind, Site


@dataclass(frozen=True)
class Reliance:
    """`what` depends at `site` on a wait that would go."""

    what: str
    site: Site


class Order:
    """The order of a Timeline's ops without the waits of some of them (`gone`). `released` are releases that go: they wait
    for nothing, and nothing can come too early for them."""

    def __init__(self, timeline: Timeline, gone: Iterable[int], released: Iterable[int] = ()) -> None:
        self.timeline = timeline
        self.released = frozenset(released)
        self.gone = 0
        for k in gone:
            self.gone |= 1 << k
        self._around = {loop.id: _holders(timeline, loop.id) for loop in timeline.loops}
        self._waits = [op for op in timeline.ops if op.waits and not self.gone >> op.id & 1]
        copies = [op for op in timeline.ops if op.waits and self.gone >> op.id & 1]
        self._instead = [(c, [w for w in self._waits if self._covers(w, c)]) for c in copies]
        self._always = {w.id: self._runs_with(w) for w in self._waits}

    def host_knows(self, later: Op, when: Op | None = None) -> int:
        """Bitset of the ops that the remaining waits have the host know to be complete when it reaches `later`, on every
        path that runs both (and `when`)."""
        known = 0
        for wait in self._waits:
            if self.timeline.ordered(wait.id, later.id):
                surely = self._covers(wait, later) or (when is not None and self._covers(wait, when))
                known |= _done(wait) if surely else _done(wait) & (self._always[wait.id] | 1 << wait.id)
        return known

    def lost(self, later: Op) -> int:
        """Bitset of the ops that `later` may come behind only thanks to waits that go. Where one of them was passed, another
        that is passed whenever it is does as well."""
        lost = 0
        for copy, others in self._instead:
            if not self.timeline.ordered(copy.id, later.id):
                continue
            still = 0
            for wait in others:
                if self.timeline.ordered(wait.id, later.id):
                    still |= _done(wait)
            lost |= copy.waits & ~still
        return lost & ~self.gone

    def ordered(self, first: Op, later: Op, known: int) -> bool:
        """Whether `first` is complete before `later` starts; `known` is what `host_knows(later)` says."""
        return bool(known >> first.id & 1) or stream_ordered(self.timeline, first, later)

    def next_wait(self, after: Op, work: int) -> Op | None:
        """The first remaining wait behind an op that surely waits for all of that work."""
        for wait in self._waits:
            behind = self.timeline.earlier[wait.id] >> after.id & 1
            if (
                behind
                and wait.waits & work == work
                and (self._covers(wait, after) or work & self._always[wait.id] == work)
            ):
                return wait
        return None

    def _covers(self, wait: Op, other: Op) -> bool:
        """The wait is passed whenever `other` is: it stands under no condition and in no loop that `other` does not."""
        if not set(wait.conditions) <= set(other.conditions) or not set(wait.decided) <= set(other.decided):
            return False
        if wait.loop is None:
            return True
        around = self._around[other.loop] if other.loop is not None else frozenset()
        return all(k in around or self._runs(k) for k in self._around[wait.loop])

    def _runs(self, loop: int) -> bool:
        trip = self.timeline.loops[loop].trip
        return trip is not None and trip.constant is not None and trip.constant > 0

    def _runs_with(self, wait: Op) -> int:
        """The ops that never run without this wait."""
        found = 0
        for k in members(wait.waits):
            if self._covers(wait, self.timeline.ops[k]):
                found |= 1 << k
        return found


def _done(wait: Op) -> int:
    """What is complete when the call returns; a download is so itself (C3)."""
    itself = wait.kind is ApiKind.COPY and wait.copy_kind == "d2h" and not wait.asynchronous
    return wait.waits | (1 << wait.id if itself else 0)


def _holders(timeline: Timeline, loop: int) -> frozenset[int]:
    found: set[int] = set()
    current: int | None = loop
    while current is not None:
        found.add(current)
        current = timeline.loops[current].parent
    return frozenset(found)


def lost_order(order: Order) -> Reliance | None:
    """An access that the Timeline orders behind a conflicting one, and that without the waits nothing would."""
    timeline = order.timeline
    masks = _by_family(timeline)
    for op in timeline.ops:
        if order.gone >> op.id & 1 or op.id in order.released or not (op.accesses or op.unknown):
            continue
        suspects = timeline.before[op.id] & order.lost(op)
        near = 0
        for key in _families(timeline, op):
            near |= masks.get(key, 0)
        near |= masks.get(None, 0)
        if None not in _families(timeline, op):
            suspects &= near
        if not suspects:
            continue
        for k in members(suspects & ~order.host_knows(op)):
            first = timeline.ops[k]
            if stream_ordered(timeline, first, op):
                continue
            if first.unknown or op.unknown or conflict(timeline, k, op.id):
                return Reliance(_said(first, op), op.site)
    return None


def _said(first: Op, later: Op) -> str:
    done = f"kernel {first.kernel}" if first.kernel else first.api
    if later.kind in RELEASES:
        return f"{later.api} relies on the wait in the copy: nothing else makes sure that {done} is over"
    if later.kind in (ApiKind.HOST_READ, ApiKind.HOST_WRITE):
        return f"the host touches memory here and relies on the wait in the copy for {done}"
    return f"this relies on the wait in the copy to run after {done}"


def _by_family(timeline: Timeline) -> Mapping[object, int]:
    masks: dict[object, int] = {}
    for op in timeline.ops:
        for key in _families(timeline, op):
            masks[key] = masks.get(key, 0) | 1 << op.id
    return masks


def _families(timeline: Timeline, op: Op) -> set[object]:
    """Buffers that may be the same memory share a key; None stands for memory that may be any."""
    keys: set[object] = {None} if op.unknown else set()
    for access in op.accesses:
        buffer = timeline.buffers[access.buffer]
        if buffer.origin == "unknown" or buffer.memory.value == "unknown":
            keys.add(None)
        else:
            keys.add(buffer.id if buffer.site is None else (buffer.site, buffer.calls))
    return keys


def lost_handover(order: Order, lap: Lap) -> Reliance | None:
    """An access through the upload's buffer that, once it is the download's buffer, would not be ordered behind an earlier
    access to that one."""
    leave_out = {lap.down.id, lap.up.id, *order.released}
    timeline, source, target = order.timeline, lap.source.buffer, lap.target.buffer
    firsts = [
        (
            op,
            any(a.buffer == source and a.mode is not Mode.READ for a in op.accesses)
            or timeline.buffers[source].alloc_op == op.id,
        )
        for op in timeline.ops
        if op.id not in leave_out
        and (any(a.buffer == source for a in op.accesses) or timeline.buffers[source].alloc_op == op.id)
    ]
    for later in timeline.ops:
        through = [a for a in later.accesses if a.buffer == target]
        if later.id in leave_out or not through:
            continue
        writes = any(a.mode is not Mode.READ for a in through)
        known = order.host_knows(later, lap.down)
        for first, first_writes in firsts:
            if not (writes or first_writes) or first.stream is None:
                continue  # what the host did itself is done
            if not order.ordered(first, later, known):
                return Reliance(_said(first, later), later.site)
    return None


def lost_copy(order: Order, lap: Lap) -> Reliance | None:
    """When the upload becomes a copy on the device: it must run after what filled the source, before what changes or releases
    it, and the host no longer waits for it."""
    timeline, up = lap.timeline, lap.up
    known = order.host_knows(up)
    for op in timeline.ops:
        if op.id in (lap.down.id, up.id):
            continue
        fills = any(a.buffer == lap.source.buffer and a.mode is not Mode.READ for a in op.accesses)
        meets = any(a.buffer == lap.target.buffer for a in op.accesses)
        if fills and timeline.ordered(op.id, up.id) and not order.ordered(op, up, known):
            return Reliance(_said(op, up), up.site)
        if not (fills or meets) or not timeline.earlier[op.id] >> up.id & 1:
            continue
        if not order.ordered(up, op, order.host_knows(op, up)):
            return Reliance(_said(up, op), op.site)
    return None


def lost_time_or_output(given: RuleInput, order: Order, copy: Op) -> Reliance | None:
    """Whether someone would see that the host no longer waits in this copy: a clock, code that is not here, a kernel that
    prints, or nobody waiting at all any more."""
    timeline = order.timeline
    work = copy.waits & device_work(timeline) & ~order.gone
    if not work:
        return None
    work &= ~order.host_knows(copy)
    if not work:
        return None
    done = [timeline.ops[k] for k in members(work)]
    loud = next((op for op in done if not quiet(given.program, timeline, op)), None)
    if loud is not None:
        return Reliance(
            f"kernel {loud.kernel or loud.api} may print or assert, which the wait in the copy brings out", loud.site
        )
    wait = order.next_wait(copy, work)
    if wait is None:
        return Reliance("no later wait covers the device work that this copy waits for", copy.site)
    if not region_is_plain(given, copy, wait, done):
        return Reliance(
            "between this copy and the next wait, time may be taken, or code runs that is not known to be independent of it",
            copy.site,
        )
    return None
