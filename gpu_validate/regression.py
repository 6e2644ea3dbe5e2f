"""Which launch or copy became slower: traces of two versions compared, site by site.

A site is found again by its function, its operation and its place among equal ones there, so that edits which only move lines do
not hide it. What counts is the device time of one operation. A site is slower only when every run says so: the fastest run
of the new version (by its median) is slower than the slowest of the old one by more than the threshold.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stitchcuda.gpu_validate.trace.model import Call, CallSite, DeviceOp, Trace

THRESHOLD = 0.05  # of the device time of one operation; repeated runs of one kernel stay within 1 to 2 %
RUNS = 3  # fewer say nothing about the spread
SMALLEST = 500  # nanoseconds: differences below are within the resolution of the device's clock


@dataclass(frozen=True, slots=True)
class SiteKey:
    """A place that issues device work: stable under edits that only move it."""

    path: str
    function: str
    operation: str  # the kernel's name, or the copy's kind and size
    ordinal: int  # among equal ones in the function, by line


@dataclass(frozen=True, slots=True)
class SiteTime:
    """Device time of one operation of a site: the median of each run, in nanoseconds, and how often it ran a run."""

    key: SiteKey
    line: int  # 1-based
    medians: tuple[int, ...]
    count: int

    @property
    def typical(self) -> float:
        return statistics.median(self.medians)


@dataclass(frozen=True, slots=True)
class Regression:
    """One site that became slower. Times in nanoseconds of one operation."""

    key: SiteKey
    line: int
    before: float
    after: float
    count: int  # operations a run
    runs: tuple[int, int]  # of the old and of the new version

    @property
    def ratio(self) -> float:
        return self.after / self.before

    @property
    def message(self) -> str:
        return (
            f"{self.key.operation} takes {_time(self.after)} on the GPU, {100 * (self.ratio - 1):.0f} % more than the "
            f"{_time(self.before)} of the baseline ({self.count} a run; medians of {self.runs[1]} and {self.runs[0]} runs)"
        )


def _time(nanoseconds: float) -> str:
    if nanoseconds < 1e6:
        return f"{nanoseconds / 1e3:.1f} us"
    return f"{nanoseconds / 1e6:.2f} ms"


def site_times(traces: Sequence[Trace]) -> tuple[SiteTime, ...]:
    """The sites that all of the traces (full mode, of one version) have. Traces that lost records raise ValueError."""
    if any(trace.dropped for trace in traces):
        raise ValueError("a trace lost records; its times cannot be compared")
    runs = [_durations(trace) for trace in traces]
    if not runs:
        return ()
    common = set(runs[0]).intersection(*runs[1:])
    keys = _keys(common)
    found = [
        SiteTime(keys[at], at[0].line, tuple(round(statistics.median(run[at])) for run in runs), len(runs[0][at]))
        for at in common
    ]
    return tuple(sorted(found, key=lambda s: (s.key.path, s.line, s.key.operation)))


_Place = tuple[CallSite, str]  # where and what


def _durations(trace: Trace) -> Mapping[_Place, list[int]]:
    by_correlation: dict[int, Call] = {call.correlation: call for call in trace.calls if call.sites}
    found: dict[_Place, list[int]] = defaultdict(list)
    for op in trace.ops:
        call = by_correlation.get(op.correlation)
        if call is not None and op.end > op.start:
            found[call.sites[0], _operation(op)].append(op.end - op.start)
    return found


def _operation(op: DeviceOp) -> str:
    if op.kind == "kernel":
        return op.name
    return f"{op.copy_kind or op.kind} copy of {op.bytes} bytes" if op.kind == "copy" else f"memset of {op.bytes} bytes"


def _keys(places: Iterable[_Place]) -> dict[_Place, SiteKey]:
    groups: dict[tuple[str, str, str], list[_Place]] = defaultdict(list)
    for site, operation in places:
        groups[site.path, site.function, operation].append((site, operation))
    return {
        place: SiteKey(*group, ordinal)
        for group, members in groups.items()
        for ordinal, place in enumerate(sorted(members, key=lambda p: p[0].line))
    }


def regressions(
    before: Sequence[SiteTime], after: Sequence[SiteTime], threshold: float = THRESHOLD
) -> tuple[Regression, ...]:
    """The sites of `after` that are slower than in `before`, most lost time first. A site with too few runs is never
    reported, nor one whose function has another number of equal sites than before: which is which cannot be told."""
    old = {site.key: site for site in before}
    crowds = _crowds(before), _crowds(after)
    found = []
    for site in after:
        known = old.get(site.key)
        if known is None or min(len(known.medians), len(site.medians)) < RUNS:
            continue
        crowd = (site.key.path, site.key.function, site.key.operation)
        if crowds[0][crowd] != crowds[1][crowd]:
            continue
        slowest, fastest = max(known.medians), min(site.medians)
        if fastest > slowest * (1 + threshold) and fastest - slowest >= SMALLEST:
            runs = (len(known.medians), len(site.medians))
            found.append(Regression(site.key, site.line, known.typical, site.typical, site.count, runs))
    return tuple(sorted(found, key=lambda r: -(r.after - r.before) * r.count))


def _crowds(sites: Sequence[SiteTime]) -> Mapping[tuple[str, str, str], int]:
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    for site in sites:
        counts[site.key.path, site.key.function, site.key.operation] += 1
    return counts
