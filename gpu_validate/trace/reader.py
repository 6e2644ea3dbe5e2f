"""What the tracer wrote, told as a Trace."""

from __future__ import annotations

import mmap
import re
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from stitchcuda.gpu_validate.trace.model import NOT_RETURNED, Call, CallSite, DeviceOp, HostRead, Trace, TracedStream
from stitchcuda.gpu_validate.trace.records import (
    CAPTURED,
    CONTENTS,
    DEVICE,
    DRIVER,
    DRIVER_BIT,
    KERNEL,
    MODULE,
    OP_KINDS,
    RETURNED,
    RUNTIME,
    Damaged,
    Process,
    RawCall,
    read_records,
)
from stitchcuda.gpu_validate.trace.sites import Address, resolve
from stitchcuda.gpu_validate.trace.symbols import plain_name

_COPY_KINDS = {0: "h2h", 1: "h2d", 2: "d2h", 3: "d2d"}
_ORIGINS = {1: "created", 2: "per_thread"}
_SUFFIX = re.compile(r"(_ptsz|_ptds|_v\d+)+$")
_ALLOCATES = re.compile(r"cudaMalloc|cudaHostAlloc|cudaHostRegister|cuMemAlloc|cuMemHostAlloc|cuMemHostRegister")
_FREES = re.compile(r"cudaFree|cudaHostUnregister|cuMemFree|cuMemHostUnregister")
_MAY_BRING = re.compile(r"(cuda|cu)Memcpy(?!.*(ToArray|ArrayToArray|HtoA|DtoA|AtoA|AtoD|Peer))")
UNRETURNED = 3  # calls that did not return and are named


def read_trace(memory: mmap.mmap | bytes, mode: str, start: int, end: int) -> Trace | None:
    """The trace of a run that lasted from `start` to `end` on the monotonic clock; None when the file is not what the tracer
    writes. In the trace, times count from `start`."""
    with memoryview(memory) as view:
        try:
            processes, dropped = read_records(view)
            # Processes share neither streams nor memory, so one trace can tell one of them: the one that did the most.
            chosen = max(processes, key=lambda p: (len(processes[p].calls), -p), default=0)
            contents = _contents(view, processes[chosen]) if processes else {}
        except Damaged:
            return None
    if not processes:
        return Trace(
            mode, 0, 0, end - start, problems=("no process of the program used CUDA, or the driver loaded no tracer",)
        )
    others = sum(1 for p in processes if p != chosen and processes[p].calls)
    problems = [f"{others} more of the program's processes used CUDA; the trace tells one"] if others else []
    return _trace(processes[chosen], mode, start, end, dropped, problems, contents)


Contents = Mapping[tuple[int, int], bytes]  # by place in the file and size


def _contents(view: memoryview, process: Process) -> Contents:
    """The kept contents of the process. Raises Damaged when there is more of them than can have been kept."""
    places = {(r.contents, r.size) for r in process.reads if r.contents}
    if sum(size for _, size in places) > CONTENTS or any(at + size > len(view) for at, size in places):
        raise Damaged
    return {(at, size): bytes(view[at : at + size]) for at, size in places}


def _trace(
    process: Process, mode: str, start: int, end: int, dropped: int, problems: list[str], contents: Contents
) -> Trace:
    process.calls.sort(key=lambda call: call[1].number)
    calls = _calls(process, start, end)
    hanging = [c for c, (_, raw) in zip(calls, process.calls, strict=True) if not raw.state & RETURNED]
    problems += process.problems + [f"{c.api} (call {c.index}) did not return" for c in hanging[:UNRETURNED]]
    problems += _unfollowed(calls)
    return Trace(
        mode,
        0,
        process.context_end and process.context_end - start,
        end - start,
        tuple(calls),
        _ops(process, calls, start),
        _reads(process, calls, contents),
        process.texts.get((DEVICE, process.device), ""),
        dropped,
        tuple(dict.fromkeys(problems)),
        tuple(TracedStream(s.number, _ORIGINS.get(s.origin, "unknown"), s.flags) for s in sorted(process.streams)),
    )


def _calls(process: Process, start: int, end: int) -> list[Call]:
    names = {number: plain_name(text) for (table, number), text in process.texts.items() if table == KERNEL}
    apis = [_api(process, raw) for _, raw in process.calls]
    kernels = {index: names.get(launch.name, "") for index, launch in process.launches.items()}
    sites = _sites(process, apis, kernels)
    threads: dict[int, int] = {}
    live = _LiveMemory()
    calls = []
    for (thread, raw), api in zip(process.calls, apis, strict=True):
        launch = process.launches.get(raw.number)
        calls.append(
            Call(
                raw.number,
                api,
                raw.start - start,
                (raw.end or end) - start,
                threads.setdefault(thread, len(threads)),
                raw.correlation,
                raw.status if raw.state & RETURNED else NOT_RETURNED,
                raw.stream,
                raw.event,
                raw.size,
                _COPY_KINDS.get(raw.copy_kind, ""),
                raw.source,
                raw.target,
                kernels.get(raw.number, ""),
                launch.grid if launch else (0, 0, 0),
                launch.block if launch else (0, 0, 0),
                launch.shared if launch else 0,
                live.pointers(launch.words) if launch else (),
                raw.flags,
                bool(raw.state & CAPTURED),
                sites.get(raw.stack, ()),
            )
        )
        live.follow(api, raw)
    return calls


def _api(process: Process, raw: RawCall) -> str:
    table = DRIVER if raw.api & DRIVER_BIT else RUNTIME
    return _SUFFIX.sub("", process.texts.get((table, raw.api & ~DRIVER_BIT), f"call {raw.api}"))


def _sites(process: Process, apis: Sequence[str], kernels: dict[int, str]) -> dict[int, tuple[CallSite, ...]]:
    if not process.stacks:
        return {}
    called: dict[int, tuple[str, str]] = {}
    for (_, raw), api in zip(process.calls, apis, strict=True):
        called.setdefault(raw.stack, (api, kernels.get(raw.number, "")))
    stacks = {
        number: tuple(Address(process.texts.get((MODULE, frame.module), ""), frame.offset) for frame in frames)
        for number, frames in process.stacks.items()
    }
    return resolve(stacks, called)


class _LiveMemory:
    """The allocations that are alive, to tell which words of a launch are addresses."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._sizes: dict[int, int] = {}

    def follow(self, api: str, raw: RawCall) -> None:
        if raw.status != 0 or not raw.target:
            return
        if _ALLOCATES.match(api) and raw.size:
            if raw.target not in self._sizes:
                insort(self._starts, raw.target)
            self._sizes[raw.target] = raw.size
        elif _FREES.match(api) and self._sizes.pop(raw.target, None) is not None:
            del self._starts[bisect_right(self._starts, raw.target) - 1]

    def pointers(self, words: Iterable[int]) -> tuple[int, ...]:
        return tuple(word for word in words if word and self._holds(word))

    def _holds(self, word: int) -> bool:
        at = bisect_right(self._starts, word) - 1
        return at >= 0 and word < self._starts[at] + self._sizes[self._starts[at]]


def _ops(process: Process, calls: Sequence[Call], start: int) -> tuple[DeviceOp, ...]:
    names = {number: plain_name(text) for (table, number), text in process.texts.items() if table == KERNEL}
    streams = {c.correlation: c.stream for c in calls}
    known: dict[int, int] = {}  # CUPTI's numbers of streams
    for op in process.ops:
        if op.correlation in streams and not op.graph_node:
            known[op.cupti_stream] = streams[op.correlation]
    ops = [
        DeviceOp(
            OP_KINDS[op.kind],
            op.start - start,
            op.end - start,
            streams.get(op.correlation, known.get(op.cupti_stream, -1)),
            op.correlation,
            names.get(op.name, ""),
            op.size,
            _COPY_KINDS.get(op.copy_kind, ""),
            op.registers,
            op.graph_node,
        )
        for op in process.ops
        if op.end  # 0: the program ended while it ran
    ]
    return tuple(sorted(ops, key=lambda op: (op.start, op.end)))


def _reads(process: Process, calls: Sequence[Call], contents: Contents) -> tuple[HostRead, ...]:
    """What was read, in the order of the calls; copies whose contents could not be read in time have no digest."""
    reads = [
        HostRead(r.call, r.size, r.digest.hex(), r.nanoseconds, contents.get((r.contents, r.size)))
        for r in process.reads
    ]
    seen = {r.call for r in reads}
    reads += [HostRead(c.index, c.bytes, "") for c in calls if _brings(c) and c.index not in seen]
    return tuple(sorted(reads, key=lambda r: r.call))


def _unfollowed(calls: Sequence[Call]) -> list[str]:
    """Copies that may bring something to the host, of which the tracer does not know."""
    counts = Counter(c.api for c in calls if c.status == 0 and not c.copy_kind and _MAY_BRING.match(c.api))
    return [
        f"{count} copies by {api}: whether they brought data to the host is not known" for api, count in counts.items()
    ]


def _brings(call: Call) -> bool:
    return call.copy_kind == "d2h" and call.status == 0 and call.bytes > 0 and "emcpy" in call.api
