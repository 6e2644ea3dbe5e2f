"""A verdict for people: one line a gate, what was found, the numbers, and the one thing to put right first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stitchcuda.gpu_validate.verdict import GATES, BoundResult, GateFinding, GateState, Verdict

_FINDINGS = 4  # of each gate
_TITLES = {"latency": "latency", "cuda_span": "CUDA span", "wall": "wall clock", "gpu_busy": "GPU busy"}
_PLAIN = (GateState.PASSED, GateState.PROVED)


def verdict_text(verdict: Verdict) -> str:
    """Several lines, ended by a line end."""
    width = max(map(len, GATES.values()))
    lines = [f"{verdict.state.value}"]
    for gate in verdict.gates:
        name = GATES[gate.gate].ljust(width)
        reason = f"  {gate.reason}" if gate.reason and gate.state not in _PLAIN else ""
        lines.append(f"  {gate.gate}  {name}  {gate.state.value:<12}{reason}".rstrip())
        if gate.state in _PLAIN:
            lines += [f"        rests on: {premise}" for premise in gate.evidence.get("rests_on", ())]
        said = [f for f in gate.findings if f.what != gate.reason or f.path]
        lines += [f"        {_finding(f)}" for f in said[:_FINDINGS]]
        if len(said) > _FINDINGS:
            lines.append(f"        and {len(said) - _FINDINGS} more (--format json has all)")
    lines += _speeds(verdict)
    lines += [f"bound   {_bound(b)}" for b in verdict.bounds]
    if verdict.limits:
        lines.append(f"now     {verdict.limits}")
    if verdict.primary is not None:
        place = f" ({verdict.primary.path}:{verdict.primary.line})" if verdict.primary.path else ""
        lines += [
            f"issue   {verdict.primary.issue}{place}",
            f"  why   {verdict.primary.why}",
            f"  fix   {verdict.primary.fix}",
        ]
    return "\n".join(lines) + "\n"


def _finding(finding: GateFinding) -> str:
    place = (
        f"{finding.path}:{finding.line}: "
        if finding.path and finding.line
        else f"{finding.path}: " * bool(finding.path)
    )
    return f"{place}{finding.what}{' [the original, too]' if finding.baseline else ''}"


def _speeds(verdict: Verdict) -> list[str]:
    out = []
    for name, interval in verdict.speedup.items():
        measured: Mapping[str, Any] = verdict.measured.get(name, {})
        times = f"  {_seconds(measured['baseline'])} -> {_seconds(measured['candidate'])}" if measured else ""
        range_ = f"[{interval.low:.3f}, {interval.high:.3f}]"
        out.append(f"speed   {_TITLES.get(name, name):<10}  x{interval.middle:.3f} {range_}{times}")
    return out


def _bound(result: BoundResult) -> str:
    bound = result.bound
    asked = f"{bound['statistic']} {bound['metric'].replace('_', ' ')} {bound['relation']} {bound['value']:g}{unit_text(bound['unit'])}"
    if result.measured is None:
        return f"{asked}: not known ({result.reason})"
    return f"{asked}: {'met' if result.met else 'not met'}, measured {result.measured:.6g}{unit_text(bound['unit'])}"


def unit_text(unit: str) -> str:
    """Behind a number; "1" is none."""
    return "" if unit == "1" else f" {unit}"


def _seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value / 1e-6:.4g} us"
