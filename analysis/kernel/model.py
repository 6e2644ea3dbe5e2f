"""What the walk over one kernel (`trace.py`) gives: a `KernelTrace`, which all rules about device code read.

The walk runs the kernel's IR in lock step for all threads ("lanes") of one block, with device functions, lambdas and
templates walked in place. What the source fixes is computed for each lane: `threadIdx`, the block's shape, constants,
loop counters, and all arithmetic on them. What it does not fix (parameters, loaded data, `blockIdx`, `gridDim`) is a
symbol. So an index is exact wherever it is a function of the thread and of constants, and the events of a kernel are
concrete: this lane writes this element in this round.

Branches. A condition that is known sends each lane its way (`Access.lanes`, `Barrier.lanes` are who got there). A
condition that is not known is walked both ways, one after the other, and what happens on a side stands under a `Guard`.
A loop whose end is not known is walked for `UNKNOWN_ROUNDS` rounds, each under the guard that it takes place.
A loop with a known end is followed in full, up to a limit; rounds that only repeat others are written down without being
walked (`rounds.py`), then without their accesses to global memory but for the last round's.

Events are in the order of the walk, which for each single lane is its program order. Nothing is said about the order
of different lanes: that is what barriers are for.

Limits: `KernelTrace.complete` is False when the walk stopped early (budget, `goto`, recursion): the events up to there
hold, what follows is not known. Only one block is walked; `blockIdx` is the same symbol for all its lanes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from stitchcuda.analysis.kernel.lanes import Form
from stitchcuda.analysis.program.ir import Function, Site, Span
from stitchcuda.analysis.quick_init import quick_init

Mask: TypeAlias = int  # a set of lanes: bit k is the lane with linear thread index k
UNKNOWN_ROUNDS = 2  # how often a loop is walked whose end is not known


class Uniformity(StrEnum):
    """Among which threads a value or a decision is the same."""

    BLOCK = "block"  # the same in all threads of a block: parameters, blockIdx, uniform loads
    WARP = "warp"  # the same in all threads of a warp: votes, `threadIdx.x / 32`
    THREAD = "thread"  # a function of the thread's coordinates, compared with something unknown: `i < n`
    DATA = "data"  # loaded through an address that differs between threads, or by a call that nobody knows


@quick_init
@dataclass(frozen=True, slots=True)
class Guard:
    """A decision that the walk could not make, and the side on which an event stands.

    `key` names the condition: equal keys with different `holds` exclude each other in one thread, and for BLOCK in the
    whole block. `margin` is the condition as a number that is >= 0 exactly when the guard is met (taken the way it is
    taken), when it has that form; two guards exclude each other too when their margins add up to less than zero.
    Conditions that are known never become guards: they decide the lanes."""

    site: Site  # of the condition
    key: str
    holds: bool
    uniformity: Uniformity
    margin: Form | None = None
    loop: bool = False  # the condition of a loop: this round takes place
    leaves: str = ""  # what is left after the other side left: "return" from the kernel, "break", "round", "skip"
    guessed: bool = False  # DATA, but what differs between lanes is only what code gives back that is not seen
    equal: Form | None = None  # the condition as a number that is zero when the guard is met, if it has that form


class Memory(StrEnum):
    SHARED = "shared"
    GLOBAL = "global"  # behind a parameter, or a `__device__` variable
    CLUSTER = "cluster"  # shared memory of another block of the cluster


@dataclass(frozen=True, slots=True)
class Buffer:
    """A piece of memory with a name of its own. Equal buffers are the same memory; different shared buffers are disjoint;
    different global buffers may be the same memory (parameters may alias) unless both are symbols."""

    memory: Memory
    name: str  # as declared: `tile`, `out`; members spelled out: `smem.a`, `args.out`
    element: str = ""  # element type as written; "" when not known
    bytes: int | None = None  # size when fixed in the source
    dynamic: bool = False  # `extern __shared__`
    volatile: bool = False
    symbol: bool = False  # a `__device__`, `__constant__` or `__managed__` variable
    restrict: bool = False
    declared: Site | None = None
    instance: str = ""  # the template arguments of the function that declares it: each instantiation has its own


class Mode(StrEnum):
    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"  # atomicAdd and its kin, cuda::atomic, cuda::atomic_ref, inline PTX `atom`/`red`
    ASYNC_WRITE = "async write"  # cp.async and its kin: complete only after a wait of the thread that issued it


@dataclass(frozen=True, slots=True)
class Access:
    """One access by all lanes in `lanes`. Lane k touches bytes `offset[k]` up to `offset[k] + size` of `buffer`.

    `offset` is a `Form`: its value in lane k is `offset.at(k)`, itself exact, or with symbols that are the same in all
    lanes (`n`, `blockIdx.x`), or `offset.unknown` when it depends on data that differs between lanes. Byte offsets count
    in multiples of the symbol `sizeof(T)` when the element's size is not fixed."""

    at: int  # position among the events
    site: Site
    buffer: Buffer
    mode: Mode
    lanes: Mask
    offset: Form
    size: int | None  # bytes for one lane; None when not known (an element type that is a template parameter)
    guards: tuple[Guard, ...]
    field: str = ""  # of a record: `x` for `s[i].x`; accesses to different fields never meet
    value: Form | None = None  # what is written, when it is a number that is followed
    calls: tuple[Site, ...] = ()  # where the functions around the access were called, outermost first
    certain: bool = True  # False: the pointer may point elsewhere, several buffers come into question
    update: bool = False  # the write of `x op= v`, or of `x = x op v`: a read of the same place stands just before
    volatile: bool = False  # through a volatile object or pointer
    loops: tuple[tuple[Site, int], ...] = ()  # the loops around it, outermost first, each with the number of the round
    group: int = -1  # ASYNC_WRITE: which copies are waited for together (counts commits; -1 unknown)
    atomic: str = ""  # ATOMIC: the function as written
    part: Form | None = None  # through a pointer variable, `p[i]`: the offset that the variable holds


class BarrierKind(StrEnum):
    BLOCK = "block"  # __syncthreads and its _and/_or/_count forms, thread_block::sync, bar.sync 0, grid and cluster too
    WARP = "warp"  # __syncwarp, a sync of a tile of at most a warp, coalesced_group::sync
    COLLECTIVE = "collective"  # shuffles, votes, matches: the lanes meet, but memory is not ordered by it
    NAMED = "named"  # bar.sync with an id, cuda::barrier, mbarrier, anything unknown that may synchronise
    GRID = "grid"  # grid_group::sync
    CLUSTER = "cluster"
    FENCE = "fence"  # __threadfence and its kin, cuda::atomic_thread_fence
    COMMIT = "commit"  # __pipeline_commit, cp.async.commit_group, producer_commit
    WAIT = "wait"  # __pipeline_wait_prior(n), cp.async.wait_group n, cg::wait, consumer_wait


@dataclass(frozen=True, slots=True)
class Barrier:
    """A point at which lanes meet, or at which memory is ordered.

    `lanes` are those that execute it; `alive` those that have not returned from the kernel. BLOCK, GRID and CLUSTER
    barriers divide the accesses of the whole block when they are reached on the path at hand."""

    at: int
    site: Site
    kind: BarrierKind
    name: str  # as written: `__syncthreads`, `tile.sync`
    lanes: Mask
    alive: Mask
    guards: tuple[Guard, ...]
    width: int = 0  # WARP, COLLECTIVE: lanes in a group (32, or the tile's size)
    mask: Form | None = None  # WARP, COLLECTIVE: the mask argument; None when there is none or it is not known
    mask_written: bool = False  # a mask stands in the source
    pending: int | None = 0  # WAIT: groups that may still be under way afterwards; None not known, -1 none at all
    calls: tuple[Site, ...] = ()
    loops: tuple[tuple[Site, int], ...] = ()
    scope: str = ""  # FENCE: "block", "device", "system"
    left_early: bool = False  # some lane has returned although its block goes on, or may have (an unknown condition)


Event: TypeAlias = Access | Barrier


class Mark(NamedTuple):
    """The walk comes to a statement: `at` is the position of the next event. What else there is says what a barrier right
    before the statement would be."""

    at: int
    function: Function
    span: Span
    lanes: Mask
    alive: Mask
    guards: tuple[Guard, ...]
    calls: tuple[Site, ...]
    loops: tuple[tuple[Site, int], ...]
    left_early: bool


@dataclass(frozen=True, slots=True)
class BlockShape:
    """Threads of a block. `known` says why it is taken: "launch" (every launch that is seen), "bounds"
    (`__launch_bounds__`, which is only a limit), "shape" (it fits the kernel's shared arrays), "guess"."""

    x: int
    y: int = 1
    z: int = 1
    known: str = "guess"

    @property
    def threads(self) -> int:
        return self.x * self.y * self.z


@dataclass(frozen=True, slots=True, weakref_slot=True)
class KernelTrace:
    """Everything that happens in one block of a kernel, walked with one shape of the block."""

    kernel: str  # uid
    block: BlockShape
    events: tuple[Event, ...]
    complete: bool  # the walk reached the end
    broken: bool  # some text it read holds a parse error
    uses_locks: bool = False  # spins on an atomic or on memory: lanes and blocks are ordered by other means
    outside: bool = False  # a shared array was indexed beyond its size: this shape of the block is not the real one
    # what the trace was computed from: device functions with their digests, and names with what they meant
    functions: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    marks: tuple[Mark, ...] = field(default=(), compare=False, repr=False)
    lookups: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), compare=False)
    # barriers that the kernel does not have: the statements before which they were put in
    put: frozenset[tuple[str, Span]] = field(default=frozenset(), compare=False)

    def is_of_same_text(self, other: KernelTrace) -> bool:
        """Both are walks of one text of a kernel."""
        return bool(self.marks and other.marks) and self.marks[0].function is other.marks[0].function

    @property
    def accesses(self) -> tuple[Access, ...]:
        return tuple(e for e in self.events if isinstance(e, Access))

    @property
    def barriers(self) -> tuple[Barrier, ...]:
        return tuple(e for e in self.events if isinstance(e, Barrier))
