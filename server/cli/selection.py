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
        if CONFIDENCES.index(row.confidence) > CONFIDENCES.index(self.confidence) or row.code in self.ignore:
            return None
        said = self.projects.of(row.place.path)
        severity = said.section.severity.get(row.code, row.severity)
        if said.excluded:
            return None
        if self.select is not None:
            wanted = row.code in self.select
        elif said.section.select:
            wanted = row.code in codes_of(said.section.select)
        else:  # a severity turns on what is off by default
            wanted = row.code in DEFAULT_CODES or row.code in said.section.severity
        if not wanted or (
            row.code not in self.named and (row.code in codes_of(said.section.ignore) or severity == "off")
        ):
            return None
        return replace(row, severity=row.severity if severity == "off" else severity)


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
