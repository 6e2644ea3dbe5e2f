"""The execution graph as a Mermaid flowchart: one subgraph a lane."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stitchcuda.analysis.graph.boxes import head, lane_of, lane_title, lanes, loop_title, more, place
from stitchcuda.analysis.graph.model import ExecutionGraph, GraphLoop, GraphNode

ARROWS = {"data": "-.->"}  # values that flow are dotted; everything else is an order


def to_mermaid(graph: ExecutionGraph) -> str:
    """The text of the flowchart."""
    loops = {loop.id: loop for loop in graph.loops}
    several = len({node.path for node in graph.nodes}) > 1
    lines = ["flowchart TB"]
    for lane in lanes(graph.nodes):
        members = [node for node in graph.nodes if lane_of(node) == lane]
        if members:
            number = sum(line == "  end" for line in lines) + 1
            lines.append(f'  subgraph lane{number}["{escape(lane_title(lane))}"]')
            lines += [f"    {_shape(node, loops, several)}" for node in members]
            lines.append("  end")
    for edge in graph.edges:
        arrow = ARROWS.get(edge.why, "-->")
        lines.append(f"  {edge.source} {arrow}|{escape(edge.why)}| {edge.target}")
    return "\n".join(lines) + "\n"


def _shape(node: GraphNode, loops: Mapping[str, GraphLoop], several: bool) -> str:
    text = f'"{"<br/>".join(escape(line) for line in _label(node, loops, several))}"'
    if node.blocks_host:
        return f"{node.id}{{{{{text}}}}}"  # a hexagon: the host waits here
    if node.kind == "launch":
        return f"{node.id}[{text}]"
    return f"{node.id}({text})"


def _label(node: GraphNode, loops: Mapping[str, GraphLoop], several: bool) -> list[str]:
    """`several`: the graph spans more than one file."""
    lines = [f"{head(node)}{more(node)}" if node.kernel else head(node)]
    if node.made:
        lines.append(", ".join(node.made[:3]) + (", ..." if len(node.made) > 3 else ""))
    if not node.kernel and (node.copy_kind or node.bytes):
        lines.append(more(node))
    if node.loop is not None:
        lines.append(loop_title(loops[node.loop]))
    if node.captured:
        lines.append("captured")
    lines.append(place(node) if several else f"line {node.line}")
    return lines


def escape(text: str) -> str:
    """For a quoted label: `"` would end it, `#...;` is an entity, `<` and backticks start markup."""
    flat = re.sub(r"\s+", " ", text).strip()
    return "".join(f"#{ord(c)};" if c in '"#<>;|`&\\' else c for c in flat)
