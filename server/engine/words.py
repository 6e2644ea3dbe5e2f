"""What hover and inlay hints are made of: places and edges of the Timelines, and the words for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from stitchcuda.analysis.order.symbolic import Poly
from stitchcuda.analysis.order.timeline import Op, Timeline
from stitchcuda.analysis.program.ir import ApiKind, Program, Site
from stitchcuda.server.engine.facts import Place

_FEW = 5
WORK = (
    ApiKind.LAUNCH,
    ApiKind.COPY,
    ApiKind.MEMSET,
    ApiKind.PREFETCH,
    ApiKind.GRAPH_LAUNCH,
    ApiKind.LIBRARY_CALL,
    ApiKind.HOST_FUNC,
)
_Ends = dict[int, list[int]]
Words = Callable[[Op], str]


class Places:
    """Where things are, in words of one file."""

    def __init__(self, program: Program, line_of: Callable[[Place], int], words: Words):
        self._program, self._line_of, self._words = program, line_of, words
        self._known: dict[Site, tuple[Place, int] | None] = {}

    def located(self, site: Site) -> tuple[Place, int] | None:
        """The place and its line from 1; None for a site that is not there any more."""
        if site not in self._known:
            try:
                where = self._program.locate(site)
            except KeyError:
                self._known[site] = None
            else:
                place = Place(where.path, where.start, where.end)
                self._known[site] = place, self._line_of(place)
        return self._known[site]

    def line(self, site: Site, path: str) -> str:
        """`line 12` of the file `path`, else `other.cu line 12`."""
        found = self.located(site)
        if found is None:
            return ""
        name = "" if found[0].path == path else found[0].path.replace("\\", "/").rsplit("/", 1)[-1] + " "
        return f"{name}line {found[1]}"

    def told(self, op: Op, path: str) -> str:
        where = self.line(op.site, path)
        return f"{self._words(op)}{', ' + where if where else ''}"


class Edges:
    """Direct order edges of each op, by their ends. Values are left out: they take long to find in long timelines."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[_Ends, _Ends]] = {}  # by timeline

    def order(self, timeline: Timeline, op: int) -> list[int]:
        """What the op is ordered after, without values."""
        return self._both(timeline)[0].get(op, [])

    def out(self, timeline: Timeline, op: int) -> list[int]:
        return self._both(timeline)[1].get(op, [])

    def _both(self, timeline: Timeline) -> tuple[_Ends, _Ends]:
        known = self._known.get(id(timeline))
        if known is None:
            known = self._known[id(timeline)] = {}, {}
            for edge in timeline.edges:
                known[0].setdefault(edge.target, []).append(edge.source)
                known[1].setdefault(edge.source, []).append(edge.target)
        return known


def round_of(source: Op, target: Op) -> str:
    """Says so when what comes first stands at or below what comes after it: a loop around both came to it in a round before."""
    one, other = source.site, target.site
    together = source.calls == target.calls and (one.path, one.function) == (other.path, other.function)
    return " in an earlier round" if together and one.span >= other.span else ""


def stream_name(timeline: Timeline, op: Op) -> str:
    if op.stream is None:
        return "the host"
    stream = timeline.streams[op.stream]
    return "the default stream" if stream.name == "default" else f"`{stream.name}`"


def size_words(size: Poly) -> str:
    """Without the marks that tell values of one variable apart."""
    return f"{re.sub(r'@[0-9]+', '', str(size))} bytes"


def short(op: Op) -> str:
    return op.kernel or op.api


def listed(found: Iterable[str], most: int = _FEW) -> str:
    words = [w for w in found if w]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return "; ".join(words[:most]) + more
