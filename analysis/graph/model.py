"""The execution graph: one node for each operation and call path, with what orders it after what.

Plain values, ready to print: paths as given, 1-based lines, names as the user wrote them. Built from Timelines by
`build.py`; `to_json.py`, `to_mermaid.py` and `to_text.py` print it.
"""

from __future__ import annotations

from dataclasses import dataclass

LEGACY_LABEL = "default"
RETURNS = {  # how a copy and the host that calls it go on
    "": "the host goes on",
    "done": "the host waits until it is done",
    "staged": "the host waits until the source may be reused, not for the copy itself",
    "pinned": "the host goes on if that memory is pinned",
    "maybe": "the host may wait until it is done",
}


@dataclass(frozen=True, slots=True)
class CallPoint:
    """One call on the way from the entry to a node."""

    path: str
    line: int
    callee: str = ""  # not printed in JSON: the function called


@dataclass(frozen=True, slots=True)
class GraphNode:
    """See docs/graph.md for the meaning of each field; the field names are those of the JSON."""

    id: str
    kind: str
    api: str | None
    kernel: str | None
    path: str
    line: int
    function: str
    stream: str | None  # None: the host does it
    stream_line: int | None
    stream_flags: str | None
    event: str | None
    copy_kind: str | None
    device: int | None
    thread: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    bytes: str | None
    grid: str | None
    block: str | None
    loop: str | None
    condition: str | None
    confidence: str
    calls: tuple[CallPoint, ...] = ()
    entry: str = ""  # not printed in JSON: the entry function, for grouping
    made: tuple[str, ...] = ()  # not printed in JSON: memory that the node allocates or releases
    blocks_host: bool = False  # not printed in JSON: the host waits in the call until earlier device work is done
    returns: str = ""  # not printed in JSON, of copies: when the call returns, one of the RETURNS below
    captured: bool = False  # not printed in JSON: only recorded, runs when its CUDA graph is launched
    column: int = 1  # not printed in JSON: where the call begins on its line, in characters from 1
    device_code: str = ""  # not printed in JSON, of launches: which definition of the kernel runs

    @property
    def entry_path(self) -> str:
        """The file of the entry: each program of several has its `main`."""
        return self.calls[0].path if self.calls else self.path


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """`why`: see the table in docs/graph.md."""

    source: str
    target: str
    why: str


@dataclass(frozen=True, slots=True)
class GraphLoop:
    """A loop around nodes; `trip` is its number of rounds as a formula."""

    id: str
    parent: str | None
    path: str
    line: int
    trip: str | None
    depth: int = 0  # not printed in JSON: number of calls between the entry and the loop


@dataclass(frozen=True, slots=True)
class GraphOverlap:
    """Work `one` may still run when `other` starts: work of another stream, or a call in which the host waits for something else.
    `next_round`: only with a later round of a loop around `other`."""

    one: str
    other: str
    next_round: bool


@dataclass(frozen=True, slots=True)
class ExecutionGraph:
    """Nodes in program order, edges by source and target, loops outermost first."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    loops: tuple[GraphLoop, ...]
    overlaps: tuple[GraphOverlap, ...] = ()  # not printed in JSON
    complete: tuple[
        int, ...
    ] = ()  # not printed in JSON, when asked for: of each node the numbers (bits) of those complete before it
