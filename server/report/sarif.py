"""SARIF 2.1.0, for code scanning services."""

from __future__ import annotations

import json
import os
from pathlib import PurePath, PurePosixPath
from typing import Any
from urllib.parse import quote

from stitchcuda.analysis.program.ir import Problem
from stitchcuda.analysis.rules import BY_CODE, documentation
from stitchcuda.server.report.rows import Place, Report, Row

_LEVELS = {"error": "error", "warning": "warning", "hint": "note"}
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render(report: Report, *, version: str, successful: bool = True) -> str:
    """`successful`: everything that was asked for by name could be checked."""
    numbers = {rule.code: k for k, rule in enumerate(BY_CODE.values())}
    driver = {
        "name": "stitchcuda",
        "version": version,
        "rules": [
            {
                "id": rule.code,
                "shortDescription": {"text": rule.summary},
                "help": {"text": documentation(rule.code), "markdown": documentation(rule.code)},
                "defaultConfiguration": {"level": _LEVELS[rule.severity.value], "enabled": rule.default},
                "properties": {"tags": [rule.group.value]},
            }
            for rule in BY_CODE.values()
        ],
    }
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": successful,
                "toolExecutionNotifications": [_notification(problem) for problem in report.problems],
            }
        ],
        "results": [_result(row, numbers[row.code]) for row in report.rows],
    }
    if report.baselined:  # a run says of all its results whether they are suppressed, or of none
        known = [_result(row, numbers[row.code]) for row in report.baselined]
        for result in run["results"]:
            result["suppressions"] = []
        for result in known:
            result["suppressions"] = [{"kind": "external", "justification": "listed in the baseline"}]
        run["results"] += known
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _result(row: Row, number: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": row.code,
        "ruleIndex": number,
        "level": _LEVELS[row.severity],
        "message": {"text": row.message},
        "locations": [{"physicalLocation": _physical(row.place)}],
        "partialFingerprints": {"stitchcuda/v1": row.fingerprint},
        "properties": {"confidence": row.confidence, "group": row.group},
    }
    if row.related:
        result["relatedLocations"] = [
            {"id": k, "physicalLocation": _physical(r.place), "message": {"text": r.message}}
            for k, r in enumerate(row.related)
        ]
    return result


def _physical(place: Place) -> dict[str, Any]:
    region = {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }
    return {"artifactLocation": {"uri": _uri(place.path)}, "region": region}


def _notification(problem: Problem) -> dict[str, Any]:
    where: dict[str, Any] = {"artifactLocation": {"uri": _uri(problem.path)}}
    if problem.line > 0:
        where["region"] = {"startLine": problem.line}
    return {
        "level": "warning",
        "message": {"text": f"{problem.what}: {problem.consequence}"},
        "locations": [{"physicalLocation": where}],
    }


def _uri(path: str) -> str:
    """A relative path stays relative (the service knows the repository's root); an absolute one becomes a file URI."""
    if os.path.isabs(path):
        return PurePath(path).as_uri()
    return quote(os.fsencode(str(PurePosixPath(*PurePath(path).parts))))
