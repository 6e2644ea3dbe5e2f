"""How well the static Timeline of a program agrees with the traced one.

    python benchmarks/truth.py --programs DIR --traces DIR [--context DIR ...] [--json OUT] [NAME ...]

DIR of programs holds a folder of sources for each NAME, DIR of traces a `NAME.json` of `stitchcuda trace --mode full --format
json`, recorded from a build with -g. Compared are *nodes*: what one line of the source does (its operation and its kernel).

ops      nodes of the trace that the analysis has at the same line, and nodes that the analysis takes to run on every path
         and the trace has. Nodes of code that is not there (libraries) do not count; calls of libraries stand for what they do.
streams  nodes of device work that both have, where the streams seen in the trace are among those that the analysis names: by the
         line that creates them, or the default stream.
order    pairs of nodes of device work that are certain to touch the same memory in the trace, where both say the same: always
         ordered, or not. Memory of the host that CUDA did not allocate has no lifetime in a trace: where the analysis sees two
         things at one address, they are two.

What a program did not do in the traced run (other branches) is not compared.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from stitchcuda.analysis.index import Analysis, Index
from stitchcuda.analysis.order.alias import conflict
from stitchcuda.analysis.order.families import same_stream_where_they_meet
from stitchcuda.analysis.order.timeline import Certainty, Memory, Mode, Op, Stream, StreamKind, Timeline
from stitchcuda.analysis.program.api_library import guess
from stitchcuda.analysis.program.effects import kernel_effects
from stitchcuda.analysis.program.ir import Api, ApiKind, Program, Site, walk
from stitchcuda.analysis.syntax.text import LineIndex
from stitchcuda.gpu_validate.trace.model import Trace
from stitchcuda.gpu_validate.trace.store import from_json
from stitchcuda.gpu_validate.trace.timeline import Effects, TracedTimeline, effects_of, timeline_of

WORK = frozenset({ApiKind.LAUNCH, ApiKind.COPY, ApiKind.MEMSET, ApiKind.GRAPH_LAUNCH, ApiKind.HOST_FUNC})
WAITS = frozenset({ApiKind.DEVICE_SYNC, ApiKind.STREAM_SYNC, ApiKind.EVENT_SYNC})
COMPARED = WORK | WAITS | {
    ApiKind.ALLOC, ApiKind.HOST_ALLOC, ApiKind.REGISTER, ApiKind.FREE, ApiKind.HOST_FREE, ApiKind.UNREGISTER,
    ApiKind.EVENT_RECORD, ApiKind.EVENT_WAIT, ApiKind.PREFETCH, ApiKind.CAPTURE_BEGIN, ApiKind.CAPTURE_END,
}  # fmt: skip
SOURCES = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".hh", ".inl")
TRIES = 400  # pairs of operations looked at for one pair of nodes
DEFAULT = "default"
STUB = 3  # lines from the name of a kernel to the brace behind its parameters


@dataclass(frozen=True, order=True)
class Node:
    file: str  # its name, without folders
    line: int
    kind: str
    kernel: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.kernel or self.kind}"


@dataclass
class Agreement:
    """Compared and agreed, and the differences as text."""

    compared: int = 0
    agreed: int = 0
    differences: list[str] = field(default_factory=list)

    def count(self, same: bool, difference: str) -> None:
        self.compared += 1
        self.agreed += same
        if not same:
            self.differences.append(difference)


@dataclass
class Compared:
    name: str
    ops: Agreement = field(default_factory=Agreement)
    streams: Agreement = field(default_factory=Agreement)
    order: Agreement = field(default_factory=Agreement)
    traced: int = 0  # operations of the trace
    cut: bool = False  # the trace was longer than is looked at

    def as_json(self) -> dict[str, Any]:
        parts = {"ops": self.ops, "streams": self.streams, "order": self.order}
        return {
            "program": self.name,
            "traced_operations": self.traced,
            "cut": self.cut,
            **{k: {"compared": a.compared, "agreed": a.agreed, "differences": a.differences} for k, a in parts.items()},
        }


def analysed(folder: Path, context: Sequence[Path]) -> Analysis:
    index = Index(strict=True)
    for root in (folder, *context):
        for path in sorted(root.rglob("*")):
            if path.suffix in SOURCES and path.is_file():
                index.put(str(path), path.read_bytes())
    return index.analyse()


def load(path: Path) -> Trace:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return from_json(json.loads(data))


class Static:
    """The nodes of all entries of a program."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._lines = {path: LineIndex.of(text) for path, text in analysis.sources.items()}
        self.nodes: dict[Node, list[tuple[Timeline, Op]]] = defaultdict(list)
        self._at: dict[tuple[str, str], list[tuple[int, int, Node]]] = defaultdict(list)
        self.anywhere: set[str] = set()  # kernels of which the trace does not say which launch it was
        for timeline in analysis.timelines:
            entry = analysis.program.functions[timeline.entry]
            if entry.name != "main" and any(
                analysis.program.functions[t.entry].name == "main" for t in analysis.timelines
            ):
                continue
            for op in timeline.ops:
                if op.kind in COMPARED or op.kind is ApiKind.LIBRARY_CALL:
                    for kernel in self._kernels(op):
                        self.nodes[self._node(op, kernel)].append((timeline, op))

    def _kernels(self, op: Op) -> set[str]:
        """The kernels that a launch may run: several, when it is through a pointer."""
        if op.kind is not ApiKind.LAUNCH:
            return {""}
        functions = self._analysis.program.functions
        also = {functions[uid].name for uid in op.launched.kernels} if op.launched is not None else set()
        return {bare(op.kernel), *map(bare, also)}

    def _node(self, op: Op, kernel: str) -> Node:
        file, first, last = self.lines(op.site)
        node = Node(file, first, op.kind.value, kernel)
        if node not in self.nodes:
            self._at[file, op.kind.value].append((first, last, node))
        return node

    def lines(self, site: Site) -> tuple[str, int, int]:
        place = self._analysis.program.locate(site)
        lines = self._lines[place.path]
        return (
            os.path.basename(place.path),
            lines.line_at(place.start) + 1,
            lines.line_at(max(place.start, place.end - 1)) + 1,
        )

    def find(self, traced: Node) -> Node | None:
        """The node at the traced line. Debug information may name any line of a statement."""
        near: list[tuple[int, int, int, Node]] = []
        kinds = (traced.kind, ApiKind.LIBRARY_CALL.value)  # what a library does inside is its call
        for preference, kind in enumerate(kinds):
            for first, last, node in self._at.get((traced.file, kind), ()):
                away = max(first - traced.line, traced.line - last, 0)
                if away <= 1 and (node.kernel == traced.kernel or not node.kernel):
                    near.append((away, preference, abs(node.line - traced.line), node))
        return min(near)[3] if near else self._launched_somewhere(traced)

    def _launched_somewhere(self, traced: Node) -> Node | None:
        """A launch of a static kernel: its stub is put into the callers and keeps the line of the kernel, which does not say
        which of several launches it was."""
        kernels = [
            f for f in self._analysis.program.functions.values() if f.space == "global" and f.name == traced.kernel
        ]
        for kernel in kernels:
            file, first, last = self.lines(Site(kernel.uid, kernel.path, kernel.name_span))
            if file == traced.file and first - 1 <= traced.line <= last + STUB:
                known = [
                    n
                    for (f, k), at in self._at.items()
                    if k == traced.kind
                    for *_, n in at
                    if n.kernel == traced.kernel
                ]
                self.anywhere.add(traced.kernel)
                return min(known, default=None)
        return None

    def makes_a_handle(self, traced: Node) -> bool:
        """Whether a library makes a handle, plan or descriptor at the line, or sets one: with what it does on the device for
        that, it fills memory of its own."""
        return any(first <= traced.line <= last for first, last in self._quiet.get(traced.file, ()))

    @cached_property
    def _quiet(self) -> dict[str, list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for function in self._analysis.program.functions.values():
            for call in walk(function.body) if function.body is not None else ():
                if isinstance(call, Api) and call.kind is ApiKind.NEUTRAL and guess(call.name) is not None:
                    file, first, last = self.lines(Site(function.uid, function.path, call.span))
                    found[file].append((first, last))
        return found

    def stream(self, stream: Stream) -> str:
        if stream.kind is StreamKind.LEGACY or stream.kind is StreamKind.PER_THREAD:
            return DEFAULT
        if stream.kind is StreamKind.CREATED and stream.site is not None:
            file, line, _ = self.lines(stream.site)
            return f"{file}:{line}"
        return "?"


def bare(kernel: str) -> str:
    """`void ns::k<float>` and `k<float>` are `k`; so is a static kernel of relocatable device code."""
    local = re.fullmatch(r"__nv_static_.*?__Z(\d+)(\w+)", kernel)
    if local is not None:
        return local[2][: int(local[1])]
    return kernel.split("<")[0].split("(")[0].rsplit("::", 1)[-1].split(" ")[-1].strip()


class Traced:
    def __init__(self, trace: Trace, effects: Effects, files: frozenset[str]) -> None:
        self.line: TracedTimeline = timeline_of(trace, effects)
        self.ops: dict[Node, list[Op]] = defaultdict(list)
        self.streams: dict[int, str] = {0: DEFAULT}
        for stream in trace.streams:
            if stream.origin == "per_thread":
                self.streams[stream.number] = DEFAULT
        for call in trace.calls:
            if "StreamCreate" in call.api and call.sites:
                site = next((s for s in call.sites if os.path.basename(s.path) in files), call.sites[0])
                self.streams[call.stream] = f"{os.path.basename(site.path)}:{site.line}"
        for op, call in zip(self.line.timeline.ops, self.line.calls, strict=True):
            if (
                op.kind not in COMPARED
                or (op.kind is ApiKind.EVENT_SYNC or op.kind is ApiKind.STREAM_SYNC)
                and "Query" in call.api
            ):
                continue
            known = [s for s in call.sites if os.path.basename(s.path) in files]
            if known:  # else a library's own
                kernel = bare(call.kernel) if op.kind is ApiKind.LAUNCH else ""
                self.ops[Node(os.path.basename(known[0].path), known[0].line, op.kind.value, kernel)].append(op)


def careful_effects(program: Program) -> Effects:
    """As the traced Timeline takes them, but an access is certain only where the kernel uses the first bytes of what it is given."""
    known = effects_of(program)

    def effects(kernel: str) -> Sequence[tuple[frozenset[Mode], Certainty]] | None:
        uses = known(kernel)
        uids = program.by_name.get(bare(kernel), ())
        if uses is None or len(uids) != 1:
            return uses
        sure = []
        told = kernel_effects(program, uids[0])
        pointers = [p for p in program.functions[uids[0]].params if p.type.pointer]
        for (modes, certainty), param in zip(uses, pointers, strict=True):
            first = all(e.first is not None and e.first.constant == 0 for e in told.of(param.name))
            sure.append((modes, certainty if first else Certainty.MAY))
        return sure

    return effects


def compare(name: str, trace: Trace, analysis: Analysis) -> Compared:
    result = Compared(name)
    static = Static(analysis)
    files = frozenset(os.path.basename(path) for path in analysis.sources)
    traced = Traced(trace, careful_effects(analysis.program), files)
    result.traced = len(traced.line.timeline.ops)
    result.cut = bool(traced.line.timeline.cuts)
    matched: dict[Node, Node] = {}
    for node in sorted(traced.ops):
        found = static.find(node)
        if (
            found is None
            and (not traced.ops[node][0].kind in WORK or static.makes_a_handle(node))
            and not _written(analysis, node, traced.ops[node][0].api)
        ):
            continue  # a library's own: its code is not there
        result.ops.count(found is not None, f"only in the trace: {node}")
        if found is not None:
            matched[node] = found
    if not result.cut:
        _not_traced(static, set(matched.values()), _failed(trace), result.ops)
    for node, found in matched.items():
        if node.kind in {k.value for k in WORK}:
            _streams(traced, node, static, found, result.streams)
    _order(traced, static, matched, result.order)
    return result


def _written(analysis: Analysis, node: Node, api: str) -> bool:
    """Whether the call stands in the source at the traced line: at most one line away from its statement."""
    for path, text in analysis.sources.items():
        if os.path.basename(path) == node.file:
            lines = LineIndex.of(text)
            for found in re.finditer(rb"\b%s\b" % api.encode(), text):
                end = text.find(b";", found.end())
                first, last = lines.line_at(found.start()) + 1, lines.line_at(max(end, found.end())) + 1
                if first - 1 <= node.line <= last + 1:
                    return True
    return False


def _failed(trace: Trace) -> set[tuple[str, int]]:
    """Where calls failed in the traced run: they were made, and did nothing."""
    return {(os.path.basename(s.path), s.line) for call in trace.calls if call.status for s in call.sites[:1]}


def _not_traced(static: Static, seen: set[Node], failed: set[tuple[str, int]], ops: Agreement) -> None:
    """What the analysis takes to run always, in `main`, before something that did run, and the trace does not have."""
    last = max((op.id for node in seen for _, op in static.nodes[node] if not op.calls), default=-1)
    for node, found in sorted(static.nodes.items(), key=lambda item: item[0]):
        always = any(
            not op.conditions and op.certain and op.loop is None and not op.calls and op.id < last for _, op in found
        )
        if (
            always
            and node not in seen
            and node.kernel not in static.anywhere
            and (node.file, node.line) not in failed
            and node.kind != ApiKind.LIBRARY_CALL.value
        ):
            ops.count(False, f"only in the analysis: {node}")


def _streams(traced: Traced, node: Node, static: Static, found: Node, streams: Agreement) -> None:
    seen = {traced.streams.get(op.stream, "?") for op in traced.ops[node] if op.stream is not None}
    named = {static.stream(t.streams[op.stream]) for t, op in static.nodes[found] if op.stream is not None}
    streams.count(bool(seen) and seen <= named, f"{node}: on {sorted(seen)}, analysed as {sorted(named)}")


def _order(traced: Traced, static: Static, matched: dict[Node, Node], order: Agreement) -> None:
    timeline = traced.line.timeline
    work = {
        op.id: node
        for node, ops in traced.ops.items()
        if node in matched
        for op in ops
        if op.kind in WORK and op.graph is None  # what is captured runs with its graph
    }
    pairs: dict[tuple[Node, Node], list[tuple[int, int]]] = defaultdict(list)
    by_buffer: dict[int, list[int]] = defaultdict(list)
    for number in sorted(work):
        for buffer in {a.buffer for a in timeline.ops[number].accesses}:
            for other in by_buffer[buffer]:
                known = pairs[work[other], work[number]]
                if len(known) < TRIES:
                    known.append((other, number))
            if len(by_buffer[buffer]) < 600:
                by_buffer[buffer].append(number)
    for (first, second), candidates in sorted(pairs.items()):
        met = [(a, b) for a, b in candidates if any(c.certain for c in conflict(timeline, a, b))]
        if not met:
            continue
        pageable = all(
            timeline.buffers[c.first.buffer].memory is Memory.PAGEABLE for a, b in met for c in conflict(timeline, a, b)
        )
        ordered = all(timeline.ordered(a, b) for a, b in met)
        if matched[first] == matched[second] and matched[first].kind == ApiKind.LIBRARY_CALL.value:
            continue  # what one call of a library does inside, with memory of its own
        said = _said(static, matched[first], matched[second])
        if said is None and pageable:
            continue
        if said is None:
            order.count(False, f"{first} then {second}: the analysis sees no conflict")
        else:
            order.count(said == ordered, f"{first} then {second}: ordered {ordered}, analysed as {said}")


def _said(static: Static, first: Node, second: Node) -> bool | None:
    """Whether the analysis orders the operations of the two nodes that touch the same memory for certain, or may when none
    does for certain; None: it sees no conflict."""
    verdicts = list(_conflicting(static.nodes[first], static.nodes[second]))
    sure = [ordered for certain, ordered in verdicts if certain]
    if not verdicts:
        return None
    return all(sure) if sure else all(ordered for _, ordered in verdicts)


def _conflicting(
    firsts: Sequence[tuple[Timeline, Op]], seconds: Sequence[tuple[Timeline, Op]]
) -> Iterator[tuple[bool, bool]]:
    """For pairs of operations with a conflict: whether it is certain, and whether they are in order."""
    tries = 0
    for timeline, a in firsts:
        for other, b in seconds:
            if other is timeline and a.id != b.id and timeline.earlier[b.id] >> a.id & 1 and tries < TRIES:
                tries += 1
                met = [c for c in conflict(timeline, a.id, b.id) if c.same is not False]
                if met:
                    lane = all(same_stream_where_they_meet(timeline, a, b, c) for c in met)
                    yield any(c.same for c in met), lane or timeline.ordered(a.id, b.id)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--programs", type=Path, required=True)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--context", type=Path, action="append", default=[], help="headers that the programs include")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    traces = {p.name.split(".json")[0]: p for p in sorted(arguments.traces.glob("*.json*"))}
    results = []
    for name in arguments.names or sorted(traces):
        if not (arguments.programs / name).is_dir():
            print(f"{name}: no folder of that name in {arguments.programs}", file=sys.stderr)
            return 2
        found = compare(name, load(traces[name]), analysed(arguments.programs / name, arguments.context))
        results.append(found)
        parts = (found.ops, found.streams, found.order)
        print(f"{name:<34}" + "".join(f" {a.agreed:>4}/{a.compared:<4}" for a in parts), flush=True)
        for part in parts:
            for line in part.differences:
                print(f"    {line}")
    for label in ("ops", "streams", "order"):
        whole = [getattr(r, label) for r in results]
        agreed, compared = sum(a.agreed for a in whole), sum(a.compared for a in whole)
        print(f"{label:<8} {agreed}/{compared} = {100 * agreed / max(1, compared):.1f} %")
    if arguments.json:
        arguments.json.write_text(json.dumps([r.as_json() for r in results], indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
