"""What `check` says of the program that is stitched: stitching keeps what a program does, and so what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stitchcuda.analysis.index import Analysis
from stitchcuda.gpu_validate.analysed import analyse
from stitchcuda.gpu_validate.version import Version
from stitchcuda.server import sources
from stitchcuda.server.check_files import CheckFiles
from stitchcuda.server.cli import inputs
from stitchcuda.server.cli.errors import CannotRun
from stitchcuda.server.cli.selection import selection
from stitchcuda.server.report.rows import rows
from stitchcuda.server.report.stitched import folder_of

_NAMED = 3


def must_use_cuda(path: str, files: Sequence[str]) -> None:
    """Raises CannotRun when none of the files of a program has to do with CUDA."""
    problems = []
    for file in files:
        got = inputs.read(file)
        if got.text is not None and sources.is_relevant(file, "", got.text):
            return
        if got.problem is not None:
            problems.append(f"{got.problem.path}: {got.problem.what}")
    if len(problems) == len(files):
        raise CannotRun("; ".join(problems[:_NAMED]))
    some = ", ".join(os.path.relpath(f, folder_of(path) or ".") for f in files[:_NAMED])
    more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
    raise CannotRun(
        f"{path}: no CUDA was found in {some}{more}: name the folder, or the file, of the program that uses the GPU"
    )


def analysed(root: Path) -> Analysis:
    """The program as a run of *stitch* reads it; kept for that run. Raises CannotRun."""
    try:
        return analyse(Version(root))
    except OSError as error:
        raise CannotRun(f"{root}: cannot be read ({error.strerror})") from None


def errors_of(analysis: Analysis, path: str) -> list[dict[str, Any]]:
    """The errors that `check PATH` would report: code, path as the user would write it, line and message."""
    folder = folder_of(path)
    chosen = selection(None, None, "likely", CheckFiles([".", path]))
    found = []
    for row in rows(analysis):
        place = os.path.join(folder, row.place.path)
        if chosen.severity_of(place, row.code, row.severity, row.confidence) == "error":
            found.append({"code": row.code, "path": place, "line": row.place.line, "message": row.message})
    return sorted(found, key=lambda e: (e["path"], e["line"], e["code"]))


def sentence(errors: Sequence[Mapping[str, Any]], path: str) -> str:
    """What is told beside the outcome; "" without errors."""
    if not errors:
        return ""
    some = ", ".join(f"{e['path']}:{e['line']} {e['code']}" for e in errors[:_NAMED])
    more = f" and {len(errors) - _NAMED} more" if len(errors) > _NAMED else ""
    count = f"{len(errors)} error{'s' if len(errors) != 1 else ''}"
    return f"check reports {count} in this program ({some}{more}), which stitching leaves as it is: stitchcuda check {path}"


def has_work(analysis: Analysis) -> bool:
    """Whether anything that the program does has to do with the device."""
    return any(timeline.ops for timeline in analysis.timelines)
