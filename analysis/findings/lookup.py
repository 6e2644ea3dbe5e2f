"""What the rules look up in one Timeline again and again: listed once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import TypeAlias

from stitchcuda.analysis.order.machine import same_stream
from stitchcuda.analysis.order.timeline import Access, Buffer, Condition, Mode, Op, Timeline
from stitchcuda.analysis.program.ir import RELEASES, ApiKind, Site

Conditions: TypeAlias = tuple[Condition, ...]


def bits(number: int) -> Iterator[int]:
    """The positions of the ones, lowest first."""
    text = bin(number)[:1:-1]
    at = text.find("1")
    while at >= 0:
        yield at
        at = text.find("1", at + 1)


def memory_key(buffer: Buffer) -> object:
    """Equal for all members of an allocation family; whatever has no site stands alone."""
    return (buffer.site, buffer.calls) if buffer.site is not None else buffer.id


class Lookup:
    """Lists of a Timeline's ops by what is asked for."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self._opposite: dict[tuple[int, int], tuple[tuple[Condition, Condition], ...]] = {}
        self._texts: dict[int, dict[str, list[Condition]]] = {}
        self.whichever: dict[tuple[int, int, str, Mode], bool] = {}  # see `race`
        self._releases_after: dict[int, int] = {}
        self._waits_of: dict[int, tuple[Op, ...]] = {}
        self.useful: dict[int, bool] = {}  # of event waits, by node: see `missed_events`

    @cached_property
    def by_place(self) -> dict[tuple[Site, tuple[Site, ...]], list[Op]]:
        """The ops that stand at one place, reached by the same calls: of all rounds of the loops around it."""
        found: dict[tuple[Site, tuple[Site, ...]], list[Op]] = defaultdict(list)
        for op in self.timeline.ops:
            found[op.site, op.calls].append(op)
        return found

    @cached_property
    def memory(self) -> tuple[int, ...]:
        """For each buffer the first one with the same `memory_key`: equal numbers mean the same allocation or family."""
        first: dict[object, int] = {}
        return tuple(first.setdefault(memory_key(buffer), buffer.id) for buffer in self.timeline.buffers)

    @cached_property
    def users(self) -> dict[int, tuple[tuple[Op, Access], ...]]:
        """Accesses by memory, in the order of their ops."""
        found: dict[int, list[tuple[Op, Access]]] = defaultdict(list)
        memory = self.memory
        for op in self.timeline.ops:
            for access in op.accesses:
                found[memory[access.buffer]].append((op, access))
        return {first: tuple(pairs) for first, pairs in found.items()}

    def used_by(self, kinds: frozenset[ApiKind]) -> dict[int, None]:
        """The memory that ops of these kinds use (numbers of `memory`)."""
        found = (a.buffer for op in self.timeline.ops if op.kind in kinds for a in op.accesses)
        return dict.fromkeys(map(self.memory.__getitem__, dict.fromkeys(found)))

    @cached_property
    def releases(self) -> tuple[Op, ...]:
        return tuple(op for op in self.timeline.ops if op.kind in RELEASES)

    def releases_after(self, op: Op) -> int:
        """Bitset of the releases that were issued after an op."""
        known = self._releases_after.get(op.id)
        if known is None:
            issued = self.timeline.earlier
            known = sum(1 << r.id for r in self.releases if issued[r.id] >> op.id & 1)
            self._releases_after[op.id] = known
        return known

    def waits_of(self, stream: int) -> tuple[Op, ...]:
        """The event waits of a stream, the last one first. Events from outside are not judged."""
        known = self._waits_of.get(stream)
        if known is None:
            line = self.timeline
            judged = [w for w in self.event_waits if w.event is not None and line.events[w.event].site is not None]
            mine = line.streams[stream]
            own = [w for w in judged if w.stream is not None and same_stream(line.streams[w.stream], mine)]
            known = self._waits_of[stream] = tuple(reversed(own))
        return known

    @cached_property
    def waiting(self) -> tuple[Op, ...]:
        """The calls that make the host wait for something."""
        return tuple(op for op in self.timeline.ops if op.waits)

    @cached_property
    def event_waits(self) -> tuple[Op, ...]:
        return tuple(op for op in self.timeline.ops if op.kind is ApiKind.EVENT_WAIT)

    @cached_property
    def records(self) -> dict[int | None, list[Op]]:
        """The records of each event."""
        found: dict[int | None, list[Op]] = defaultdict(list)
        for op in self.timeline.ops:
            if op.kind is ApiKind.EVENT_RECORD:
                found[op.event].append(op)
        return found

    @cached_property
    def by_node(self) -> dict[int, list[Op]]:
        found: dict[int, list[Op]] = defaultdict(list)
        for op in self.timeline.ops:
            found[op.node].append(op)
        return found

    def opposite(self, a: Op, b: Op) -> tuple[tuple[Condition, Condition], ...]:
        """The decisions that stand in front of both ops and that took different sides for them."""
        key = (id(a.conditions), id(b.conditions))  # the Timeline keeps them alive; many ops share theirs
        known = self._opposite.get(key)
        if known is None:
            known = self._opposite[key] = tuple(self._opposed(a.conditions, b.conditions))
        return known

    def _opposed(self, mine: Conditions, theirs: Conditions) -> Iterator[tuple[Condition, Condition]]:
        by_text = self._texts.get(id(mine))
        if by_text is None:
            by_text = self._texts[id(mine)] = defaultdict(list)
            for one in mine:
                if one.text:
                    by_text[one.text].append(one)
        for other in theirs:
            yield from ((one, other) for one in by_text.get(other.text, ()) if one.taken != other.taken)
            yield from ((one, other) for one in by_text.get(_negated(other.text), ()) if one.taken == other.taken)


def _negated(text: str) -> str:
    return text[1:].strip() if text.startswith("!") else f"!{text}"


def lookup(timeline: Timeline) -> Lookup:
    """Of the Timeline at hand: kept while it is the one that is asked for."""
    if not _memo or _memo[0].timeline is not timeline:
        _memo[:] = [Lookup(timeline)]
    return _memo[0]


_memo: list[Lookup] = []
