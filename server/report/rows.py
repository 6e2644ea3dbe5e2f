"""Findings with their places as the command line counts them: 1-based lines, columns in characters."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from stitchcuda.analysis.findings.finding import Finding
from stitchcuda.analysis.index import Analysis
from stitchcuda.analysis.program.ir import Problem, Program, Site
from stitchcuda.analysis.syntax.text import LineIndex, decode, units
from stitchcuda.server.upwards import repository


def in_repository(path: str) -> str:
    """A path as services that know the repository write it: with slashes, from the top of the git repository. A file that lies in
    none stays as it was named, but for the `./` of `check .`."""
    full = os.path.abspath(path)
    top = repository(os.path.dirname(full))
    return PurePath(path if top is None else os.path.relpath(full, top)).as_posix()


@dataclass(frozen=True, slots=True)
class Place:
    path: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class RelatedRow:
    place: Place
    message: str


@dataclass(frozen=True, slots=True)
class EditRow:
    """Replace the bytes `[start, end)` of a file."""

    path: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class FixRow:
    title: str
    preferred: bool
    edits: tuple[EditRow, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One finding. `fingerprint` stays the same when text elsewhere in the file changes."""

    code: str
    group: str
    severity: str
    confidence: str
    place: Place
    message: str
    related: tuple[RelatedRow, ...]
    fixes: tuple[FixRow, ...]
    condition: str
    source: str  # the line it starts on
    fingerprint: str


@dataclass(frozen=True)
class Report:
    """What one run of `check` found. `baselined`: findings that are known, and not reported as new."""

    rows: tuple[Row, ...]
    problems: tuple[Problem, ...] = ()
    baselined: tuple[Row, ...] = ()


@dataclass
class _Places:
    program: Program
    sources: Mapping[str, bytes]
    lines: dict[str, LineIndex] = field(default_factory=dict)

    def known(self, site: Site) -> bool:
        return site.path in self.sources and (not site.function or site.function in self.program.functions)

    def of(self, site: Site) -> Place:
        where = self.program.locate(site)
        text, lines = self.sources[where.path], self._lines(where.path)
        return Place(where.path, *self._position(text, lines, where.start), *self._position(text, lines, where.end))

    def source_line(self, place: Place) -> str:
        text, lines = self.sources[place.path], self._lines(place.path)
        start = lines.start(place.line - 1)
        end = lines.start(place.line) if place.line < len(lines) else len(text)
        return decode(text[start:end]).rstrip("\r\n")

    def _lines(self, path: str) -> LineIndex:
        if path not in self.lines:
            self.lines[path] = LineIndex.of(self.sources[path])
        return self.lines[path]

    @staticmethod
    def _position(text: bytes, lines: LineIndex, offset: int) -> tuple[int, int]:
        line = lines.line_at(offset)
        return line + 1, units(text[lines.start(line) : offset], "utf-32") + 1


def rows(analysis: Analysis) -> tuple[Row, ...]:
    """The findings of an analysis, in its order."""
    places = _Places(analysis.program, analysis.sources)
    made = (_row(finding, analysis.program, places) for finding in analysis.findings if places.known(finding.site))
    return numbered(made)


def numbered(made: Iterable[Row]) -> tuple[Row, ...]:
    """Tells rows with the same fingerprint apart, in their order."""
    seen: Counter[str] = Counter()
    out = []
    for row in made:
        seen[row.fingerprint] += 1
        count = seen[row.fingerprint]
        out.append(row if count == 1 else replace(row, fingerprint=f"{row.fingerprint}-{count}"))
    return tuple(out)


def _row(finding: Finding, program: Program, places: _Places) -> Row:
    place = places.of(finding.site)
    source = places.source_line(place)
    function = program.functions.get(finding.site.function)
    name = function.qualified if function is not None else ""
    path = os.path.normpath(place.path).replace(os.sep, "/")  # `check .` and `check src` name one file alike
    identity = "\0".join((finding.code, path, name, " ".join(source.split()), finding.message))
    return Row(
        finding.code,
        finding.group.value,
        finding.severity.value,
        finding.confidence.value,
        place,
        finding.message,
        tuple(RelatedRow(places.of(r.site), r.message) for r in finding.related if places.known(r.site)),
        tuple(
            FixRow(
                fix.title,
                fix.preferred,
                tuple(
                    EditRow(where.path, where.start, where.end, edit.text)
                    for edit in fix.edits
                    for where in [program.locate(edit.site)]
                ),
            )
            for fix in finding.fixes
        ),
        finding.condition,
        source,
        hashlib.sha256(identity.encode(errors="replace")).hexdigest()[:20],
    )
