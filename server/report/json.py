"""The stable JSON format, schema 1."""

from __future__ import annotations

import json
from typing import Any

from stitchcuda.server.report.rows import Place, Report, Row


def render(report: Report) -> str:
    problems = [{"path": p.path, "line": p.line, "what": p.what, "consequence": p.consequence} for p in report.problems]
    document = {"schema": 1, "findings": [_row(row) for row in report.rows], "problems": problems}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _row(row: Row) -> dict[str, Any]:
    place = row.place
    return {
        "code": row.code,
        "group": row.group,
        "severity": row.severity,
        "confidence": row.confidence,
        **_start(place),
        "end_line": place.end_line,
        "end_column": place.end_column,
        "message": row.message,
        "related": [{**_start(r.place), "message": r.message} for r in row.related],
        "fixes": [fix.title for fix in row.fixes],
    }


def _start(place: Place) -> dict[str, Any]:
    return {"path": place.path, "line": place.line, "column": place.column}
