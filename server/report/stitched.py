"""What `stitch` tells people: the outcome, the verdict gate by gate, the units, what was refused, the diff."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from stitchcuda.agent.journal import Record
from stitchcuda.agent.outcome import quantity
from stitchcuda.agent.stitching import Stitched
from stitchcuda.agent.units import Unit
from stitchcuda.analysis.contract.types import Contract
from stitchcuda.gpu_validate.verdict_json import verdict_from_json
from stitchcuda.server.report import diff
from stitchcuda.server.report.verdicts import verdict_text


def folder_of(path: str) -> str:
    """The folder of a program as given, "" for the current one."""
    return path if os.path.isdir(path) else os.path.dirname(path)


def places_as_given(value: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The units and refusals of a result's JSON, with paths as the user would write them."""
    folder = folder_of(path)

    def given(row: Mapping[str, Any]) -> dict[str, Any]:
        return {**row, "path": os.path.join(folder, row["path"]) if row["path"] else ""}

    return {
        "units": [{**unit, "edits": [given(edit) for edit in unit["edits"]]} for unit in value["units"]],
        "refused": [given(row) for row in value["refused"]],
    }


def diff_of(done: Stitched, path: str) -> str:
    """The best version as a unified diff, to be applied where the command was started, or in the program's folder when that
    lies elsewhere: `git apply` and `patch` take no path that leads out."""
    return diff_between(done.base, done.after, path)


def diff_between(base: Mapping[str, bytes], after: Mapping[str, bytes], path: str) -> str:
    try:
        folder = os.path.relpath(folder_of(path) or ".")
    except ValueError:  # another drive
        folder = ".."
    if folder == "." or folder.split(os.sep)[0] == "..":
        folder = ""
    return diff.unified(
        {os.path.join(folder, p): text for p, text in base.items()},
        {os.path.join(folder, p): text for p, text in after.items()},
    )


def text(done: Stitched, path: str, *, reason: str = "", note: str = "") -> str:
    """Everything, as a page. `reason` replaces the run's own; `note` stands below it."""
    value = {**done.value, **places_as_given(done.value, path)}
    parts = [f"{value['outcome']}: {reason or value['reason']}\n"]
    if note:
        parts.append(f"note: {note}\n")
    if value["question"]:
        asked = value["question"]
        parts.append(f"question about {asked['field']}: {asked['text']} ({' / '.join(asked['options'])})\n")
    if value["model"] is not None:
        parts.append(model_line(value["model"]))
    if value["verdict"] is not None:
        parts.append(f"verdict: {verdict_text(verdict_from_json(value['verdict']))}")
    if value["units"]:
        parts.append("units\n" + "\n".join(unit_lines(value["units"])) + "\n")
    if value["refused"]:
        parts.append("refused\n" + "\n".join(refusal_lines(value["refused"])) + "\n")
    change = diff_of(done, path)
    if change:
        parts.append(change)
    parts.append(f"kept in {done.folder}\n")
    return "\n".join(parts)


def model_line(value: Mapping[str, Any]) -> str:
    """Who was asked and what it cost."""
    usage = value["usage"]
    name = f"{value['model'] or 'the only model'} at {value['endpoint']}"
    if not value["rounds"]:
        return f"model: {name} was not asked{': ' + value['problem'] if value['problem'] else ''}\n"
    money = f", {usage['money']:.4g} spent" if usage["money"] else ""
    estimated = f" ({usage['estimated']:,} of them estimated)" if usage["estimated"] else ""
    rounds = f"{value['rounds']} round{'s' if value['rounds'] != 1 else ''}"
    problem = f". {value['problem']}" if value["problem"] else ""
    return f"model: {name}, {rounds}, {usage['tokens']:,} tokens{estimated}{money}{problem}\n"


def _at(path: str, line: int) -> str:
    return f"{path}:{line}:" if line > 0 else f"{path}:" if path else ""


def unit_lines(units: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line a unit: id, where, what, why, and what it builds on."""
    lines = []
    for unit in units:
        edit = min(unit["edits"], key=lambda e: (e["path"], e["start"]["line"]))
        parents = f" (builds on {', '.join(unit['parents'])})" if unit["parents"] else ""
        place = _at(edit["path"], edit["start"]["line"])
        lines.append(f"  {unit['id']} {place} {unit['transform']}: {unit['why']}{parents}")
    return lines


def refusal_lines(refusals: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line a place, or, where many are refused for one reason, the reason and the places."""
    places: dict[tuple[str, str], list[str]] = {}
    for r in refusals:
        places.setdefault((r["transform"], r["reason"]), []).append(_at(r["path"], r["line"]).rstrip(":"))
    lines = []
    for (transform, reason), where in places.items():
        where = list(dict.fromkeys(where))
        if len(where) == 1:
            lines.append(f"  {where[0]}: {transform}: {reason}")
        else:
            lines += [f"  {transform}: {reason}", f"    at {', '.join(where)}"]
    return lines


def contract_lines(contract: Contract) -> list[str]:
    """What is asked, a line a field."""
    lines = [f"  task: {contract.task}"] if contract.task else []
    lines += [
        f"  {b.statistic} {b.metric.replace('_', ' ')} {b.relation} {quantity(b.value, b.unit)}"
        for b in contract.bounds
    ]
    if contract.scope:
        lines.append(f"  of {', '.join(contract.scope)}")
    tolerance = contract.tolerance
    limit = next((v for v in (tolerance.rtol, tolerance.atol, tolerance.k) if v is not None), None)
    lines.append(f"  results: {tolerance.mode.replace('_', ' ')}{f' {limit:g}' if limit is not None else ' equal'}")
    return lines


def run_line(record: Record) -> str:
    """A run in the list of runs."""
    outcome = record.result["outcome"] if record.result is not None else "did not end"
    return f"{record.name}  {outcome:<14}  {len(record.best)} of {len(record.units)} units  {record.root}"


def journal_unit_lines(units: Sequence[Unit], chosen: Sequence[str]) -> list[str]:
    """The units of a run, those of the best version marked."""
    lines = []
    for unit in units:
        mark = "*" if unit.id in chosen else " "
        paths = ", ".join(dict.fromkeys(e.path for e in unit.edits))
        parents = f" (builds on {', '.join(unit.parents)})" if unit.parents else ""
        lines.append(f"{mark} {unit.id} {unit.transform} in {paths}: {unit.why}{parents}")
    return lines
