"""Where boxes and edges of the drawn execution graph are: one panel an entry, lanes side by side, time downwards.

Rows: a box stands below everything that it is ordered after and below the host's calls before it, so what is on one row could run at the
same time. A loop begins and ends a row. Edges leave downwards, run in the gaps between rows and in the gutters between lanes, and so
never cross a box; each has a track of its own there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stitchcuda.analysis.graph.boxes import lane_of, lanes
from stitchcuda.analysis.graph.model import GraphEdge, GraphLoop, GraphNode
from stitchcuda.analysis.graph.words import LISTED

BOX_HEIGHT = 40.0
_TRACK = 6.0
_GAP = 20.0
_GUTTER = 20.0
_LOOP_HEAD = 20.0
_LOOP_FOOT = 10.0
_NARROWEST = 90.0
HEADER = 46.0  # names of the lanes


@dataclass(slots=True)
class Box:
    """One node, or calls of one kind that follow each other."""

    nodes: list[GraphNode]
    lane: int
    row: int
    x: float = 0.0  # of the centre
    y: float = 0.0  # of the top

    @property
    def node(self) -> GraphNode:
        return self.nodes[0]


@dataclass(slots=True)
class Line:
    """One edge and its corners."""

    why: str
    source: Box
    target: Box
    points: list[tuple[float, float]] = field(default_factory=list)


@dataclass(slots=True)
class Frame:
    """The rectangle around a loop."""

    loop: GraphLoop
    left: float
    top: float
    right: float
    bottom: float


@dataclass(slots=True)
class Panel:
    """One entry, laid out from (0, 0)."""

    entry: str
    lanes: list[str | None]
    boxes: list[Box]
    lines: list[Line]
    frames: list[Frame]
    centres: list[float]
    widths: list[float]
    width: float
    height: float


def panel(
    nodes: Sequence[GraphNode],
    edges: Sequence[GraphEdge],
    loops: Mapping[str, GraphLoop],
    widths: Mapping[str, float],
    titles: Mapping[str | None, float],
) -> Panel:
    """The layout of one entry. `widths` are those of the nodes' texts, `titles` those of the lanes' names."""
    order = lanes(nodes)
    boxes, box_of = _boxes(nodes, order)
    _rows(boxes, box_of, edges, loops)
    lines = _lines(boxes, box_of, edges)
    lane_widths = [
        max([_NARROWEST, titles[lane], *(widths[b.node.id] for b in boxes if b.lane == k)])
        for k, lane in enumerate(order)
    ]
    return _Geometry(order, boxes, lines, loops, lane_widths).panel(nodes[0].entry)


def _boxes(nodes: Sequence[GraphNode], order: list[str | None]) -> tuple[list[Box], dict[str, Box]]:
    numbers = {lane: k for k, lane in enumerate(order)}
    boxes: list[Box] = []
    box_of: dict[str, Box] = {}
    for node in nodes:
        last = boxes[-1].nodes[-1] if boxes else None
        if last is not None and _alike(last, node):
            boxes[-1].nodes.append(node)
        else:
            boxes.append(Box([node], numbers[lane_of(node)], 0))
        box_of[node.id] = boxes[-1]
    return boxes, box_of


def _alike(one: GraphNode, other: GraphNode) -> bool:
    """Allocations and the like that follow each other in one function, and those and copies by one call that is reached in several
    ways."""

    def key(n: GraphNode) -> tuple[object, ...]:
        return n.kind, n.api, n.path, n.function, n.loop, n.condition, lane_of(n), n.copy_kind, n.captured

    if key(one) != key(other) or not (one.kind in LISTED or one.kind in ("copy", "memset")):
        return False
    return one.line == other.line or (one.kind in LISTED and one.calls == other.calls)


def _chain(loop: str | None, loops: Mapping[str, GraphLoop]) -> list[str]:
    chain: list[str] = []
    while loop is not None:
        chain.append(loop)
        loop = loops[loop].parent
    return chain[::-1]


def _rows(
    boxes: list[Box], box_of: Mapping[str, Box], edges: Sequence[GraphEdge], loops: Mapping[str, GraphLoop]
) -> None:
    into: dict[int, list[Box]] = {}
    for edge in edges:
        if box_of[edge.source] is not box_of[edge.target]:
            into.setdefault(id(box_of[edge.target]), []).append(box_of[edge.source])
    floor, host, highest = 0, -1, -1
    last_in_lane: dict[int, int] = {}
    loop: str | None = None
    for box in boxes:
        if box.node.loop != loop:
            floor, loop = highest + 1, box.node.loop
        row = max(floor, host + 1, last_in_lane.get(box.lane, -1) + 1)
        row = max([row, *(source.row + 1 for source in into.get(id(box), ()))])
        box.row = row
        last_in_lane[box.lane] = row
        highest = max(highest, row)
        if box.lane == 0 or box.node.blocks_host:
            host = row


def _lines(boxes: list[Box], box_of: Mapping[str, Box], edges: Sequence[GraphEdge]) -> list[Line]:
    found: dict[tuple[str, int, int], Line] = {}
    for edge in edges:
        source, target = box_of[edge.source], box_of[edge.target]
        if source is target or source.row >= target.row:
            continue
        if edge.why == "host_wait" and source.lane == target.lane == 0 and target.row > source.row + 1:
            continue  # the host does its lane from top to bottom
        found.setdefault((edge.why, id(source), id(target)), Line(edge.why, source, target))
    return list(found.values())


class _Channel:
    """A gap or gutter: lines that run along each other get tracks of their own."""

    def __init__(self) -> None:
        self._spans: list[tuple[float, float, Line]] = []
        self._track: dict[int, int] = {}
        self.tracks = 0

    def add(self, line: Line, one: float, other: float) -> None:
        self._spans.append((min(one, other), max(one, other), line))

    def settle(self) -> None:
        ends: list[float] = []
        for low, high, line in sorted(self._spans, key=lambda s: s[:2]):
            track = next((k for k, end in enumerate(ends) if end < low), len(ends))
            if track == len(ends):
                ends.append(high)
            ends[track] = high
            self._track[id(line)] = track
        self.tracks = len(ends)

    def offset(self, line: Line) -> float:
        return self._track[id(line)] * _TRACK


class _Geometry:
    def __init__(
        self,
        order: list[str | None],
        boxes: list[Box],
        lines: list[Line],
        loops: Mapping[str, GraphLoop],
        widths: list[float],
    ) -> None:
        self._order, self._boxes, self._lines, self._widths, self._loops = order, boxes, lines, widths, loops
        self._count = max((b.row for b in boxes), default=-1) + 1
        self._gaps = [_Channel() for _ in range(self._count)]  # below each row
        self._gutters = [_Channel() for _ in range(len(order) + 1)]  # left of each lane, and right of the last
        self._straight = {id(line) for line in lines if self._is_straight(line)}
        self._ports: dict[tuple[int, bool], float] = {}

    def panel(self, entry: str) -> Panel:
        self._ports_of(outgoing=True)
        self._ports_of(outgoing=False)
        for line in self._lines:
            self._enter(line)
        for channel in (*self._gaps, *self._gutters):
            channel.settle()
        lefts, width = self._columns()
        tops, spans, height = self._place_rows()
        for box in self._boxes:
            box.x, box.y = lefts[box.lane] + self._widths[box.lane] / 2, tops[box.row]
        for line in self._lines:
            self._route(line, lefts, tops)
        frames = self._frames(spans, width)
        centres = [left + w / 2 for left, w in zip(lefts, self._widths, strict=True)]
        return Panel(entry, self._order, self._boxes, self._lines, frames, centres, self._widths, width, height)

    def _is_straight(self, line: Line) -> bool:
        """Down its own lane, with no box in between."""
        one, other = line.source, line.target
        same = one.lane == other.lane
        return same and not any(b.lane == one.lane and one.row < b.row < other.row for b in self._boxes)

    def _ports_of(self, *, outgoing: bool) -> None:
        """Where lines leave or enter a box, as distances from its centre, which is kept for straight ones."""
        at: dict[int, list[Line]] = {}
        for line in self._lines:
            if id(line) not in self._straight:
                at.setdefault(id(line.source if outgoing else line.target), []).append(line)
        for lines in at.values():
            box = lines[0].source if outgoing else lines[0].target
            lines.sort(key=lambda n: (n.target if outgoing else n.source).lane)
            room = self._widths[box.lane] / 2 - 12
            step = min(14.0, 2 * room / (len(lines) + 1))
            for k, line in enumerate(lines):
                offset = (k - (len(lines) - 1) / 2) * step
                self._ports[id(line), outgoing] = offset + step / 2 if len(lines) % 2 else offset

    def _gutter(self, line: Line) -> int:
        return line.source.lane + (0 if line.target.lane < line.source.lane else 1)

    def _enter(self, line: Line) -> None:
        if id(line) in self._straight:
            return
        one, other = line.source, line.target
        if other.row == one.row + 1:
            self._gaps[one.row].add(line, 2 * one.lane, 2 * other.lane)
            return
        gutter = self._gutter(line)
        self._gaps[one.row].add(line, 2 * one.lane, 2 * gutter - 1)
        self._gutters[gutter].add(line, one.row, other.row - 1)
        self._gaps[other.row - 1].add(line, 2 * gutter - 1, 2 * other.lane)

    def _columns(self) -> tuple[list[float], float]:
        x, lefts = 0.0, []
        for k, width in enumerate(self._widths):
            x += _GUTTER + self._gutters[k].tracks * _TRACK
            lefts.append(x)
            x += width
        return lefts, x + _GUTTER + self._gutters[-1].tracks * _TRACK

    def _place_rows(self) -> tuple[list[float], dict[str, tuple[int, float, float]], float]:
        """Tops of rows, of each loop its depth, top and bottom, and the height of all."""
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        for box in self._boxes:
            for loop in _chain(box.node.loop, self._loops):
                first[loop] = min(first.get(loop, box.row), box.row)
                last[loop] = max(last.get(loop, box.row), box.row)
        depth = {loop: len(_chain(loop, self._loops)) - 1 for loop in first}
        spans: dict[str, tuple[int, float, float]] = {}
        tops: list[float] = []
        begun: dict[str, float] = {}
        y = HEADER + 6
        for row in range(self._count):
            for loop in sorted((n for n in first if first[n] == row), key=lambda n: depth[n]):
                begun[loop] = y
                y += _LOOP_HEAD
            tops.append(y)
            y += BOX_HEIGHT + _GAP + self._gaps[row].tracks * _TRACK
            for loop in sorted((n for n in last if last[n] == row), key=lambda n: -depth[n]):
                spans[loop] = (depth[loop], begun[loop], y - _GAP / 2)
                y += _LOOP_FOOT
        return tops, spans, y

    def _frames(self, spans: Mapping[str, tuple[int, float, float]], width: float) -> list[Frame]:
        ordered = sorted(spans.items(), key=lambda s: s[1][:2])
        return [
            Frame(self._loops[loop], 4.0 + 5 * depth, top, width - 4.0 - 5 * depth, bottom)
            for loop, (depth, top, bottom) in ordered
        ]

    def _route(self, line: Line, lefts: list[float], tops: list[float]) -> None:
        one, other = line.source, line.target
        bottom, top = one.y + BOX_HEIGHT, other.y
        if id(line) in self._straight:
            line.points = [(one.x, bottom), (other.x, top)]
            return
        x1 = one.x + self._ports[id(line), True]
        x2 = other.x + self._ports[id(line), False]
        leave = tops[one.row] + BOX_HEIGHT + 8 + self._gaps[one.row].offset(line)
        if other.row == one.row + 1:
            line.points = [(x1, bottom), (x1, leave), (x2, leave), (x2, top)]
            return
        gutter = self._gutter(line)
        side = lefts[gutter] - _GUTTER / 2 if gutter < len(lefts) else lefts[-1] + self._widths[-1] + _GUTTER / 2
        side += self._gutters[gutter].offset(line) * (1 if gutter == len(lefts) else -1)
        arrive = tops[other.row - 1] + BOX_HEIGHT + 8 + self._gaps[other.row - 1].offset(line)
        line.points = [(x1, bottom), (x1, leave), (side, leave), (side, arrive), (x2, arrive), (x2, top)]
