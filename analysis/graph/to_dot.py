"""The execution graph for Graphviz: a cluster a lane, boxes with tooltips, edges by kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stitchcuda.analysis.graph.boxes import details, head, lane_of, lane_title, lanes, loop_title, place, plain
from stitchcuda.analysis.graph.model import ExecutionGraph, GraphLoop, GraphNode

_EDGES = {
    "stream": 'color="#64748b"',
    "event": 'color="#7c3aed"',
    "host_wait": 'color="#c2410c"',
    "default_stream": 'color="#0e7490"',
    "capture": 'color="#be185d"',
    "allocation": 'color="#a1a1aa", style=dotted, constraint=false',
    "data": 'color="#15803d", style=dashed, constraint=false',
}


def to_dot(graph: ExecutionGraph) -> str:
    """The text of the digraph."""
    return "\n".join(_lines(graph)) + "\n"


def _lines(graph: ExecutionGraph) -> Iterator[str]:
    loops = {loop.id: loop for loop in graph.loops}
    yield 'digraph "execution graph" {'
    yield "  rankdir=TB; newrank=true; nodesep=0.4;"
    yield '  graph [fontname="sans-serif", color="#a1a1aa"];'
    yield '  node [shape=box, style=rounded, fontname="monospace", fontsize=10];'
    yield '  edge [fontname="sans-serif", fontsize=9];'
    for number, lane in enumerate(lanes(graph.nodes)):
        members = [node for node in graph.nodes if lane_of(node) == lane]
        if members:
            yield f"  subgraph cluster_{number} {{"
            yield f"    label={_quoted(lane_title(lane))};"
            for node in members:
                yield f"    {node.id} [{_box(node, loops)}];"
            yield "  }"
    for edge in graph.edges:
        style = _EDGES.get(edge.why, 'color="#64748b"')
        yield f"  {edge.source} -> {edge.target} [label={_quoted(edge.why)}, {style}];"
    yield "}"


def _box(node: GraphNode, loops: Mapping[str, GraphLoop]) -> str:
    label = [head(node)]
    if node.kernel:
        label.append(f"<<<{node.grid or '?'}, {node.block or '?'}>>>")
    elif node.copy_kind or node.bytes:
        label.append(" ".join(x for x in (node.copy_kind, f"{node.bytes} B" if node.bytes else None) if x))
    if node.loop is not None:
        label.append(loop_title(loops[node.loop]))
    label.append(place(node))
    parts = [f"label={_quoted(*label)}", f"tooltip={_quoted(*details(node, dict(loops)))}"]
    if node.blocks_host:
        parts.append("shape=octagon")  # the host waits here
    elif node.kind == "launch":
        parts.append('style=filled, fillcolor="#dbeafe", fontcolor="#0f172a"')
    if node.captured:
        parts.append('style="rounded,dashed"')
    return ", ".join(parts)


def _quoted(*lines: str) -> str:
    """A quoted string of Graphviz: a backslash would begin an escape, and a quote end the string."""
    escaped = (plain(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
