"""Findings on the execution graph: which operations each of them joins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stitchcuda.analysis.findings.finding import Finding
from stitchcuda.analysis.graph.build import Lines
from stitchcuda.analysis.graph.model import ExecutionGraph
from stitchcuda.analysis.index import Analysis
from stitchcuda.analysis.program.ir import Site

Shown = Callable[[Finding], str | None]  # the severity that a finding is told with; None: it is not told


@dataclass(frozen=True, slots=True)
class Hazard:
    """A finding with the ids of the nodes at its place, then of those at the places that it relates to. For one about device code
    these are the launches of the kernel. Empty when the graph has nothing there."""

    code: str
    severity: str
    message: str
    path: str
    line: int
    column: int
    nodes: tuple[str, ...]
    device: bool = False  # about device code


def hazards(graph: ExecutionGraph, analysis: Analysis, shown: Shown) -> tuple[Hazard, ...]:
    """Those of the analysis that are shown, in its order."""
    at = _Nodes(graph, analysis)
    found = []
    for finding in analysis.findings:
        severity = shown(finding)
        if severity is None or not at.lines.of(finding.site):
            continue
        sites = (finding.site, *(r.site for r in finding.related))
        nodes = dict.fromkeys(node for site in sites for node in at.of(site))
        line, column = at.lines.of(finding.site), at.lines.column(finding.site)
        device = at.in_kernel(finding.site)
        found.append(
            Hazard(finding.code, severity, finding.message, finding.site.path, line, column, tuple(nodes), device)
        )
    return tuple(found)


class _Nodes:
    def __init__(self, graph: ExecutionGraph, analysis: Analysis) -> None:
        self.lines = Lines(analysis.program, analysis.sources)
        self._functions = analysis.program.functions
        self._exact: dict[tuple[str, int, int], list[str]] = {}
        self._line: dict[tuple[str, int], list[str]] = {}
        self._kernel: dict[str, list[str]] = {}
        for node in graph.nodes:
            self._exact.setdefault((node.path, node.line, node.column), []).append(node.id)
            self._line.setdefault((node.path, node.line), []).append(node.id)
            if node.device_code:
                self._kernel.setdefault(node.device_code, []).append(node.id)

    def in_kernel(self, site: Site) -> bool:
        function = self._functions.get(site.function)
        return function is not None and function.space == "global"

    def of(self, site: Site) -> list[str]:
        if self.in_kernel(site):
            return self._kernel.get(site.function, [])
        line = self.lines.of(site)
        exact = self._exact.get((site.path, line, self.lines.column(site)))
        return exact or self._line.get((site.path, line), [])
