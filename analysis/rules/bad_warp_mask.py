"""The mask of a warp primitive names lanes that do not execute it.

## What

A shuffle, vote, match, reduction or `__syncwarp` with a fixed mask, usually `0xffffffff`, stands where only some of the
lanes in the mask get: in a branch on the lane, behind a bounds check that cuts a warp, in a branch on data, or in a
helper that is called there. Lanes that have returned from the kernel do not count.

## Why

All lanes in the mask that have not exited must execute the call (D3). When some do not, the result is undefined: on
Volta and newer the lanes may wait for ever or read what a register happened to hold. It often works for a while,
because the compiler turned the branch into predicated instructions.

## Example

```cuda
if (i < n) {                                        // cuts the last warp
    float sum = in[i];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
}
```

## Use instead

```cuda
float sum = i < n ? in[i] : 0.0f;                   // every lane takes part
for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
```

Or take the lanes of the branch with everybody there: `unsigned mask = __ballot_sync(0xffffffff, i < n);` before it.

## Fix safety

There is no automatic fix: whether the call moves out of the branch or the mask gets smaller depends on what the lanes
are to exchange.

## References

Ordering row D3. CUDA programming guide, "Warp Vote Functions", "Warp Shuffle Functions", "Warp Synchronization".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd, prod

from stitchcuda.analysis.findings.finding import (
    Confidence,
    Finding,
    Group,
    KernelInput,
    KernelRule,
    Related,
    Severity,
)
from stitchcuda.analysis.findings.kernel_wording import lanes, written
from stitchcuda.analysis.findings.shapes import agreed
from stitchcuda.analysis.findings.wording import called_from
from stitchcuda.analysis.kernel.arithmetic import MAYBE
from stitchcuda.analysis.kernel.conditions import Conditions, conditions_of
from stitchcuda.analysis.kernel.lanes import WARP, Form, lanes_of
from stitchcuda.analysis.kernel.model import Barrier, BarrierKind, Guard, KernelTrace, Uniformity
from stitchcuda.analysis.kernel.trace import KernelTraces, kernel_traces
from stitchcuda.analysis.program.ir import Function, Site

CODE = "bad-warp-mask"
FULL = (1 << WARP) - 1
_PLACES = ("blockIdx.", "gridDim.")
_DIFFERING = re.compile(r"'(~[^']*)'")  # the names, in the key of a guard, of what differs between lanes
_EXCHANGE = re.compile(r"shfl|shuffle|reduce|ballot|vote|bcast|broadcast|activemask|warp|coalesced", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Fault:
    """Lanes in a mask that do not get to the call. `guard` keeps them away; without one it is known which they are."""

    call: Barrier
    mask: int
    present: int = 0  # of one warp, when it is known
    missing: int = 0
    guard: Guard | None = None
    level: Confidence = Confidence.LIKELY


def check(given: KernelInput) -> Iterator[Finding]:
    traces = kernel_traces(given.program, given.kernel, given.sources, given.guesses)
    conditions = conditions_of(given.program)
    found = [_reported(given, conditions, traces, trace) for trace in traces.traces if not trace.broken]
    yield from agreed(traces, found)


def _reported(
    given: KernelInput, conditions: Conditions, traces: KernelTraces, trace: KernelTrace
) -> dict[Site, Finding]:
    """One finding for each branch that keeps lanes away: at its first call, the others are told along."""
    groups: dict[object, list[tuple[Site, _Fault]]] = {}
    for fault in _faults(conditions, traces, trace):
        site, branch = _place(conditions, fault)
        group = groups.setdefault(branch, [])
        if all(site != known for known, _ in group):
            group.append((site, fault))
    out: dict[Site, Finding] = {}
    for members in groups.values():
        site, fault = members[0]
        related = [] if fault.guard is None else [Related(fault.guard.site, "not the same for all lanes of a warp")]
        if site != fault.call.site:
            related.append(Related(fault.call.site, f"`{fault.call.name}` is called here"))
        related += [Related(other, "and so does this one") for other, _ in members[1:4]]
        related += called_from(fault.call.calls, site)
        out[site] = Finding(
            CODE, Group.DEVICE, Severity.ERROR, fault.level, site, _message(given, fault), tuple(related)
        )
    return out


def _message(given: KernelInput, fault: _Fault) -> str:
    named = "all lanes of the warp" if fault.mask == FULL else lanes(fault.mask)
    start = f"the mask of `{fault.call.name}` names {named}"
    if fault.guard is None:
        if not fault.missing:
            return f"{start}, but {lanes(fault.present & ~fault.mask)} execute it as well"
        verb = "executes" if fault.present.bit_count() == 1 else "execute"
        return f"{start}, but only {lanes(fault.present)} of a warp {verb} it"
    text = written(given.program, given.sources, fault.guard.site)
    condition = f"`{text}`" if text else "a condition"
    if fault.guard.loop:
        return f"{start}, but lanes leave the loop at different rounds: {condition} is not the same in the whole warp"
    return f"{start}, but whether a lane executes it depends on {condition}, which is not the same in the whole warp"


# ------------------------------------------------------------------------------------------------------------- lanes


def _faults(conditions: Conditions, traces: KernelTraces, trace: KernelTrace) -> Iterator[_Fault]:
    calls = [b for b in trace.barriers if b.kind in (BarrierKind.WARP, BarrierKind.COLLECTIVE)]
    calls = [b for b in calls if b.name == "__syncwarp" or b.name.startswith("__") and b.name.endswith("_sync")]
    for call in calls:
        masks = _masks(call, trace.block.threads)
        if masks is None:
            continue
        known = _known(call, masks, calls)
        if known is not None:
            guessed = not traces.fixed and trace.block.y > 1  # other blocks of the same size have other warps
            yield replace(known, level=Confidence.POSSIBLE) if guessed else known
            continue
        split = [(level, g) for g in call.guards if (level := _level(conditions, traces, g)) is not None]
        split = [(level, g) for level, g in split if not _paired(call, g, calls)]
        if split:
            level, guard = next((s for s in split if s[0] is not Confidence.POSSIBLE), split[0])
            yield _Fault(call, masks[0], guard=guard, level=level)


def _masks(call: Barrier, threads: int) -> tuple[int, ...] | None:
    """The mask in each lane; None when it is not fixed in the source."""
    if not call.mask_written:
        return (FULL,) * threads if call.name == "__syncwarp" else None
    exact = call.mask.exact if call.mask is not None else None
    if exact is None:
        return None
    return (exact & FULL,) * threads if isinstance(exact, int) else tuple([m & FULL for m in exact.values])


def _known(call: Barrier, masks: tuple[int, ...], calls: list[Barrier]) -> _Fault | None:
    for start in range(0, len(masks), WARP):
        present, alive = call.lanes >> start & FULL, call.alive >> start & FULL
        for lane in lanes_of(present):
            mask = masks[start + lane]
            missing = mask & alive & ~present
            if missing and not _elsewhere(call, start, present, missing, calls):
                return _Fault(call, mask, present, missing)
            if not mask >> lane & 1 and start + WARP <= len(masks):
                return _Fault(call, mask, present)
    return None


def _elsewhere(call: Barrier, start: int, present: int, missing: int, calls: list[Barrier]) -> bool:
    """The missing lanes execute the same call at another place, as often as those that are here."""
    counts: Counter[int] = Counter()
    for other in calls:
        if other.name == call.name and other.mask == call.mask:
            for lane in lanes_of(other.lanes >> start & FULL):
                counts[lane] += 1
    return len({counts[lane] for lane in lanes_of(present | missing)}) == 1


def _paired(call: Barrier, guard: Guard, calls: list[Barrier]) -> bool:
    """The lanes for which the condition goes the other way execute the same call there."""
    return any(
        other.name == call.name
        and other.mask == call.mask
        and any(g.key == guard.key and g.holds != guard.holds for g in other.guards)
        for other in calls
    )


def _level(conditions: Conditions, traces: KernelTraces, guard: Guard) -> Confidence | None:
    """How sure it is that a condition keeps some lanes of a warp away and lets others pass; None when it does not."""
    if guard.uniformity in (Uniformity.BLOCK, Uniformity.WARP):
        return None
    if guard.leaves == "return":
        return None  # lanes that have exited may stand in the mask
    if _perhaps_by_warp(guard) or any(_EXCHANGE.search(name) for name in conditions.calls(guard)):
        return None  # a reduction, say, leaves the same number in all lanes
    if guard.guessed:
        # on what is not seen; `threadIdx.x % W`, with a `W` that is not known, may be written for it
        return Confidence.POSSIBLE
    if guard.margin is None or guard.uniformity is Uniformity.DATA:
        return Confidence.LIKELY
    cases = [_arguments(traces.function, launch.args) for launch in traces.launches] or [{}]
    if all(_whole_warps(guard.margin, numbers) for numbers in cases):
        return None
    # `for (i = threadIdx.x; i < n; i += blockDim.x)` is written for an `n` that is a multiple of the warp size
    sized = any(
        (
            not numbers.keys().isdisjoint(guard.margin.symbols)
            or all(s.startswith(_PLACES) for s in guard.margin.symbols)
        )
        and not _whole_warps(guard.margin, numbers)
        for numbers in cases
    )
    return Confidence.LIKELY if sized or not guard.loop else Confidence.POSSIBLE


def _perhaps_by_warp(guard: Guard) -> bool:
    """All that differs between the lanes is a quotient whose divisor is not known: it may be the number of the warp."""
    unknown = _DIFFERING.findall(guard.key)
    return bool(unknown) and all(name.startswith(MAYBE) for name in unknown)


def _arguments(kernel: Function, args: tuple[int | None, ...]) -> dict[str, int]:
    """The parameters whose values are fixed in a launch."""
    return {p.name: value for p, value in zip(kernel.params, args, strict=False) if value is not None}


def _whole_warps(margin: Form, numbers: Mapping[str, int]) -> bool:
    """`i < n` keeps or leaves out whole warps when `n` is a multiple of the warp size; `i / 4 < n` when `n` is one of 8."""
    rest: list[int] = [0]
    fixed = grain = 0
    for mono, c in margin.terms:
        if not mono:
            rest = [c] if isinstance(c, int) else list(c.values)
        elif not isinstance(c, int):
            return False
        elif all(s in numbers for s in mono):
            fixed += c * prod(numbers[s] for s in mono)
        else:
            grain = gcd(grain, c * prod(numbers.get(s, 1) for s in mono))
    return all(
        len({(value + fixed) // (grain or WARP) for value in rest[start : start + WARP]}) == 1
        for start in range(0, len(rest), WARP)
    )


# ------------------------------------------------------------------------------------------------------------- places


def _place(conditions: Conditions, fault: _Fault) -> tuple[Site, object]:
    """Where to report, and the branch that it is about. A helper for whole warps is called in the wrong place: it is the
    call in the branch that counts."""
    frames = [*fault.call.calls, fault.call.site]
    if fault.guard is None and not fault.missing:
        return fault.call.site, fault.call.site
    if fault.guard is not None:
        inside = [site for site in frames if site.function == fault.guard.site.function]
        return (inside[-1] if inside else fault.call.site), fault.guard.site
    for site in reversed(frames):
        branch = conditions.branch_around(site)
        if branch is not None:
            return site, (site.function, branch)
    return fault.call.site, fault.call.site


RULE = KernelRule(
    CODE,
    Group.DEVICE,
    Severity.ERROR,
    "the mask of a warp primitive names lanes that do not execute it",
    __doc__ or "",
    check,
)
