"""`stitchcuda graph PATH...`: prints the execution graph, read from the source (docs/graph.md)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from stitchcuda.analysis.graph.build import GraphBuilder
from stitchcuda.analysis.graph.model import ExecutionGraph
from stitchcuda.analysis.graph.to_dot import to_dot
from stitchcuda.analysis.graph.to_json import to_json
from stitchcuda.analysis.graph.to_mermaid import to_mermaid
from stitchcuda.analysis.graph.to_svg import to_svg
from stitchcuda.analysis.graph.to_text import to_text
from stitchcuda.analysis.index import Analysis, Index
from stitchcuda.analysis.order.execute import execute_entry
from stitchcuda.analysis.order.timeline import Timeline
from stitchcuda.analysis.program.ir import Problem
from stitchcuda.server.cli import inputs, programs
from stitchcuda.server.cli.errors import CannotRun

_FORMS = {"text": to_text, "mermaid": to_mermaid, "dot": to_dot, "svg": to_svg}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="files and directories of one program or several")
    parser.add_argument("--function", metavar="F", help="only what runs inside this function (its name, or qualified)")
    parser.add_argument("--format", choices=("text", "json", "mermaid", "dot", "svg"), default="text")


def run(arguments: argparse.Namespace) -> int:
    """0: the graph was printed, 2: a path or the function could not be used, or stitchcuda itself failed on a part."""
    found = inputs.find(arguments.paths)
    plan = programs.plan(found.files, arguments.paths)
    # a file without CUDA is part of the program all the same: it may be named for what it defines
    problems = [p for p in (*found.problems, *plan.problems) if p.what != "uses no CUDA"]
    builder = GraphBuilder()
    known = False
    for group in plan.groups:
        index = Index()
        for path, text in group.texts().items():
            index.put(path, text)
        analysis = index.analyse()
        problems += analysis.problems
        timelines = _timelines(analysis, arguments.function)
        known = known or bool(timelines)
        builder.add_program(timelines, analysis.program, analysis.sources, arguments.function)
    if arguments.function is not None and not known:
        raise CannotRun(f"no function {arguments.function!r} with a body in {' '.join(arguments.paths)}")
    _print(builder.graph(), tuple(dict.fromkeys(problems)), arguments.format)
    return 2 if found.unusable or plan.unusable or any(p.internal for p in problems) else 0


def _timelines(analysis: Analysis, function: str | None) -> Sequence[Timeline]:
    """The Timelines of the entries; for a function that no entry reaches, one that starts at it."""
    if function is None:
        return analysis.timelines
    named = [
        f.uid
        for f in analysis.program.functions.values()
        if f.body is not None and function in (f.name, f.qualified, f.uid)
    ]
    reached = [t for t in analysis.timelines if not t.functions.isdisjoint(named)]
    if reached:
        return reached
    return [execute_entry(analysis.program, uid, sources=analysis.sources) for uid in named]


def _print(graph: ExecutionGraph, problems: Sequence[Problem], form: str) -> None:
    if form == "json":
        value = to_json(graph)
        value["problems"] = [
            {"path": p.path, "line": p.line, "what": p.what, "consequence": p.consequence} for p in problems
        ]
        json.dump(value, sys.stdout, indent=2)
        print()
        return
    sys.stdout.write(_FORMS[form](graph))
    for problem in problems:
        line = f":{problem.line}" if problem.line > 0 else ""
        print(f"{problem.path}{line}: note: {problem.what}: {problem.consequence}", file=sys.stderr)
