"""Bounds of the contract against what was measured. They decide a run's outcome, never a verdict's state."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stitchcuda.analysis.contract.types import Bound, Contract
from stitchcuda.gpu_validate.invocations import statistic
from stitchcuda.gpu_validate.observe.work import work_of
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.verdict import BoundResult, Interval

_RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ALLOCATES = ("Malloc", "HostAlloc", "MemAlloc", "MemCreate")
_HOST = ("Host", "MallocManaged", "MemAllocManaged")


@dataclass(frozen=True)
class Measured:
    """What there is to hold against the bounds: the invocations of the timed runs (seconds), or, where the whole program is one
    invocation, their CUDA spans; the speedup of the governing figure, and a full trace."""

    invocations: Sequence[float] = ()
    spans: Sequence[float] = ()
    speedup: Interval | None = None
    full: Trace | None = None
    why_no_invocations: str = ""


def bound_results(contract: Contract, measured: Measured) -> tuple[BoundResult, ...]:
    """One result a bound, in order."""
    return tuple(_result(bound, contract, measured) for bound in contract.bounds)


def _result(bound: Bound, contract: Contract, measured: Measured) -> BoundResult:
    value, reason = _value(bound, contract, measured)
    shown = {"metric": bound.metric, "statistic": bound.statistic, "relation": bound.relation}
    shown |= {"value": bound.value, "unit": bound.unit}  # type: ignore[dict-item]
    met = None if value is None else _RELATIONS[bound.relation](value, bound.value)
    return BoundResult(shown, value, met, reason)


def _value(bound: Bound, contract: Contract, measured: Measured) -> tuple[float | None, str]:
    if bound.metric == "latency":
        return _latency(bound, contract, measured)
    if bound.metric == "speedup":
        if measured.speedup is None:
            return None, "the speedup was not measured"
        return measured.speedup.middle, ""
    if bound.metric == "throughput":
        return _throughput(bound, contract, measured)
    if bound.metric in ("transfer_bytes", "device_memory"):
        full = measured.full
        if full is None or full.mode != "full" or full.dropped:
            return None, "there is no complete trace of a run"
        if bound.metric == "transfer_bytes":
            return float(sum(work_of(full).copied.values())), ""
        return float(peak_memory(full)), ""
    return None, f"{bound.metric.replace('_', ' ')} is not measured in this version"


def _latency(bound: Bound, contract: Contract, measured: Measured) -> tuple[float | None, str]:
    if measured.invocations:
        value = statistic(measured.invocations, bound.statistic)
        few = f"{len(measured.invocations)} invocations are too few for {bound.statistic}"
        return value, "" if value is not None else few
    if contract.scope or not measured.spans:
        return None, measured.why_no_invocations or "latency was not measured"
    value = statistic(measured.spans, bound.statistic)
    return value, "" if value is not None else f"{len(measured.spans)} runs are too few for {bound.statistic}"


def _throughput(bound: Bound, contract: Contract, measured: Measured) -> tuple[float | None, str]:
    """Items an invocation are the first dimension of the inputs, when the contract says it as a number."""
    firsts = {t.shape[0] for t in contract.inputs if t.shape}
    if len(firsts) != 1 or not isinstance(items := next(iter(firsts)), int):
        return None, "how many items an invocation handles is not in the contract (the first dimension of its inputs)"
    if not measured.invocations:
        return None, measured.why_no_invocations or "latency was not measured"
    value = statistic(measured.invocations, bound.statistic)
    return (items / value, "") if value else (None, f"too few invocations for {bound.statistic}")


def peak_memory(full: Trace) -> int:
    """The most bytes of device memory that a run's allocation calls held at one time."""
    live: dict[int, int] = {}
    held = peak = 0
    for call in sorted(full.calls, key=lambda c: c.index):
        if call.status or call.captured or not call.target:
            continue
        if any(word in call.api for word in _ALLOCATES) and not any(word in call.api for word in _HOST):
            held += call.bytes - live.get(call.target, 0)
            live[call.target] = call.bytes
            peak = max(peak, held)
        elif "Free" in call.api:
            held -= live.pop(call.target, 0)
    return peak
