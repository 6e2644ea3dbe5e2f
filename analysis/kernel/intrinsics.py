"""Functions of CUDA that a kernel calls, by what they mean to the block: barriers, fences, atomics, copies, coordinates.

Only what orders threads, touches shared or global memory, or gives a number of the thread's place is listed. A function
that is not listed and has no body in the program is taken to compute something from its arguments, unless it is handed
shared memory or its name speaks of synchronising: then it may be a barrier.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stitchcuda.analysis.kernel.model import BarrierKind


@dataclass(frozen=True, slots=True)
class Meeting:
    """A function at which threads meet. `mask` is the position of its mask argument, -1 when it has none."""

    kind: BarrierKind
    mask: int = -1
    uniform: bool = False  # all threads that meet get the same result


_COLLECTIVES = ("__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync")

MEETINGS: dict[str, Meeting] = {
    "__syncthreads": Meeting(BarrierKind.BLOCK),
    "__barrier_sync": Meeting(BarrierKind.NAMED),
    "__barrier_sync_count": Meeting(BarrierKind.NAMED),
    "__syncthreads_count": Meeting(BarrierKind.BLOCK, uniform=True),
    "__syncthreads_and": Meeting(BarrierKind.BLOCK, uniform=True),
    "__syncthreads_or": Meeting(BarrierKind.BLOCK, uniform=True),
    "__syncwarp": Meeting(BarrierKind.WARP, 0),
    **{name: Meeting(BarrierKind.COLLECTIVE, 0) for name in _COLLECTIVES},
    **{f"__{v}_sync": Meeting(BarrierKind.COLLECTIVE, 0, True) for v in ("any", "all", "ballot", "uni")},
    **{f"__match_{v}_sync": Meeting(BarrierKind.COLLECTIVE, 0) for v in ("any", "all")},
    **{
        f"__reduce_{v}_sync": Meeting(BarrierKind.COLLECTIVE, 0, True)
        for v in ("add", "min", "max", "and", "or", "xor")
    },
    # before Volta, without masks: the whole warp
    **{name: Meeting(BarrierKind.COLLECTIVE) for name in ("__shfl", "__shfl_up", "__shfl_down", "__shfl_xor")},
    **{name: Meeting(BarrierKind.COLLECTIVE, uniform=True) for name in ("__any", "__all", "__ballot")},
    "cudaGridDependencySynchronize": Meeting(BarrierKind.FENCE),
}

FENCES = {"__threadfence_block": "block", "__threadfence": "device", "__threadfence_system": "system"}

COMMITS = frozenset({"__pipeline_commit"})
WAITS = frozenset({"__pipeline_wait_prior"})

# cooperative groups and libcu++, by the last part of their qualified names
GROUPS = {
    "this_thread_block": "block",
    "this_grid": "grid",
    "this_cluster": "cluster",
    "coalesced_threads": "coalesced",
    "this_thread": "thread",
    "this_multi_grid": "grid",
}

# names of functions without a body after which nothing is known about the order of threads
SYNCHRONISING = re.compile(r"sync|barrier|\bbar_|_bar\b|arrive|wait|fence|lock", re.IGNORECASE)

# they may touch memory through a pointer, but do not wait for other threads
NO_BARRIER = frozenset(
    {
        "printf",
        "assert",
        "memcpy",
        "memset",
        "memmove",
        "__cvta_generic_to_shared",
        "__builtin_assume_aligned",
        "min",
        "max",
        "swap",
        "clock",
        "clock64",
        "__nanosleep",
        "__prefetch_global_l1",
        "__prefetch_global_l2",
        "__trap",
        "__brkpt",
        "fill",
        "isnan",
        "isinf",
    }
)

# CUTLASS's functions for a thread's place: what is done with its number.
PLACES = {
    "canonical_lane_idx": ("%", 32),
    "canonical_warp_idx": ("/", 32),
    "canonical_warp_idx_sync": ("/", 32),
}
THREAD_RESULTS = frozenset({"clock", "clock64", "__activemask", "__lanemask_lt", "__lanemask_le", "globaltimer"})

_ASM_BARRIER = re.compile(r"\b(bar|barrier)(\.cta)?\.(sync|red|arrive)[.\w]*\s+(0|%?\d+|[^,;]+)\s*(,[^;]*)?;?")


def assembly_barrier(text: str) -> BarrierKind | None:
    """What an inline PTX text does to the order of threads; None when nothing."""
    if "bar.warp.sync" in text:
        return BarrierKind.WARP
    if "barrier.cluster" in text:
        # each thread arrives for itself; with `.aligned` all threads of a warp do at one place
        return BarrierKind.CLUSTER if ".aligned" in text else BarrierKind.NAMED
    match = _ASM_BARRIER.search(text)
    if match is not None:
        whole = match[3] == "sync" and match[4].strip() == "0" and not match[5]
        return BarrierKind.BLOCK if whole else BarrierKind.NAMED
    if "mbarrier" in text or "wgmma" in text or "tcgen05" in text or "griddepcontrol" in text:
        return BarrierKind.NAMED
    if re.search(r"cp\.async\.(bulk\.)?commit_group|cp\.async\.commit", text):
        return BarrierKind.COMMIT
    if re.search(r"cp\.async\.(bulk\.)?wait_(group|all)", text):
        return BarrierKind.WAIT
    if re.search(r"\b(membar|fence)\b", text):
        return BarrierKind.FENCE
    return None


def waits_for(text: str) -> int | None:
    """How many groups `cp.async.wait_group n` leaves under way; None when the number is an operand, -1 for `wait_all`."""
    if "wait_all" in text:
        return -1
    match = re.search(r"wait_group(?:\.read)?\s+(\d{1,9})\b", text)
    return int(match[1]) if match is not None else None


def operand_of_wait(text: str) -> int | None:
    """The position of the operand in `cp.async.wait_group %0`."""
    match = re.search(r"wait_group(?:\.read)?\s+%(\d{1,9})\b", text)
    return int(match[1]) if match is not None else None
