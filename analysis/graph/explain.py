"""The end of the graph's text: which stream waits for which and why, what could overlap, and which waits of the host cost time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from stitchcuda.analysis.graph.model import GraphNode
from stitchcuda.analysis.graph.reading import Crossing, Reading, Stall
from stitchcuda.analysis.graph.words import WORK, few, join, names, stream_words

_MOST = 12  # lines of one section
Where = Callable[[str, int], str]


def explain(reading: Reading, nodes: Sequence[GraphNode], where: Where) -> Iterator[str]:
    """Sections of one entry, whose nodes these are."""
    told = _Told(reading, where)
    for title, lines in (
        ("Between streams:", told.crossings(nodes)),
        ("What could overlap:", told.overlaps(nodes)),
        ("Where the host waits:", told.stalls(nodes)),
    ):
        listed = list(dict.fromkeys(lines))
        if listed:
            yield title
            yield from (f"- {line}" for line in listed[:_MOST])
            if len(listed) > _MOST:
                yield f"- and {len(listed) - _MOST} more"


class _Told:
    def __init__(self, reading: Reading, where: Where) -> None:
        self._reading, self._where = reading, where

    def _name(self, node: GraphNode) -> str:
        kind = "copy" if node.kind == "copy" else "CUDA graph" if node.kind == "graph_launch" else ""
        name = f"the {kind}" if kind else f"`{node.kernel or node.api}`"
        return f"{name} ({self._where(node.path, node.line)})"

    def _listed(self, nodes: Sequence[GraphNode]) -> str:
        return join(few(list(dict.fromkeys(self._name(n) for n in nodes))))

    # ---------------------------------------------------------------------------------------------------------- crossings

    def crossings(self, nodes: Sequence[GraphNode]) -> Iterator[str]:
        for crossing in self._reading.crossings(nodes):
            yield self._crossing(crossing)

    def _crossing(self, crossing: Crossing) -> str:
        text = (
            f"{self._name(crossing.after)} on {stream_words(crossing.after.stream)} waits for "
            f"{self._name(crossing.before)} on {stream_words(crossing.before.stream)}"
        )
        if crossing.record is not None:
            event = f"event `{crossing.record.event}`" if crossing.record.event else "an event"
            places = f"recorded at {self._where(crossing.record.path, crossing.record.line)}"
            if crossing.wait is not None:
                places += f", waited for at {self._where(crossing.wait.path, crossing.wait.line)}"
            text += f", through {event} ({places})"
        elif crossing.why == "default_stream":
            text += ", because the default stream orders itself with blocking streams"
        if crossing.values:
            text += f"; {names(crossing.values)} {'flows' if len(crossing.values) == 1 else 'flow'} that way"
        return text

    # ------------------------------------------------------------------------------------------------------------ overlap

    def overlaps(self, nodes: Sequence[GraphNode]) -> Iterator[str]:
        work = [n for n in nodes if n.kind in WORK and n.stream]
        if len(work) < 2:
            return
        alike: dict[tuple[object, ...], list[GraphNode]] = {}  # work that could overlap with the same other work
        others: dict[GraphNode, dict[tuple[str, bool], None]] = {}
        for one, other, next_round in self._reading.overlaps(nodes):
            others.setdefault(other, {})[one.id, next_round] = None
        for node, ones in others.items():
            alike.setdefault((node.stream, *ones), []).append(node)
        for group in alike.values():
            yield self._overlap(group, others[group[0]])
        if alike:
            return
        streams = {n.stream for n in work}
        if len(streams) > 1:
            yield "nothing: all work is ordered, although it is on several streams"
        else:
            yield f"nothing: all work is on {stream_words(streams.pop())}, one piece after the other"

    def _overlap(self, group: Sequence[GraphNode], ones: Iterable[tuple[str, bool]]) -> str:
        by_stream: dict[tuple[str | None, bool], list[GraphNode]] = {}
        for name, next_round in ones:
            one = self._reading.nodes[self._reading.rank[name]]
            by_stream.setdefault((one.stream, next_round), []).append(one)
        parts = []
        for (stream, next_round), listed in by_stream.items():
            if next_round and set(listed) == set(group):
                parts.append("with its own round before")
                continue
            before = " of the round before" if next_round else ""
            parts.append(f"with {self._listed(listed)}{before} on {stream_words(stream)}")
        return f"{self._listed(group)} on {stream_words(group[0].stream)} {join(parts)}"

    # -------------------------------------------------------------------------------------------------------------- waits

    def stalls(self, nodes: Sequence[GraphNode]) -> Iterator[str]:
        """Those in loops first: they cost time in every round; then those between work, then those at the end. Calls at one place
        that wait for the same are told as one."""
        groups: dict[tuple[object, ...], list[Stall]] = {}
        for stall in self._reading.stalls(nodes):
            n = stall.node
            after = stall.following
            kind = (n.kind, n.returns, n.event, n.stream if n.kind == "stream_sync" else "")
            next_at = after is not None and (after.path, after.line)
            key = (n.path, n.line, n.loop, *kind, bool(stall.running), next_at, stall.next_round, bool(stall.read))
            groups.setdefault(key, []).append(stall)

        def weight(group: list[Stall]) -> tuple[bool, bool, bool]:
            first = group[0]
            return first.node.loop is None, first.node.returns in ("staged", "maybe"), first.following is None

        for group in sorted(groups.values(), key=weight):
            yield self._stall(group)

    def _stall(self, group: list[Stall]) -> str:
        stall, node = group[-1], group[-1].node
        text = self._where(node.path, node.line)
        if len(group) > 1:
            text += f" ({len(group)} calls)"
        if node.loop is not None:
            trip = self._reading.loops[node.loop].trip
            text += f", in each of {trip} rounds" if trip and trip != "1" else ", in every round"
        text += f": {self._what([s.node for s in group])}"
        reasons = []
        if stall.read:
            read = join(f"{names(n.reads)} ({self._where(n.path, n.line)})" for n in stall.read[:3])
            reasons.append(f"the host then reads {read}")
        if stall.freed:
            reasons.append("memory is freed after it")
        if stall.running:
            reasons.append(f"{self._listed(stall.running)} can go on meanwhile")
        elif stall.following is not None and stall.drained:
            then = " of the next round" if stall.next_round else ""
            reasons.append(f"the device has nothing to do until {self._name(stall.following)}{then} is issued")
        elif stall.following is None and not reasons:
            reasons.append("no work follows")
        return "; ".join([text, *reasons])

    def _what(self, nodes: Sequence[GraphNode]) -> str:
        node = nodes[0]
        reads = names(name for n in nodes for name in n.reads)
        writes = names(name for n in nodes for name in n.writes)
        match node.kind:
            case "device_sync":
                return "for all work on the device"
            case "stream_sync":
                return f"for {self._reading.awaited(node) or 'a stream'}"
            case "event_sync":
                return f"for event `{node.event}`" if node.event else "for an event"
            case "copy" if node.returns == "staged":
                return f"until {reads} may be reused, not for the copy itself"
            case "copy" if node.returns == "maybe":
                return f"perhaps, until {reads} is copied to {writes}"
            case "copy":
                return f"until {reads} is copied to {writes}"
        return f"in `{node.api}`"
