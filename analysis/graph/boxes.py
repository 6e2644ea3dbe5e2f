"""What drawings of the execution graph have in common: lanes, the text in a box, and the text that a pointer over it shows."""

from __future__ import annotations

import os.path
import re
from collections.abc import Sequence

from stitchcuda.analysis.graph.model import LEGACY_LABEL, RETURNS, ExecutionGraph, GraphLoop, GraphNode

HOST = "host"
WHY = {  # the kinds of edges, in words
    "stream": "same stream",
    "event": "event",
    "host_wait": "the host waits",
    "default_stream": "default stream",
    "capture": "order in a captured graph",
    "allocation": "allocated before use",
    "data": "a value flows",
}
_OF_THE_HOST = {  # calls about a stream that the stream does not carry
    "stream_create", "stream_destroy", "stream_sync", "event_sync", "query", "capture_begin", "capture_end",
}  # fmt: skip
_LOOKS = {
    "launch": "launch", "library_call": "launch", "graph_launch": "launch", "host_func": "launch",
    "copy": "copy", "memset": "copy", "prefetch": "copy",
    "event_record": "event", "event_wait": "event",
}  # fmt: skip
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def lane_of(node: GraphNode) -> str | None:
    """The stream that carries it; None: the host."""
    return None if node.kind in _OF_THE_HOST else node.stream


def lanes(nodes: Sequence[GraphNode]) -> list[str | None]:
    """The host first, then streams in order of their first work."""
    return list(dict.fromkeys([None, *(lane_of(n) for n in nodes)]))


def lane_title(lane: str | None) -> str:
    return HOST if lane is None else "default stream" if lane == LEGACY_LABEL else f"stream {lane}"


def head(node: GraphNode) -> str:
    """The kernel, or the call."""
    text = node.kernel or node.api or node.kind.replace("_", " ")
    if node.event:
        text += f" {node.event}"
    elif node.stream and lane_of(node) is None:
        text += f" {node.stream}"
    elif node.kind in ("host_read", "host_write"):
        text += " " + ", ".join(node.reads or node.writes)
    return text


def look(node: GraphNode) -> str:
    """How it is drawn: a call in which the host waits, a launch, a copy, an event, or another call of the host."""
    return "wait" if node.blocks_host else _LOOKS.get(node.kind, "host")


def place(node: GraphNode) -> str:
    return f"{os.path.basename(node.path)}:{node.line}"


def more(node: GraphNode) -> str:
    """What a box says beside the name and the place: the shape of a launch, what is copied, or the memory that it makes."""
    if node.kernel:
        return f"<<<{node.grid or '?'}, {node.block or '?'}>>>"
    if node.copy_kind or node.bytes:
        return " ".join(x for x in (node.copy_kind, f"{node.bytes} B" if node.bytes else None) if x)
    return ", ".join(node.made)


def details(node: GraphNode, loops: dict[str, GraphLoop]) -> list[str]:
    """All that is known of a node, a line each."""
    lines = [head(node)]
    if node.kernel:
        lines[0] += f"<<<{node.grid or '?'}, {node.block or '?'}>>>"
    lines.append(f"{node.path}:{node.line} in {node.function}")
    if node.calls:
        lines.append("called from " + ", ".join(f"{os.path.basename(c.path)}:{c.line}" for c in reversed(node.calls)))
    if node.stream:
        flags = f" ({node.stream_flags})" if node.stream_flags else ""
        lines.append(f"on {lane_title(node.stream)}{flags}")
    if node.copy_kind or node.bytes:
        lines.append(", ".join(x for x in (node.copy_kind, f"{node.bytes} bytes" if node.bytes else None) if x))
    for word, touched in (("reads", node.reads), ("writes", node.writes)):
        if touched:
            lines.append(f"{word} {', '.join(touched)}")
    if node.kind == "copy" and node.returns:
        lines.append(RETURNS[node.returns])
    elif node.blocks_host:
        lines.append("the host waits here")
    if node.captured:
        lines.append("captured: runs when its CUDA graph is launched")
    if node.loop is not None:
        lines.append(loop_title(loops[node.loop]))
    if node.condition:
        lines.append(f"only if {node.condition}")
    if node.confidence != "certain":
        lines.append(f"confidence: {node.confidence}")
    return lines


def loop_title(loop: GraphLoop) -> str:
    rounds = f", {loop.trip} rounds" if loop.trip else ""
    return f"loop at {os.path.basename(loop.path)}:{loop.line}{rounds}"


def kinds_of_edges(graph: ExecutionGraph) -> list[str]:
    """Those that the graph has, in the order of the documentation."""
    there = {edge.why for edge in graph.edges}
    return [why for why in WHY if why in there] + sorted(there - WHY.keys())


def plain(text: str) -> str:
    """On one line, without characters that no text may hold."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", re.sub(r"\s+", " ", text)).strip()
