"""Which findings `check` reports, and how severe they are: the command line over what stitchcuda.toml says of each file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stitchcuda.server.check_files import CheckFiles
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.report.codes import DEFAULT_CODES, codes_of, unknown_word
from stitchcuda.server.report.rows import Row

CONFIDENCES = ("certain", "likely", "possible")


@dataclass(frozen=True)
class Selection:
    """`select` None: what the project file says, else the default selection."""

    projects: CheckFiles
    select: frozenset[str] | None
    ignore: frozenset[str]
    named: frozenset[str]  # codes that the command line asks for one by one
    confidence: str

    def shown(self, row: Row) -> Row | None:
        """The row as it is reported, or None."""
        severity = self.severity_of(row.place.path, row.code, row.severity, row.confidence)
        return None if severity is None else replace(row, severity=severity)

    def severity_of(self, path: str, code: str, severity: str, confidence: str) -> str | None:
        """The severity that a finding is reported with, given the one it has by itself; None: it is not reported."""
        if CONFIDENCES.index(confidence) > CONFIDENCES.index(self.confidence) or code in self.ignore:
            return None
        said = self.projects.of(path)
        told = said.section.severity.get(code, severity)
        if said.excluded:
            return None
        if self.select is not None:
            wanted = code in self.select
        elif said.section.select:
            wanted = code in codes_of(said.section.select)
        else:  # a severity turns on what is off by default
            wanted = code in DEFAULT_CODES or code in said.section.severity
        if not wanted or (code not in self.named and (code in codes_of(said.section.ignore) or told == "off")):
            return None
        return severity if told == "off" else told


def selection(
    select: Sequence[str] | None, ignore: Sequence[str] | None, confidence: str, projects: CheckFiles
) -> Selection:
    """From the words of the command line. Raises CannotRun for a word that is no code."""
    chosen = None if not select else _words(select)
    left_out = _words(ignore or ())
    named = frozenset(chosen or ()) - frozenset(left_out)
    return Selection(projects, None if chosen is None else codes_of(chosen), codes_of(left_out), named, confidence)


def _words(lists: Sequence[str]) -> tuple[str, ...]:
    words = tuple(word.strip() for text in lists for word in text.split(",") if word.strip())
    for word in words:
        what = unknown_word(word, measured=False)
        if what:
            raise CannotRun(what)
    return words
