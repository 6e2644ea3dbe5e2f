"""A trace on the execution graph of the program that was traced: lanes of host threads and streams, each span with its node."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from stitchcuda.agent.plan import calls_of_nodes
from stitchcuda.agent.pricing import Costs
from stitchcuda.analysis.graph.boxes import lane_of, lane_title
from stitchcuda.analysis.graph.measured import Measured, MeasuredLane, Span
from stitchcuda.analysis.graph.model import GraphNode
from stitchcuda.analysis.index import Analysis
from stitchcuda.gpu_validate.trace.model import Call, DeviceOp, Trace

MOST_SPANS = 100_000  # in one page
_WAITS = re.compile(r"cu(da)?((Device|Ctx|Thread|Stream|Event)Synchronize|Mem(cpy|set)(?!.*Async)|Free)")


def nodes_of_calls(analysis: Analysis, trace: Trace, nodes: Sequence[GraphNode]) -> dict[int, str]:
    """For traced calls, by their index, the node of the graph. `nodes` are those of `analysis`, in their order, whatever their ids. A
    launch without source lines belongs to the one launch of its kernel."""
    found: dict[int, str] = {}
    names = {f"n{k + 1}": node.id for k, node in enumerate(nodes)}
    for name, calls in calls_of_nodes(analysis, Costs(trace)).items():
        for call in calls:
            found.setdefault(call.index, names[name])
    launches: dict[str, list[str]] = {}
    for node in nodes:
        if node.kernel and node.kind == "launch":
            launches.setdefault(_bare(node.kernel), []).append(node.id)
    for call in trace.calls:
        here = launches.get(_bare(call.kernel), []) if call.kernel and not call.sites else []
        if call.index not in found and len(here) == 1:
            found[call.index] = here[0]
    return found


def measured(trace: Trace, nodes: Sequence[GraphNode], at: Mapping[int, str]) -> Measured:
    """`at` says the node of a call, see `nodes_of_calls`. When there are too many spans, the first are told."""
    by_id = {node.id: node for node in nodes}
    captured: dict[str, list[str]] = {}
    for node in nodes:
        if node.captured and node.kernel:
            captured.setdefault(_bare(node.kernel), []).append(node.id)
    by_correlation = {call.correlation: call for call in trace.calls if call.correlation}
    ops = sorted(trace.ops, key=lambda op: op.start)
    calls = sorted(trace.calls, key=lambda call: call.start)
    told_ops, told_calls = ops[:MOST_SPANS], calls[: max(0, MOST_SPANS - len(ops))]

    def node_of(op: DeviceOp) -> str:
        call = by_correlation.get(op.correlation)
        name = at.get(call.index, "") if call is not None else ""
        if name and by_id[name].kind == "graph_launch" and op.kind == "kernel":
            inside = captured.get(_bare(op.name), [])
            return inside[0] if len(inside) == 1 else name
        return name

    def span_of(op: DeviceOp) -> Span:
        call = by_correlation.get(op.correlation)
        name = op.name if op.kind == "kernel" else f"{op.kind} {op.copy_kind}".strip()
        return Span(op.start, op.end, name, op.kind, node_of(op), call.start if call is not None else -1)

    lanes = []
    for thread in dict.fromkeys(call.thread for call in told_calls):
        spans = tuple(_call(call, at) for call in told_calls if call.thread == thread)
        lanes.append(MeasuredLane("host" if thread == 0 else f"host thread {thread}", None, True, spans))
    for stream in sorted({op.stream for op in told_ops}):
        spans = tuple(span_of(op) for op in told_ops if op.stream == stream)
        label = _label(stream, spans, by_id)
        title = f"stream {stream}" if label is None else lane_title(label)
        lanes.append(MeasuredLane("unknown stream" if stream < 0 else title, label or "?", False, spans))
    left_out = len(ops) + len(calls) - len(told_ops) - len(told_calls)
    first = calls[0].start if calls else ops[0].start if ops else 0
    last = max([op.end for op in ops] + [call.end for call in calls], default=0)
    begin = trace.context_end if first <= trace.context_end < last else first
    return Measured(trace.device, begin, last, tuple(lanes), left_out, _notes(trace))


def _call(call: Call, at: Mapping[int, str]) -> Span:
    return Span(call.start, call.end, call.api, "wait" if _WAITS.match(call.api) else "call", at.get(call.index, ""))


def _label(stream: int, spans: Iterable[Span], nodes: Mapping[str, GraphNode]) -> str | None:
    """The stream's label in the graph: that of most of its work; the legacy default stream has always its own."""
    if stream == 0:
        return "default"
    found = Counter(lane_of(nodes[s.node]) for s in spans if s.node)
    best = found.most_common(1)
    return best[0][0] if best else None


def _notes(trace: Trace) -> tuple[str, ...]:
    notes = list(trace.problems)
    if trace.dropped:
        notes.append(f"{trace.dropped} records of the trace were lost")
    if not any(call.sites for call in trace.calls):
        notes.append(
            "the trace has no source lines (build with -g, trace with --mode full): kernels are told by their names"
        )
    return tuple(notes)


def _bare(kernel: str) -> str:
    return re.sub(r"<.*", "", kernel).rpartition("::")[2]
