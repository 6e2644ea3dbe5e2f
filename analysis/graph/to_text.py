"""The execution graph in plain sentences: what runs on which stream, after what, and what the host waits for.

Grouped by entry, then by the function and the loop the work stands in, in program order; a summary of streams, transfers
and waits closes each entry.
"""

from __future__ import annotations

import os.path
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeAlias

from stitchcuda.analysis.graph.explain import explain
from stitchcuda.analysis.graph.model import RETURNS, ExecutionGraph, GraphLoop, GraphNode
from stitchcuda.analysis.graph.reading import Reading
from stitchcuda.analysis.graph.words import COPY_WORDS, LISTED, WORK, few, join, names, stream_words

NOUNS = {"stream_create": "stream", "stream_destroy": "stream", "event_create": "event", "event_destroy": "event"}


def to_text(graph: ExecutionGraph) -> str:
    """The sentences, one paragraph an entry."""
    if not graph.nodes:
        return "No CUDA work was found.\n"
    story = _Story(graph)
    parts = []
    for (entry, _), nodes in groupby(graph.nodes, key=lambda n: (n.entry, n.entry_path)):
        parts.append("\n".join(story.tell(entry, list(nodes))))
    return "\n\n".join(parts) + "\n"


Group: TypeAlias = tuple[tuple[str, ...], list[GraphNode]]


def _same_work(a: Group, b: Group) -> bool:
    if len(a[0]) != len(b[0]) or a[0][:-1] != b[0][:-1] or len(a[1]) != len(b[1]):
        return False
    if not a[1][0].calls or not b[1][0].calls:
        return False
    return (
        a[1][0].calls[-1].path == b[1][0].calls[-1].path
        and all(
            (x.path, x.line, x.api, x.stream, x.kernel, x.condition, len(x.calls))
            == (y.path, y.line, y.api, y.stream, y.kernel, y.condition, len(y.calls))
            for x, y in zip(a[1], b[1], strict=True)
        )
        and a[1][0].loop == b[1][0].loop
    )


def _stacked(nodes: Sequence[GraphNode]) -> GraphNode:
    sizes = {n.bytes for n in nodes}
    return replace(
        nodes[0],
        reads=tuple(dict.fromkeys(name for n in nodes for name in n.reads)),
        writes=tuple(dict.fromkeys(name for n in nodes for name in n.writes)),
        made=tuple(dict.fromkeys(name for n in nodes for name in n.made)),
        bytes=sizes.pop() if len(sizes) == 1 else None,
    )


class _Story:
    def __init__(self, graph: ExecutionGraph) -> None:
        self.nodes = {n.id: n for n in graph.nodes}
        self.loops = {loop.id: loop for loop in graph.loops}
        self.before: dict[str, list[tuple[GraphNode, str]]] = {}
        for edge in graph.edges:
            self.before.setdefault(edge.target, []).append((self.nodes[edge.source], edge.why))
        self.home = ""
        self._reading = Reading(graph)

    def tell(self, entry: str, nodes: Sequence[GraphNode]) -> list[str]:
        self.home = nodes[0].entry_path
        lines = [f"{entry} ({self.home})"]
        context: list[str] = []
        for heads, group in self._repeated([(h, list(g)) for h, g in groupby(nodes, key=self._heads)]):
            shared = 0
            while shared < min(len(context), len(heads)) and context[shared] == heads[shared]:
                shared += 1
            for depth in range(shared, len(heads)):
                lines.append(f"{'  ' * (depth + 1)}{heads[depth]}")
            context = list(heads)
            indent = "  " * (len(heads) + 1)
            lines += [f"{indent}{sentence}" for sentence in self._sentences(group)]
        lines += [f"  {line}" for line in self._summary(nodes)]
        return lines + [f"  {line}" for line in explain(self._reading, nodes, self._where)]

    # ------------------------------------------------------------------------------------------------------ grouping

    def _repeated(self, groups: Sequence[Group]) -> Iterator[Group]:
        """Calls of one function that follow each other and do the same to different memory are told as one."""
        position = 0
        while position < len(groups):
            heads, nodes = groups[position]
            end = position + 1
            while end < len(groups) and _same_work(groups[position], groups[end]):
                end += 1
            if end - position > 1:
                calls = [g[1][0].calls[-1] for g in groups[position:end]]
                places = self._where(calls[0].path, calls[0].line)
                if calls[-1].line != calls[0].line:
                    places = f"{places.replace('line ', 'lines ')}-{calls[-1].line}"
                heads = (*heads[:-1], f"In {calls[0].callee}, called {len(calls)} times at {places}:")
                nodes = [_stacked([g[1][k] for g in groups[position:end]]) for k in range(len(nodes))]
            yield heads, nodes
            position = end

    def _heads(self, node: GraphNode) -> tuple[str, ...]:
        """The headings a node stands under: calls and loops around it, outermost first, in source order of nesting."""
        heads: list[str] = []
        loops = self._chain(node.loop)
        for depth in range(len(node.calls) + 1):
            for loop in loops:
                if loop.depth == depth:
                    rounds = f", {loop.trip} rounds" if loop.trip else ""
                    heads.append(f"In the loop at {self._where(loop.path, loop.line)}{rounds}:")
            if depth < len(node.calls):
                call = node.calls[depth]
                heads.append(f"In {call.callee}, called at {self._where(call.path, call.line)}:")
        return tuple(heads)

    def _chain(self, loop: str | None) -> list[GraphLoop]:
        chain: list[GraphLoop] = []
        while loop is not None:
            chain.append(self.loops[loop])
            loop = self.loops[loop].parent
        return chain[::-1]

    def _where(self, path: str, line: int) -> str:
        if path == self.home:
            return f"line {line}"
        folder = os.path.dirname(self.home)
        return f"{path.removeprefix(folder + '/') if folder else path}:{line}"

    # ----------------------------------------------------------------------------------------------------- sentences

    def _sentences(self, nodes: Sequence[GraphNode]) -> Iterator[str]:
        for kind, group in groupby(nodes, key=lambda n: (n.kind if n.kind in LISTED else n.id, n.condition)):
            members = list(group)
            if kind[0] in LISTED:
                text = self._listed(members)
            else:
                text = self._one(members[0])
            first, last = members[0], members[-1]
            where = self._where(first.path, first.line)
            if last.line != first.line and last.path == first.path:
                where = f"{where.replace('line', 'lines')}-{last.line}"
            condition = f" Only if {first.condition}." if first.condition else ""
            yield f"{where}: {text}.{condition}"

    def _listed(self, members: Sequence[GraphNode]) -> str:
        kind = members[0].kind
        made: list[str] = []
        for node in members:
            if kind in NOUNS:
                name = node.event if "event" in kind else node.stream
                flags = f" ({node.stream_flags})" if kind == "stream_create" and node.stream_flags else ""
                made.append(f"{NOUNS[kind]} `{name}`{flags}" if name else f"a {NOUNS[kind]}")
            else:
                size = f" ({node.bytes} bytes)" if node.bytes and kind in ("alloc", "host_alloc") else ""
                made += [f"`{name}`{size}" for name in node.made or node.writes or node.reads] or ["memory"]
        stream = members[0].stream
        suffix = f", stream-ordered on {stream_words(stream)}" if stream and kind in ("alloc", "free") else ""
        return "the host " + LISTED[kind].format(join(few(list(dict.fromkeys(made))))) + suffix

    def _one(self, node: GraphNode) -> str:
        on = f" on {stream_words(node.stream)}" if node.stream else ""
        tail = self._order(node) + (", captured" if node.captured and node.kind != "launch" else "")
        match node.kind:
            case "launch":
                shape = f" with grid {node.grid} and block {node.block}" if node.grid and node.block else ""
                runs = "is captured" if node.captured else "runs"
                return f"`{node.kernel or '?'}` {runs}{on}{shape}{_touches(node)}{tail}"
            case "copy":
                way = COPY_WORDS.get(node.copy_kind or "", "direction not known")
                size = f", {node.bytes} bytes" if node.bytes else ""
                waits = "" if node.captured else f"; {RETURNS[node.returns]}"
                verb = "are" if len(node.reads) > 1 else "is"
                return f"{names(node.reads)} {verb} copied to {names(node.writes)} ({way}{size}){on}{waits}{tail}"
            case "memset":
                return f"{names(node.writes)} is filled{on}{tail}"
            case "event_record":
                return f"event `{node.event}` is recorded{on}{tail}"
            case "event_wait":
                return f"{stream_words(node.stream)} waits for event `{node.event}`{tail}"
            case "stream_sync":
                return f"the host waits for {self._reading.awaited(node) or 'a stream'}"
            case "event_sync":
                return f"the host waits for event `{node.event}`"
            case "device_sync":
                return "the host waits for all work on the device"
            case "host_read":
                return f"the host reads {names(node.reads)}{tail}"
            case "host_write":
                return f"the host writes {names(node.writes)}{tail}"
            case "library_call":
                return f"`{node.api}` runs{on}{_touches(node)}{tail}"
            case "capture_begin":
                return f"the capture of {stream_words(node.stream)} into a CUDA graph begins; what is captured does not run yet"
            case "capture_end":
                return f"the capture of {stream_words(node.stream)} ends"
            case "graph_launch":
                return f"a CUDA graph runs{on}{_touches(node)}{tail}"
        return f"`{node.api}`{on}{_touches(node)}{tail}"

    def _order(self, node: GraphNode) -> str:
        """What the node is ordered after that its own stream does not say already."""
        reasons: list[str] = []
        for source, why in self.before.get(node.id, ()):
            if why == "event" and node.kind == "event_wait":
                reasons.append(f"recorded at {self._where(source.path, source.line)}")
            elif why == "default_stream":
                reasons.append(f"after {self._short(source)}, because the default stream orders them")
            elif why == "event":
                reasons.append(f"after {self._short(source)}, through an event")
        return "".join(f", {reason}" for reason in dict.fromkeys(reasons))

    def _short(self, node: GraphNode) -> str:
        return f"`{node.kernel or node.api}` ({self._where(node.path, node.line)})"

    # ------------------------------------------------------------------------------------------------------- summary

    def _summary(self, nodes: Sequence[GraphNode]) -> Iterator[str]:
        yield "In short:"
        for stream in dict.fromkeys(n.stream for n in nodes if n.stream):
            for captured in (False, True):
                work = [n for n in nodes if n.stream == stream and n.kind in WORK and n.captured == captured]
                if work:
                    kinds = join(filter(None, (self._count(work, kind) for kind in WORK)))
                    yield f"- {stream_words(stream)} carries {kinds}{', captured into CUDA graphs' if captured else ''}"
        for way in ("h2d", "d2h"):
            moved: dict[str, list[GraphNode]] = {}
            for node in nodes:
                if node.copy_kind == way:
                    moved.setdefault(self._where(node.path, node.line), []).append(node)
            if moved:
                places = join(
                    f"{names(name for n in group for name in n.reads)} to "
                    f"{names(name for n in group for name in n.writes)} ({where})"
                    for where, group in moved.items()
                )
                yield f"- from {COPY_WORDS[way]}: {places}"
        waits = Counter(
            f"{self._where(n.path, n.line)}{' in a loop' if n.loop else ''}" for n in nodes if n.blocks_host
        )
        if waits:
            places = join(f"{place} ({count} calls)" if count > 1 else place for place, count in waits.items())
            yield f"- the host waits at {places}"
        else:
            yield "- the host never waits for the device"
        unsure = [n for n in nodes if n.confidence != "certain"]
        if unsure:
            places = join(dict.fromkeys(self._where(n.path, n.line) for n in unsure))
            yield f"- not fully known (stream, memory or whether it is reached): {places}"

    def _count(self, nodes: Sequence[GraphNode], kind: str) -> str:
        count = sum(1 for n in nodes if n.kind == kind)
        word, plural = WORK[kind]
        return f"{count} {word if count == 1 else plural}" if count else ""


def _touches(node: GraphNode) -> str:
    both = [n for n in node.reads if n in node.writes]
    reads = [n for n in node.reads if n not in both]
    writes = [n for n in node.writes if n not in both]
    parts = []
    if reads:
        parts.append(f"reads {names(reads)}")
    if both:
        parts.append(f"updates {names(both)}")
    if writes:
        parts.append(f"writes {names(writes)}")
    return f" and {join(parts)}" if len(parts) == 1 else f", {join(parts)}" if parts else ""
