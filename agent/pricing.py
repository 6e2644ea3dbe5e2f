"""What a proposal could save at most, read from a full trace of the original.

A call that goes can give back the time of the device work that it issued, and the time in which the device had nothing to do
because the host stood in that call or was still on its way from it to the next work. Time in which the device was busy is
never counted: a wait that only waits for work that must be done anyway saves nothing; nor is the time in which work that was
issued before is on its way to the device. Nothing here is a promise: what goes may only uncover the next thing that the program
waits for, so the estimate bounds the gain of this change alone from above, and measuring decides. Changes that uncover each
other can save more together than the sum of their prices.
"""

from __future__ import annotations

import bisect
import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stitchcuda.agent.transforms.transform import Proposal
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.program.ir import Program, Site
from stitchcuda.gpu_validate.trace.model import Call, CallSite, DeviceOp, Trace

Interval = tuple[int, int]
_API = re.compile(rb"cu(da)?[A-Z]\w*")


@dataclass(frozen=True, slots=True)
class Price:
    """`seconds` over the whole traced run, an upper estimate; None when the trace cannot tell, and `rests_on` says why. `calls`
    of the trace would go; they issued `device` seconds of device work and the device stood still for `idle` seconds."""

    seconds: float | None
    rests_on: str
    calls: int = 0
    device: float = 0.0
    idle: float = 0.0


@dataclass(frozen=True, slots=True)
class Place:
    """Lines of a file, 1-based, both included: a call may be written over several. `api` is the function called there, "" for
    a launch."""

    path: str
    first: int
    last: int
    api: str = ""


def pricing(trace: Trace) -> Callable[[Sequence[Proposal], Analysis], list[float | None]]:
    """The seconds that each proposal could save, in the order given. The analysis that the result is first called with must be
    of the version that was traced; lines of later versions are followed back to it."""
    costs = Costs(trace)
    traced: list[Analysis] = []

    def price(proposals: Sequence[Proposal], analysis: Analysis) -> list[float | None]:
        if not traced:
            traced.append(analysis)
        return [p.seconds for p in prices(costs, proposals, analysis, traced[0])]

    return price


def prices(costs: Costs, proposals: Sequence[Proposal], analysis: Analysis, traced: Analysis) -> list[Price]:
    """The price of each proposal for `analysis`; the trace behind `costs` is of `traced`."""
    lines: dict[str, list[int]] = {}
    out = []
    for proposal in proposals:
        places = []
        for site in proposal.sites:
            place = place_of(analysis.program, analysis.sources, site)
            if place is not None and analysis.sources.get(place.path) != traced.sources.get(place.path):
                if place.path not in lines:
                    lines[place.path] = _lines_before(traced.sources.get(place.path, b""), analysis.sources[place.path])
                place = _moved(place, lines[place.path])
            if place is not None:
                places.append(place)
        out.append(costs.price(costs.calls_at(places)))
    return out


def place_of(program: Program, sources: Mapping[str, bytes], site: Site) -> Place | None:
    """None when the file's text is not at hand."""
    text = sources.get(site.path)
    if text is None or (site.function and site.function not in program.functions):
        return None
    where = program.locate(site)
    first = text.count(b"\n", 0, where.start) + 1
    name = _API.match(text, where.start)
    return Place(site.path, first, first + text.count(b"\n", where.start, where.end), name[0].decode() if name else "")


def _lines_before(old: bytes, new: bytes) -> list[int]:
    """For each line of `new` (from 0) its line in `old`, 0 for one that is new; lines of `old` count from 1."""
    before, after = old.split(b"\n"), new.split(b"\n")
    found = [0] * len(after)
    for block in difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        for k in range(block.size):
            found[block.b + k] = block.a + k + 1
    return found


def _moved(place: Place, lines: Sequence[int]) -> Place | None:
    kept = [lines[k - 1] for k in range(place.first, place.last + 1) if 0 < k <= len(lines) and lines[k - 1]]
    return replace(place, first=min(kept), last=max(kept)) if kept else None


@dataclass
class Costs:
    """The trace, made ready for questions."""

    trace: Trace
    _gaps: list[tuple[Interval, int]] = field(init=False)  # the device idle, and when the work that ends it was issued
    _issued: dict[int, list[DeviceOp]] = field(init=False)
    _at: dict[str, list[Call]] = field(init=False)  # by the file name of the innermost user frame
    _threads: dict[int, list[Call]] = field(init=False)

    def __post_init__(self) -> None:
        self._issued, self._at, self._threads = {}, {}, {}
        for op in self.trace.ops:
            self._issued.setdefault(op.correlation, []).append(op)
        issued: dict[int, int] = {}
        for call in self.trace.calls:
            issued[call.correlation] = call.start
            self._threads.setdefault(call.thread, []).append(call)
            if call.sites:
                self._at.setdefault(_file(call.sites[0].path), []).append(call)
        self._gaps = []
        free = None
        for op in sorted(self.trace.ops, key=lambda op: op.start):
            if free is not None and op.start > free:
                self._gaps.append(((free, op.start), issued.get(op.correlation, op.start)))
            free = max(op.end, free or op.end)

    def calls_at(self, places: Iterable[Place]) -> list[Call]:
        """The calls that were made at these places, each once, in issue order."""
        found: dict[int, Call] = {}
        for place in places:
            here = [c for c in self._at.get(_file(place.path), ()) if stands_at(c.sites[0], place)]
            named = [c for c in here if c.api == place.api]  # others on the line are other calls, or its alias
            found.update({c.index: c for c in named or here})
        return [found[k] for k in sorted(found)]

    def issued(self, call: Call) -> Sequence[DeviceOp]:
        """The device work of a call."""
        return self._issued.get(call.correlation, ()) if call.correlation else ()

    def price(self, calls: Sequence[Call]) -> Price:
        """What these calls cost the run at most."""
        if self.trace.mode != "full":
            return Price(None, "the trace has no source lines")
        if self.trace.dropped:
            return Price(None, f"the trace lost {self.trace.dropped} records")
        if not calls:
            return Price(None, "no call of the trace stands where the change is")
        gone = {op for call in calls for op in self.issued(call)}
        others = _merged([(op.start, op.end) for op in self.trace.ops if op not in gone])
        device = sum(e - s for s, e in _without(_merged([(op.start, op.end) for op in gone]), others))
        windows = self._windows(calls)
        idle = 0
        for gap, issued in self._gaps:
            meant = _merged([w for w in windows if w[0] <= issued and w[0] < gap[1] and w[1] > gap[0]])
            idle += sum(e - s for s, e in _common(meant, [gap]))
        seconds = (device + idle) / 1e9
        rests_on = (
            f"{len(calls)} traced calls: {device / 1e6:.3f} ms of device work that nothing else overlaps, and "
            f"{idle / 1e6:.3f} ms in which the device had nothing to do"
        )
        return Price(seconds, rests_on, len(calls), device / 1e9, idle / 1e9)

    def _windows(self, calls: Sequence[Call]) -> list[Interval]:
        """When the host stood in a call, and on from there until the next call of its thread, or until the work that this one
        issued begins."""
        starts = {t: [c.start for c in made] for t, made in self._threads.items()}
        windows = []
        for call in calls:
            end = call.end
            made = self._threads[call.thread]
            k = bisect.bisect_right(starts[call.thread], call.start)
            if k < len(made):
                follower = made[k]
                end = max(end, follower.start)
                work = self.issued(follower)
                if work:
                    end = max(end, min(op.start for op in work))
            windows.append((call.start, end))
        return windows


def stands_at(site: CallSite, place: Place) -> bool:
    """Debug information and the analysis name files differently: the last two parts of their paths must be
    the same, or the last one where there is but one."""
    if not place.first <= site.line <= place.last:
        return False
    one, other = (p.replace("\\", "/").split("/") for p in (site.path, place.path))
    shared = min(len(one), len(other), 2)
    return one[-shared:] == other[-shared:]


def _file(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _merged(intervals: Sequence[Interval]) -> list[Interval]:
    out: list[Interval] = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        elif end > start:
            out.append((start, end))
    return out


def _common(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    """Both are sorted and disjoint."""
    out, k = [], 0
    for start, end in one:
        while k < len(other) and other[k][1] <= start:
            k += 1
        j = k
        while j < len(other) and other[j][0] < end:
            out.append((max(start, other[j][0]), min(end, other[j][1])))
            j += 1
    return out


def _without(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    out = []
    for start, end in one:
        at = start
        for s, e in _common([(start, end)], other):
            if s > at:
                out.append((at, s))
            at = e
        if end > at:
            out.append((at, end))
    return out
