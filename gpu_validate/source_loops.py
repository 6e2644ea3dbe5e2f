"""How deep in loops the source has the operations that a trace shows: which loop is the outermost one, only the source can tell."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.order.timeline import Op
from stitchcuda.analysis.program.ir import Site
from stitchcuda.gpu_validate.trace.model import Call

Frame = tuple[str, int]  # file name without folders, line


@dataclass(frozen=True, slots=True)
class Placed:
    """An operation in the source: its call path, innermost first, and the number of loops around it."""

    frames: tuple[Frame, ...]  # innermost first
    depth: int


@dataclass(frozen=True)
class SourceLoops:
    """Operations by what a trace calls them: the kernel's bare name, else the API's. `depth` counts the loops around one, of the
    whole program or inside the scope functions."""

    placed: Mapping[str, tuple[Placed, ...]]

    def depths(self, call: Call) -> frozenset[int]:
        """The depths that the call can have: one where its lines decide, several where they do not, none when the source does not
        have it."""
        found = self.placed.get(_bare(call.kernel) if call.kernel else call.api, ())
        frames = [(_name(site.path), site.line) for site in call.sites]
        for length in range(len(frames), 0, -1):
            matching = [p for p in found if list(p.frames[:length]) == frames[:length]]
            if matching:
                return frozenset(p.depth for p in matching)
        return frozenset(p.depth for p in found)

    @property
    def any_loop(self) -> bool:
        """Whether any launch stands in a loop."""
        return any(p.depth for places in self.placed.values() for p in places)


def source_loops(analysis: Analysis, scope: Sequence[str] = ()) -> SourceLoops:
    """The loops around the operations of all programs; with `scope`, of what runs inside one of these functions, and only the loops
    in there."""
    placed: dict[str, list[Placed]] = defaultdict(list)
    for timeline in analysis.timelines:
        parents = {loop.id: loop for loop in timeline.loops}
        for op in timeline.ops:
            level = _level(op, analysis, scope)
            if level is None:
                continue
            depth, at = 0, op.loop
            while at is not None:
                depth += len(parents[at].calls) >= level
                at = parents[at].parent
            frames = tuple(_frame(analysis, site) for site in (op.site, *reversed(op.calls)))
            placed[_bare(op.kernel) if op.kernel else op.api].append(Placed(frames, depth))
    return SourceLoops({name: tuple(dict.fromkeys(places)) for name, places in placed.items()})


def _level(op: Op, analysis: Analysis, scope: Sequence[str]) -> int | None:
    """How many calls lead to the scope function that the op runs in; None when it runs in none."""
    if not scope:
        return 0
    functions = analysis.program.functions
    chain = [site.function for site in op.calls] + [op.function]
    for level, uid in enumerate(chain):
        function = functions.get(uid)
        if function is not None and (function.name in scope or function.qualified in scope):
            return level
    return None


def _frame(analysis: Analysis, site: Site) -> Frame:
    span = analysis.program.locate(site)
    text = analysis.sources.get(span.path, b"")
    return _name(span.path), text.count(b"\n", 0, span.start) + 1


def _name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _bare(kernel: str) -> str:
    """`scale` of "void ns::scale<float, 4>"."""
    shorter = kernel
    while (inner := re.sub(r"<[^<>]*>", "", shorter)) != shorter:
        shorter = inner
    return re.split(r"::|\s", shorter.split("(")[0].strip())[-1]
