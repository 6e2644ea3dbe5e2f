"""A run of the program, told on its execution graph: what ran when, by lanes. Plain values; who measured is not known here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """One operation or call as it ran. Times are nanoseconds from the start of the run; `node` is its id in the graph, "" when the
    graph has none for it. `issued`: when the call that issued it began, -1 when that is not known."""

    start: int
    end: int
    name: str
    kind: str  # kernel copy memset call wait
    node: str = ""
    issued: int = -1


@dataclass(frozen=True, slots=True)
class MeasuredLane:
    """A host thread or a stream, with what it did in order of time. `lane`: the label of the stream in the graph, None for the
    host; "?" when the graph has no such stream."""

    title: str
    lane: str | None
    host: bool
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """`begin` is when the work proper begins: the device is ready. `left_out` operations are not told, for their number."""

    device: str
    begin: int
    end: int
    lanes: tuple[MeasuredLane, ...]
    left_out: int = 0
    notes: tuple[str, ...] = ()
