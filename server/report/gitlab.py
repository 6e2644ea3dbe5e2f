"""A Code Quality report, which GitLab shows in merge requests: https://docs.gitlab.com/ci/testing/code_quality/."""

from __future__ import annotations

import json
from typing import Any

from stitchcuda.server.report.rows import Report, in_repository

_LEVELS = {"error": "critical", "warning": "major", "hint": "info"}


def render(report: Report) -> str:
    """Findings alone: GitLab has no place for what could not be read, which `check` tells on stderr."""
    entries: list[dict[str, Any]] = [
        {
            "description": row.message,
            "check_name": row.code,
            "fingerprint": row.fingerprint,
            "severity": _LEVELS[row.severity],
            "location": {"path": in_repository(row.place.path), "lines": {"begin": row.place.line}},
        }
        for row in report.rows
    ]
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"
