"""Latency of one invocation, from traces.

An invocation is one iteration of the outermost loop around device work, or one call of the scope function. Which calls stand in
that loop directly, and not in one inside it, the source tells (`source_loops.py`); where the iterations start is read off a full
trace: those calls come N times, in turns. The starts are call numbers, and the same binary makes the same calls in every run,
so they hold for the timing runs too; a run with another number of calls tells nothing.

It lasts from its first operation's call to the return of its last host wait: the moment at which the host can rely on the
results. Without a wait behind its last operation it ends with that operation on the device, when the trace has it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from stitchcuda.gpu_validate.source_loops import SourceLoops
from stitchcuda.gpu_validate.trace.measures import blocks
from stitchcuda.gpu_validate.trace.model import Call, Trace

WARM_UP = 1  # invocations at the start of every run that are left out, when at least two others remain
_LEAST_SHARE = 0.5  # of all launches must lie inside the loop for it to be the program's
_ISSUES = re.compile(r"cu(?:da)?(?:Launch|Graph(?:Launch)|Memcpy|Memset|MemPrefetch)")
_LAUNCHES = re.compile(r"cu(?:da)?(?:Launch(?!HostFunc)|GraphLaunch)")


@dataclass(frozen=True, slots=True)
class Starts:
    """The invocations as call numbers: of the first call, and after the last one. Without any, `reason` says why; `once`: because
    the program as a whole is one invocation."""

    spans: tuple[tuple[int, int], ...] = ()
    calls: int = 0  # of the traced run
    reason: str = ""
    once: bool = False


@dataclass(frozen=True, slots=True)
class Latencies:
    """Seconds of the invocations of one run, without the warm-up; `reason` when there are none."""

    seconds: tuple[float, ...] = ()
    reason: str = ""


def find_starts(trace: Trace, loops: SourceLoops, scope: Sequence[str] = ()) -> Starts:
    """The invocations of a full trace. `scope` names functions: only what runs inside one of them counts, and `loops` are those
    in there."""
    if trace.mode != "full" or trace.dropped:
        return Starts(reason="the trace is not complete")
    if not scope and not loops.any_loop:
        return Starts(reason="there is no loop around device work: the program is one invocation", once=True)
    calls = [c for c in trace.calls if _ISSUES.match(c.api) or blocks(c)]
    if scope:
        calls = [c for c in calls if any(_names(scope, site.function) for site in c.sites)]
        if not calls:
            return Starts(reason=f"no traced call lies inside {' or '.join(scope)} (built with -g?)")
    direct = {0 if scope else 1}
    places: dict[object, list[int]] = defaultdict(list)
    keys = [_key(c) for c in calls]
    for place, call in enumerate(calls):
        if loops.depths(call) == direct:
            places[keys[place]].append(place)
    launches = [i for i, c in enumerate(calls) if _LAUNCHES.match(c.api)]
    marks = [found for found in places.values() if _LAUNCHES.match(calls[found[0]].api)]
    if marks and all(len(found) == 1 for found in marks):
        if scope:
            return Starts(((calls[0].index, calls[-1].index + 1),), len(trace.calls))
        return Starts(reason="the loop around the device work ran once: the program is one invocation", once=True)
    best: tuple[int, list[int], int] | None = None  # launches inside, starts, end
    for starts, end in _loops(keys, places):
        inside = sum(starts[0] <= i < end for i in launches)
        if best is None or inside > best[0]:
            best = (inside, starts, end)
    if best is None or best[0] < _LEAST_SHARE * len(launches) or best[0] == 0:
        return Starts(reason="where iterations of the outermost loop start cannot be told from the trace")
    _, starts, end = best
    bounds = pairwise([*starts, end])
    return Starts(tuple((calls[a].index, calls[b - 1].index + 1) for a, b in bounds), len(trace.calls))


def latencies(trace: Trace, starts: Starts) -> Latencies:
    """Seconds of every invocation of a run of the same binary."""
    if not starts.spans:
        return Latencies(reason=starts.reason)
    if len(trace.calls) != starts.calls:
        return Latencies(reason=f"a run made {len(trace.calls)} calls where another made {starts.calls}")
    ends = {op.correlation: op.end for op in trace.ops}
    by_index = sorted(trace.calls, key=lambda call: call.index)
    out = []
    for first, after in starts.spans:
        took = _latency(by_index[first:after], ends)
        if took is None:
            return Latencies(reason="nothing waits for the last operation of an invocation")
        out.append(took)
    return Latencies(tuple(out[WARM_UP:] if len(out) > WARM_UP + 1 else out))


def statistic(values: Sequence[float], name: str) -> float | None:
    """`mean`, `max` or a percentile (nearest rank) of invocations; None when they are too few for it to differ from the
    maximum, or none."""
    if not values:
        return None
    if name == "mean":
        return sum(values) / len(values)
    if name == "max":
        return max(values)
    share = int(name.removeprefix("p")) / 100
    rank = ceil(share * len(values))
    if share > 0.5 and rank == len(values):
        return None
    return sorted(values)[rank - 1]


def _latency(calls: Sequence[Call], ends: dict[int, int]) -> float | None:
    issued = [c for c in calls if _ISSUES.match(c.api) and not c.captured]
    if not issued:
        return None
    last = issued[-1]
    waits = [c for c in calls if blocks(c) and c.index >= last.index]
    if waits:
        return (waits[-1].end - issued[0].start) / 1e9
    done = [ends[c.correlation] for c in issued if c.correlation in ends]
    return (max(done) - issued[0].start) / 1e9 if last.correlation in ends else None


def _loops(keys: Sequence[object], places: dict[object, list[int]]) -> Iterator[tuple[list[int], int]]:
    """Loops as starts and end, those of few iterations first: sites that come equally often and take turns."""
    for count in sorted({len(found) for found in places.values()} - {1}):
        left = [found for found in places.values() if len(found) == count]
        while left:
            leader, *others = left
            members = [o for o in others if all(a < b for a, b in zip(leader, o, strict=True))
                       and all(b < a for a, b in zip(leader[1:], o, strict=False))]  # fmt: skip
            yield _extent(keys, [sorted(turn) for turn in zip(leader, *members, strict=True)])
            left = [o for o in others if o not in members]


def _extent(keys: Sequence[object], turns: list[list[int]]) -> tuple[list[int], int]:
    """The loop whose sites that run once an iteration stand at `turns`. Inner loops may come before and behind them."""
    between = keys[turns[0][-1] + 1 : turns[1][0]]  # the end of one iteration and the beginning of the next
    if any(keys[before[-1] + 1 : after[0]] != between for before, after in pairwise(turns)):
        between = []  # iterations differ: what lies between belongs to neither for certain
    lead = 0
    while lead < len(between) and lead < turns[0][0] and between[-1 - lead] == keys[turns[0][0] - 1 - lead]:
        lead += 1
    tail, behind = 0, turns[-1][-1] + 1
    while tail < len(between) - lead and behind + tail < len(keys) and between[tail] == keys[behind + tail]:
        tail += 1
    return [turn[0] - lead for turn in turns], behind + tail


def _key(call: Call) -> object:
    return (call.api, call.kernel, tuple((s.path, s.line) for s in call.sites))


def _names(scope: Sequence[str], function: str) -> bool:
    """`forward` names forward(int), ns::forward and Model::forward(float*) const."""
    bare = re.sub(r"\(.*", "", function).strip().split(" ")[-1]
    return any(bare == name or bare.endswith(f"::{name}") for name in scope)
