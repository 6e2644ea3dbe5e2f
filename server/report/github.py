"""Workflow commands that GitHub Actions shows as annotations."""

from __future__ import annotations

from stitchcuda.server.report.rows import Report, in_repository

_LEVELS = {"error": "error", "warning": "warning", "hint": "notice"}


def render(report: Report) -> str:
    lines = []
    for row in report.rows:
        place = row.place
        end = f",endColumn={place.end_column}" if place.end_line == place.line else ""
        lines.append(
            f"::{_LEVELS[row.severity]} file={_property(in_repository(place.path))},line={place.line},endLine={place.end_line},"
            f"col={place.column}{end},title={_property(row.code)}::{_data(row.message)}"
        )
    for problem in report.problems:
        line = f",line={problem.line}" if problem.line > 0 else ""
        text = _data(f"{problem.what}: {problem.consequence}")
        lines.append(f"::notice file={_property(in_repository(problem.path))}{line},title=stitchcuda::{text}")
    return "".join(f"{line}\n" for line in lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
