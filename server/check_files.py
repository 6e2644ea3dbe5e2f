"""What `[check]` of the nearest stitchcuda.toml says about a file: the same for the command line and for editors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stitchcuda.analysis.contract.globs import matches
from stitchcuda.analysis.contract.project import CheckSection


@dataclass(frozen=True, slots=True)
class FileCheck:
    """`excluded`: nothing is reported in the file."""

    section: CheckSection = field(default_factory=CheckSection)
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class _Said:
    """What one project file says."""

    file: Path
    section: CheckSection
    mistakes: tuple[str, ...]


class CheckFiles:
    """Answers for files, one read a project file. `tops` are folders up to which is looked outside of repositories."""

    def __init__(self, tops: Sequence[str] = ()) -> None:
        self._tops = [Path(os.path.abspath(top)) for top in tops]
        self._folders: dict[str, _Said | None] = {}
        self._files: dict[Path, _Said] = {}

    def of(self, path: str) -> FileCheck:
        said = self._said(path)
        if said is None:
            return FileCheck()
        if not said.section.exclude:
            return FileCheck(said.section)
        below = Path(os.path.abspath(path)).relative_to(said.file.parent).as_posix()
        return FileCheck(said.section, any(matches(pattern, below) for pattern in said.section.exclude))

    def mistakes(self, paths: Iterable[str]) -> tuple[str, ...]:
        """What is wrong with the project files of these files, a sentence each with the file, the key and what was expected."""
        return tuple(dict.fromkeys(m for path in paths for said in [self._said(path)] if said for m in said.mistakes))

    def _said(self, path: str) -> _Said | None:
        written = os.path.dirname(path)
        if written not in self._folders:
            self._folders[written] = self._read(Path(os.path.abspath(written)))
        return self._folders[written]

    def _read(self, folder: Path) -> _Said | None:
        from stitchcuda.gpu_validate.project_file import find_file, read_project  # not before a server answers

        above = [top for top in self._tops if folder.is_relative_to(top)]
        file = find_file(folder, min(above, key=lambda top: len(top.parts), default=None))
        if file is not None and file not in self._files:
            project, mistakes = read_project(file)
            self._files[file] = _Said(
                file,
                project.check,
                (*mistakes, *(f"{file}: {key}: {what}" for key, what in unknown_words(project.check))),
            )
        return self._files[file] if file is not None else None


def unknown_words(section: CheckSection) -> Iterator[tuple[str, str]]:
    """Words that are no code and no group: the key that holds one, and what is wrong with it."""
    if not (section.severity or section.select or section.ignore):
        return
    from stitchcuda.server.report.codes import unknown_word  # the rules: slow to import, and seldom needed in an editor

    for key, words in (("select", section.select), ("ignore", section.ignore), ("severity", section.severity)):
        for word in words:
            what = unknown_word(word, groups=key != "severity")
            if what:
                yield f"check.{key}", what
