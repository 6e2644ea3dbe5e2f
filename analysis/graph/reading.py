"""What follows from an execution graph: which work could overlap, which streams wait for each other and for what data, and where
the host's waits leave the device without work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stitchcuda.analysis.graph.model import ExecutionGraph, GraphNode
from stitchcuda.analysis.graph.words import WORK, join, stream_words


@dataclass(frozen=True, slots=True)
class Crossing:
    """Work of one stream that starts after work of another one. `values` are the buffers that flow from one to the other."""

    before: GraphNode
    after: GraphNode
    why: str  # event or default_stream
    record: GraphNode | None  # of an event
    wait: GraphNode | None
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stall:
    """A call in which the host waits. `running`: work issued before that need not be done; `following`: the work issued next, in the
    next round when `next_round`; `read`: what the host reads thanks to it; `drained`: nothing that was issued can still run."""

    node: GraphNode
    running: tuple[GraphNode, ...]
    following: GraphNode | None
    next_round: bool
    read: tuple[GraphNode, ...]
    freed: tuple[GraphNode, ...]
    drained: bool


class Reading:
    """Answers about one graph."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self.rank = {node.id: k for k, node in enumerate(graph.nodes)}
        self.nodes = graph.nodes
        self.loops = {loop.id: loop for loop in graph.loops}
        self.into: dict[str, list[tuple[GraphNode, str]]] = {node.id: [] for node in graph.nodes}
        self.out: dict[str, list[tuple[GraphNode, str]]] = {node.id: [] for node in graph.nodes}
        for edge in graph.edges:
            source, target = graph.nodes[self.rank[edge.source]], graph.nodes[self.rank[edge.target]]
            self.into[edge.target].append((source, edge.why))
            self.out[edge.source].append((target, edge.why))
        self._meanwhile: dict[str, list[tuple[GraphNode, bool]]] = {}
        for overlap in graph.overlaps:
            one = graph.nodes[self.rank[overlap.one]]
            self._meanwhile.setdefault(overlap.other, []).append((one, overlap.next_round))

    # ------------------------------------------------------------------------------------------------------------ overlap

    def overlaps(self, nodes: Sequence[GraphNode]) -> Iterator[tuple[GraphNode, GraphNode, bool]]:
        """Pairs of work of different streams; `True`: the second is of a later round than the first."""
        for node in nodes:
            if node.kind in WORK:
                told: set[str] = set()
                for one, next_round in sorted(self._meanwhile.get(node.id, ()), key=lambda m: m[1]):
                    if one.id not in told:
                        told.add(one.id)
                        yield one, node, next_round

    def around(self, node: GraphNode) -> list[str]:
        """Ids of the loops around a node, innermost first."""
        chain: list[str] = []
        loop = node.loop
        while loop is not None:
            chain.append(loop)
            loop = self.loops[loop].parent
        return chain

    # ---------------------------------------------------------------------------------------------------------- crossings

    def crossings(self, nodes: Sequence[GraphNode]) -> Iterator[Crossing]:
        """Where work of one stream waits for work of another one, without the host."""
        told = set()
        for node in nodes:
            for source, why in self.into[node.id]:
                if why not in ("event", "default_stream") or source.stream == node.stream:
                    continue
                befores = self._nearest(source, self.into)
                afters = self._nearest(node, self.out)
                for before in befores:
                    for after in afters:
                        if (before.id, after.id) in told or before.stream == after.stream:
                            continue
                        told.add((before.id, after.id))
                        record = source if source.kind == "event_record" else None
                        wait = node if node.kind == "event_wait" else None
                        flows = self._flowing(source, node, after)
                        yield Crossing(before, after, why, record, wait, flows)

    def _nearest(self, start: GraphNode, along: dict[str, list[tuple[GraphNode, str]]]) -> list[GraphNode]:
        """The node itself when it is work, else the next work of its stream."""
        waiting, seen, found = [start], {start.id}, []
        while waiting:
            node = waiting.pop(0)
            if node.kind in WORK:
                found.append(node)
                continue
            for other, why in along[node.id]:
                if why in ("stream", "capture") and other.stream == start.stream and other.id not in seen:
                    seen.add(other.id)
                    waiting.append(other)
        return found

    def _flowing(self, source: GraphNode, waiting: GraphNode, after: GraphNode) -> tuple[str, ...]:
        """Buffers that the stream of `source` wrote and that work at or behind the wait reads."""
        found: dict[str, None] = {}
        for target in self.nodes[self.rank[waiting.id] :]:
            if target.stream != after.stream:
                continue
            for writer, why in self.into[target.id]:
                if why == "data" and writer.stream == source.stream and self.rank[writer.id] <= self.rank[source.id]:
                    found.update(dict.fromkeys(name for name in writer.writes if name in target.reads))
        return tuple(found)

    # -------------------------------------------------------------------------------------------------------------- waits

    def awaited(self, node: GraphNode) -> str:
        """The streams that a wait for a stream is about, in words."""
        if node.stream:
            return stream_words(node.stream)
        streams = dict.fromkeys(s.stream for s, why in self.into[node.id] if why == "host_wait" and s.stream)
        return join(stream_words(s) for s in streams)

    def stalls(self, nodes: Sequence[GraphNode]) -> Iterator[Stall]:
        """The host's waits, in program order."""
        work = [n for n in nodes if n.kind in WORK and not n.captured]
        known = all(n.confidence == "certain" for n in work)  # else it may run on any stream
        for node in nodes:
            if not node.blocks_host:
                continue
            running = tuple(dict.fromkeys(one for one, _ in self._meanwhile.get(node.id, ()) if one.id != node.id))
            following, next_round = self._following(node, work)
            read = tuple(n for n, _ in self.out[node.id] if n.kind == "host_read")
            freed = tuple(n for n, why in self.out[node.id] if n.kind in ("free", "host_free") and why == "host_wait")
            early = node.returns in ("staged", "maybe")  # the copy itself may go on
            drained = not running and not early and (known or node.kind == "device_sync")
            yield Stall(node, running, following, next_round, read, freed, drained)

    def _following(self, node: GraphNode, work: Sequence[GraphNode]) -> tuple[GraphNode | None, bool]:
        later = [w for w in work if self.rank[w.id] > self.rank[node.id]]
        for loop in self.around(node):
            inside = [w for w in work if loop in self.around(w)]
            same = [w for w in later if loop in self.around(w)]
            if same:
                return same[0], False
            if inside:
                return inside[0], True
        return (later[0] if later else None), False
