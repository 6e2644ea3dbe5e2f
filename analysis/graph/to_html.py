"""The execution graph as one page that explains itself: lanes, order, findings, what was measured, before and after (docs/graph.md).

The page brings everything with it and asks for nothing. What it draws is in `page/`; its data is JSON in a script element. Its content
security policy allows only the scripts and styles with the page's nonce, so no name in a program can become code: an editor that shows
the page puts a fresh nonce in the place of `NONCE`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from stitchcuda.analysis.graph.boxes import WHY, head, lane_of, lane_title, lanes, look, loop_title, more, plain
from stitchcuda.analysis.graph.hazards import Hazard
from stitchcuda.analysis.graph.matched import differences, matched
from stitchcuda.analysis.graph.measured import Measured
from stitchcuda.analysis.graph.model import RETURNS, ExecutionGraph, GraphNode
from stitchcuda.analysis.graph.to_json import to_json
from stitchcuda.analysis.program.ir import Problem

NONCE = "__STITCHCUDA_NONCE__"
_PAGE = Path(__file__).parent / "page"
_SCRIPTS = (
    "model.js",
    "layout.js",
    "timeline.js",
    "text.js",
    "overview.js",
    "draw.js",
    "stage.js",
    "details.js",
    "operations.js",
    "host.js",
    "main.js",
)
_SLOT = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True)
class Side:
    """One version of a program, its graph with `complete`. `measured`: a run of it, told on this graph."""

    graph: ExecutionGraph
    hazards: tuple[Hazard, ...] = ()
    measured: Measured | None = None
    problems: tuple[Problem, ...] = ()


def to_html(side: Side, *, before: Side | None = None, title: str = "", function: str = "", nonce: str = NONCE) -> str:
    """The text of the page, ASCII only. Equal arguments give equal texts. `before`: the version to compare with; `function`: the one
    that is shown first (all others can be chosen in the page). Raises ValueError for a nonce that is none."""
    if not re.fullmatch(r"[\w+/=-]+", nonce, re.ASCII):
        raise ValueError(f"not a nonce: {nonce!r}")
    name = plain(title)
    value = {
        "schema": 1,
        "title": name,
        "function": function,
        "why": WHY,
        "sides": [_side(each) for each in (before, side) if each is not None],
        "pairs": _pairs(before.graph, side.graph) if before is not None else [],
    }
    slots = {
        "nonce": nonce,
        "title": escape(f"{name} - execution graph" if name else "Execution graph").replace(NONCE, f"&#95;{NONCE[1:]}"),
        "style": _read("page.css"),
        "data": _inert(value),
        "script": '(() => {\n"use strict";\n' + "\n".join(_read(name) for name in _SCRIPTS) + "\n})();",
    }
    text = _SLOT.sub(lambda slot: slots[slot[1]], _read("page.html"))
    return text.encode("ascii", "xmlcharrefreplace").decode()


def _read(name: str) -> str:
    return (_PAGE / name).read_text(encoding="ascii").rstrip("\n")


def _inert(value: object) -> str:
    """JSON that ends no script element, opens no comment, and holds no line end of JavaScript and no nonce."""
    text = json.dumps(value, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.replace(NONCE, f"\\u{ord(NONCE[0]):04x}{NONCE[1:]}")


# ------------------------------------------------------------------------------------------------------------------ data


def _side(side: Side) -> dict[str, Any]:
    graph = side.graph
    rank = {node.id: k for k, node in enumerate(graph.nodes)}
    value = to_json(graph)
    for node, fields in zip(graph.nodes, value["nodes"], strict=True):
        fields.update(_more_of(node))
    for loop, fields in zip(graph.loops, value["loops"], strict=True):
        fields["title"] = loop_title(loop)
    value["edges"] = [[rank[e.source], rank[e.target], e.why] for e in graph.edges]
    value["lanes"] = [
        {"lane": lane, "title": lane_title(lane), "flags": _flags(graph, lane)} for lane in lanes(graph.nodes)
    ]
    value["overlaps"] = _overlaps(graph, rank)
    value["complete"] = [_runs(k for k in range(bits.bit_length()) if bits >> k & 1) for bits in graph.complete]
    value["hazards"] = [{**asdict(h), "nodes": [rank[n] for n in h.nodes]} for h in side.hazards]
    value["measured"] = _measured(side.measured, rank) if side.measured is not None else None
    value["problems"] = [
        {"path": p.path, "line": p.line, "what": p.what, "consequence": p.consequence} for p in side.problems
    ]
    return value


def _more_of(node: GraphNode) -> dict[str, Any]:
    return {
        "head": head(node),
        "more": more(node),
        "look": look(node),
        "lane": lane_of(node),
        "column": node.column,
        "entry": node.entry,
        "waits": node.blocks_host,
        "captured": node.captured,
        "returns": RETURNS[node.returns] if node.kind == "copy" and node.returns else "",
        "calls": [{"path": c.path, "line": c.line, "callee": c.callee} for c in node.calls],
    }


def _flags(graph: ExecutionGraph, lane: str | None) -> str:
    return next((n.stream_flags for n in graph.nodes if lane is not None and lane_of(n) == lane and n.stream_flags), "")


def _overlaps(graph: ExecutionGraph, rank: Mapping[str, int]) -> list[list[Any]]:
    """For each node that could overlap with earlier-issued work: its number, runs of the numbers of that work in the same round, and
    in the next round of a loop."""
    found: dict[int, tuple[set[int], set[int]]] = {}
    for overlap in graph.overlaps:
        sets = found.setdefault(rank[overlap.other], (set(), set()))
        sets[overlap.next_round].add(rank[overlap.one])
    return [[node, _runs(same), _runs(later)] for node, (same, later) in sorted(found.items())]


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    """First and last of each run of consecutive numbers."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def _measured(run: Measured, rank: Mapping[str, int]) -> dict[str, Any]:
    """Spans as `[start, duration, node, name, kind, issued]`: nanoseconds from `begin`, -1 for no node, numbers in `names` and `kinds`,
    and how long before its start the operation was issued, -1 when that is not known."""
    names: dict[str, int] = {}
    kinds: dict[str, int] = {}
    lanes_ = []
    for lane in run.lanes:
        spans = [
            [
                s.start - run.begin,
                max(s.end - s.start, 0),
                rank.get(s.node, -1),
                names.setdefault(s.name, len(names)),
                kinds.setdefault(s.kind, len(kinds)),
                s.start - s.issued if s.issued >= 0 else -1,
            ]
            for s in lane.spans
        ]
        lanes_.append({"title": lane.title, "lane": lane.lane, "host": lane.host, "spans": spans})
    return {
        "device": run.device,
        "end": run.end - run.begin,
        "names": list(names),
        "kinds": list(kinds),
        "lanes": lanes_,
        "leftOut": run.left_out,
        "notes": list(run.notes),
    }


def _pairs(old: ExecutionGraph, new: ExecutionGraph) -> list[list[Any]]:
    """`[number before, number after, {what: [before, after]}]` for each node that both versions have."""
    before = {node.id: (k, node) for k, node in enumerate(old.nodes)}
    same = matched(old, new)
    pairs: list[list[Any]] = []
    for k, node in enumerate(new.nodes):
        if node.id in same:
            number, other = before[same[node.id]]
            pairs.append([number, k, differences(other, node)])
    return pairs
