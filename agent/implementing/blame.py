"""Whose hazard is it? One between a host stage and its caller is the caller's own when the caller has it with any definition.

The analysis of the program without the definition has another function in its place (`assumed.py`), so that the same hazard is told in
other words there. It is the same when it is of the same kind and meets the caller's code at the same places.
"""

from __future__ import annotations

from dataclasses import replace

from stitchcuda.agent.implementing.stages import Stage
from stitchcuda.analysis.findings.finding import Finding
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.program.ir import Site


def with_callers_own(before: Analysis, after: Analysis, stage: Stage) -> Analysis:
    """`before`, with those findings of `after` that the caller has there as well."""
    known = {(f.code, _outside(before, f, stage)) for f in before.findings if _meets(before, f, stage)}
    own = [f for f in after.findings if _meets(after, f, stage) and (f.code, _outside(after, f, stage)) in known]
    return replace(before, findings=(*before.findings, *own)) if own else before


def _sites(finding: Finding) -> tuple[Site, ...]:
    return (finding.site, *(r.site for r in finding.related))


def _in_stage(analysis: Analysis, site: Site, stage: Stage) -> bool:
    function = analysis.program.functions.get(site.function)
    return function is not None and function.qualified == stage.function.qualified


def _meets(analysis: Analysis, finding: Finding, stage: Stage) -> bool:
    """Whether it is between the stage and code around it."""
    return len({_in_stage(analysis, site, stage) for site in _sites(finding)}) == 2


def _outside(analysis: Analysis, finding: Finding, stage: Stage) -> frozenset[tuple[str, tuple[int, int]]]:
    return frozenset((s.function, s.span) for s in _sites(finding) if not _in_stage(analysis, s, stage))
