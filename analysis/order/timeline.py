"""The Timeline: device work and host access of one run of a program, with what is known to be ordered.

The symbolic executor builds it from source; rules and the execution graph read it and nothing else about order. Nothing
in it depends on where it comes from, so that a traced run can be told in the same type. Unknown is a value here (None,
`may`), never a guess.

An `Op` is one *occurrence*: one call site on one call path, in one symbolic loop iteration, on one group of paths. The
same `node` key is shared by all occurrences of a call path, which is what the execution graph shows as one node.

Order: for an op `b`, `Timeline.before[b]` is a bitset of ops (bit k stands for op k) whose completion happens before
`b` starts on **every** path on which both run; `Timeline.earlier[b]` is the bitset of ops that may have been issued
before `b` on some path that reaches `b`. Two ops `a`, `b` with `a` in `earlier[b]` but not in `before[b]` may overlap.
For host ops (host_read, host_write, alloc, free, waits) "starts" is the host reaching the call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from stitchcuda.analysis.order.symbolic import Poly
from stitchcuda.analysis.program.ir import ApiKind, Site, Span
from stitchcuda.analysis.quick_init import quick_init


class Memory(StrEnum):
    """Where a buffer lives."""

    DEVICE = "device"
    PINNED = "pinned"  # cudaMallocHost, cudaHostAlloc, cudaHostRegister
    PAGEABLE = "pageable"
    MANAGED = "managed"
    MAPPED = "mapped"  # pinned and mapped into the device's address space
    SYMBOL = "symbol"  # __device__ / __constant__ variable
    UNKNOWN = "unknown"


class Mode(StrEnum):
    """How an access touches memory."""

    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"


class Certainty(StrEnum):
    """`must`: the access happens whenever the op runs; `may`: it happens on some readings only."""

    MUST = "must"
    MAY = "may"


class Shape(StrEnum):
    """How an access covers its range."""

    WHOLE = "whole"  # every byte of the range
    THREAD = "thread"  # one element a thread, at the thread's own index
    SOME = "some"  # an unknown part of the range


@quick_init
@dataclass(frozen=True, slots=True)
class Range:
    """Bytes `[offset, offset + extent)` of a buffer, visited every `stride` bytes; None is unknown (any).

    `member` is the path to the field that `offset` counts from (`latch`, `[3]`), empty for the buffer's own start."""

    offset: Poly | None = None
    extent: Poly | None = None
    stride: Poly | None = None
    shape: Shape = Shape.SOME
    member: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Buffer:
    """One allocation, variable or parameter that stands for memory.

    `instance` tells the members of a family apart: an allocation inside a loop has one symbolic index a loop. Two
    buffers with equal `site` and calls but different instance may or may not be the same memory (`alias`)."""

    id: int
    name: str  # the user's name for it, for messages
    memory: Memory
    site: Site | None  # of its allocation or declaration; None for what comes from outside
    origin: str  # "alloc" | "local" | "global" | "parameter" | "unknown"
    device: int | None = 0
    owner: str = ""  # uid of the function whose scope it belongs to
    size: Poly | None = None  # bytes
    calls: tuple[Site, ...] = ()  # call path of the allocation
    instance: tuple[Poly, ...] = ()
    pooled: bool = False  # stream-ordered allocation
    alloc_op: int | None = None


@quick_init
@dataclass(frozen=True, slots=True)
class Access:
    """An op touches a buffer."""

    buffer: int
    mode: Mode
    range: Range = Range()
    certainty: Certainty = Certainty.MUST
    via: str = ""  # kernel parameter or role it came through ("dst", "in"), for messages
    fields: frozenset[str] = frozenset()  # only these of the records there, with their type: "Out.mean"; empty: all
    one_of: bool = False  # the pointer may lead elsewhere instead: several were possible


class StreamKind(StrEnum):
    """What is known of where a stream comes from."""

    LEGACY = "legacy"  # the legacy default stream
    PER_THREAD = "per_thread"
    CREATED = "created"
    PARAMETER = "parameter"  # comes from outside the entry function
    GRAPH = "graph"  # no stream: stands for the nodes of an explicit graph, which only their dependencies order
    UNKNOWN = "unknown"


@quick_init
@dataclass(frozen=True, slots=True)
class Stream:
    """One stream, or one member of a family that is made in a loop (see `Buffer.instance`)."""

    id: int
    name: str  # "default" for the legacy default stream, else the user's name for it
    kind: StreamKind
    blocking: bool | None  # O5: takes part in O4; None: not known
    site: Site | None = None  # of its creation
    calls: tuple[Site, ...] = ()
    instance: tuple[Poly, ...] = ()
    device: int | None = 0
    flags: str = ""  # as written, e.g. "cudaStreamNonBlocking"


@quick_init
@dataclass(frozen=True, slots=True)
class Event:
    """One event, or one member of a family that is made in a loop."""

    id: int
    name: str
    site: Site | None = None
    calls: tuple[Site, ...] = ()
    instance: tuple[Poly, ...] = ()
    timing: bool | None = True  # False: created with cudaEventDisableTiming
    device: int | None = None  # that was current when it was created; None: not known


@quick_init
@dataclass(frozen=True, slots=True)
class LoopInfo:
    """A loop statement on one call path."""

    id: int
    site: Site  # of the loop statement's head
    parent: int | None
    calls: tuple[Site, ...] = ()
    trip: Poly | None = None  # number of iterations when known
    unrolled: bool = False  # every iteration (or one period of them) was executed on its own


@quick_init
@dataclass(frozen=True, slots=True)
class Condition:
    """One branch decision on the way to an op: the condition's source and which way it went."""

    site: Site
    text: str
    taken: bool


@quick_init
@dataclass(frozen=True, slots=True)
class Launched:
    """What a launch starts. `kernels` are the uids it may mean, none when that is not known. The sizes are those of x, y
    and z; None is unknown."""

    kernels: tuple[str, ...]
    grid: tuple[Poly | None, Poly | None, Poly | None]
    block: tuple[Poly | None, Poly | None, Poly | None]
    cooperative: bool | None  # None: a launch attribute may say so

    @property
    def blocks(self) -> int | None:
        """Blocks of the grid, when the number is known."""
        return _product(self.grid)

    @property
    def threads(self) -> int | None:
        """Threads of a block, when the number is known."""
        return _product(self.block)


def _product(sizes: tuple[Poly | None, Poly | None, Poly | None]) -> int | None:
    total = 1
    for size in sizes:
        value = None if size is None else size.constant
        if value is None:
            return None
        total *= value
    return total


@dataclass(frozen=True, slots=True)
class Op:
    """One occurrence of an operation; see the module docstring."""

    id: int  # its bit in the bitsets and its index in Timeline.ops
    node: int  # occurrences of one call path share it
    kind: ApiKind
    api: str  # "cudaMemcpyAsync", "<<<>>>", "cupy.asarray", ...
    site: Site
    function: str  # uid of the function the call is written in
    calls: tuple[Site, ...] = ()  # call sites from the entry down
    kernel: str = ""
    stream: int | None = None  # None: a host op
    event: int | None = None
    device: int | None = 0
    thread: int = 0  # issuing host thread
    accesses: tuple[Access, ...] = ()
    unknown: tuple[str, ...] = ()  # parameters or roles through which memory is touched that could not be told
    bytes: Poly | None = None
    copy_kind: str = ""  # "h2d" | "d2h" | "d2d" | "h2h" | "peer" | "" (not a copy or not known)
    grid: str = ""  # as written
    block: str = ""
    scalars: tuple[str, ...] = ()  # launches: what is known of the whole numbers among the arguments
    launched: Launched | None = None  # for a launch
    asynchronous: bool = True  # False: when the call returns, its accesses to *host* memory are over (C1-C3, C5)
    loop: int | None = None
    iteration: tuple[int, ...] = ()  # which symbolic iteration of each enclosing loop (0 first, 1 a later one, ...)
    conditions: tuple[Condition, ...] = ()
    decided: tuple[Condition, ...] = ()  # branches inside loops, known to go this way in this round
    certain: bool = True  # False: the call was reached through something not fully resolved
    waits: int = 0  # bitset of ops whose completion this call makes the host wait for (host waits only)
    records: tuple[int, ...] = ()  # event waits: the records whose snapshot they may take; none: never recorded before
    early: bool = False  # may start before the op in front of it in its stream is complete (O1)
    awaited: int = 0  # event waits: bitset of ops that later work of the stream waits for because of this call alone
    graph: int | None = None  # recorded into this CUDA graph instead of run (G1); its work runs at each graph launch
    payload: tuple[int, ...] = ()  # host functions (H1): the buffers behind the pointer that the function is given

    def site_at(self, depth: int) -> Site:
        """Its place in the function so many calls down: its own, or that of the call that leads to it."""
        return self.calls[depth] if depth < len(self.calls) else self.site


@quick_init
@dataclass(frozen=True, slots=True)
class Edge:
    """A direct edge between two ops. In a Timeline it is an order edge, and none is implied by the others; `why` is one of
    stream, event, host_wait, default_stream, capture. `analysis/graph/flow.py` adds data and allocation from the accesses."""

    source: int
    target: int
    why: str


@quick_init
@dataclass(frozen=True, slots=True)
class Released:
    """Something was released, destroyed, or went out of life here."""

    site: Site
    how: str  # the function called: "cudaFree", "free", "delete"; "" for the end of a scope
    calls: tuple[Site, ...] = ()
    conditions: tuple[Condition, ...] = ()
    sure: bool = True  # on every path that is followed from here on
    op: int | None = None
    reset: bool = False  # what named it was emptied on that path: a copy of the pointer names it still


@dataclass(frozen=True, slots=True)
class Stale:
    """A call names what was released before it, on a path that the executor followed (A2, A4, W6)."""

    released: Released
    kind: str  # "memory" | "stream" | "event" | "graph" | "exec"
    name: str
    site: Site
    how: str  # the function called, or the kernel; "" for the host's own code
    again: bool  # the call is itself a release
    calls: tuple[Site, ...] = ()
    conditions: tuple[Condition, ...] = ()
    op: int | None = None
    buffer: int | None = None  # of memory
    certain: bool = True  # False: the call was reached through something not fully resolved

    @property
    def user(self) -> str:
        """Who uses it, for a message."""
        return f"`{self.how}`" if self.how else "the host"


@dataclass(frozen=True, slots=True)
class Ending:
    """Host memory that device work may still be using went out of life here (H1, C7)."""

    buffer: int
    released: Released
    users: int  # bitset of ops that use it and are not known to be complete
    maybe: int  # those of them that may be complete all the same
    before: int = 0  # bitset of the ops issued before the end


@dataclass(frozen=True, slots=True)
class Measurement:
    """A time that is taken between two points: two readings of a host clock, or two events (E4)."""

    site: Site  # where it is taken: the second reading, or the call that asks for the time between the events
    api: str  # the function called there
    start: Site | None  # the first reading
    calls: tuple[Site, ...] = ()
    conditions: tuple[Condition, ...] = ()
    since: int = 0  # bitset of ops issued in between (host clock), or of the records that count (events)
    running: int = 0  # those of them that are not known to be complete at `site`
    maybe: int = 0  # those of `running` that may be complete all the same
    covered: int = 0  # bitset of the ops issued before `site`
    difference: Site | None = None  # where the two readings are subtracted
    events: tuple[int, int] | None = None
    unrecorded: tuple[int, ...] = ()  # of the events: never recorded before, on any path
    thread: int = 0


class FaultKind(StrEnum):
    """Why CUDA does not accept a call where it stands."""

    WAIT = "wait"  # waits for, or asks about, work that is only being recorded (G2)
    DEFAULT_STREAM = "default_stream"  # uses the legacy default stream while a blocking stream is captured (G2)
    BESIDE = "beside"  # runs at once, beside the capture of a non-blocking stream, and is no part of the graph (G1)
    UNSAFE_CALL = "unsafe_call"  # prohibited by the mode of the capture (G3)
    NOT_CAPTURABLE = "not_capturable"  # cannot become part of a graph (G2)
    OUTSIDE_MEMORY = "outside_memory"  # frees in a graph what the graph did not allocate (G3)
    OUTSIDE_EVENT = "outside_event"  # waits in a capture for an event recorded before it (G4)
    MERGED = "merged"  # waits in a capture for an event of another capture (G4)
    CAPTURED_EVENT = "captured_event"  # uses outside of the capture an event recorded in it (G4)
    BEGIN_ON_DEFAULT = "begin_on_default"  # the legacy default stream cannot be captured (G2)
    BEGIN_TWICE = "begin_twice"
    END_ELSEWHERE = "end_elsewhere"  # ends the capture on a stream that did not begin it (G4)
    UNJOINED = "unjoined"  # ends it while a forked stream has work that the origin does not wait for (G4)
    IN_HOST_FUNCTION = "in_host_function"  # a CUDA call in a function that a stream calls (H1)


@dataclass(frozen=True, slots=True)
class Fault:
    """A call that CUDA does not accept where it stands, on a path that the executor followed."""

    kind: FaultKind
    site: Site
    api: str  # the function called, or the kernel
    calls: tuple[Site, ...] = ()
    conditions: tuple[Condition, ...] = ()
    op: int | None = None
    begin: int | None = None  # the op that began the capture
    stream: int | None = None  # the captured stream that it is about
    other: int | None = None  # the op that it collides with: a record, an allocation, a host function, unjoined work
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Cut:
    """Effort ran out or something could not be resolved: what is not known from there on."""

    site: Site
    what: str


@dataclass(frozen=True)
class Timeline:
    """See the module docstring. `edges` are the reduced order edges, for what a person sees. `may_wait[b]` holds ops that *may* be ordered before b by something the analysis could
    not resolve (an unknown call that could synchronise, W8's may-waits): a finding across it is at most `possible`
    (unknown call) or lowered as the row says."""

    entry: str  # uid of the entry function
    source: str  # where it comes from: "static" (the source text)
    ops: tuple[Op, ...]
    before: tuple[int, ...]
    earlier: tuple[int, ...]
    may_wait: tuple[int, ...]
    edges: tuple[Edge, ...]
    buffers: tuple[Buffer, ...]
    streams: tuple[Stream, ...]
    events: tuple[Event, ...]
    loops: tuple[LoopInfo, ...]
    cuts: tuple[Cut, ...] = ()
    functions: frozenset[str] = field(default_factory=frozenset)  # uids executed: what the result depends on
    unresolved: frozenset[Site] = field(default_factory=frozenset)  # calls not followed: they may do anything
    stale: tuple[Stale, ...] = ()  # uses of what was released before
    endings: tuple[Ending, ...] = ()  # host memory that died while it was in use
    measurements: tuple[Measurement, ...] = ()  # times taken
    faults: tuple[Fault, ...] = ()  # calls that CUDA does not accept where they stand
    partly: tuple[int, ...] = ()  # per op: what is ordered before it on some of the paths that run both, on others not

    def ordered(self, a: int, b: int) -> bool:
        """Whether op `a` is complete before op `b` starts, on every path that runs both."""
        return bool(self.before[b] >> a & 1)

    def may_overlap(self, a: int, b: int) -> bool:
        """Whether `a` may have been issued before `b` and still be running when `b` starts."""
        return bool(self.earlier[b] >> a & 1) and not self.ordered(a, b)

    def on_some_paths(self, a: int, b: int) -> bool:
        """Whether `a` is complete before `b` starts on some paths that run both, and on others not."""
        return bool(self.partly) and bool(self.partly[b] >> a & 1)


def closing_brace(block: Span) -> Span:
    """What a Timeline calls the site of what happens at the end of a block: its last character."""
    return max(block[0], block[1] - 1), block[1]
