"""Timeline -> which nodes of the execution graph could run at the same time, and which are complete before which. Nodes merge the rounds of
loops, so this is read from the occurrences: what a round of a node overlaps with may be of the round before. Nor does it follow from the
edges: what is ordered by way of a call that stands under a condition is ordered only when that call is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stitchcuda.analysis.graph.model import GraphOverlap
from stitchcuda.analysis.order.timeline import Op, StreamKind, Timeline
from stitchcuda.analysis.program.ir import HOST_WAITS, ApiKind

_WORK = frozenset({ApiKind.LAUNCH, ApiKind.COPY, ApiKind.MEMSET, ApiKind.LIBRARY_CALL, ApiKind.GRAPH_LAUNCH})


def overlaps(timeline: Timeline, names: Mapping[int, str], kept: set[int]) -> Iterator[GraphOverlap]:
    """Pairs of work on different streams, and calls in which the host waits with the work that they do not wait for. `names` are the
    nodes by their key, in program order; `kept` the ops that are in the graph."""
    rank = {key: k for k, key in enumerate(names)}
    work = [op for op in timeline.ops if op.id in kept and _is_work(timeline, op)]
    mask = 0
    for op in work:
        mask |= 1 << op.id
    found: dict[GraphOverlap, None] = {}
    for later in timeline.ops:
        if later.id not in kept or not (later.kind in HOST_WAITS or later.waits or _is_work(timeline, later)):
            continue
        bits = timeline.earlier[later.id] & ~timeline.before[later.id] & ~later.waits & mask
        while bits:
            low = bits & -bits
            bits ^= low
            earlier = timeline.ops[low.bit_length() - 1]
            if (earlier.stream == later.stream and _is_work(timeline, later)) or (earlier.graph is None) != (
                later.graph is None
            ):
                continue
            if earlier.kind is ApiKind.COPY and not earlier.asynchronous and later.stream is None:
                continue  # the call of a synchronous copy has returned
            next_round = rank[earlier.node] >= rank[later.node]
            found[GraphOverlap(names[earlier.node], names[later.node], next_round)] = None
    yield from found


def complete_before(timeline: Timeline, names: Mapping[int, str], kept: set[int]) -> list[int]:
    """For each node, in program order, the nodes before it (bits by their place in `names`) of which everything that was issued is
    complete when any of its occurrences starts; when it returns, if it waits."""
    masks = dict.fromkeys(names, 0)  # the ops of each node
    for op in timeline.ops:
        if op.id in kept:
            masks[op.node] |= 1 << op.id
    rank = {key: k for k, key in enumerate(names)}
    order = list(masks.values())
    complete = [-1] * len(order)
    some = [0] * len(order)
    for op in timeline.ops:
        if op.id not in kept:
            continue
        k = rank[op.node]
        done = timeline.before[op.id] | op.waits
        open_ = timeline.earlier[op.id] & ~done
        for other in range(k):
            if order[other] & open_:
                complete[k] &= ~(1 << other)
            elif order[other] & done:
                some[k] |= 1 << other
    return [complete[k] & some[k] for k in range(len(order))]


def _is_work(timeline: Timeline, op: Op) -> bool:
    known = op.stream is not None and timeline.streams[op.stream].kind is not StreamKind.UNKNOWN
    return op.kind in _WORK and known and op.certain
