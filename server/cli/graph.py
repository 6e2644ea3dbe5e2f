"""`stitchcuda graph PATH...`: prints the execution graph, read from the source (docs/graph.md)."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stitchcuda.analysis.graph.build import GraphBuilder
from stitchcuda.analysis.graph.measured_text import measured_to_text
from stitchcuda.analysis.graph.model import ExecutionGraph
from stitchcuda.analysis.graph.to_dot import to_dot
from stitchcuda.analysis.graph.to_json import to_json
from stitchcuda.analysis.graph.to_mermaid import to_mermaid
from stitchcuda.analysis.graph.to_svg import to_svg
from stitchcuda.analysis.graph.to_text import to_text
from stitchcuda.analysis.index import Analysis, Index
from stitchcuda.analysis.program.ir import Problem
from stitchcuda.server import traced
from stitchcuda.server.cli import inputs, programs
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.writing import replace_file
from stitchcuda.server.own_program import mains_of, own_program, timelines_of, unknown_function

if TYPE_CHECKING:
    from stitchcuda.server.cli import graph_page

_FORMS = {"text": to_text, "mermaid": to_mermaid, "dot": to_dot, "svg": to_svg}
_ENDINGS = {
    "json": (".json",),
    "mermaid": (".mmd", ".mermaid"),
    "dot": (".dot", ".gv"),
    "svg": (".svg",),
    "html": (".html", ".htm"),
}
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".ps", ".eps")  # Graphviz draws them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and directories of one program or several")
    parser.add_argument("--function", metavar="F", help="only what runs inside this function (its name, or qualified)")
    parser.add_argument(
        "--format",
        choices=("text", "json", "mermaid", "dot", "svg", "html"),
        help="default: what the ending of FILE in -o says (.json, .mmd, .dot, .svg, .html), else text",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write it there instead of printing it")
    parser.add_argument(
        "--trace", metavar="FILE", help="a run of the program, from stitchcuda trace --format json (text and html)"
    )
    page = parser.add_argument_group("the page (--format html)")
    page.add_argument("--before", metavar="PATH", help="a version to compare with: a file or directory")
    page.add_argument("--before-trace", metavar="FILE", help="a run of that version")
    page.add_argument(
        "--run",
        nargs="?",
        const="",
        metavar="RUN",
        help="instead of PATH: a run of stitch, its original and its best version (its name or part of it; default: the newest)",
    )


@dataclass(frozen=True)
class _Read:
    """The programs below some paths."""

    analyses: tuple[Analysis, ...]
    problems: tuple[Problem, ...]
    unusable: bool


def run(arguments: argparse.Namespace) -> int:
    """0: the graph was printed, 2: a path or the function could not be used, or stitchcuda itself failed on a part."""
    arguments.format = arguments.format or _by_ending(arguments.output)
    _check(arguments)
    if arguments.run is not None:
        return _page_of_run(arguments)
    read = _read(arguments.paths)
    if arguments.format == "html":
        return _page(read, arguments)
    builder = GraphBuilder()
    known = False
    for analysis in read.analyses:
        timelines = timelines_of(analysis, arguments.function)
        known = known or bool(timelines)
        builder.add_program(timelines, analysis.program, analysis.sources, arguments.function)
    _must_be_known(known, arguments)
    graph = builder.graph()
    if arguments.format == "text" and not graph.nodes and read.unusable:
        _tell(read.problems)  # that nothing runs on the GPU is not known
    elif arguments.format == "json":
        _write(_json(graph, read.problems), arguments.output)
    else:
        text = _FORMS[arguments.format](graph)
        _write(f"{text}\n{_measured(read, arguments)}" if arguments.trace is not None else text, arguments.output)
        _tell(read.problems)
    return 2 if read.unusable else 0


def _by_ending(output: str | None) -> str:
    """The format that a file's name asks for. Raises CannotRun for a picture that no format is."""
    ending = os.path.splitext(output or "")[1].lower()
    if ending in _PICTURES:
        raise CannotRun(
            f"{output}: no format is a {ending} file; -o FILE.svg and -o FILE.html are pictures, and Graphviz makes others: "
            f"stitchcuda graph PATH --format dot | dot -T{ending[1:]} -o {output}"
        )
    return next((form for form, endings in _ENDINGS.items() if ending in endings), "text")


def _check(arguments: argparse.Namespace) -> None:
    """Raises CannotRun for options that do not fit together."""
    if arguments.format != "html":
        for name in ("before", "before_trace", "run"):
            if getattr(arguments, name) is not None:
                raise CannotRun(f"--{name.replace('_', '-')} needs --format html")
        if arguments.trace is not None and arguments.format != "text":
            raise CannotRun("--trace needs --format html or text")
    if (arguments.run is None) == (not arguments.paths):
        raise CannotRun(
            "a PATH is needed" if arguments.run is None else "--run takes no PATH: the run knows its program"
        )
    if arguments.run is not None and arguments.before is not None:
        raise CannotRun("--run compares with the original of the run; leave --before out")
    if arguments.before_trace is not None and arguments.before is None and arguments.run is None:
        raise CannotRun("--before-trace needs --before or --run")


def _read(paths: Sequence[str]) -> _Read:
    """A file stands for its program: what else belongs to that is read with it."""
    found = inputs.find(paths)
    beside = inputs.find([p for p in programs.with_their_programs(paths) if p not in paths]).files
    plan = programs.plan(tuple(dict.fromkeys((*found.files, *beside))), paths)
    files = [p for p in paths if p in found.files]
    # a file without CUDA is part of the program all the same: it may be named for what it defines
    problems = [p for p in (*found.problems, *plan.problems) if p.what != "uses no CUDA"]
    analyses = []
    for group in plan.groups:
        index = Index()
        for path, text in group.texts().items():
            index.put(path, text)
        analysis = index.analyse()
        problems += analysis.problems
        asked = [p for p in files if p in group.sources]
        analyses.append(own_program(analysis, asked[0])[0] if len(asked) == len(paths) == 1 else analysis)
    unusable = found.unusable or plan.unusable or any(p.internal for p in problems)
    return _Read(tuple(analyses), tuple(dict.fromkeys(problems)), unusable)


def _must_be_known(known: bool, arguments: argparse.Namespace) -> None:
    if arguments.function is not None and not known:
        raise CannotRun(unknown_function(arguments.function, " ".join(arguments.paths)))


def _must_be_one(read: _Read, paths: Sequence[str]) -> None:
    mains = sorted({path for analysis in read.analyses for path in mains_of(analysis)})
    if len(mains) > 1:
        some = ", ".join(mains[:5]) + (" and others" if len(mains) > 5 else "")
        raise CannotRun(
            f"{' '.join(paths)}: holds {len(mains)} programs, and a page shows one: name the file with its main: {some}"
        )


# ------------------------------------------------------------------------------------------------------------- the page


def _page(read: _Read, arguments: argparse.Namespace) -> int:
    """The page holds the whole program, so that every function can be chosen in it."""
    from stitchcuda.server.cli import graph_page

    _must_be_known(any(timelines_of(a, arguments.function) for a in read.analyses), arguments)
    _must_be_one(read, arguments.paths)
    before = _read([arguments.before]) if arguments.before is not None else None
    if before is not None:
        _must_be_one(before, [arguments.before])
    paths = [*arguments.paths, *([arguments.before] if before is not None else [])]
    other = _collected(before, arguments.function) if before is not None else None
    shown = graph_page.shown_in([".", *paths])
    _write(
        graph_page.page(_collected(read, arguments.function), arguments, other, " ".join(arguments.paths), shown),
        arguments.output,
    )
    problems = (*read.problems, *(before.problems if before is not None else ()))
    _tell(tuple(dict.fromkeys(problems)))
    return 2 if read.unusable or (before is not None and before.unusable) else 0


def _collected(version: _Read, function: str | None) -> graph_page.Programs:
    """The graph of whole programs, and beside them of a function that they do not reach."""
    from stitchcuda.server.cli import graph_page

    made = graph_page.Collected()
    for analysis in version.analyses:
        asked = timelines_of(analysis, function)
        beside = [t for t in asked if t not in analysis.timelines]
        made.add(analysis, [*analysis.timelines, *beside], whole=not beside)
    return made.programs(version.problems)


def _measured(read: _Read, arguments: argparse.Namespace) -> str:
    """The run of the trace in text."""
    from stitchcuda.server.cli import graph_page

    found = _collected(read, None)
    run = graph_page.measured_run(found, arguments.trace)
    return measured_to_text(run, found.graph, arguments.function or "")


def _page_of_run(arguments: argparse.Namespace) -> int:
    from stitchcuda.server.cli import graph_page

    with graph_page.versions_of(arguments.run) as (after, before, record, shown):
        if before is None:
            print(f"{record.folder}: note: the run has no better version: the original is shown", file=sys.stderr)
        kept = traced.kept(record.folder)
        if kept is not None and before is None and arguments.trace is None:
            arguments.trace = str(kept)
        elif kept is not None and before is not None and arguments.before_trace is None:
            arguments.before_trace = str(kept)
        text = graph_page.page(after, arguments, before, str(record.root), shown)
    _write(text, arguments.output)
    return 0


# ------------------------------------------------------------------------------------------------------------- printing


def _json(graph: ExecutionGraph, problems: Sequence[Problem]) -> str:
    value = to_json(graph)
    value["problems"] = [
        {"path": p.path, "line": p.line, "what": p.what, "consequence": p.consequence} for p in problems
    ]
    return json.dumps(value, indent=2) + "\n"


def _write(text: str, output: str | None) -> None:
    if output is not None:
        replace_file(output, text.encode(errors="backslashreplace"))
    else:
        sys.stdout.write(text)


def _tell(problems: Sequence[Problem]) -> None:
    for problem in problems:
        line = f":{problem.line}" if problem.line > 0 else ""
        print(f"{problem.path}{line}: note: {problem.what}: {problem.consequence}", file=sys.stderr)
