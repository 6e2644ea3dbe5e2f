"""The same operation in the execution graphs of two versions of a program."""

from __future__ import annotations

import difflib
import os.path

from stitchcuda.analysis.graph.model import ExecutionGraph, GraphNode

_COMPARED = {  # what may differ between a node and its counterpart, in words
    "kind": "kind",
    "api": "call",
    "stream": "stream",
    "stream_flags": "stream flags",
    "event": "event",
    "copy_kind": "direction",
    "grid": "grid",
    "block": "block",
    "bytes": "bytes",
    "reads": "reads",
    "writes": "writes",
    "condition": "condition",
    "blocks_host": "host waits",
    "captured": "captured",
}


def matched(old: ExecutionGraph, new: ExecutionGraph) -> dict[str, str]:
    """For nodes of the changed version, by id, the one of the original. Nodes are the same when they do the same for the same
    memory on the same call path, in the same sequence; what is left over between two of those, when it is of one kind and one
    kernel."""
    found: dict[str, str] = {}
    ours: dict[object, list[GraphNode]] = {}
    theirs: dict[object, list[GraphNode]] = {}
    for graph, nodes_at in ((old, ours), (new, theirs)):
        for node in graph.nodes:
            nodes_at.setdefault(_where(node), []).append(node)
    for where, nodes in theirs.items():
        others = ours.get(where, [])
        matcher = difflib.SequenceMatcher(None, [_exact(n) for n in others], [_exact(n) for n in nodes], autojunk=False)
        for tag, a, b, c, d in matcher.get_opcodes():
            if tag == "equal":
                found.update({n.id: o.id for o, n in zip(others[a:b], nodes[c:d], strict=True)})
            elif tag == "replace":
                left = others[a:b]
                for node in nodes[c:d]:
                    same = next((o for o in left if _alike(o, node)), None)
                    if same is not None:
                        found[node.id] = same.id
                        left = left[left.index(same) + 1 :]
    return found


def differences(one: GraphNode, other: GraphNode) -> dict[str, tuple[str, str]]:
    """What is not the same of a node and its counterpart: in words, each with both values. Where they stand is not compared."""
    found = {}
    for name, words in _COMPARED.items():
        before, after = getattr(one, name), getattr(other, name)
        if before != after:
            found[words] = _told(before), _told(after)
    return found


def _told(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(value) or "-"
    return "-" if value is None else str(value)


def _where(node: GraphNode) -> object:
    """By file names: two versions may stand in different folders."""
    return node.entry, tuple((os.path.basename(c.path), c.callee) for c in node.calls), node.function


def _exact(node: GraphNode) -> object:
    return node.kind, node.kernel, node.copy_kind, node.event, node.reads, node.writes, node.made


def _alike(one: GraphNode, other: GraphNode) -> bool:
    return (one.kind, one.kernel, one.copy_kind) == (other.kind, other.kernel, other.copy_kind)
