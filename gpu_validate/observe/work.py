"""The device work that a run did, counted: a version that computes less is not a faster one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stitchcuda.analysis.proof.model import Declared, May
from stitchcuda.gpu_validate.trace.model import Trace


@dataclass(frozen=True)
class Work:
    """`kernels` by name (empty without a full trace), `launches` by call, `copied` bytes by direction, `copies` by direction."""

    kernels: Mapping[str, int]
    copied: Mapping[str, int]
    copies: Mapping[str, int]


def work_of(trace: Trace) -> Work:
    """Counts of a full trace: what ran, not what was called (a graph launch runs many kernels)."""
    kernels: Counter[str] = Counter(op.name for op in trace.ops if op.kind == "kernel")
    moved = [op for op in trace.ops if op.kind == "copy" and op.copy_kind in ("h2d", "d2h")]
    copied: Counter[str] = Counter()
    for op in moved:
        copied[op.copy_kind] += op.bytes
    return Work(dict(kernels), dict(copied), dict(Counter(op.copy_kind for op in moved)))


def changed_work(baseline: Sequence[Work], candidate: Work, declared: Declared) -> list[str]:
    """What the candidate did otherwise than declared, as sentences. What varies between the baseline's own runs is left out."""
    out = []
    for title, field, may in (
        ("kernel", "kernels", declared.launches),
        ("bytes copied", "copied", declared.copies),
        ("copies", "copies", declared.copies),
    ):
        if may is May.ANY:
            continue
        counts: list[Mapping[str, int]] = [getattr(work, field) for work in baseline]
        found: Mapping[str, int] = getattr(candidate, field)
        for name in sorted({*found, *(n for c in counts for n in c)}):
            before = {c.get(name, 0) for c in counts}
            after = found.get(name, 0)
            if len(before) == 1 and (after > max(before) or (may is May.SAME and after < min(before))):
                out.append(_sentence(title, name, before.pop(), after))
    return out


def _sentence(title: str, name: str, before: int, after: int) -> str:
    if title == "kernel":
        return f"kernel {name} ran {after} times, {before} in the baseline"
    way = {"h2d": "to the device", "d2h": "to the host"}[name]
    return f"{after} {title} {way}, {before} in the baseline"


def same_launches(one: Trace, other: Trace) -> bool | None:
    """Whether two full traces launch the same kernels with the same grids, blocks and shared memory, each as often; None when a
    trace cannot tell (records were lost, or graphs run kernels that no call shows)."""
    if any(t.mode != "full" or t.dropped or any("GraphLaunch" in c.api for c in t.calls) for t in (one, other)):
        return None
    counts = [Counter((c.kernel, c.grid, c.block, c.shared) for c in t.calls if c.kernel) for t in (one, other)]
    return counts[0] == counts[1]
