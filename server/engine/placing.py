"""From an engine's `Analysis` to `FileFacts`: sites become absolute byte ranges, ops become words.

Runs in the analysis process. Sites that the program does not know (a function that was just deleted) are left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from stitchcuda.analysis.findings.finding import Finding
from stitchcuda.analysis.graph.flow import value_edges
from stitchcuda.analysis.order.timeline import Certainty, Edge, Mode, Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind, Function, Program, Site
from stitchcuda.analysis.syntax.text import LineIndex
from stitchcuda.server.engine import describing, lives, words
from stitchcuda.server.engine.facts import (
    FileFacts,
    FunctionFact,
    LaunchFact,
    Place,
    PlacedEdit,
    PlacedFinding,
    PlacedFix,
    PlacedRelated,
    ProblemFact,
    StageFact,
)

Read = Callable[[str], bytes | None]
Fact = TypeVar("Fact")

_STAGE_WORDS = {
    ApiKind.LAUNCH: "launch",
    ApiKind.COPY: "copy",
    ApiKind.MEMSET: "memset",
    ApiKind.EVENT_RECORD: "record event",
    ApiKind.EVENT_WAIT: "stream waits for event",
    ApiKind.EVENT_SYNC: "host waits for event",
    ApiKind.STREAM_SYNC: "host waits for stream",
    ApiKind.DEVICE_SYNC: "host waits for device",
    ApiKind.HOST_FUNC: "host function",
    ApiKind.CAPTURE_BEGIN: "capture begins",
    ApiKind.CAPTURE_END: "capture ends",
    ApiKind.GRAPH_LAUNCH: "graph launch",
    ApiKind.PREFETCH: "prefetch",
    ApiKind.LIBRARY_CALL: "library call",
}
_AFTER_LIMIT = 6
_LEADING_LIMIT = 8  # entries


def place_findings(analysis: Any, paths: Iterable[str], complete: bool = True) -> dict[str, FileFacts]:
    """Findings and problems of the files `paths`. Not `complete`: parts of the program were not read yet, and what holds only when
    nothing else of it says otherwise is left out."""
    program: Program = analysis.program
    wanted = set(paths)
    defaults = _default_codes()
    findings: dict[str, list[PlacedFinding]] = {path: [] for path in wanted}
    for finding in analysis.findings:
        if finding.site.path in wanted and (complete or not _of_every_program(finding.code)):
            placed = _finding(finding, program, defaults)
            if placed is not None:
                findings[finding.site.path].append(placed)
    return {
        path: FileFacts(
            path=path,
            findings=tuple(findings[path]),
            problems=tuple(
                ProblemFact(p.path, p.line, p.what, p.consequence) for p in analysis.problems if p.path == path
            ),
        )
        for path in wanted
    }


class Interrupted(Exception):
    """Something else is to be done first."""


def place_outline(
    analysis: Any,
    paths: Iterable[str],
    texts: Mapping[str, bytes],
    read: Read,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, FileFacts]:
    """Launches and functions of the files `paths`, whose analysed text is in `texts`; other text comes from `read`. Raises Interrupted
    soon after `stop` is true."""
    program: Program = analysis.program
    wanted = set(paths)
    lines = _Lines(texts, read)
    ops = _ops_by_path(analysis.timelines, wanted)
    into = _Edges()
    edges = words.Edges()
    places = words.Places(program, lines.of, op_words)
    return {
        path: FileFacts(
            path=path,
            launches=_while_wanted(_launches(ops[path], program, lines, into), stop),
            functions=_while_wanted(_functions(path, ops[path], analysis.timelines, program), stop),
            operations=_while_wanted(describing.operations(path, _occurrences(ops[path]), places, edges), stop),
            named=_while_wanted(lives.named(path, analysis.timelines, program, places, edges), stop),
        )
        for path in wanted
    }


def place_outline_at(
    analysis: Any, path: str, at: int, text: bytes, read: Read, stop: Callable[[], bool] = lambda: False
) -> FileFacts | None:
    """The same for the function around a byte alone, as far as the first entries tell that lead to it; None where there is none."""
    module = analysis.program.modules.get(path)
    functions = [f for f in (*module.functions, module.entry) if f is not None] if module is not None else []
    around = {f.uid for f in functions if f.base + f.span[0] <= at <= f.base + f.span[1]}
    leading = tuple(islice((t for t in analysis.timelines if not around.isdisjoint(t.functions)), _LEADING_LIMIT))
    if not leading:
        return None
    return place_outline(replace(analysis, timelines=leading), [path], {path: text}, read, stop)[path]


def _while_wanted(facts: Iterable[Fact], stop: Callable[[], bool]) -> tuple[Fact, ...]:
    found = []
    for fact in facts:
        if stop():
            raise Interrupted
        found.append(fact)
    return tuple(found)


def graph_text(analysis: Any, function: str, form: str) -> str:
    """The execution graph of a program, or of what runs inside `function` (a name; "" for all). "" when it is empty."""
    from stitchcuda.analysis.graph.build import execution_graph
    from stitchcuda.analysis.graph.to_dot import to_dot
    from stitchcuda.analysis.graph.to_json import to_json
    from stitchcuda.analysis.graph.to_mermaid import to_mermaid
    from stitchcuda.analysis.graph.to_svg import to_svg
    from stitchcuda.analysis.graph.to_text import to_text

    graph = execution_graph(analysis.timelines, analysis.program, analysis.sources, function or None)
    if not graph.nodes:
        return ""
    if form == "json":
        return json.dumps(to_json(graph))
    forms = {"mermaid": to_mermaid, "dot": to_dot, "svg": to_svg}
    return forms.get(form, to_text)(graph)


class _Lines:
    """One-based line numbers, with one index a file."""

    def __init__(self, texts: Mapping[str, bytes], read: Read):
        self._texts, self._read = texts, read
        self._indexes: dict[str, LineIndex] = {}

    def of(self, place: Place) -> int:
        index = self._indexes.get(place.path)
        if index is None:
            index = LineIndex.of(self._texts.get(place.path) or self._read(place.path) or b"")
            self._indexes[place.path] = index
        return index.line_at(place.start) + 1


class _Edges:
    """What each op of a timeline is directly ordered after: its order edges, and the values and memory that it gets from
    ops that no order edge names."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, list[Edge]]] = {}

    def into(self, timeline: Timeline, op: int) -> list[Edge]:
        by_target = self._known.get(id(timeline))
        if by_target is None:
            by_target = self._known[id(timeline)] = {}
            told = {(edge.source, edge.target) for edge in timeline.edges}
            values = (edge for edge in value_edges(timeline) if (edge.source, edge.target) not in told)
            for edge in (*timeline.edges, *values):
                by_target.setdefault(edge.target, []).append(edge)
        return by_target.get(op, [])


@dataclass
class _Occurrences:
    """The ops of one call site, on every call path and in every timeline."""

    op: Op
    ops: list[tuple[Timeline, Op]] = field(default_factory=list)


def _ops_by_path(timelines: Iterable[Timeline], wanted: set[str]) -> dict[str, dict[Site, _Occurrences]]:
    found: dict[str, dict[Site, _Occurrences]] = {path: {} for path in wanted}
    for timeline in timelines:
        for op in timeline.ops:
            sites = found.get(op.site.path)
            if sites is not None:
                sites.setdefault(op.site, _Occurrences(op)).ops.append((timeline, op))
    return found


def _occurrences(sites: Mapping[Site, _Occurrences]) -> dict[Site, list[tuple[Timeline, Op]]]:
    return {site: found.ops for site, found in sites.items()}


def _located(program: Program, site: Site) -> Place | None:
    try:
        location = program.locate(site)
    except KeyError:
        return None
    return Place(location.path, location.start, location.end)


def _default_codes() -> Mapping[str, bool]:
    from stitchcuda.analysis.rules import BY_CODE

    return {rule.code: rule.default for rule in BY_CODE.values()}


def _of_every_program(code: str) -> bool:
    from stitchcuda.analysis.findings.finding import CommentRule
    from stitchcuda.analysis.rules import BY_CODE

    rule = BY_CODE.get(code)
    return isinstance(rule, CommentRule) and rule.every_program


def _finding(finding: Finding, program: Program, defaults: Mapping[str, bool]) -> PlacedFinding | None:
    where = _located(program, finding.site)
    if where is None:
        return None
    related = [(_located(program, r.site), r.message) for r in finding.related]
    fixes = []
    for fix in finding.fixes:
        edits = [(_located(program, e.site), e.text) for e in fix.edits]
        if edits and all(p is not None for p, _ in edits):
            placed = tuple(PlacedEdit(p, text) for p, text in edits if p is not None)
            fixes.append(PlacedFix(fix.title, fix.preferred, placed))
    return PlacedFinding(
        code=finding.code,
        group=finding.group.value,
        severity=finding.severity.value,
        confidence=finding.confidence.value,
        place=where,
        message=finding.message,
        related=tuple(PlacedRelated(p, m) for p, m in related if p is not None),
        fixes=tuple(fixes),
        condition=finding.condition,
        default=defaults.get(finding.code, True),
    )


# ------------------------------------------------------------------------------------------------------------ launches


def _launches(
    sites: Mapping[Site, _Occurrences], program: Program, lines: _Lines, edges: _Edges
) -> Iterable[LaunchFact]:
    for site, found in sites.items():
        where = _located(program, site) if found.op.kind is ApiKind.LAUNCH else None
        if where is None:
            continue
        streams, after, paths = _Ordered(), _Ordered(), set()
        reads: dict[str, bool] = {}  # whether it surely does
        writes: dict[str, bool] = {}
        kernels = _Ordered()
        for timeline, op in found.ops:
            kernels.add(op.kernel)
            paths.add((timeline.entry, op.calls))
            streams.add(words.stream_name(timeline, op))
            for access in op.accesses:
                name = timeline.buffers[access.buffer].name
                sure = access.certainty is Certainty.MUST
                for mode, known in ((Mode.READ, reads), (Mode.WRITE, writes)):
                    if access.mode in (mode, Mode.ATOMIC):
                        known[name] = sure or known.get(name, False)
            for edge in edges.into(timeline, op.id):
                if len(after) < _AFTER_LIMIT:
                    source = timeline.ops[edge.source]
                    after.add(_after_words(source, edge.why, where, program, lines) + words.round_of(source, op))
        yield LaunchFact(
            place=where,
            kernel=" or ".join(k for k in kernels if k),
            grid=found.op.grid,
            block=found.op.block,
            streams=tuple(streams),
            reads=tuple(name for name, sure in reads.items() if sure),
            writes=tuple(name for name, sure in writes.items() if sure),
            may_read=tuple(name for name, sure in reads.items() if not sure),
            may_write=tuple(name for name, sure in writes.items() if not sure),
            after=tuple(after),
            paths=len(paths),
        )


class _Ordered(dict[str, None]):
    """A set that keeps the order of insertion."""

    def add(self, value: str) -> None:
        self[value] = None


def op_words(op: Op) -> str:
    """A short name of an op: kind and what the user wrote."""
    word = _STAGE_WORDS.get(op.kind, op.kind.value.replace("_", " "))
    if op.kind is ApiKind.LAUNCH:
        return f"launch of `{op.kernel or 'a kernel'}`"
    if op.kind in (ApiKind.HOST_READ, ApiKind.HOST_WRITE):
        return word
    return f"{word} `{op.api}`"


def _after_words(source: Op, why: str, here: Place, program: Program, lines: _Lines) -> str:
    where = _located(program, source.site)
    reason = {"default_stream": "default stream", "host_wait": "the host waited"}.get(why, why)
    if where is None:
        return f"{op_words(source)} ({reason})"
    line = lines.of(where)
    name = "line" if where.path == here.path else where.path.replace("\\", "/").rsplit("/", 1)[-1] + " line"
    return f"{op_words(source)}, {name} {line} ({reason})"


# ----------------------------------------------------------------------------------------------------------- functions


@dataclass
class _Totals:
    """What a host function sets going, itself or through what it calls. An operation is told from others by where it is
    written and the calls from this function down to it: however often the function itself is called, it counts once."""

    kernels: set[str] = field(default_factory=set)
    streams: set[tuple[str, Site | None]] = field(default_factory=set)
    copies: set[tuple[Site, tuple[Site, ...]]] = field(default_factory=set)
    launches: set[tuple[Site, tuple[Site, ...]]] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)


def _totals(timelines: Iterable[Timeline], functions: set[str]) -> dict[str, _Totals]:
    found: dict[str, _Totals] = {}
    for timeline in timelines:
        for op in timeline.ops:
            frames = [(site.function, op.calls[i:]) for i, site in enumerate(op.calls)]
            for uid, below in (*frames, (op.function, ())):
                if uid in functions:
                    _count(found.setdefault(uid, _Totals()), timeline, op, below)
    return found


def _count(totals: _Totals, timeline: Timeline, op: Op, below: tuple[Site, ...]) -> None:
    totals.kinds.add(op.kind.value)
    if op.stream is not None and op.kind in _STAGE_WORDS:
        stream = timeline.streams[op.stream]
        totals.streams.add((stream.name, stream.site))
    if op.kind is ApiKind.LAUNCH:
        totals.kernels.add(op.kernel)
        totals.launches.add((op.site, below))
    elif op.kind is ApiKind.COPY:
        totals.copies.add((op.site, below))


def _functions(
    path: str, sites: Mapping[Site, _Occurrences], timelines: Iterable[Timeline], program: Program
) -> Iterable[FunctionFact]:
    module = program.modules.get(path)
    if module is None:
        return
    functions = [f for f in (*module.functions, module.entry) if f is not None and f.body is not None]
    totals = _totals(timelines, {f.uid for f in functions})
    by_function: dict[str, list[_Occurrences]] = {}
    for found in sites.values():
        by_function.setdefault(found.op.function, []).append(found)
    for function in functions:
        if function.space == "global":
            yield _function(function, (), _Totals())
        elif function.uid in totals:
            stages = _stages(by_function.get(function.uid, ()), program)
            yield _function(function, stages, totals[function.uid])


def _stages(found: Iterable[_Occurrences], program: Program) -> tuple[StageFact, ...]:
    """The device work and the waits that are written in one function, in source order."""
    stages: list[StageFact] = []
    for occurrences in found:
        op = occurrences.op
        word = _STAGE_WORDS.get(op.kind)
        where = _located(program, op.site)
        if word is None or where is None:
            continue
        used = _Ordered()
        for timeline, each in occurrences.ops:
            used.add(words.stream_name(timeline, each))
        detail = "" if op.stream is None else f"on {', '.join(used).replace('`', '')}"
        title = op.kernel if op.kind is ApiKind.LAUNCH and op.kernel else op.api
        stages.append(StageFact(where, op.kind.value, title, f"{word} {detail}".strip()))
    stages.sort(key=lambda s: (s.place.start, s.place.end))
    return tuple(stages)


def _function(function: Function, stages: tuple[StageFact, ...], totals: _Totals) -> FunctionFact:
    name_start = function.base + function.name_span[0]
    return FunctionFact(
        name=function.qualified,
        place=Place(function.path, function.base + function.span[0], function.base + function.span[1]),
        name_place=Place(function.path, name_start, function.base + function.name_span[1]),
        kernel=function.space == "global",
        kernels=len(totals.kernels),
        streams=len(totals.streams),
        copies=len(totals.copies),
        launches=len(totals.launches),
        kinds=frozenset(totals.kinds),
        stages=stages,
    )
