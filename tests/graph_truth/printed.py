"""What `stitchcuda graph` prints about the two programs, in the terms of the truth."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from typing import Any

from stitchcuda.server.cli.dispatch import main

from tests.graph_truth.notation import ROOT, Node

EXAMPLES = ROOT / "examples"
Facts = dict[str, Any]


@dataclass(frozen=True)
class Printed:
    nodes: list[Node]
    edges: list[tuple[Node, Node, str]]
    loops: list[tuple[str, str | None, str | None]]
    problems: list[Any]


@cache
def text(program: str, form: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        assert main(["graph", str(EXAMPLES / program), "--format", form]) == 0
    return out.getvalue()


@cache
def printed(program: str) -> Printed:
    value = json.loads(text(program, "json"))
    loops = {loop["id"]: _place(loop) for loop in value["loops"]}
    nodes = {n["id"]: Node(_facts(n, loops)) for n in value["nodes"]}
    return Printed(
        list(nodes.values()),
        [(nodes[e["source"]], nodes[e["target"]], e["why"]) for e in value["edges"]],
        [(_place(loop), loop["trip"], loop["parent"] and loops[loop["parent"]]) for loop in value["loops"]],
        value["problems"],
    )


def _place(item: Facts) -> str:
    return f"{item['path'].removeprefix(f'{EXAMPLES}/')}:{item['line']}"


def _facts(node: Facts, loops: dict[str, str]) -> Facts:
    assert len(set(node["reads"])) == len(node["reads"]) and len(set(node["writes"])) == len(node["writes"])
    facts = {key: value for key, value in node.items() if key not in ("id", "path", "line")}
    changed = {
        "place": _place(node),
        "reads": set(node["reads"]),
        "writes": set(node["writes"]),
        "loop": node["loop"] and loops[node["loop"]],
        "calls": tuple(_place(call) for call in node["calls"]),
    }
    return facts | changed
