"""Timelines -> execution graph: occurrences of one call path become one node, their edges are merged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stitchcuda.analysis.graph.concurrent import complete_before, overlaps
from stitchcuda.analysis.graph.flow import value_edges
from stitchcuda.analysis.graph.model import (
    LEGACY_LABEL,
    CallPoint,
    ExecutionGraph,
    GraphEdge,
    GraphLoop,
    GraphNode,
    GraphOverlap,
)
from stitchcuda.analysis.order.symbolic import Poly
from stitchcuda.analysis.order.timeline import Condition, Memory, Mode, Op, StreamKind, Timeline
from stitchcuda.analysis.program.ir import HOST_WAITS, RELEASES, ApiKind, Program, Site
from stitchcuda.analysis.syntax.text import units

NOT_NODES = frozenset(
    {
        ApiKind.ELAPSED_TIME,
        ApiKind.SET_DEVICE,
        ApiKind.DEVICE_POINTER,
        ApiKind.SET_STREAM,
        ApiKind.RESET,
        ApiKind.NEUTRAL,
        ApiKind.UNMODELLED,
    }
)
VALUE_EDGES = frozenset({"data", "allocation"})
ALLOCATIONS = frozenset({ApiKind.ALLOC, ApiKind.HOST_ALLOC})


class Lines:
    """Byte offsets to 1-based lines."""

    def __init__(self, program: Program, sources: Mapping[str, bytes]) -> None:
        self._program = program
        self._sources = sources

    def of(self, site: Site) -> int:
        """0 when the file's text is not at hand."""
        text = self._sources.get(site.path)
        if text is None or (site.function and site.function not in self._program.functions):
            return 0
        return text.count(b"\n", 0, self._program.locate(site).start) + 1

    def column(self, site: Site) -> int:
        """1-based, in characters; 1 when the file's text is not at hand."""
        if not self.of(site):
            return 1
        text, start = self._sources[site.path], self._program.locate(site).start
        return units(text[text.rfind(b"\n", 0, start) + 1 : start], "utf-32") + 1


def execution_graph(
    timelines: Iterable[Timeline],
    program: Program,
    sources: Mapping[str, bytes],
    function: str | None = None,
    *,
    complete: bool = False,
) -> ExecutionGraph:
    """The graph of all entries' Timelines, or the part of it that runs inside `function` (a name, qualified or not).
    `sources` holds the text of the program's files, for line numbers. `complete`: also what is complete before each node."""
    builder = GraphBuilder(complete=complete)
    builder.add_program(timelines, program, sources, function)
    return builder.graph()


@dataclass(slots=True)
class _Labels:
    """Stream labels: equal exactly when the stream is the same one. Names are the user's; a second stream of the same name
    gets the line of its creation, then a number."""

    taken: dict[str, tuple[int, object]]  # label -> (timeline number, stream id or family)

    def claim(self, key: tuple[int, object], candidates: Iterable[str]) -> str:
        label = ""
        for label in candidates:
            if self.taken.setdefault(label, key) == key:
                return label
        number = 2
        while self.taken.setdefault(f"{label} #{number}", key) != key:
            number += 1
        return f"{label} #{number}"


class GraphBuilder:
    """Collects one graph from several programs: ids and stream labels are shared out among all of them."""

    def __init__(self, *, complete: bool = False) -> None:
        self.program = Program({}, {})
        self.lines = Lines(self.program, {})
        self.nodes: list[GraphNode] = []
        self.edges: list[GraphEdge] = []
        self.loops: list[GraphLoop] = []
        self.overlaps: list[GraphOverlap] = []
        self.complete: list[int] | None = [] if complete else None
        self._labels = _Labels({})
        self._timelines = 0

    def add_program(
        self,
        timelines: Iterable[Timeline],
        program: Program,
        sources: Mapping[str, bytes],
        function: str | None = None,
    ) -> None:
        self.program, self.lines = program, Lines(program, sources)
        for timeline in timelines:
            self._add(timeline, function)

    def graph(self) -> ExecutionGraph:
        found = tuple(self.nodes), tuple(self.edges), tuple(self.loops), tuple(self.overlaps)
        return ExecutionGraph(*found, tuple(self.complete or ()))

    def _add(self, timeline: Timeline, function: str | None) -> None:
        self._timelines += 1
        occurrences: dict[int, list[Op]] = {}
        for op in timeline.ops:
            if op.kind not in NOT_NODES and (function is None or self._inside(timeline, op, function)):
                occurrences.setdefault(op.node, []).append(op)
        loops = self._add_loops(timeline, {op.loop for ops in occurrences.values() for op in ops})
        names: dict[int, str] = {}
        for key, ops in sorted(occurrences.items(), key=lambda item: item[1][0].id):
            names[key] = f"n{len(self.nodes) + 1}"
            self.nodes.append(self._node(timeline, names[key], ops, loops))
        kept = {op.id for ops in occurrences.values() for op in ops}
        self.edges += _edges(timeline, names, kept)
        self.overlaps += overlaps(timeline, names, kept)
        if self.complete is not None:
            first = len(self.complete)
            self.complete += [bits << first for bits in complete_before(timeline, names, kept)]

    def _inside(self, timeline: Timeline, op: Op, name: str) -> bool:
        stack = (timeline.entry, op.function, *(site.function for site in op.calls))
        for uid in stack:
            function = self.program.functions.get(uid)
            if function is not None and name in (function.name, function.qualified, function.uid):
                return True
        return False

    # -------------------------------------------------------------------------------------------------------- loops

    def _add_loops(self, timeline: Timeline, wanted: set[int | None]) -> dict[int, str]:
        """Loops that hold a node, and the loops around them, outermost first."""
        needed: set[int] = set()
        for loop in wanted:
            while loop is not None and loop not in needed:
                needed.add(loop)
                loop = timeline.loops[loop].parent
        names: dict[int, str] = {}
        merged: dict[tuple[Site, tuple[Site, ...], str | None], str] = {}  # rounds of the loop around repeat a loop
        for index in sorted(needed):
            info = timeline.loops[index]
            parent = names.get(info.parent) if info.parent is not None else None
            key = (info.site, info.calls, parent)
            if key not in merged:
                merged[key] = f"l{len(self.loops) + 1}"
                line, trip = self.lines.of(info.site), _amount(info.trip)
                self.loops.append(GraphLoop(merged[key], parent, info.site.path, line, trip, len(info.calls)))
            names[index] = merged[key]
        return names

    # -------------------------------------------------------------------------------------------------------- nodes

    def _node(self, timeline: Timeline, name: str, ops: Sequence[Op], loops: Mapping[int, str]) -> GraphNode:
        op = ops[0]
        streams = list(dict.fromkeys(o.stream for o in ops if o.stream is not None))
        labels = self._stream_labels(timeline, streams)
        created = timeline.streams[streams[0]] if streams else None
        events = dict.fromkeys(timeline.events[o.event].name for o in ops if o.event is not None)
        sizes = {_amount(o.bytes) for o in ops}
        devices = {o.device for o in ops}
        returns = _returns(timeline, op)
        return GraphNode(
            id=name,
            kind=op.kind.value,
            api=op.api or None,
            kernel=op.kernel or None,
            path=op.site.path,
            line=self.lines.of(op.site),
            function=self._name(op.function),
            stream=", ".join(labels) if labels else None,
            stream_line=self.lines.of(created.site) if created is not None and created.site is not None else None,
            stream_flags=(created.flags or None) if created is not None else None,
            event=", ".join(events) or None,
            copy_kind=op.copy_kind or None,
            device=devices.pop() if len(devices) == 1 else None,
            thread=op.thread,
            reads=_buffers(timeline, ops, (Mode.READ, Mode.ATOMIC)),
            writes=_allocated(timeline, ops) or _buffers(timeline, ops, (Mode.WRITE, Mode.ATOMIC)),
            bytes=sizes.pop() if len(sizes) == 1 else None,
            grid=op.grid or None,
            block=op.block or None,
            loop=loops.get(op.loop) if op.loop is not None else None,
            condition=_condition(ops),
            confidence=_confidence(timeline, ops),
            calls=self._calls(op),
            entry=self._name(timeline.entry),
            made=_made(timeline, ops),
            blocks_host=op.kind in HOST_WAITS or any(o.waits for o in ops) or returns in ("done", "staged"),
            returns=returns,
            captured=all(o.graph is not None for o in ops),
            column=self.lines.column(op.site),
            device_code=self._definition(op),
        )

    def _definition(self, op: Op) -> str:
        """The uid of the one kernel of that name that has a body; "" when it is not known."""
        name = re.sub(r"<.*", "", op.kernel).rpartition("::")[2]
        found = [u for u in self.program.by_name.get(name, ()) if self.program.functions[u].space == "global"]
        return found[0] if len(found) == 1 else ""

    def _calls(self, op: Op) -> tuple[CallPoint, ...]:
        callees = [site.function for site in op.calls[1:]] + [op.function]
        return (
            tuple(
                CallPoint(site.path, self.lines.of(site), self._name(uid))
                for site, uid in zip(op.calls, callees, strict=True)
            )
            if op.calls
            else ()
        )

    def _name(self, uid: str) -> str:
        function = self.program.functions.get(uid)
        return function.qualified if function is not None else uid

    def _stream_labels(self, timeline: Timeline, used: Sequence[int]) -> list[str]:
        """Of the streams that a node uses. Several of one family (made by one call in a loop) are told as the family."""
        families = {(timeline.streams[s].site, timeline.streams[s].calls) for s in used}
        symbolic = any(p.constant is None for s in used for p in timeline.streams[s].instance)
        if len(families) == 1 and timeline.streams[used[0]].instance and (len(used) > 1 or symbolic):
            stream = timeline.streams[used[0]]
            name = (_LAST_INDEX.sub("", stream.name) or "stream") + "[*]"
            line = self.lines.of(stream.site) if stream.site is not None else 0
            return [self._labels.claim((self._timelines, families.pop()), [name, f"{name} (line {line})"])]
        return [self._stream_label(timeline, s) for s in used]

    def _stream_label(self, timeline: Timeline, index: int) -> str:
        stream = timeline.streams[index]
        if stream.kind is StreamKind.LEGACY and stream.device in (0, None):
            return LEGACY_LABEL
        name = stream.name or "stream"
        if name == LEGACY_LABEL:
            name = f"default of device {stream.device}" if stream.kind is StreamKind.LEGACY else "stream"
        if stream.instance and all(p.constant is not None for p in stream.instance):
            name += "".join(f"[{p}]" for p in stream.instance)  # made in a loop: which round
        candidates = [name]
        if stream.site is not None and (line := self.lines.of(stream.site)):
            candidates.append(f"{name} (line {line})")
        return self._labels.claim((self._timelines, index), candidates)


_LAST_INDEX = re.compile(r"\[[^]]*\]$")
_COUNT = re.compile(r"\.size@\d+")  # how many elements a container holds
_INTERNAL = re.compile(r"@\d+")  # tells apart variables of one name
_UNNAMED = re.compile(r"-|(?:^|[^\w.])[a-z]+\.\d+(?![\w.])")  # a number that the program has no name for


def _amount(value: Poly | None) -> str | None:
    """A number or formula in the program's own names; None when it holds something that has none."""
    if value is None or any(_UNNAMED.match(s) for s in value.symbols):
        return None
    return _INTERNAL.sub("", _COUNT.sub(".size()", str(value)))


HOST_SIDE = {"h2d": (Mode.READ, Mode.ATOMIC), "d2h": (Mode.WRITE, Mode.ATOMIC)}  # accesses to host memory


def _returns(timeline: Timeline, op: Op) -> str:
    """When the call of a copy returns (rows C1 to C7), as one of RETURNS."""
    if op.kind is not ApiKind.COPY or op.graph is not None:
        return ""
    modes = HOST_SIDE.get(op.copy_kind, ())
    host = {timeline.buffers[a.buffer].memory for a in op.accesses if a.mode in modes}
    if op.copy_kind == "h2h" or (op.copy_kind == "d2h" and not op.asynchronous):
        return "done"
    if op.copy_kind in ("d2d", "peer"):
        return ""
    if op.asynchronous:
        return "maybe" if Memory.PAGEABLE in host else "pinned" if not host or Memory.UNKNOWN in host else ""
    if op.copy_kind == "h2d" and Memory.PAGEABLE in host:
        return "staged"
    return "done" if op.copy_kind == "h2d" and host and Memory.UNKNOWN not in host else "maybe"


def _buffers(timeline: Timeline, ops: Sequence[Op], modes: Sequence[Mode]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(timeline.buffers[a.buffer].name for op in ops for a in op.accesses if a.mode in modes))


def _allocated(timeline: Timeline, ops: Sequence[Op]) -> tuple[str, ...]:
    ids = {op.id for op in ops}
    return tuple(dict.fromkeys(b.name for b in timeline.buffers if b.alloc_op in ids and ops[0].kind in ALLOCATIONS))


def _made(timeline: Timeline, ops: Sequence[Op]) -> tuple[str, ...]:
    allocated = list(_allocated(timeline, ops))
    released = [timeline.buffers[a.buffer].name for op in ops if op.kind in RELEASES for a in op.accesses]
    return tuple(dict.fromkeys(allocated + released))


def _condition(ops: Sequence[Op]) -> str | None:
    """What every occurrence stands under, as one expression."""

    def text(condition: Condition) -> str:
        return condition.text if condition.taken else f"!({condition.text})"

    under = [(*op.conditions, *op.decided) for op in ops]
    common = [c for c in under[0] if all(c in other for other in under[1:])]
    return " && ".join(dict.fromkeys(text(c) for c in common)) or None


def _confidence(timeline: Timeline, ops: Sequence[Op]) -> str:
    """Of the node's own facts: `possible` when the call was reached through something unresolved, `likely` when it is not
    known which stream or memory it uses."""
    if not all(op.certain for op in ops):
        return "possible"
    for op in ops:
        if op.stream is not None and timeline.streams[op.stream].kind is StreamKind.UNKNOWN:
            return "likely"
        if any(timeline.buffers[a.buffer].memory is Memory.UNKNOWN for a in op.accesses):
            return "likely"
    return "certain"


def _edges(timeline: Timeline, names: Mapping[int, str], kept: set[int]) -> list[GraphEdge]:
    """Edges between nodes. Ops that are no nodes are bridged: what they order stays ordered. An edge from a node to one
    that comes before it in the program connects two rounds of a loop and is left out."""
    follows: dict[int, list[tuple[int, str]]] = {}
    for edge in (*timeline.edges, *value_edges(timeline)):
        follows.setdefault(edge.source, []).append((edge.target, edge.why))
    found: dict[GraphEdge, None] = {}
    rank = {name: k for k, name in enumerate(names.values())}
    for op in timeline.ops:
        if op.id not in kept:
            continue
        pending, seen = list(follows.get(op.id, ())), set()
        while pending:
            target, why = pending.pop(0)
            if target not in kept:
                if target not in seen:
                    seen.add(target)
                    pending += [(t, why) for t, later in follows.get(target, ()) if later not in VALUE_EDGES]
                continue
            source_name, target_name = names[op.node], names[timeline.ops[target].node]
            if rank[source_name] < rank[target_name]:
                found[GraphEdge(source_name, target_name, why)] = None
    loops = {names[op.node]: op.loop for op in timeline.ops if op.id in kept}
    return sorted(_reduced(found, rank, loops), key=lambda e: (rank[e.source], rank[e.target], e.why))


def _reduced(
    edges: Iterable[GraphEdge], rank: Mapping[str, int], loops: Mapping[str, int | None]
) -> Iterator[GraphEdge]:
    """Without what merging the rounds of loops leaves over: a wait before a loop orders what is reached through other
    work of the loop, an allocation comes before its first uses only, and a value that flows along an order edge is not
    told twice."""
    ordered: dict[str, list[str]] = {}
    used: dict[str, list[str]] = {}
    for edge in edges:
        if edge.why != "data":
            (used if edge.why == "allocation" else ordered).setdefault(edge.source, []).append(edge.target)
    reached: dict[str, int] = {}  # bitsets of ranks
    for name in reversed(list(rank)):
        reached[name] = 0
        for target in ordered.get(name, ()):
            reached[name] |= 1 << rank[target] | reached[target]
    for edge in edges:
        if edge.why == "host_wait" and loops[edge.source] != loops[edge.target]:
            others = ordered[edge.source]
        else:
            others = used[edge.source] if edge.why == "allocation" else []
        if any(reached[other] >> rank[edge.target] & 1 for other in others):
            continue
        if edge.why != "data" or edge.target not in ordered.get(edge.source, ()):
            yield edge
