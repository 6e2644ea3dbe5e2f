"""What limits a version now: how much of an invocation the GPU works, and at what. Read off a full trace of it.

The device time of an invocation is a floor: other order, fewer waits and fewer copies can take away only what lies between its
operations. To go below it the kernels themselves have to become faster, or to overlap.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from stitchcuda.gpu_validate.invocations import WARM_UP, Starts
from stitchcuda.gpu_validate.trace.measures import union
from stitchcuda.gpu_validate.trace.model import DeviceOp, Trace

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """`device_seconds` is how long the GPU works in one invocation (in the whole run when there are none: `of` says which),
    `copies` the part of it that only copies; `largest` the operations that take most of it, with their shares."""

    device_seconds: float
    of: str  # "invocation" | "run"
    copies: float
    largest: tuple[tuple[str, float], ...]

    def sentence(self, seconds: float | None) -> str:
        """For a person; `seconds` is what the invocation (or the CUDA span of the run) took in all, None: not known."""
        top = ", ".join(f"{name} {share:.0%}" for name, share in self.largest)
        floor = f"{1e3 * self.device_seconds:.3g} ms"
        whole = "one invocation" if self.of == "invocation" else "the run"
        if seconds is None or seconds <= 0:
            return f"the GPU works {floor} of {whole} ({top})"
        share = min(self.device_seconds / seconds, 1.0)
        if share >= 0.5:
            return (
                f"the kernels and copies limit it: the GPU works {floor} of {whole}'s {1e3 * seconds:.3g} ms ({share:.0%}; {top}), "
                "and no other order makes that shorter"
            )
        return (
            f"the host limits it: the GPU works only {floor} of {whole}'s {1e3 * seconds:.3g} ms ({share:.0%}; {top}) and "
            "waits for launches, copies or host code in between"
        )


def limits_of(full: Trace, starts: Starts) -> Limits | None:
    """None for a trace without device operations, or one that lost some."""
    if full.mode != "full" or full.dropped or not full.ops:
        return None
    groups = _by_invocation(full, starts)
    whole = groups is None
    windows = [list(full.ops)] if groups is None else groups[WARM_UP:] if len(groups) > WARM_UP + 1 else groups
    ops = [op for window in windows for op in window]
    if not ops:
        return None
    totals: dict[str, int] = defaultdict(int)
    for op in ops:
        totals[op.name if op.kind == "kernel" else f"{op.copy_kind} copies" if op.kind == "copy" else op.kind] += (
            op.end - op.start
        )
    total = sum(totals.values())
    largest = sorted(totals.items(), key=lambda item: -item[1])[:_SHOWN]
    device = median(union((op.start, op.end) for op in window) for window in windows)
    copies = median(union((op.start, op.end) for op in window if op.kind == "copy") for window in windows)
    return Limits(
        device / 1e9,
        "run" if whole else "invocation",
        copies / 1e9,
        tuple((name, time / total) for name, time in largest) if total else (),
    )


def _by_invocation(full: Trace, starts: Starts) -> list[list[DeviceOp]] | None:
    if not starts.spans:
        return None
    index = {call.correlation: call.index for call in full.calls}
    issued = sorted(((index[op.correlation], op) for op in full.ops if op.correlation in index), key=lambda x: x[0])
    groups: list[list[DeviceOp]] = []
    at = 0
    for first, after in starts.spans:
        while at < len(issued) and issued[at][0] < first:
            at += 1
        group = []
        while at < len(issued) and issued[at][0] < after:
            group.append(issued[at][1])
            at += 1
        groups.append(group)
    return groups
