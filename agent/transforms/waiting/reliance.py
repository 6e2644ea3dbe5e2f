"""Which ops rely on device work being complete when they start, given what would no longer be known to be.

One rule for every transform that takes an order away (a host wait, the wait within `cudaFree`): a loss is harmless only
when no op needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stitchcuda.agent.transforms.waiting.observers import reason_at
from stitchcuda.analysis.findings import wording
from stitchcuda.analysis.findings.waits import members
from stitchcuda.analysis.order.alias import conflict
from stitchcuda.analysis.order.timeline import Access, Memory, Op, StreamKind, Timeline
from stitchcuda.analysis.program.ir import HOST_WAITS, ApiKind, Site

_ALL = {
    ApiKind.HOST_FREE: "releases host memory",
    ApiKind.UNREGISTER: "unpins host memory",
    ApiKind.REGISTER: "pins host memory",
    ApiKind.QUERY: "asks whether work is complete",
    ApiKind.HOST_FUNC: "has a host function run",
    ApiKind.CAPTURE_BEGIN: "captures a graph",
    ApiKind.CAPTURE_END: "captures a graph",
    ApiKind.GRAPH_UPDATE: "changes a graph",
    ApiKind.GRAPH_INSTANTIATE: "makes a graph",
}
_SHARED = frozenset({Memory.MANAGED, Memory.MAPPED, Memory.SYMBOL, Memory.UNKNOWN})
_ENQUEUED = frozenset(
    {
        ApiKind.LAUNCH,
        ApiKind.COPY,
        ApiKind.MEMSET,
        ApiKind.PREFETCH,
        ApiKind.LIBRARY_CALL,
        ApiKind.HOST_FUNC,
        ApiKind.GRAPH_LAUNCH,
        ApiKind.EVENT_RECORD,
        ApiKind.EVENT_WAIT,
        ApiKind.ALLOC,
        ApiKind.FREE,
    }
)
_DEVICE_ONLY = frozenset({Memory.DEVICE, Memory.SYMBOL})


@dataclass(frozen=True, slots=True)
class Reliance:
    """Op `op` needs the ops of the bitset `work` to be complete. `reason` goes on "the host ..." or stands alone."""

    op: int
    work: int
    reason: str


def enqueued(op: Op) -> bool:
    """The op runs on a stream."""
    return op.stream is not None and op.kind in _ENQUEUED


def enqueued_work(line: Timeline) -> int:
    """Bitset of the ops that run on a stream."""
    return sum(1 << op.id for op in line.ops if enqueued(op))


def reliances(line: Timeline, lost: Sequence[int], observed: Mapping[Site, str]) -> Iterator[Reliance]:
    """`lost[b]` are the ops no longer known to be complete when op b starts."""
    work = enqueued_work(line)
    for op in line.ops:
        gone = lost[op.id] & work
        if gone:
            needed, reason = _needed(line, op, gone, observed)
            if needed:
                yield Reliance(op.id, needed, reason)


def _needed(line: Timeline, op: Op, gone: int, observed: Mapping[Site, str]) -> tuple[int, str]:
    if op.kind is ApiKind.NEUTRAL:
        return gone, f"the host {reason_at(dict(observed), op.site, op.api)}"
    if op.kind in HOST_WAITS:
        return 0, ""
    if op.kind in _ALL:
        return gone, f"the host {_ALL[op.kind]} with `{op.api}`"
    if op.kind is ApiKind.EVENT_RECORD:
        timed = op.event is None or line.events[op.event].timing is not False
        return (gone, f"`{op.api}` takes the device's time") if timed else (0, "")
    if op.kind in (ApiKind.HOST_READ, ApiKind.HOST_WRITE):
        verb = "reads" if op.kind is ApiKind.HOST_READ else "writes"
        named = ", ".join(dict.fromkeys(wording.memory(line.buffers[a.buffer]) for a in op.accesses)) or "memory"
        if any(line.buffers[a.buffer].memory in _SHARED for a in op.accesses):
            return gone, f"the host {verb} {named}"
        return _conflicting(line, op, gone), f"the host {verb} {named}"
    if op.kind is ApiKind.FREE and op.stream is None:
        waits = sum(1 << k for k in members(gone) if not free_waits_for(line, line.ops[k], op))
        needed = waits if not op.certain else _conflicting(line, op, waits)
        return needed, f"`{op.api}` releases memory that other streams may still use"
    if not enqueued(op):
        return 0, ""
    if opaque(op):
        return gone, f"{wording.operation(op)} uses memory that the analysis cannot name"
    unclear = sum(1 << k for k in members(gone) if opaque(line.ops[k]))
    return unclear | _conflicting(line, op, gone & ~unclear), (
        f"{wording.operation(op)}{wording.on_stream(line, op)} uses the same memory and has no other order"
    )


def free_waits_for(line: Timeline, work: Op, free: Op) -> bool:
    """Whether `cudaFree` waits for that work before it releases anything (W8: in practice it does; only work of the
    default and of blocking streams is taken as covered, and only for what is released)."""
    if work.stream is None or work.device != free.device or work.thread != free.thread:
        return False
    stream = line.streams[work.stream]
    return stream.kind is StreamKind.LEGACY or stream.blocking is True


def opaque(op: Op) -> bool:
    """Device work of which it is not known what memory it touches."""
    if op.kind in (ApiKind.EVENT_RECORD, ApiKind.EVENT_WAIT, ApiKind.ALLOC, ApiKind.FREE):
        return False
    return bool(op.unknown) or not op.certain or op.kind in (ApiKind.LIBRARY_CALL, ApiKind.HOST_FUNC)


def host_visible(line: Timeline, op: Op) -> str:
    """The memory through which the host can see whether device work is complete, as text; empty when there is none."""
    if op.kind in (ApiKind.EVENT_RECORD, ApiKind.EVENT_WAIT):
        return ""
    if opaque(op):
        return f"memory of {wording.operation(op)} that the analysis cannot name"
    for access in op.accesses:
        if not _hidden(line, op, access):
            return wording.memory(line.buffers[access.buffer])
    return ""


def _hidden(line: Timeline, op: Op, access: Access) -> bool:
    memory = line.buffers[access.buffer].memory
    if memory in _DEVICE_ONLY:
        return True
    # A copy that is not asynchronous is done with pageable memory when it returns (C1, C3).
    return op.kind is ApiKind.COPY and not op.asynchronous and memory is Memory.PAGEABLE


def _conflicting(line: Timeline, op: Op, work: int) -> int:
    return sum(1 << k for k in members(work) if conflict(line, k, op.id))
