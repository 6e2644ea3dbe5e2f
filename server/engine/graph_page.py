"""The execution graph of a program as a page, for `stitchcuda.graphText`. Runs in the analysis process."""

from __future__ import annotations

import os
from typing import Any

from stitchcuda.analysis.findings.finding import Finding
from stitchcuda.analysis.graph.build import execution_graph
from stitchcuda.analysis.graph.hazards import hazards
from stitchcuda.analysis.graph.to_html import Side, to_html
from stitchcuda.server.check_files import CheckFiles
from stitchcuda.server.cli.selection import selection


def graph_page(analysis: Any, path: str, function: str, main: str = "") -> str:
    """The whole program of `path`, with what runs inside `function` (a name; "" for all) shown first. "" when there is nothing. `main` is
    the file that its `main` stands in."""
    graph = execution_graph(analysis.timelines, analysis.program, analysis.sources, complete=True)
    inside = execution_graph(analysis.timelines, analysis.program, analysis.sources, function) if function else graph
    if not inside.nodes:
        return ""
    chosen = selection(None, None, "likely", CheckFiles())

    def shown(finding: Finding) -> str | None:
        return chosen.severity_of(finding.site.path, finding.code, finding.severity.value, finding.confidence.value)

    side = Side(graph, hazards(graph, analysis, shown), problems=tuple(analysis.problems))
    title = path if main in ("", path) else f"{path} (program of {os.path.basename(main)})"
    return to_html(side, title=title, function=function)
