"""The execution graph as a picture: lanes are streams, time goes downwards, a pointer over a box shows all that is known of it.

Drawn here and not by Graphviz: lanes in which time goes one way are no layout of its engines, and a picture must not need a program that
is not installed. Where things stand is decided in `svg_layout.py`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.sax.saxutils import escape

from stitchcuda.analysis.graph.boxes import (
    WHY,
    details,
    head,
    kinds_of_edges,
    lane_of,
    lane_title,
    lanes,
    look,
    loop_title,
    more,
    place,
    plain,
)
from stitchcuda.analysis.graph.model import ExecutionGraph, GraphLoop, GraphNode
from stitchcuda.analysis.graph.svg_layout import BOX_HEIGHT, Box, Frame, Line, Panel, panel

_CHARACTER = 7.3  # width of one, of the font below
_SMALL = 6.1
_LONGEST = 36  # characters in a box
_MARGIN = 16.0
_TITLE = 34.0  # height of an entry's name
_LEGEND = 44.0

# Colours of what a class draws: light, then dark. Text, lines and fills keep a contrast of 4.5 to what is behind them.
_COLOURS = {
    ".back": ("fill:#ffffff", "fill:#18181b"),
    ".lane": ("fill:#f4f4f5", "fill:#232327"),
    ".frame": ("fill:none;stroke:#a1a1aa;stroke-dasharray:2 3", "stroke:#71717a"),
    "text": ("fill:#18181b", "fill:#f4f4f5"),
    ".small": ("fill:#52525b", "fill:#d4d4d8"),
    ".host rect": ("fill:#ffffff;stroke:#71717a", "fill:#2e2e33;stroke:#a1a1aa"),
    ".launch rect": ("fill:#dbeafe;stroke:#1d4ed8", "fill:#1e3a8a;stroke:#93c5fd"),
    ".copy rect": ("fill:#dcfce7;stroke:#15803d", "fill:#14532d;stroke:#86efac"),
    ".event rect": ("fill:#f3e8ff;stroke:#7e22ce", "fill:#4c1d95;stroke:#d8b4fe"),
    ".wait rect": ("fill:#ffedd5;stroke:#c2410c;stroke-width:2.5", "fill:#7c2d12;stroke:#fdba74"),
    ".captured rect": ("stroke-dasharray:5 3", ""),
}
_EDGES = {  # colour in light and dark, dashes
    "stream": ("#64748b", "#94a3b8", ""),
    "event": ("#7e22ce", "#d8b4fe", ""),
    "host_wait": ("#c2410c", "#fdba74", ""),
    "default_stream": ("#0e7490", "#67e8f9", ""),
    "capture": ("#be185d", "#f9a8d4", ""),
    "allocation": ("#a1a1aa", "#71717a", "1 3"),
    "data": ("#15803d", "#86efac", "6 3"),
}


def panels(graph: ExecutionGraph) -> list[Panel]:
    """Entry by entry, where things stand."""
    loops = {loop.id: loop for loop in graph.loops}
    laid_out = []
    for _, group in groupby(graph.nodes, key=lambda n: (n.entry, n.entry_path)):
        nodes = list(group)
        here = {node.id for node in nodes}
        edges = [e for e in graph.edges if e.source in here and e.target in here]
        widths = {node.id: _width(node) for node in nodes}
        titles = {lane: _text_width(_clipped(lane_title(lane))) + 24 for lane in lanes(nodes)}
        laid_out.append(panel(nodes, edges, loops, widths, titles))
    return laid_out


def to_svg(graph: ExecutionGraph) -> str:
    """The text of a stand-alone SVG file. Equal graphs give equal texts."""
    loops = {loop.id: loop for loop in graph.loops}
    drawn = panels(graph)
    kinds = kinds_of_edges(graph)
    width = max([p.width for p in drawn] + [_text_width("No CUDA work was found."), _legend_width(kinds)]) + 2 * _MARGIN
    height = _MARGIN + sum(_TITLE + p.height + _MARGIN for p in drawn) + _LEGEND
    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
        ),
        "<title>Execution graph</title>",
        f"<desc>{_escaped('Lanes are streams, time goes downwards; a box stands below what it is ordered after.')}</desc>",
        f"<style>{_style(kinds)}</style>",
        f"<defs>{''.join(_marker(kind) for kind in kinds)}</defs>",
        f'<rect class="back" width="{width:.0f}" height="{height:.0f}"/>',
    ]
    y = _MARGIN
    for each in drawn:
        file = each.boxes[0].node.calls[0].path if each.boxes[0].node.calls else each.boxes[0].node.path
        out.append(
            f'<text class="entry" x="{_MARGIN:.0f}" y="{y + 20:.0f}">{_escaped(f"{each.entry} ({file})")}</text>'
        )
        out.append(f'<g transform="translate({_MARGIN:.0f} {y + _TITLE:.0f})">')
        out += _panel(each, loops)
        out.append("</g>")
        y += _TITLE + each.height + _MARGIN
    if not drawn:
        out.append(f'<text x="{_MARGIN:.0f}" y="{y + 8:.0f}">No CUDA work was found.</text>')
    out += _legend(kinds, y + 14)
    out.append("</svg>")
    return "\n".join(out) + "\n"


# --------------------------------------------------------------------------------------------------------------- pieces


def _panel(each: Panel, loops: dict[str, GraphLoop]) -> Iterator[str]:
    for lane, x, width in zip(each.lanes, each.centres, each.widths, strict=True):
        left = x - width / 2 - 6
        yield f'<rect class="lane" x="{left:.1f}" y="0" width="{width + 12:.1f}" height="{each.height:.1f}" rx="6"/>'
        yield f'<text class="name" x="{x:.1f}" y="20">{_escaped(_clipped(lane_title(lane)))}</text>'
        flags = _flags(each, lane)
        if flags:
            yield f'<text class="small middle" x="{x:.1f}" y="36">{_escaped(_clipped(flags, width, _SMALL))}</text>'
    yield from (_frame(frame) for frame in each.frames)
    for why in reversed(WHY):  # what matters most is drawn last
        yield from (_line(line) for line in each.lines if line.why == why)
    yield from (_box(box, each.widths[box.lane], loops) for box in each.boxes)


def _flags(each: Panel, lane: str | None) -> str:
    for box in each.boxes:
        if lane is not None and lane_of(box.node) == lane and box.node.stream_flags:
            return box.node.stream_flags
    return ""


def _frame(frame: Frame) -> str:
    width, height = frame.right - frame.left, frame.bottom - frame.top
    return (
        f'<g><rect class="frame" x="{frame.left:.1f}" y="{frame.top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="8"/>'
        f'<text class="small" x="{frame.left + 8:.1f}" y="{frame.top + 13:.1f}">{_escaped(loop_title(frame.loop))}</text></g>'
    )


def _line(line: Line) -> str:
    (x, y), *rest = line.points
    path = [f"M{x:.1f} {y:.1f}"]
    for k, (px, py) in enumerate(rest):
        if k + 1 < len(rest):
            path.append(_corner(line.points[k], (px, py), rest[k + 1]))
        else:
            path.append(f"L{px:.1f} {py:.1f}")
    told = f"{head(line.source.node)} ({place(line.source.node)}) before {head(line.target.node)} ({place(line.target.node)}): "
    told += WHY.get(line.why, line.why)
    return (
        f'<path class="edge {line.why}" d="{"".join(path)}" marker-end="url(#arrow-{line.why})">'
        f"<title>{_escaped(told)}</title></path>"
    )


def _corner(before: tuple[float, float], at: tuple[float, float], after: tuple[float, float]) -> str:
    """A line to a corner that is rounded off."""

    def towards(end: tuple[float, float]) -> tuple[float, float]:
        dx, dy = end[0] - at[0], end[1] - at[1]
        length = abs(dx) + abs(dy)  # lines are upright or level
        share = min(4.0, length / 2) / length if length else 0.0
        return at[0] + dx * share, at[1] + dy * share

    (ax, ay), (bx, by) = towards(before), towards(after)
    return f"L{ax:.1f} {ay:.1f}Q{at[0]:.1f} {at[1]:.1f} {bx:.1f} {by:.1f}"


def _box(box: Box, width: float, loops: dict[str, GraphLoop]) -> str:
    node = box.node
    classes = f"node {look(node)}{' captured' if node.captured else ''}"
    told = "\n".join(plain(line) for n in box.nodes for line in details(n, loops))
    x = box.x - width / 2
    first, second = _texts(box)
    return (
        f'<g class="{classes}" id="{node.id}"><title>{escape(told)}</title>'
        f'<rect x="{x:.1f}" y="{box.y:.1f}" width="{width:.1f}" height="{BOX_HEIGHT:.0f}" rx="5"/>'
        f'<text class="middle" x="{box.x:.1f}" y="{box.y + 17:.1f}">{_escaped(_clipped(first, width))}</text>'
        f'<text class="small middle" x="{box.x:.1f}" y="{box.y + 32:.1f}">{_escaped(_clipped(second, width, _SMALL))}</text></g>'
    )


def _texts(box: Box) -> tuple[str, str]:
    """The two lines in a box."""
    node, count = box.node, len(box.nodes)
    if count > 1:
        if node.copy_kind:
            return f"{node.api} x{count}", f"{place(node)} {node.copy_kind}"
        named = [name for n in box.nodes for name in (n.made or ((n.event or n.stream or ""),)) if name]
        lines = sorted({n.line for n in box.nodes})
        span = f"{lines[0]}-{lines[-1]}" if len(lines) > 1 else f"{lines[0]}"
        return f"{node.api} x{count}", f"{place(node).rpartition(':')[0]}:{span} {', '.join(dict.fromkeys(named))}"
    return head(node), f"{place(node)} {more(node)}".rstrip()


def _legend(kinds: Sequence[str], y: float) -> Iterator[str]:
    x = _MARGIN
    for kind in kinds:
        words = WHY.get(kind, kind)
        yield f'<path class="edge {kind}" d="M{x:.1f} {y - 4:.1f}h26" marker-end="url(#arrow-{kind})"/>'
        yield f'<text class="small" x="{x + 34:.1f}" y="{y:.1f}">{_escaped(words)}</text>'
        x += _entry_width(words)


def _entry_width(words: str) -> float:
    return 34 + _text_width(words, _SMALL) + 18


def _legend_width(kinds: Sequence[str]) -> float:
    return sum(_entry_width(WHY.get(kind, kind)) for kind in kinds)


# ----------------------------------------------------------------------------------------------------------------- style


def _style(kinds: Sequence[str]) -> str:
    mono = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
    rules = [
        f"text{{font:12px {mono}}}",
        ".small{font-size:10px}.middle,.name{text-anchor:middle}.name,.entry{font-weight:bold}.entry{font-size:14px}",
        ".node rect{stroke-width:1.2}.edge{fill:none;stroke-width:1.3}.edge:hover{stroke-width:3}",
    ]
    light = [f"{name}{{{colour}}}" for name, (colour, _) in _COLOURS.items()]
    dark = [f"{name}{{{colour}}}" for name, (_, colour) in _COLOURS.items() if colour]
    for kind in kinds:
        bright, dim, dashes = _EDGES.get(kind, _EDGES["stream"])
        more = f";stroke-dasharray:{dashes}" if dashes else ""
        light.append(f".edge.{kind}{{stroke:{bright}{more}}}.arrow-{kind}{{fill:{bright}}}")
        dark.append(f".edge.{kind}{{stroke:{dim}}}.arrow-{kind}{{fill:{dim}}}")
    return "".join([*rules, *light, f"@media (prefers-color-scheme:dark){{{''.join(dark)}}}"])


def _marker(kind: str) -> str:
    return (
        f'<marker id="arrow-{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path class="arrow-{kind}" d="M0 0L8 4L0 8z"/></marker>'
    )


# ------------------------------------------------------------------------------------------------------------------ text


def _width(node: GraphNode) -> float:
    first, second = _texts(Box([node], 0, 0))
    return max(_text_width(_clipped(first)), _text_width(_clipped(second), _SMALL)) + 20


def _text_width(text: str, character: float = _CHARACTER) -> float:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text) * character


def _clipped(text: str, width: float | None = None, character: float = _CHARACTER) -> str:
    """As much as fits; the rest is in the text that a pointer shows."""
    flat = plain(text)
    room = _LONGEST if width is None else int((width - 12) / character)
    if _text_width(flat, 1.0) <= room:
        return flat
    while flat and _text_width(flat, 1.0) > room - 1:
        flat = flat[:-1]
    return f"{flat}\N{HORIZONTAL ELLIPSIS}"


def _escaped(text: str) -> str:
    return escape(plain(text))
