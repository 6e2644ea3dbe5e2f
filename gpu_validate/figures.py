"""The figures of one timed run, and what of them the tracer itself costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from stitchcuda.analysis.contract.types import Contract
from stitchcuda.gpu_validate.invocations import Starts, latencies, statistic
from stitchcuda.gpu_validate.observe.shown import Shown
from stitchcuda.gpu_validate.trace.measures import cuda_span, gpu_busy, reading

CALL_SECONDS = 2e-6  # twice what tracing costs a call in a timed run on an H200 (benchmarks/results/tracer_h200.json)
JUDGED = ("latency", "cuda_span", "wall")
FIGURES = (*JUDGED, "gpu_busy")  # busy time informs: work that overlaps may take longer and still end sooner


@dataclass(frozen=True)
class Figures:
    """Seconds of one run by figure (those that could be measured), without what reading results back for the comparison cost;
    `calls` that paid for tracing, and `invocations` in seconds."""

    seconds: Mapping[str, float]
    calls: int
    invocations: tuple[float, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)  # why a figure is not there


def figures_of(shown: Shown, starts: Starts, chosen: str) -> Figures:
    """`chosen` is the statistic over the invocations of the run that stands for its latency."""
    trace = shown.trace
    if trace is None:
        return Figures({}, 0, missing=dict.fromkeys(FIGURES, "the tracer brought nothing back"))
    read = reading(trace) / 1e9
    seconds = {"wall": shown.ended.seconds - read}
    missing: dict[str, str] = {}
    span, busy = cuda_span(trace), gpu_busy(trace)
    if span is None:
        missing["cuda_span"] = "the program did nothing on a GPU, or waited for nothing"
    else:
        seconds["cuda_span"] = span / 1e9
    if busy is None:
        missing["gpu_busy"] = "the trace has no device operations"
    else:
        seconds["gpu_busy"] = busy / 1e9
    found = latencies(trace, starts)
    if found.seconds:
        each = read / len(starts.spans)
        value = statistic(found.seconds, chosen)
        if value is None:
            missing["latency"] = f"{len(found.seconds)} invocations are too few for {chosen}"
        else:
            seconds["latency"] = value - each
    else:
        missing["latency"] = found.reason
    took = tuple(s - read / len(starts.spans) for s in found.seconds)
    return Figures(seconds, len(trace.calls), took, missing)


def tracing_gain(baseline: Sequence[Figures], candidate: Sequence[Figures]) -> float:
    """Seconds by which the baseline's runs pay more for tracing because they make more calls; never negative, so that a
    correction can only take a gain away."""
    before, after = (median([f.calls for f in runs]) for runs in (baseline, candidate))
    return max(0.0, before - after) * CALL_SECONDS


def chosen_statistic(contract: Contract) -> str:
    """The statistic over invocations that the contract's latency bound names; the mean without one."""
    return next((b.statistic for b in contract.bounds if b.metric in ("latency", "throughput")), "mean")


def governing(contract: Contract, available: Sequence[str]) -> str | None:
    """The figure that decides: the latency of an invocation when a bound is about it, or about the speed of named functions; else the
    CUDA span, which is the speed of the program; the next best one where it could not be measured. None when there is none but
    wall-clock time, which says too little of a GPU."""
    metrics = {b.metric for b in contract.bounds}
    of_invocations = metrics & {"latency", "throughput"} or ("speedup" in metrics and contract.scope)
    wanted = "latency" if of_invocations else "cuda_span"
    order = (wanted, "cuda_span") if wanted == "latency" else ("cuda_span",)
    return next((name for name in order if name in available), None)
