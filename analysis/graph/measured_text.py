"""A measured run in text: a picture of what ran when, then what took how long, what ran at once, and where the device or the host had
nothing to do. Times are from when the device was ready."""

from __future__ import annotations

import os.path
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median

from stitchcuda.analysis.graph.measured import Measured, MeasuredLane, Span
from stitchcuda.analysis.graph.model import ExecutionGraph, GraphNode

COLUMNS = 72
MOST = 12  # rows of a part
MOST_IN_ORDER = 60
_MARKS = {"kernel": "#", "copy": "=", "memset": "-", "wait": "w", "call": "."}
_KINDS = {"kernel": ("kernel", "kernels"), "copy": ("copy", "copies"), "memset": ("fill", "fills")}
_On = tuple[Span, MeasuredLane]


def measured_to_text(run: Measured, graph: ExecutionGraph, function: str = "") -> str:
    """`graph` is the whole one that the run was told on. With `function` only what runs inside it, by its name."""
    return "\n".join(_Telling(run, graph, function).lines()) + "\n"


def inside(node: GraphNode, function: str) -> bool:
    """Whether a node runs inside a function: its name, qualified or not."""
    names = (node.entry, node.function, *(call.callee for call in node.calls))
    return any(name == function or name.rpartition("::")[2] == function for name in names)


class _Telling:
    def __init__(self, run: Measured, graph: ExecutionGraph, function: str) -> None:
        self.run = run
        self.function = function
        self.nodes = {n.id: n for n in graph.nodes if not function or inside(n, function)}
        self.home = graph.nodes[0].entry_path if graph.nodes else ""
        lanes = ((lane, self._shown(lane.spans, everything=not function)) for lane in run.lanes)
        self.lanes = [(lane, spans) for lane, spans in lanes if spans]
        self.device = sorted(((s, lane) for lane, spans in self.lanes if not lane.host for s in spans), key=_start)
        self.host = sorted(((s, lane) for lane, spans in self.lanes if lane.host for s in spans), key=_start)
        whole = [(s, lane) for lane in run.lanes for s in lane.spans if s.end >= run.begin] if function else []
        self.all_device = sorted((on for on in whole if not on[1].host), key=_start) or self.device
        self.all_host = sorted((on for on in whole if on[1].host), key=_start) or self.host
        times = [t for s, _ in (*self.device, *self.host) for t in (s.start, s.end)]
        self.begin = min(times, default=0) if function else run.begin
        self.end = max(times, default=self.begin)

    def _shown(self, spans: Sequence[Span], *, everything: bool) -> list[Span]:
        """What ended before the device was ready says nothing about the program."""
        return [s for s in spans if s.end >= self.run.begin and (everything or s.node in self.nodes)]

    def lines(self) -> Iterator[str]:
        yield f"Measured on {self.run.device or 'an unknown device'}{f' ({self.home})' if self.home else ''}"
        if not self.device and not self.host:
            yield "  nothing of this ran in the measured run"
        else:
            yield from self._summary()
            yield ""
            yield from self._picture()
            for title, lines in (
                ("What took how long:", self._operations()),
                ("What ran at the same time:", self._at_once()),
                ("Where the device had nothing to do:", self._idle()),
                ("Where the host waited:", self._waits()),
                ("In order:", self._in_order()),
            ):
                found = list(lines)
                if found:
                    yield ""
                    yield title
                    yield from (f"  {line}" for line in found)
        yield from (f"  note: {note}" for note in self.run.notes)
        if self.run.left_out:
            yield f"  note: {self.run.left_out} operations at the end are left out, for their number"

    # ------------------------------------------------------------------------------------------------------ the picture

    def _summary(self) -> Iterator[str]:
        yield f"  {_time(self.end - self.begin)} from {'when the device was ready' if self.begin == self.run.begin else 'the first call'} to the end"
        if self.device:
            once, twice = _busy(s for s, _ in self.device)
            whole = max(s.end for s, _ in self.device) - self.device[0][0].start or 1
            with_it = f" with what runs in {self.function}" if self.function else ""
            yield (
                f"  the device was busy{with_it} for {_time(once)}, {once / whole:.0%} of the time from its first work to its last, and did two"
                f" things or more for {_time(twice)}"
            )
        for lane, spans in self.lanes:
            if not lane.host:
                busy, _ = _busy(spans)
                kinds = (_count(spans, kind) for kind in _KINDS)
                yield f"  {lane.title}: {', '.join(filter(None, kinds))}, {_time(busy)} busy"

    def _picture(self) -> Iterator[str]:
        step = max((self.end - self.begin) / COLUMNS, 1.0)
        width = max(len(lane.title) for lane, _ in self.lanes)
        width = min(width, 24)
        for lane, spans in self.lanes:
            spent: list[dict[str, float]] = [{} for _ in range(COLUMNS)]
            for span in spans:
                first, last = (min(int(max(t - self.begin, 0) / step), COLUMNS - 1) for t in (span.start, span.end))
                for column in range(first, last + 1):
                    left = self.begin + column * step
                    both = max(min(span.end, left + step) - max(span.start, left), 0.0)
                    spent[column][span.kind] = spent[column].get(span.kind, 0.0) + both
            row = "".join(_MARKS.get(max(kinds, key=kinds.__getitem__), ".") if kinds else " " for kinds in spent)
            yield f"  {lane.title[:width]:<{width}} |{row}|"
        yield (
            f"  {'':<{width}}  one column is {_time(step)}, and shows what took most of it: # kernel, = copy, - fill, w the host waits, . another call"
        )

    # -------------------------------------------------------------------------------------------------------- the parts

    def _operations(self) -> Iterator[str]:
        times: dict[str, list[int]] = defaultdict(list)
        for span, lane in self.device:
            times[self._what(span, lane)].append(span.end - span.start)
        rows = sorted(times.items(), key=lambda row: (-sum(row[1]), row[0]))
        for what, each in rows[:MOST]:
            spread = f", {_time(min(each))} to {_time(max(each))}" if len(each) > 1 and min(each) != max(each) else ""
            times_ = f" in {len(each)} runs, {_time(median(each))} each{spread}" if len(each) > 1 else ""
            yield f"{_time(sum(each))}{times_}: {what}"
        yield from _more(rows, "other operations")

    def _at_once(self) -> Iterator[str]:
        """Pairs of operations of different streams, with the time for which both ran."""
        pairs: dict[tuple[str, str], list[int]] = defaultdict(list)
        running: list[_On] = []
        for span, lane in self.device:
            running = [(s, other) for s, other in running if s.end > span.start]
            for before, other in running:
                if other is not lane and (both := min(before.end, span.end) - span.start) > 0:
                    one, two = sorted((self._what(before, other), self._what(span, lane)))
                    pairs[one, two].append(both)
            running.append((span, lane))
        rows = sorted(pairs.items(), key=lambda row: (-sum(row[1]), row[0]))
        for (one, two), each in rows[:MOST]:
            yield f"{_time(sum(each))}{f' in {len(each)} places' if len(each) > 1 else ''}: {one}, and {two}"
        yield from _more(rows, "other pairs")
        if not rows and len({lane.title for _, lane in self.device}) > 1:
            yield "nothing, although there is work on several streams"

    def _idle(self) -> Iterator[str]:
        """The longest gaps between work of the device, each with what ended it and what the host did meanwhile."""
        gaps: list[tuple[int, int, _On]] = []
        free = None
        mine = {id(span) for span, _ in self.device}
        for span, lane in self.all_device:
            if free is not None and span.start > free and id(span) in mine:
                gaps.append((free, span.start, (span, lane)))
            free = max(span.end, free or span.end)
        longest = sorted(sorted(gaps, key=lambda g: g[0] - g[1])[:MOST])
        for start, end, (span, lane) in longest:
            yield f"{_time(end - start)} at {self._at(start)}, before {self._what(span, lane)}{self._host_in(start, end, span)}"
        if len(gaps) > MOST:
            rest = sum(e - s for s, e, _ in gaps) - sum(e - s for s, e, _ in longest)
            yield f"and {len(gaps) - MOST} shorter times, {_time(rest)} together"

    def _host_in(self, start: int, end: int, span: Span) -> str:
        """What the host did in a gap: the call that took most of it."""
        if 0 <= span.issued < start:
            return ", which was issued before that"
        starts = [s.start for s, _ in self.all_host]
        near = self.all_host[max(bisect_left(starts, start) - 8, 0) : bisect_left(starts, end)]
        spent: dict[str, int] = defaultdict(int)
        for call, _ in near:
            both = min(call.end, end) - max(call.start, start)
            if both > 0:
                spent[f"{call.name}{self._place(call)}"] += both
        if not spent:
            return "; the host called nothing of CUDA"
        longest = max(spent, key=lambda name: spent[name])
        return f"; the host was in {longest} for {_time(spent[longest])} of it"

    def _waits(self) -> Iterator[str]:
        spent: dict[str, list[int]] = defaultdict(list)
        for span, _ in self.host:
            if span.kind == "wait":
                spent[f"{span.name}{self._place(span)}"].append(span.end - max(span.start, self.begin))
        rows = sorted(spent.items(), key=lambda row: (-sum(row[1]), row[0]))
        for what, each in rows[:MOST]:
            yield f"{_time(sum(each))}{f' in {len(each)} calls' if len(each) > 1 else ''}: {what}"
        yield from _more(rows, "other places")

    def _in_order(self) -> Iterator[str]:
        """Device work by its start; what follows itself is one row."""
        rows = [(what, [s for s, _ in group]) for what, group in groupby(self.device, key=lambda on: self._what(*on))]
        for what, each in rows[:MOST_IN_ORDER]:
            took = _time(sum(s.end - s.start for s in each))
            times = f"{len(each)} times {what}" if len(each) > 1 else what
            yield f"{self._at(each[0].start):>12} for {took:<10} {times}"
        if len(rows) > MOST_IN_ORDER:
            yield f"and {sum(len(each) for _, each in rows[MOST_IN_ORDER:])} more operations"

    # ---------------------------------------------------------------------------------------------------------- wording

    def _what(self, span: Span, lane: MeasuredLane) -> str:
        name = f"`{span.name.split('<')[0]}`" if span.kind == "kernel" else span.name
        return f"{name} on {lane.title}{self._place(span)}"

    def _place(self, span: Span) -> str:
        """Where the source has it, from the folder of the entry's file."""
        node = self.nodes.get(span.node)
        if node is None:
            return ""
        folder = os.path.dirname(self.home)
        return f" ({node.path.removeprefix(folder + '/') if folder else node.path}:{node.line})"

    def _at(self, time: int) -> str:
        return _time(time - self.begin)


def _start(on: _On) -> int:
    return on[0].start


def _count(spans: Sequence[Span], kind: str) -> str:
    number = sum(1 for s in spans if s.kind == kind)
    one, many = _KINDS[kind]
    return f"{number} {one if number == 1 else many}" if number else ""


def _busy(spans: Iterable[Span]) -> tuple[int, int]:
    """For how long at least one ran, and at least two."""
    points = sorted((time, step) for s in spans if s.end > s.start for time, step in ((s.start, 1), (s.end, -1)))
    once = twice = running = at = 0
    for time, step in points:
        once += time - at if running else 0
        twice += time - at if running > 1 else 0
        running += step
        at = time
    return once, twice


def _more(rows: Sequence[tuple[object, Sequence[int]]], what: str) -> Iterator[str]:
    rest = rows[MOST:]
    if rest:
        yield f"{_time(sum(sum(each) for _, each in rest))}: {len(rest)} {what}"


def _time(nanoseconds: float) -> str:
    if abs(nanoseconds) >= 1e9:
        return f"{nanoseconds / 1e9:.3f} s"
    return f"{nanoseconds / 1e6:.3f} ms" if abs(nanoseconds) >= 1e6 else f"{nanoseconds / 1e3:.1f} us"
