"""A traced run: API calls, device operations, and what copies brought to the host. Times are nanoseconds from its start.

`mode` "timing" leaves out what costs time (source lines, kernel arguments); "full" has everything and is never used for
latency.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field

SCHEMA = 1
NOT_RETURNED = -1  # status of a call that the program was still in when it ended


@dataclass(frozen=True, slots=True)
class CallSite:
    """Where the program made a call; `path` as the debug information has it, `line` 1-based. Innermost user frame first."""

    path: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One CUDA API call of the program (not what the runtime called below it). `index` counts from 0 in issue order."""

    index: int
    api: str  # "cudaMemcpyAsync", without version suffix
    start: int
    end: int
    thread: int = 0
    correlation: int = 0
    status: int = 0  # the call's result; 0 is success
    stream: int = 0  # the tracer's number of the stream; 0 is the legacy default stream
    event: int = 0
    bytes: int = 0
    copy_kind: str = ""  # h2d d2h d2d h2h
    source: int = 0  # addresses, for copies; `target` also for memset, free and what an allocation returned
    target: int = 0
    kernel: str = ""  # demangled, without arguments
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    shared: int = 0  # dynamic shared memory, bytes
    pointers: tuple[int, ...] = ()  # kernel arguments that point into live allocations
    flags: int = 0  # of a stream or event creation
    captured: bool = False  # recorded into a graph, not run
    sites: tuple[CallSite, ...] = ()


@dataclass(frozen=True, slots=True)
class TracedStream:
    """What is known of a stream. `origin`: "created" by a call of the program, "per_thread" for the default stream of a host
    thread, "unknown" for one whose creation was not seen. `flags` are those of its creation (1: non-blocking)."""

    number: int
    origin: str
    flags: int = 0


@dataclass(frozen=True, slots=True)
class DeviceOp:
    """One kernel, copy or memset as it ran."""

    kind: str  # kernel copy memset
    start: int
    end: int
    stream: int = 0  # as in Call; -1 when it is not known
    correlation: int = 0  # of the call that issued it
    name: str = ""  # kernel, demangled without arguments
    bytes: int = 0
    copy_kind: str = ""
    registers: int = 0
    graph_node: int = 0


@dataclass(frozen=True, slots=True)
class HostRead:
    """What one device-to-host copy brought, as a digest of the bytes once the host could rely on them. `call` is the copy's
    index (a captured copy has one read for each launch of its graph); `digest` is "" when the contents could not be read in
    time. `nanoseconds` is what reading them cost the program. `contents` are the bytes themselves, rows without gaps, when the run
    was asked to keep them and there was room; they are never part of the JSON form."""

    call: int
    bytes: int
    digest: str
    nanoseconds: int = 0
    contents: builtins.bytes | None = field(default=None, repr=False, compare=False, metadata={"json": False})


@dataclass(frozen=True)
class Trace:
    """`context_end` is when the first context was ready (the CUDA span starts there), 0 when the program made none."""

    mode: str
    start: int
    context_end: int
    end: int
    calls: tuple[Call, ...] = ()
    ops: tuple[DeviceOp, ...] = ()
    reads: tuple[HostRead, ...] = ()
    device: str = ""
    dropped: int = 0  # records lost; above 0 nothing may be concluded from absence
    problems: tuple[str, ...] = ()
    streams: tuple[TracedStream, ...] = ()  # all but the legacy default stream, by number
