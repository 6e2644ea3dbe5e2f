"""From the findings of single entries to those of the program: one a fault, suppressions applied, in source order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from stitchcuda.analysis.findings.finding import RANK, Finding, Group, Rule
from stitchcuda.analysis.findings.suppressions import suppressed, suppressions
from stitchcuda.analysis.index.comments import Coverage, FileComments
from stitchcuda.analysis.program.ir import Location, Program, Site
from stitchcuda.analysis.rules import BY_CODE
from stitchcuda.analysis.syntax.text import LineIndex

_EVERY_PATH = frozenset(code for code, rule in BY_CODE.items() if isinstance(rule, Rule) and rule.every_path)


@dataclass(frozen=True, slots=True)
class EntryFindings:
    """What the rules said about one entry, and the sites of its operations."""

    findings: tuple[Finding, ...]
    sites: frozenset[Site]


def merge(
    entries: Sequence[EntryFindings],
    program: Program,
    sources: Mapping[str, bytes],
    coverage: Coverage | None,
    earlier: Sequence[Finding] = (),
) -> tuple[Finding, ...]:
    """The findings of all entries together: one a code, place and (for races) earlier access, the surest one. Comments silence them;
    those comments that do not are findings, too, with a `coverage`. What was said `earlier` of other places is added."""
    best: dict[tuple[object, ...], Finding] = {}
    reports: Counter[tuple[str, Site]] = Counter()
    for entry in entries:
        reports.update({(f.code, f.site) for f in entry.findings if f.code in _EVERY_PATH})
        for finding in entry.findings:
            key = (finding.code, finding.site, _other_side(finding))
            known = best.get(key)
            if known is None or RANK[known.confidence] < RANK[finding.confidence]:
                best[key] = finding
    kept: Collection[Finding] = best.values()
    if reports:
        wanted = {site for _, site in reports}
        reached = Counter(site for entry in entries for site in entry.sites & wanted)
        kept = [f for f in kept if f.code not in _EVERY_PATH or reports[f.code, f.site] == reached[f.site]]
    kept = [*kept, *earlier]
    files = {path: _comments(path, text) for path, text in sources.items() if b"stitchcuda:" in text}
    files = {path: file for path, file in files.items() if file.suppressions}
    for finding in best.values():
        if finding.site.path in files:
            file = files[finding.site.path]
            for line in _edges(program.locate(finding.site), file.lines):
                file.found.setdefault(line, set()).add(finding.code)
    shown = []
    for finding in kept:
        place = program.locate(finding.site)
        at = files.get(place.path)
        if at is None or not any(suppressed(at.suppressions, finding.code, line) for line in _edges(place, at.lines)):
            shown.append((place.path, place.start, finding.code, finding.message, finding))
    for file in files.values():
        for finding in file.findings(program, coverage) if coverage is not None else ():
            shown.append((finding.site.path, finding.site.span[0], finding.code, finding.message, finding))
    return tuple(f for *_, f in sorted(shown, key=lambda s: s[:4]))


def _edges(place: Location, lines: LineIndex) -> set[int]:
    """The lines on which a finding begins and ends: a comment behind a long call stands on the last one."""
    return {lines.line_at(place.start), lines.line_at(max(place.start, place.end - 1))}


def _comments(path: str, text: bytes) -> FileComments:
    return FileComments(path, text, suppressions(text, path), LineIndex.of(text))


def _other_side(finding: Finding) -> Site | None:
    return finding.related[0].site if finding.group is Group.CORRECTNESS and finding.related else None
