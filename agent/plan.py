"""From two versions of a program to the blueprint of the change: what runs where, what stays, which waits go.

Nodes are those of the original's execution graph. A node of the changed version that the original does not have is written
`+n7`, by its id in the changed version's graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stitchcuda.agent.blueprint import Blueprint, CaptureRegion, EventEdge, Lane, Predicted, Residency, Waits
from stitchcuda.agent.pricing import Costs, Place, place_of, stands_at
from stitchcuda.analysis.graph.build import NOT_NODES, execution_graph
from stitchcuda.analysis.graph.matched import matched
from stitchcuda.analysis.graph.model import ExecutionGraph
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.order.timeline import Memory, Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind
from stitchcuda.gpu_validate.trace.model import Call, Trace

_RELEASES = frozenset({ApiKind.FREE, ApiKind.HOST_FREE})
_SPACES = {
    Memory.DEVICE: "device",
    Memory.PINNED: "pinned",
    Memory.MANAGED: "managed",
    Memory.MAPPED: "mapped",
}  # what a program allocates on purpose


@dataclass(frozen=True)
class _Picture:
    """An execution graph with the ops behind its nodes."""

    analysis: Analysis
    graph: ExecutionGraph
    ops: Mapping[str, tuple[Timeline, Sequence[Op]]]


def make_blueprint(before: Analysis, after: Analysis, trace: Trace | None = None) -> Blueprint:
    """The blueprint of `after`, in the node ids of `before`. With a full trace of `before`, the critical path goes by time, and
    `predicted` has its CUDA span before, and after that less what the calls that go could save at most (`pricing.py`; calls that
    only change count as they were); without one the critical path is the longest chain of device work and nothing is predicted."""
    old, new = _picture(before), _picture(after)
    same = matched(old.graph, new.graph)
    names = {n.id: same.get(n.id, f"+{n.id}") for n in new.graph.nodes}
    kept = {names[n.id] for n in new.graph.nodes}
    blocking = {names[n.id] for n in new.graph.nodes if n.blocks_host}
    waits = [n.id for n in old.graph.nodes if n.blocks_host]
    added = [names[n.id] for n in new.graph.nodes if n.blocks_host and names[n.id].startswith("+")]
    costs = Costs(trace) if trace is not None and trace.mode == "full" and not trace.dropped else None
    calls = calls_of_nodes(before, costs) if costs is not None else {}
    return Blueprint(
        lanes=_lanes(new.graph, names),
        events=tuple(EventEdge(names[e.source], names[e.target]) for e in new.graph.edges if e.why == "event"),
        residency=_residency(new, names),
        waits=Waits(tuple([w for w in waits if w in blocking] + added), tuple(w for w in waits if w not in blocking)),
        captures=_captures(new.graph, names),
        critical_path=_critical_path(new.graph, names, _durations(calls, costs)),
        predicted=_predicted(costs, [c for n in old.graph.nodes if n.id not in kept for c in calls.get(n.id, ())]),
    )


def _picture(analysis: Analysis) -> _Picture:
    graph = execution_graph(analysis.timelines, analysis.program, analysis.sources)
    ops: dict[str, tuple[Timeline, Sequence[Op]]] = {}
    for timeline in analysis.timelines:
        grouped: dict[int, list[Op]] = {}
        for op in timeline.ops:
            if op.kind not in NOT_NODES:
                grouped.setdefault(op.node, []).append(op)
        for members in sorted(grouped.values(), key=lambda found: found[0].id):
            ops[f"n{len(ops) + 1}"] = (timeline, members)
    return _Picture(analysis, graph, ops)


# --------------------------------------------------------------------------------------------------------------- structure


def _lanes(graph: ExecutionGraph, names: Mapping[str, str]) -> tuple[Lane, ...]:
    lanes: dict[str, list[str]] = {}
    for node in graph.nodes:
        if node.stream is not None:
            lanes.setdefault(node.stream, []).append(names[node.id])
    return tuple(Lane(stream, tuple(ops)) for stream, ops in lanes.items())


def _residency(picture: _Picture, names: Mapping[str, str]) -> tuple[Residency, ...]:
    """From the first to the last op that uses an allocation, its release left out."""
    first: dict[tuple[str, str, str], str] = {}
    last: dict[tuple[str, str, str], str] = {}
    made: dict[tuple[int, int], str] = {}
    for node in picture.graph.nodes:
        timeline, ops = picture.ops[node.id]
        for op in ops:
            made[(id(timeline), op.id)] = node.id
    for node in picture.graph.nodes:
        timeline, ops = picture.ops[node.id]
        if node.kind in _RELEASES:
            continue
        for buffer in dict.fromkeys(a.buffer for op in ops for a in op.accesses):
            known = timeline.buffers[buffer]
            if known.alloc_op is None or known.memory not in _SPACES:
                continue
            key = (known.name, _SPACES[known.memory], made.get((id(timeline), known.alloc_op), ""))
            first.setdefault(key, names[node.id])
            last[key] = names[node.id]
    return tuple(Residency(key[0], key[1], first[key], last[key]) for key in first)


def _captures(graph: ExecutionGraph, names: Mapping[str, str]) -> tuple[CaptureRegion, ...]:
    """Runs of neighbouring nodes that are only recorded."""
    regions: list[list[str]] = []
    open_region = False
    for node in graph.nodes:
        if node.captured:
            if not open_region:
                regions.append([])
            regions[-1].append(names[node.id])
        open_region = node.captured
    return tuple(CaptureRegion(tuple(r)) for r in regions)


def _critical_path(graph: ExecutionGraph, names: Mapping[str, str], durations: Mapping[str, float]) -> tuple[str, ...]:
    """The longest chain along the edges, which all go forward. Without durations each piece of device work counts one."""
    follows: dict[str, list[str]] = {}
    for edge in graph.edges:
        follows.setdefault(edge.source, []).append(edge.target)
    weight = {n.id: durations.get(names[n.id], 0.0) if durations else float(n.stream is not None) for n in graph.nodes}
    best: dict[str, tuple[float, str | None]] = {}
    for node in reversed(graph.nodes):
        after = max(((best[t][0], t) for t in follows.get(node.id, ()) if t in best), default=(0.0, None))
        best[node.id] = (weight[node.id] + after[0], after[1])
    at: str | None = max((n.id for n in graph.nodes), key=lambda k: best[k][0], default=None)
    path = []
    while at is not None:
        if weight[at]:
            path.append(names[at])
        at = best[at][1]
    return tuple(path)


# --------------------------------------------------------------------------------------------------------------- by trace


def calls_of_nodes(analysis: Analysis, costs: Costs) -> dict[str, list[Call]]:
    """The traced calls of each node of the execution graph, by its id: made at its place, by the calls that lead to it."""
    picture = _picture(analysis)
    program, sources = picture.analysis.program, picture.analysis.sources
    found: dict[str, list[Call]] = {}
    for node in picture.graph.nodes:
        if node.api is None:
            continue  # the host itself
        op = picture.ops[node.id][1][0]
        places = [place_of(program, sources, site) for site in (op.site, *reversed(op.calls))]
        chain: list[Place] = []
        for place in places:
            if place is None:
                break
            chain.append(place)
        if not chain:
            continue
        found[node.id] = [call for call in costs.calls_at(chain[:1]) if _came_by(call, chain)]
    return found


def _came_by(call: Call, chain: Sequence[Place]) -> bool:
    """The frames of a traced call are among the calls that lead to a node, in their order: inlined ones may be missing."""
    places = iter(chain)
    return all(any(stands_at(site, place) for place in places) for site in call.sites)


def _durations(calls: Mapping[str, Sequence[Call]], costs: Costs | None) -> dict[str, float]:
    """Seconds of each node over the whole run: of its device work, else of the host in it."""
    if costs is None:
        return {}
    out = {}
    for node, made in calls.items():
        total = 0
        for call in made:
            work = costs.issued(call)
            total += sum(op.end - op.start for op in work) if work else call.end - call.start
        out[node] = total / 1e9
    return out


def _predicted(costs: Costs | None, gone: Sequence[Call]) -> Predicted | None:
    """The CUDA span: from the end of context creation to the last device work."""
    if costs is None or not costs.trace.ops or not costs.trace.context_end:
        return None
    before = (max(op.end for op in costs.trace.ops) - costs.trace.context_end) / 1e9
    saved = costs.price(gone).seconds if gone else 0.0
    if saved is None or before <= 0:
        return None
    return Predicted("latency", before, max(before - saved, 0.0))
