"""G0: does the version parse, and is any hazard new?

Findings are matched by code, function and message, not by line: an edit moves lines. Only findings at the confidence that
is shown by default count; what the original has as well is told and never held against the version.
"""

from __future__ import annotations

from collections import Counter

from stitchcuda.analysis.findings.finding import Confidence, Finding, Group
from stitchcuda.analysis.index.index import Analysis
from stitchcuda.analysis.program.ir import Problem
from stitchcuda.gpu_validate.verdict import GateFinding, GateResult, GateState

_HARMFUL = (Group.CORRECTNESS, Group.DEVICE)
_MOST_TOLD = 20


def g0(before: Analysis, after: Analysis) -> GateResult:
    """Compares the two analyses."""
    if not before.complete or not after.complete:
        return GateResult("G0", GateState.UNTESTED, "the analysis was stopped before its end")
    broken = _new_problems(before, after)
    old = Counter(_key(f) for f in before.findings if _counts(f))
    new: list[GateFinding] = []
    known: list[GateFinding] = []
    for finding in after.findings:
        if not _counts(finding):
            continue
        key = _key(finding)
        shared = old[key] > 0
        old[key] -= shared
        told = GateFinding(
            f"{finding.code}: {finding.message}", finding.site.path, _line(after, finding), baseline=shared
        )
        (known if shared else new).append(told)
    findings = tuple([*broken, *new, *known][:_MOST_TOLD])
    evidence = {"new_findings": len(new), "known_findings": len(known), "new_problems": len(broken)}
    if broken:
        return GateResult(
            "G0", GateState.FAILED, f"the version is not understood: {broken[0].what}", evidence, findings
        )
    if new:
        reason = f"{len(new)} new finding{'s' if len(new) > 1 else ''}: {new[0].what}"
        return GateResult("G0", GateState.FAILED, reason, evidence, findings)
    return GateResult("G0", GateState.PASSED, "", evidence, findings)


def _counts(finding: Finding) -> bool:
    return finding.group in _HARMFUL and finding.confidence is not Confidence.POSSIBLE


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.code, finding.site.function, finding.message


def _line(analysis: Analysis, finding: Finding) -> int:
    at = analysis.program.locate(finding.site)
    return analysis.sources[at.path].count(b"\n", 0, at.start) + 1


def _new_problems(before: Analysis, after: Analysis) -> list[GateFinding]:
    def key(problem: Problem) -> tuple[str, str]:
        return problem.path, problem.what

    old = Counter(map(key, before.problems))
    found = []
    for problem in after.problems:
        if old[key(problem)]:
            old[key(problem)] -= 1
        else:
            found.append(GateFinding(f"{problem.what} ({problem.consequence})", problem.path, problem.line))
    return found
