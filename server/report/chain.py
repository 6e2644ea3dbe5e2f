"""The execution graph in a few lines: what runs in program order, loops in brackets, waits of the host in capitals."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator

from stitchcuda.analysis.graph.model import ExecutionGraph, GraphNode

_COPIES = {"h2d": "host-to-device", "d2h": "device-to-host", "d2d": "device-to-device", "h2h": "host-to-host"}
LEGEND = "12 x [ ]: a loop; WAIT: the host waits for the device"
_WAITS = ("device_sync", "stream_sync", "event_sync")
_QUIET = ("host_read", "host_write", "event_record", "query")
_COUNTED = {
    "launch": "kernel launches",
    "h2d": "host-to-device copies",
    "d2h": "device-to-host copies",
    "d2d": "device-to-device copies",
    "waits": "calls in which the host waits",
    "alloc": "allocations outside of any stream",
    "alloc_async": "stream-ordered allocations",
}


def chain(graph: ExecutionGraph, width: int = 100) -> str:
    """One paragraph. Equal neighbours are counted: `alloc x3`."""
    return textwrap.fill(
        " ".join(_counted(_tokens(graph))), width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )


def _tokens(graph: ExecutionGraph) -> Iterator[str]:
    loops = {loop.id: loop for loop in graph.loops}
    inside: list[str] = []
    for node in graph.nodes:
        word = _word(node)
        if not word:
            continue
        around: list[str] = []
        at = node.loop
        while at is not None and at in loops:
            around.insert(0, at)
            at = loops[at].parent
        shared = 0
        while shared < min(len(inside), len(around)) and inside[shared] == around[shared]:
            shared += 1
        yield from "]" * (len(inside) - shared)
        for loop in around[shared:]:
            trip = loops[loop].trip
            yield f"{trip if trip is not None and trip.isdigit() else 'n'} x ["
        inside = around
        yield word
    yield from "]" * len(inside)


def _word(node: GraphNode) -> str:
    if node.kind in _QUIET:
        return ""
    if node.kind == "launch":
        return node.kernel or "kernel"
    if node.kind == "copy":
        return f"{_COPIES.get(node.copy_kind or '', 'copy')}{'+WAIT' if node.blocks_host else ''}"
    if node.kind in _WAITS:
        return "WAIT"
    return node.kind.replace("_", "-") + ("-async" if _async(node) else "")


def _async(node: GraphNode) -> bool:
    return node.kind in ("alloc", "free") and node.stream is not None


def _counted(words: Iterator[str]) -> Iterator[str]:
    last, count = "", 0
    for word in words:
        if word == last and word not in ("[", "]"):
            count += 1
            continue
        if last:
            yield f"{last} x{count}" if count > 1 else last
        last, count = word, 1
    if last:
        yield f"{last} x{count}" if count > 1 else last


def counts(graph: ExecutionGraph) -> Counter[str]:
    """How many there are of what costs time: nodes, so that the body of a loop counts once."""
    found: Counter[str] = Counter()
    for node in graph.nodes:
        key = node.copy_kind if node.kind == "copy" else "alloc_async" if _async(node) else node.kind
        if key in _COUNTED and node.kind != "free":
            found[_COUNTED[key]] += 1
        if node.blocks_host:
            found[_COUNTED["waits"]] += 1
    return found


def table(before: ExecutionGraph, after: ExecutionGraph | None) -> str:
    """The counts side by side."""
    old, new = counts(before), counts(after) if after is not None else None
    lines = [f"  {'calls, those in a loop once':<34} before{'   after' if new is not None else ''}"]
    for name in _COUNTED.values():
        if old[name] or (new is not None and new[name]):
            lines.append(f"  {name:<34} {old[name]:>6}{f'{new[name]:>8}' if new is not None else ''}")
    return "\n".join(lines)
