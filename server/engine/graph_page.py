"""The execution graph of a file's program for `stitchcuda.graphText`: as text or a picture, or as a page. Runs in the analysis process."""

from __future__ import annotations

import os
from dataclasses import replace

from stitchcuda.analysis.findings.finding import Finding
from stitchcuda.analysis.graph.build import execution_graph
from stitchcuda.analysis.graph.hazards import hazards
from stitchcuda.analysis.graph.measured import Measured
from stitchcuda.analysis.graph.measured_text import measured_to_text
from stitchcuda.analysis.graph.model import ExecutionGraph
from stitchcuda.analysis.graph.to_html import Side, to_html
from stitchcuda.analysis.index import Analysis
from stitchcuda.analysis.order.timeline import Timeline
from stitchcuda.server.check_files import CheckFiles
from stitchcuda.server.cli.selection import selection
from stitchcuda.server.engine.placing import graph_text
from stitchcuda.server.not_shown import NotShown
from stitchcuda.server.own_program import own_program, timelines_of, unknown_function


def graph_of(analysis: Analysis, path: str, function: str, form: str, trace: str = "") -> str:
    """The graph of the program of `path`, or of what runs inside `function` (a name; "" for all); "" when it is empty. `trace` is the
    file of a measured run, for `text` and `html`. Raises NotShown."""
    analysis, main = own_program(analysis, path)
    asked = tuple(timelines_of(analysis, function))
    if function and not asked:
        raise NotShown(unknown_function(function, os.path.basename(path)))
    if form == "html":
        return _page(analysis, asked, path, main, function, trace)
    text = graph_text(replace(analysis, timelines=asked), function, form)
    if text and trace:
        graph = execution_graph(analysis.timelines, analysis.program, analysis.sources)
        text += "\n" + measured_to_text(_measured(analysis, graph, trace), graph, function)
    return text


def _page(analysis: Analysis, asked: tuple[Timeline, ...], path: str, main: str, function: str, trace: str) -> str:
    """The whole program, and beside it a function that it does not reach; what runs inside the function is shown first."""
    timelines = (*analysis.timelines, *(t for t in asked if t not in analysis.timelines))
    graph = execution_graph(timelines, analysis.program, analysis.sources, complete=True)
    if not execution_graph(asked, analysis.program, analysis.sources, function or None).nodes:
        return ""
    chosen = selection(None, None, "likely", CheckFiles())

    def shown(finding: Finding) -> str | None:
        return chosen.severity_of(finding.site.path, finding.code, finding.severity.value, finding.confidence.value)

    run = _measured(analysis, graph, trace) if trace else None
    side = Side(graph, hazards(graph, analysis, shown), run, analysis.problems)
    title = path if main in ("", path) else f"{path} (program of {os.path.basename(main)})"
    return to_html(side, title=title, function=function)


def _measured(analysis: Analysis, graph: ExecutionGraph, trace: str) -> Measured:
    """`graph` begins with what the entries of the analysis do."""
    from stitchcuda.server import traced  # slow to import, and seldom needed

    count = len(execution_graph(analysis.timelines, analysis.program, analysis.sources).nodes)
    return traced.told_on(traced.read(trace), graph.nodes, [(analysis, 0, count)])
