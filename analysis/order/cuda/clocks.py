"""Times that the host takes: readings of its clocks, differences of two readings, times between events (E4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stitchcuda.analysis.order.alias import same_instance
from stitchcuda.analysis.order.cuda.lifetimes import Lifetimes
from stitchcuda.analysis.order.machine import Done
from stitchcuda.analysis.order.recorder import Options
from stitchcuda.analysis.order.state import State
from stitchcuda.analysis.order.timeline import Condition, Measurement, Timeline
from stitchcuda.analysis.order.values import Clock, Place, Unknown, Value
from stitchcuda.analysis.program.ir import Program, Site, Span

# functions of libraries whose value is a time
VALUES = frozenset(
    {"now", "clock", "time", "omp_get_wtime", "MPI_Wtime", "GetTickCount", "GetTickCount64", "__rdtsc", "_rdtsc"}
    # Python's
    | {"perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time_ns", "default_timer"}
)
# functions that fill a structure; the position of its address
FILLS = {
    "gettimeofday": 0, "clock_gettime": 1, "timespec_get": 0, "QueryPerformanceCounter": 0, "ftime": 0,
}  # fmt: skip
PARTS = ("tv_sec", "tv_usec", "tv_nsec", "QuadPart", "time", "millitm")
PASSED_ON = frozenset({"duration_cast", "time_point_cast", "duration"})  # change the unit only
# stopwatches that are functions: what they do to the watch whose address they get
STOPWATCHES = {
    "sdkStartTimer": "start", "sdkStopTimer": "stop", "cutStartTimer": "start", "cutStopTimer": "stop",
}  # fmt: skip
RUNNING = "#clock"  # field of a stopwatch: the reading that it was started with


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a host clock, with what was issued and what was complete then."""

    site: Site
    api: str
    calls: tuple[Site, ...]
    conditions: tuple[Condition, ...]
    earlier: int
    host: Done
    thread: int


class Clocks(Lifetimes):
    """Layer of the executor: readings of clocks are values, their differences are measurements."""

    def __init__(self, program: Program, options: Options) -> None:
        super().__init__(program, options)
        self.readings: list[Reading] = []
        self.measurements: dict[tuple[object, ...], Measurement] = {}
        self.handed_on: set[int] = set()  # events given to code that is not followed

    def read_clock(self, state: State, span: Span, api: str) -> Clock:
        """The host looks at a clock."""
        order = state.order
        self.readings.append(
            Reading(
                self.site(span), api, self.frame.calls, state.conditions, order.earlier, order.host, self.thread
            )
        )  # fmt: skip
        return Clock(len(self.readings) - 1)

    def fill_clock(self, state: State, place: Place, span: Span, api: str) -> None:
        """The host has a structure filled with the time."""
        reading = self.read_clock(state, span, api)
        for part in PARTS:
            state.store(place.field(part), reading)

    def stopwatch(self, state: State, place: Place, does: str, span: Span, api: str) -> None:
        """A stopwatch is started or stopped."""
        reading = self.read_clock(state, span, api)
        started = state.load(place.field(RUNNING))
        if does == "start":
            state.store(place.field(RUNNING), reading)
        elif isinstance(started, Clock):
            self._between(started, reading, self.site(span))

    def clock_arithmetic(self, op: str, left: Value, right: Value, span: Span) -> Value | None:
        """`left op right` when one of them is a reading; None when that is not a time."""
        if op not in ("+", "-", "*", "/", "|", "<<", "&"):
            return None
        if isinstance(left, Clock) and isinstance(right, Clock):
            if left.reading == right.reading:
                return left
            if op == "-" and left.negative == right.negative:
                self._between(right, left, self.site(span))
            elif op == "+" and left.negative != right.negative:
                started, stopped = (left, right) if left.negative else (right, left)
                self._between(started, stopped, self.site(span))
            return Unknown(self.fresh("elapsed"))
        if isinstance(left, Clock):
            return left
        if isinstance(right, Clock):
            return Clock(right.reading, right.negative != (op == "-"))
        return None

    def _between(self, start: Clock, stop: Clock, difference: Site) -> None:
        """The time from one reading to the other is taken."""
        first, last = self.readings[start.reading], self.readings[stop.reading]
        if first.earlier & ~last.earlier or first.thread != last.thread:
            return
        since = last.earlier & ~first.earlier
        running = since & ~last.host.must
        depth = 0
        while depth < min(len(first.calls), len(last.calls)) and first.calls[depth] == last.calls[depth]:
            depth += 1
        seen = last.calls[depth] if depth < len(last.calls) else last.site
        begun = first.calls[depth] if depth < len(first.calls) else first.site
        made = Measurement(
            seen, last.api, begun, last.calls[:depth], last.conditions, since, running, running & (last.host.may | last.host.partly),
            last.earlier, difference, thread=last.thread,
        )  # fmt: skip
        self._keep(made)

    def time_between_events(self, state: State, events: tuple[int, int], span: Span, api: str) -> None:
        """The time between two events is asked for."""
        since = 0
        unrecorded = []
        for event in events:
            records = self.machine.event_work(state.order, event)[1]
            since |= sum(1 << r for r in dict.fromkeys(records) if self.ops[r].graph is None)
            if not records and not self._recorded_elsewhere(state, event):
                unrecorded.append(event)
        host = state.order.host
        running = since & ~host.must
        made = Measurement(
            self.site(span), api, None, self.frame.calls, state.conditions, since, running, running & (host.may | host.partly),
            state.order.earlier, None, events, tuple(unrecorded), self.thread,
        )  # fmt: skip
        self._keep(made)

    def _recorded_elsewhere(self, state: State, event: int) -> bool:
        """It comes from outside, was given to code that is not here, or another event of its family was recorded that may be it."""
        me = self.events[event]
        if me.site is None or event in self.handed_on:
            return True
        others = (self.events[e] for e in state.order.events)
        return any(
            o.site == me.site and o.calls == me.calls and same_instance(o.instance, me.instance) is not False
            for o in others
        )

    def _keep(self, made: Measurement) -> None:
        """Several times between the same two points are one; what is not complete on some path counts."""
        key = (made.site, made.calls, made.start, made.events)
        known = self.measurements.get(key)
        if known is None or (made.running & ~made.maybe and not known.running & ~known.maybe):
            self.measurements[key] = made

    def timeline(self, entry: str) -> Timeline:
        return replace(super().timeline(entry), measurements=tuple(self.measurements.values()))
