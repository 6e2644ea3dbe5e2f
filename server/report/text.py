"""Findings for people: the line, a caret, what else matters, and what can be done."""

from __future__ import annotations

import unicodedata

from stitchcuda.server.report.rows import Report, Row

_WIDE = 240  # characters of a source line that are shown
_LEAD = 60  # of them before the finding, when the line is longer
_COLOURS = {"error": "1;31", "warning": "1;33", "hint": "1;36"}


def render(report: Report, *, colour: bool = False) -> str:
    """The report as text; "" when there is nothing to say."""
    parts = [_row(row, colour) for row in report.rows]
    if report.rows:
        counts = [(s, sum(r.severity == s for r in report.rows)) for s in ("error", "warning", "hint")]
        parts.append(", ".join(f"{n} {s}{'s' if n != 1 else ''}" for s, n in counts if n) + "\n")
    return "\n".join(parts)


def _row(row: Row, colour: bool) -> str:
    place = row.place
    paint = _paint if colour else _plain
    head = f"{place.path}:{place.line}:{place.column}: "
    level = paint(row.severity, _COLOURS[row.severity])
    lines = [f"{head}{level}: {row.message} [{row.code}, {row.confidence}]"]
    if row.source.strip():
        start = max(place.column - _LEAD, 0) if len(row.source) > _WIDE else 0
        stop = start + _WIDE
        end = min(place.end_column - 1 if place.end_line == place.line else len(row.source), stop)
        source = row.source[start:stop].replace("\t", "    ")
        lead = row.source[start : place.column - 1].replace("\t", "    ")
        marked = row.source[place.column - 1 : end].replace("\t", "    ").rstrip()
        lines.append(f"{place.line:>5} | {source}")
        lines.append(f"      | {' ' * _width(lead)}{paint('^' * max(_width(marked), 1), _COLOURS[row.severity])}")
    for related in row.related:
        at = related.place
        lines.append(f"  {at.path}:{at.line}:{at.column}: {related.message}")
    if row.condition:
        lines.append(f"  when {row.condition}")
    lines += [f"  fix: {fix.title}" for fix in row.fixes]
    return "\n".join(lines) + "\n"


def _width(text: str) -> int:
    """Columns on a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _paint(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


def _plain(text: str, code: str) -> str:
    return text
