"""The execution graph as a Mermaid flowchart: one subgraph a stream, one for the host."""

from __future__ import annotations

import os.path
import re

from stitchcuda.analysis.graph.model import ExecutionGraph, GraphNode

HOST = "host"
ARROWS = {"data": "-.->"}  # values that flow are dotted; everything else is an order


def to_mermaid(graph: ExecutionGraph) -> str:
    """The text of the flowchart."""
    lanes: dict[str, list[GraphNode]] = {}
    for node in graph.nodes:
        lanes.setdefault(HOST if node.stream is None else f"stream {node.stream}", []).append(node)
    several = len({node.path for node in graph.nodes}) > 1
    lines = ["flowchart TB"]
    for number, (title, nodes) in enumerate(lanes.items(), 1):
        lines.append(f'  subgraph lane{number}["{escape(title)}"]')
        lines += [f"    {_shape(node, several)}" for node in nodes]
        lines.append("  end")
    for edge in graph.edges:
        arrow = ARROWS.get(edge.why, "-->")
        lines.append(f"  {edge.source} {arrow}|{escape(edge.why)}| {edge.target}")
    return "\n".join(lines) + "\n"


def _shape(node: GraphNode, several: bool) -> str:
    text = f'"{"<br/>".join(escape(line) for line in _label(node, several))}"'
    if node.blocks_host:
        return f"{node.id}{{{{{text}}}}}"  # a hexagon: the host waits here
    if node.kind == "launch":
        return f"{node.id}[{text}]"
    return f"{node.id}({text})"


def _label(node: GraphNode, several: bool) -> list[str]:
    """`several`: the graph spans more than one file."""
    head = (
        f"{node.kernel}<<<{node.grid or '?'}, {node.block or '?'}>>>"
        if node.kernel
        else node.api or node.kind.replace("_", " ")
    )
    if node.event:
        head += f" {node.event}"
    lines = [head]
    if node.made:
        lines.append(", ".join(node.made[:3]) + (", ..." if len(node.made) > 3 else ""))
    if node.copy_kind or node.bytes:
        lines.append(" ".join(x for x in (node.copy_kind, f"{node.bytes} B" if node.bytes else None) if x))
    if node.loop:
        lines.append(f"in loop {node.loop}")
    if node.captured:
        lines.append("captured")
    lines.append(f"{os.path.basename(node.path)}:{node.line}" if several else f"line {node.line}")
    return lines


def escape(text: str) -> str:
    """For a quoted label: `"` would end it, `#...;` is an entity, `<` and backticks start markup."""
    flat = re.sub(r"\s+", " ", text).strip()
    return "".join(f"#{ord(c)};" if c in '"#<>;|`&\\' else c for c in flat)
