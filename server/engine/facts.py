"""What the server knows about one file after an analysis: plain values with absolute byte offsets.

The analysis process makes them and sends them over a pipe, so they hold no IR, no Timeline and no syntax tree. Features
turn them into protocol values; no feature looks at the engine's types.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, TypeVar

from stitchcuda.analysis.quick_init import quick_init

Fact = TypeVar("Fact")
_MOST_FIELDS = 9  # that `quick_init` takes


def _sent(cls: type[Fact]) -> type[Fact]:
    """Class decorator: made and pickled fast. Thousands of these come with each edit of a long file, and what `dataclasses` does for
    slots looks the fields up anew for each object."""
    values: Callable[[Any], Any] = attrgetter(*[field.name for field in fields(cls)])  # type: ignore[arg-type]
    made = quick_init(cls) if len(fields(cls)) <= _MOST_FIELDS else cls  # type: ignore[arg-type]
    made.__reduce__ = lambda self: (made, values(self))  # type: ignore[method-assign]
    return made


@_sent
@dataclass(frozen=True, slots=True)
class Place:
    """A byte range of a file."""

    path: str
    start: int
    end: int


@_sent
@dataclass(frozen=True, slots=True)
class PlacedEdit:
    """Replace the bytes of `place` by `text`."""

    place: Place
    text: str


@_sent
@dataclass(frozen=True, slots=True)
class PlacedFix:
    """A fix whose edits are ready to be sent; they belong together."""

    title: str
    preferred: bool
    edits: tuple[PlacedEdit, ...]


@_sent
@dataclass(frozen=True, slots=True)
class PlacedRelated:
    place: Place
    message: str


@_sent
@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """A finding of the analysis with the places that it names."""

    code: str
    group: str
    severity: str
    confidence: str
    place: Place
    message: str
    related: tuple[PlacedRelated, ...] = ()
    fixes: tuple[PlacedFix, ...] = ()
    condition: str = ""
    default: bool = True  # part of the default selection


@_sent
@dataclass(frozen=True, slots=True)
class LaunchFact:
    """One kernel launch as written, with what is known about it on the call paths that reach it."""

    place: Place
    kernel: str
    grid: str
    block: str
    streams: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    after: tuple[str, ...]  # what it is directly ordered after, e.g. "copy `cudaMemcpyAsync` line 12 (stream)"
    paths: int = 1  # call paths that reach it
    may_read: tuple[str, ...] = ()  # perhaps, too: what the kernel does with them is not known
    may_write: tuple[str, ...] = ()


@_sent
@dataclass(frozen=True, slots=True)
class StageFact:
    """One device operation or wait of a host function, in source order."""

    place: Place
    kind: str
    title: str
    detail: str


@_sent
@dataclass(frozen=True, slots=True)
class FunctionFact:
    """A kernel, or a host function with device work."""

    name: str
    place: Place
    name_place: Place
    kernel: bool
    # What it sets going, itself or through the functions it calls:
    kernels: int = 0  # distinct ones
    streams: int = 0
    copies: int = 0
    launches: int = 0
    kinds: frozenset[str] = frozenset()  # of all calls (`ApiKind`)
    stages: tuple[StageFact, ...] = ()  # only what is written in it


@_sent
@dataclass(frozen=True, slots=True)
class OperationFact:
    """A launch, a copy, a fill, a wait or an event record as written, on all call paths that reach it. `lines` are told in order (none
    for launches, which have a `LaunchFact`); `hint` says in a few words what a wait waits for, "" when that is not known."""

    place: Place
    kind: str  # an `ApiKind`
    api: str
    lines: tuple[str, ...]
    streams: tuple[str, ...]
    hint: str = ""


@_sent
@dataclass(frozen=True, slots=True)
class NamedFact:
    """A stream, an event or a buffer. Its name means it inside `scope`; None: anywhere in the file."""

    kind: str  # stream, event, buffer
    name: str
    scope: Place | None
    lines: tuple[str, ...]


@_sent
@dataclass(frozen=True, slots=True)
class ProblemFact:
    path: str
    line: int
    what: str
    consequence: str


@_sent
@dataclass(frozen=True, slots=True)
class FileFacts:
    """What is known of one file; findings and outline (launches, functions, operations, names) come in two messages."""

    path: str
    findings: tuple[PlacedFinding, ...] = ()
    launches: tuple[LaunchFact, ...] = ()
    functions: tuple[FunctionFact, ...] = ()
    operations: tuple[OperationFact, ...] = ()
    named: tuple[NamedFact, ...] = ()
    problems: tuple[ProblemFact, ...] = ()
