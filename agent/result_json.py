"""The result of a run as `stitch --format json` prints it (docs/json.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stitchcuda.agent import versions
from stitchcuda.agent.blueprint import Blueprint, blueprint_to_json
from stitchcuda.agent.invention.asking import Asked
from stitchcuda.agent.invention.handover import Invented
from stitchcuda.agent.model.accounting import Spent
from stitchcuda.agent.outcome import Result
from stitchcuda.agent.units import TextEdit, Unit
from stitchcuda.analysis.contract.types import contract_to_json
from stitchcuda.analysis.syntax.text import LineIndex, units
from stitchcuda.gpu_validate.verdict import Verdict

SCHEMA = 1
_MARK = b"\xef\xbb\xbf"  # a byte-order mark is no character of the first line


def result_to_json(
    result: Result,
    base: Mapping[str, bytes],
    *,
    verdict: Callable[[Verdict], Mapping[str, Any]],
    blueprint: Blueprint | None,
    run_dir: str,
    as_given: Callable[[str], str] = lambda path: path,
    asked: Asked | None = None,
) -> dict[str, Any]:
    """`base` holds the original texts of the edited files that exist; `as_given` makes a path of the version one that the user
    would write."""
    best = result.best
    question = result.question
    return {
        "schema": SCHEMA,
        "contract": contract_to_json(result.contract),
        "outcome": result.outcome.value,
        "reason": result.reason,
        "stopped": result.stopped.value,
        "baseline": {"measured": dict(result.baseline.measured), "problem": result.baseline.problem},
        "best": None
        if best is None
        else {"units": list(best.units), "digest": best.version.digest, "measured": dict(best.verdict.measured)},
        "verdict": None if best is None else dict(verdict(best.verdict)),
        "blueprint": None if blueprint is None else blueprint_to_json(blueprint),
        "units": units_with_places(base, result.units, best.units if best is not None else (), as_given),
        "refused": [
            {"transform": r.transform, "path": as_given(r.path), "line": r.line, "reason": r.reason}
            for r in result.refusals
        ],
        "question": None
        if question is None
        else {"field": question.field, "text": question.text, "options": list(question.options)},
        "model": None if asked is None else _model(asked, result.invented),
        "run_dir": run_dir,
    }


def _model(asked: Asked, invented: Invented | None) -> dict[str, Any]:
    """Who was asked and what it cost. With `invented` None nobody was asked to improve it: the rules were enough, or the run ended
    before."""
    anchored = asked.anchored
    spent = asked.ledger.spent if asked.ledger is not None else Spent()
    return {
        "endpoint": asked.asking.endpoint,
        "model": asked.asking.model,
        "rounds": spent.rounds
        if invented is None
        else invented.rounds + (anchored.rounds if anchored is not None else 0),
        "usage": {
            "requests": spent.requests,
            "tokens": spent.tokens,
            "estimated": spent.estimated,
            "money": spent.money,
            "gpu_seconds": round(spent.gpu_seconds, 3),
        },
        "files": list(asked.sent),
        "problem": invented.problem if invented is not None else "",
        "transcript": asked.transcript,
        "anchor": None
        if anchored is None
        else {"added": [{"field": f, "text": t} for f, t in anchored.added], "problem": anchored.problem},
    }


def units_with_places(
    base: Mapping[str, bytes], sequence: Sequence[Unit], chosen: Sequence[str], as_given: Callable[[str], str]
) -> list[dict[str, Any]]:
    """The chosen units, with lines and columns from 1, columns in characters. A unit's edits are placed in the text after the
    units before it in the list."""
    texts = dict(base)
    rows = []
    for unit in versions.rebased(base, sequence, chosen):
        lines = {path: LineIndex.of(texts.get(path, b"")) for path in {e.path for e in unit.edits}}
        rows.append(
            {
                "id": unit.id,
                "parents": list(unit.parents),
                "transform": unit.transform,
                "why": unit.why,
                "edits": [_edit(e, texts.get(e.path, b""), lines[e.path], as_given) for e in unit.edits],
                "proof": [{"what": o.what, "shown_by": o.shown_by} for o in unit.obligations],
                "serves": list(unit.serves),
            }
        )
        texts.update(versions.edited(texts, unit.edits))
    return rows


def _edit(edit: TextEdit, text: bytes, lines: LineIndex, as_given: Callable[[str], str]) -> dict[str, Any]:
    return {
        "path": as_given(edit.path),
        "start": _place(text, lines, edit.start),
        "end": _place(text, lines, edit.end),
        "text": edit.text.decode(errors="surrogateescape"),
    }


def _place(text: bytes, lines: LineIndex, offset: int) -> dict[str, int]:
    line = lines.line_at(offset)
    before = text[lines.start(line) : offset]
    if line == 0:
        before = before.removeprefix(_MARK)
    return {"line": line + 1, "column": units(before, "utf-32") + 1}
