"""What a run of stitch changes, as an editor is to be asked for it. Imported where it is used: the agent's modules take a while."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.agent import journal, versions
from stitchcuda.agent.journal import JournalError
from stitchcuda.agent.versions import UnitError
from stitchcuda.server.convert import Annotated, Note
from stitchcuda.server.report.diff import unified

PATCH = "change.patch"
_MARK = b"\xef\xbb\xbf"


class CannotEdit(Exception):
    """The run's change cannot be made by an editor. The text is for the user, without the run's name."""


@dataclass(frozen=True)
class RunEdits:
    """`before` and `after` are the texts of the edited files by absolute path, as an editor has them: without byte order marks.
    The edits count in `before`."""

    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    edits: tuple[Annotated, ...]
    notes: Mapping[str, Note]


def read(run_dir: Path, folder: Path, outcome: str) -> RunEdits:
    """The change of the best version of a run about the program in `folder`. Raises CannotEdit."""
    try:
        record = journal.read(run_dir)
        base = journal.base_texts(record)
        changes = versions.changes(base, record.units, record.best)
        after = versions.compose(base, record.units, record.best)
    except (JournalError, UnitError) as error:
        raise CannotEdit(str(error)) from None
    for path, text in after.items():
        if path not in base:
            raise CannotEdit(f"it adds the file {path}")
        for side in (base[path], text):
            _must_be_utf8(path, side)
    units = {unit.id: unit for unit in record.units}
    edits, notes = [], {}
    for change in changes:
        edit, shift = change.edit, len(_MARK) if base[change.edit.path].startswith(_MARK) else 0
        name = " ".join(change.units)
        transforms = dict.fromkeys(units[u].transform for u in change.units)
        # Clients group by the note: one for each unit, so that a reviewer can take them one by one.
        label = f"{', '.join(transforms)} ({outcome.replace('_', ' ')})"
        notes[name] = Note(label, "; ".join(dict.fromkeys(units[u].why for u in change.units)))
        edits.append(Annotated(str(folder / edit.path), edit.start - shift, edit.end - shift, edit.text.decode(), name))
    return RunEdits(
        {str(folder / path): base[path].removeprefix(_MARK) for path in after},
        {str(folder / path): text.removeprefix(_MARK) for path, text in after.items()},
        tuple(edits),
        notes,
    )


def write_patch(run_dir: Path) -> Path | None:
    """Writes the change of the best version as a unified diff beside the journal; None when it cannot be."""
    try:
        record = journal.read(run_dir)
        base = journal.base_texts(record)
        after = versions.compose(base, record.units, record.best)
        file = run_dir / PATCH
        text = unified({path: base[path] for path in after if path in base}, after)
        journal.write_whole(file, text.encode(errors="surrogateescape"))
    except (JournalError, UnitError):
        return None
    return file


def _must_be_utf8(path: str, text: bytes) -> None:
    """Editors read such files as they like, and then positions and what they write back mean something else."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise CannotEdit(f"{path}:{line} is not UTF-8, and an editor might change other characters of it") from None
