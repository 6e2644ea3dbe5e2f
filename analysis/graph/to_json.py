"""The JSON form of the execution graph, schema 1 (docs/graph.md)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from stitchcuda.analysis.graph.model import ExecutionGraph

SCHEMA = 1
UNPRINTED = ("entry", "made", "blocks_host", "returns", "captured", "column", "device_code")


def to_json(graph: ExecutionGraph) -> dict[str, Any]:
    """A value for `json.dumps`."""
    nodes = []
    for node in graph.nodes:
        fields = asdict(node)
        for name in UNPRINTED:
            del fields[name]
        fields["calls"] = [{"path": call.path, "line": call.line} for call in node.calls]
        nodes.append({k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()})
    return {
        "schema": SCHEMA,
        "nodes": nodes,
        "edges": [asdict(edge) for edge in graph.edges],
        "loops": [
            {"id": loop.id, "parent": loop.parent, "path": loop.path, "line": loop.line, "trip": loop.trip}
            for loop in graph.loops
        ],
    }
