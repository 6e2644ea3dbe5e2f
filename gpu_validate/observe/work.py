"""The device work that a run did, counted: a version that computes less is not a faster one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stitchcuda.analysis.proof.model import Declared, May
from stitchcuda.gpu_validate.observe.exchanges import Exchange, plain_counts, unexplained
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


@dataclass(frozen=True)
class OtherWork:
    """What a candidate did otherwise, as sentences: `changed` is more or less work than declared; of `unknown` it is not
    known what it stands for."""

    changed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def changed_work(
    baseline: Sequence[Work], candidate: Work, declared: Declared, exchanges: Sequence[Exchange] = ()
) -> OtherWork:
    """What the candidate did otherwise than declared. What varies between the baseline's own runs is left out. `exchanges`:
    kernels that stand for others, where device code may change."""
    out: list[str] = []
    unknown: list[str] = []
    if declared.device is not May.SAME:  # also where launches may change: what stands for what is told then
        changed, unknown = _exchanged([w.kernels for w in baseline], candidate.kernels, exchanges)
        out += changed
    elif declared.launches is not May.ANY:
        out += _counted("kernel", [w.kernels for w in baseline], candidate.kernels, declared.launches)
    if declared.copies is not May.ANY:
        out += _counted("bytes copied", [w.copied for w in baseline], candidate.copied, declared.copies)
        out += _counted("copies", [w.copies for w in baseline], candidate.copies, declared.copies)
    return OtherWork(tuple(out), tuple(unknown))


def _counted(title: str, counts: Sequence[Mapping[str, int]], found: Mapping[str, int], may: May) -> list[str]:
    out = []
    for name in sorted({*found, *(n for c in counts for n in c)}):
        before = {c.get(name, 0) for c in counts}
        after = found.get(name, 0)
        if len(before) == 1 and (after > max(before) or (may is May.SAME and after < min(before))):
            out.append(_sentence(title, name, before.pop(), after))
    return out


def _exchanged(
    counts: Sequence[Mapping[str, int]], found: Mapping[str, int], exchanges: Sequence[Exchange]
) -> tuple[list[str], list[str]]:
    """Kernels that ran otherwise than the exchanges explain; and those of which that is not known."""
    plain, after = [plain_counts(c) for c in counts], plain_counts(found)
    names = {*after, *(n for c in plain for n in c)}
    varying = {name for name in names if len({c[name] for c in plain}) > 1}
    before = {name: plain[0][name] for name in names - varying} if plain else {}
    steady = {name: after[name] for name in names - varying}
    fixed = [e for e in exchanges if varying.isdisjoint((*e.before, *e.after))]
    loose = {name for e in exchanges if e not in fixed for name in (*e.before, *e.after)}
    told = unexplained(
        {k: v for k, v in before.items() if k not in loose}, {k: v for k, v in steady.items() if k not in loose}, fixed
    )
    known = {name for e in exchanges for name in (*e.before, *e.after)}
    strange = [k for k in sorted(names - known - varying) if before.get(k, 0) == 0 or steady.get(k, 0) == 0]
    if strange and not exchanges:  # the proof did not get so far
        return [], [f"{what}, and it is not known what stands for what" for what in told]
    return told, []


def _sentence(title: str, name: str, before: int, after: int) -> str:
    if title == "kernel":
        return f"kernel {name} ran {after} times, {before} in the baseline"
    way = {"h2d": "to the device", "d2h": "to the host"}[name]
    return f"{after} {title} {way}, {before} in the baseline"


def new_shapes(one: Trace, other: Trace) -> frozenset[str] | None:
    """The kernels that `other` launches with a grid, block or shared memory with which `one` never launches them, by two full
    traces; None when a trace cannot tell (records were lost, or graphs run kernels that no call shows)."""
    if any(t.mode != "full" or t.dropped or any("GraphLaunch" in c.api for c in t.calls) for t in (one, other)):
        return None
    before, after = ({(c.kernel, c.grid, c.block, c.shared) for c in t.calls if c.kernel} for t in (one, other))
    return frozenset(kernel for kernel, *_ in after - before)
