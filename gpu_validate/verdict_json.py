"""A verdict as JSON (docs/json.md), and the short form that goes back to a proposer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stitchcuda.analysis.contract.jsonread import Reader, SchemaError
from stitchcuda.gpu_validate.verdict import (
    GATES,
    SCHEMA,
    BoundResult,
    GateFinding,
    GateResult,
    GateState,
    Interval,
    Primary,
    Verdict,
    VerdictState,
)

FINDINGS = 3  # of each gate in the short form


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """A value for `json.dumps`."""
    primary = verdict.primary
    return {
        "schema": SCHEMA,
        "state": verdict.state.value,
        "gates": [
            {
                "gate": g.gate,
                "name": GATES.get(g.gate, ""),
                "state": g.state.value,
                "reason": g.reason,
                "evidence": dict(g.evidence),
                "findings": [
                    {"what": f.what, "path": f.path, "line": f.line, "baseline": f.baseline} for f in g.findings
                ],
            }
            for g in verdict.gates
        ],
        "speedup": {name: [i.low, i.middle, i.high] for name, i in verdict.speedup.items()},
        "bounds": [
            {"bound": dict(b.bound), "measured": b.measured, "met": b.met, "reason": b.reason} for b in verdict.bounds
        ],
        "primary": None
        if primary is None
        else {
            "issue": primary.issue,
            "why": primary.why,
            "fix": primary.fix,
            "path": primary.path,
            "line": primary.line,
        },
        "measured": dict(verdict.measured),
        "limits": verdict.limits,
    }


def feedback(verdict: Verdict) -> dict[str, Any]:
    """What a proposer needs: the gates that did not pass, their first findings, the primary issue and the numbers."""
    whole = verdict_to_json(verdict)
    good = (GateState.PASSED.value, GateState.PROVED.value)
    for gate in whole["gates"]:
        new = [f for f in gate["findings"] if not f["baseline"]]
        gate["findings"] = new[:FINDINGS]
        if gate["state"] in good:
            gate["evidence"] = {}
    return whole


def verdict_from_json(value: object) -> Verdict:
    """Reads what `verdict_to_json` made. Raises `SchemaError`."""
    reader = Reader(value, "", ["schema", "state", "gates", "speedup", "bounds", "primary", "measured", "limits"])
    reader.schema(SCHEMA)
    raw = value if isinstance(value, dict) else {}
    speedup = raw.get("speedup", {})
    if not isinstance(speedup, dict):
        raise SchemaError("speedup", speedup, "an object of intervals")
    return Verdict(
        VerdictState(reader.choice("state", [s.value for s in VerdictState])),
        reader.items("gates", _gate, ()),
        {str(name): _interval(interval, f"speedup.{name}") for name, interval in speedup.items()},
        reader.items("bounds", _bound, ()),
        None if raw.get("primary") is None else reader.record("primary", _primary),
        _plain(raw.get("measured", {}), "measured"),
        reader.text("limits", ""),
    )


def _gate(value: object, at: str) -> GateResult:
    reader = Reader(value, at, ("gate", "name", "state", "reason", "evidence", "findings"))
    raw = value if isinstance(value, dict) else {}
    return GateResult(
        reader.choice("gate", GATES),
        GateState(reader.choice("state", [s.value for s in GateState])),
        reader.text("reason", ""),
        _plain(raw.get("evidence", {}), f"{at}.evidence"),
        reader.items("findings", _finding, ()),
    )


def _finding(value: object, at: str) -> GateFinding:
    reader = Reader(value, at, ("what", "path", "line", "baseline"))
    raw = value if isinstance(value, dict) else {}
    baseline = raw.get("baseline", False)
    if not isinstance(baseline, bool):
        raise SchemaError(reader.path("baseline"), baseline, "true or false")
    return GateFinding(reader.text("what"), reader.text("path", ""), reader.integer("line", least=0), baseline)


def _bound(value: object, at: str) -> BoundResult:
    reader = Reader(value, at, ("bound", "measured", "met", "reason"))
    raw = value if isinstance(value, dict) else {}
    met, measured = raw.get("met"), raw.get("measured")
    if met is not None and not isinstance(met, bool):
        raise SchemaError(reader.path("met"), met, "true, false or null")
    if measured is not None and (isinstance(measured, bool) or not isinstance(measured, (int, float))):
        raise SchemaError(reader.path("measured"), measured, "a number or null")
    return BoundResult(_plain(raw.get("bound"), reader.path("bound")), measured, met, reader.text("reason", ""))


def _primary(value: object, at: str) -> Primary:
    reader = Reader(value, at, ("issue", "why", "fix", "path", "line"))
    where = (reader.text("path", ""), reader.integer("line", least=0))
    return Primary(reader.text("issue"), reader.text("why", ""), reader.text("fix", ""), *where)


def _interval(value: object, at: str) -> Interval:
    if (
        not isinstance(value, list)
        or len(value) != 3
        or not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in value)
        or not value[0] <= value[1] <= value[2]
    ):
        raise SchemaError(at, value, "[low, middle, high] in this order")
    return Interval(*map(float, value))


def _plain(value: object, at: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SchemaError(at, value, "an object")
    return value
