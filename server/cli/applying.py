"""Writes a choice of a run's units into the program, and takes it back: all files or none, and only over texts that the run
knows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stitchcuda.agent import journal, versions
from stitchcuda.agent.invention.surroundings import is_code
from stitchcuda.agent.journal import Applied, Record, Run
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.writing import replace_files


def apply(record: Record, chosen: Sequence[str]) -> tuple[str, ...]:
    """Makes the program the version with these units; gives the files that were written. What was applied before is replaced.
    Raises CannotRun when a file holds what the run does not know, JournalError, UnitError."""
    base = journal.base_texts(record)
    after = versions.compose(base, record.units, chosen)
    digests = {path: journal.text_digest(text) for path, text in after.items()}
    earlier = record.applied
    record = replace(record, applied=(*earlier, Applied(tuple(chosen), digests)))
    Run(record.folder).applied(record.applied)  # first: whatever happens now can be taken back
    try:
        return _make(record, base, after)
    except BaseException:
        if not _written(record, base, after):
            Run(record.folder).applied(earlier)  # it was refused, and the tree holds nothing of it
        raise


def _written(record: Record, base: dict[str, bytes], after: dict[str, bytes]) -> bool:
    """Whether a file holds what only the last of the applied choices puts there."""
    folder = record.root if record.root.is_dir() else record.root.parent
    earlier = [versions.compose(base, record.units, applied.units) for applied in record.applied[:-1]]
    for path, text in after.items():
        known = [base.get(path), *(texts.get(path, base.get(path)) for texts in earlier)]
        with contextlib.suppress(OSError):
            if text not in known and folder.joinpath(*path.split("/")).read_bytes() == text:
                return True
    return False


def revert(record: Record) -> tuple[str, ...]:
    """Gives every file that was applied its original bytes back, and removes those that were new; gives the files that
    were changed. Raises CannotRun, JournalError."""
    return _make(record, journal.base_texts(record), {})


def _make(record: Record, base: dict[str, bytes], after: dict[str, bytes]) -> tuple[str, ...]:
    folder = record.root if record.root.is_dir() else record.root.parent
    known = [versions.compose(base, record.units, applied.units) for applied in record.applied]
    paths = sorted({path for texts in known for path in texts})
    changes: dict[str, bytes | None] = {}
    expected: dict[str, list[bytes | None]] = {}
    for path in paths:
        place = os.path.join(folder, *path.split("/"))
        _must_be_a_source(folder, path, place)
        changes[place] = after.get(path, base.get(path))
        expected[place] = [base.get(path), *(texts.get(path, base.get(path)) for texts in known)]
    return replace_files(changes, expected)


def _must_be_a_source(folder: Path, path: str, place: str) -> None:
    """A run's folder may come from anybody, and its units may name any file. Raises CannotRun."""
    if is_code(path) and not any(part.startswith(".") for part in path.split("/")):
        if Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder)):
            return
        raise CannotRun(f"{place}: a link leads out of the program's folder; nothing was written")
    raise CannotRun(f"{place}: is no source file of a program; nothing was written")
