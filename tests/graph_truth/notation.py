"""How a program's execution graph is written down by hand, and what is compared.

A transcription runs through the program once, in program order, with one Python function for each C++ function that does
something on the GPU. `Program.call` and `Program.loop` follow the source into calls and loops; lines are found by looking
for a piece of the source from where the function was left off. Memory is passed along as `Buffer`s, under the names that
docs/graph.md gives it. What a node is ordered after is written down with it; data and allocation edges follow from the
buffers: a value flows from the last writers to each reader, and an allocation comes before the first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(eq=False)
class Buffer:
    name: str
    allocation: Node | None = None  # until its first use
    writers: list[Node] = field(default_factory=list)  # nodes that wrote what it holds now


@dataclass(frozen=True)
class Stream:
    label: str
    line: int | None = None
    flags: str | None = None


DEFAULT = Stream("default")


@dataclass(frozen=True)
class Loop:
    place: str
    trip: str | None
    parent: Loop | None


@dataclass(eq=False)
class Node:
    """One node: what the JSON says of it, with `place` for path and line, and loops by their place."""

    facts: dict[str, Any]

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.facts["calls"], self.facts["place"], self.facts["kind"])

    def __str__(self) -> str:
        return describe(self.facts)


def describe(facts: dict[str, Any]) -> str:
    what = facts["kernel"] or facts["api"] or facts["kind"]
    return f"{what} at {' > '.join((*facts['calls'], facts['place']))}"


@dataclass
class _Frame:
    """A function of the source that is being followed, and how far."""

    name: str
    path: str
    text: str
    position: int


class Program:
    """The truth about one program. `functions` says in which file each function stands that does GPU work."""

    def __init__(self, folder: Path, functions: dict[str, str]) -> None:
        self.folder = folder
        self.functions = functions
        self.nodes: list[Node] = []
        self.order: dict[tuple[Node, Node], str] = {}
        self.allocations: dict[tuple[Node, Node], None] = {}
        self.data: dict[tuple[Node, Node], None] = {}
        self.loops: list[Loop] = []
        self._frames: list[_Frame] = []
        self._calls: list[str] = []
        self._loop: list[Loop] = []
        self._condition: list[str] = []

    # ---------------------------------------------------------------------------------------------------- the source

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """The body of a function."""
        path = self.functions[name]
        text = (self.folder / path).read_text()
        (head,) = re.finditer(rf"^[^\s/#].*\b{name}\([^;{{]*\{{", text, re.MULTILINE)
        self._frames.append(_Frame(name, path, text[: text.index("\n}", head.end())], head.end()))
        yield
        self._frames.pop()

    @contextmanager
    def call(self, name: str, at: str = "") -> Iterator[None]:
        """The next call of a function, found by `at` or by its name."""
        self._calls.append(self.place(at or f"{name}("))
        with self.inside(name):
            yield
        self._calls.pop()

    @contextmanager
    def loop(self, head: str, trip: str | None) -> Iterator[None]:
        """A loop: its body is written once, with the edges that lead forward."""
        self._loop.append(Loop(self.place(head), trip, self._loop[-1] if self._loop else None))
        self.loops.append(self._loop[-1])
        yield
        self._loop.pop()

    @contextmanager
    def branch(self, condition: str) -> Iterator[None]:
        self.place(f"if ({condition})")
        self._condition.append(condition)
        yield
        self._condition.pop()

    def place(self, piece: str) -> str:
        """`file:line` of the next place in the function where a piece of source stands."""
        frame = self._frames[-1]
        found = frame.text.find(piece, frame.position)
        assert found >= 0, f"{piece!r} does not follow in {frame.name} of {frame.path}"
        frame.position = found + len(piece)
        return f"{frame.path}:{frame.text.count(chr(10), 0, found) + 1}"

    # ----------------------------------------------------------------------------------------------------- the graph

    def node(
        self,
        kind: str,
        api: str | None,
        at: str,
        *,
        after: Sequence[tuple[Node | None, str]] = (),
        stream: Stream | None = None,
        reads: Sequence[Buffer] = (),
        writes: Sequence[Buffer] = (),
        updates: Sequence[Buffer] = (),
        part: bool = False,
        allocates: bool = True,
        **facts: Any,
    ) -> Node:
        """`after`: what it is directly ordered after, and why; of two reasons for one source the first is given. `updates`
        is read and written. `part`: what it writes leaves what others wrote into other parts of the buffer.
        `allocates`: whether this is the use that allocations are ordered before."""
        known: dict[str, Any] = {
            "kind": kind,
            "api": api,
            "kernel": None,
            "place": self.place(at),
            "function": self._frames[-1].name,
            "stream": stream and stream.label,
            "stream_line": stream and stream.line,
            "stream_flags": stream and stream.flags,
            "event": None,
            "copy_kind": None,
            "device": 0,
            "thread": 0,
            "reads": {b.name for b in (*reads, *updates)},
            "writes": {b.name for b in (*writes, *updates)},
            "bytes": None,
            "grid": None,
            "block": None,
            "loop": self._loop[-1].place if self._loop else None,
            "condition": " && ".join(self._condition) or None,
            "confidence": "certain",
            "calls": tuple(self._calls),
        }
        assert set(facts) <= set(known)
        made = Node({**known, **facts})
        self.nodes.append(made)
        for source, why in after:
            if source is not None:
                self.order.setdefault((source, made), why)
        for buffer in (*reads, *updates):
            self.data.update(dict.fromkeys((w, made) for w in buffer.writers if (w, made) not in self.order))
        for buffer in (*reads, *writes, *updates):
            if allocates and buffer.allocation is not None:
                self.allocations[buffer.allocation, made] = None
                buffer.allocation = None
        for buffer in (*writes, *updates):
            buffer.writers = [*(buffer.writers if part else ()), made]
        return made

    def edges(self) -> list[tuple[Node, Node, str]]:
        first_uses = [(s, t, "allocation") for s, t in self.allocations]
        return [(s, t, why) for (s, t), why in self.order.items()] + first_uses + [(s, t, "data") for s, t in self.data]
