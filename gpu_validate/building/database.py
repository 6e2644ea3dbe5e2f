"""compile_commands.json: how each source of a program is compiled, with the paths of the user's machine."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

from stitchcuda.gpu_validate.building.model import Problem, Unit

NAME = "compile_commands.json"
_TAKES_VALUE = frozenset({"-o", "-MF", "-MT", "-MQ", "--output-file"})
_DROPPED = frozenset({"-c", "-dc", "-MD", "-MMD", "-MP", "-MM", "-M"})


def find_database(folder: Path, build_directory: str) -> Path | None:
    """The folder's own, or that of its build tree."""
    return next((p for p in (folder / NAME, folder / build_directory / NAME) if p.is_file()), None)


def read_database(path: Path, folder: Path) -> tuple[Unit, ...] | Problem:
    """The units below `folder`, each once. The outputs and dependency files that the commands name are taken out."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return Problem(f"{path} cannot be read ({error}); write it again or give a [build] command in stitchcuda.toml")
    if not isinstance(entries, list):
        return Problem(f"{path} holds no list of commands; write it again or give a [build] command in stitchcuda.toml")
    units: dict[str, Unit] = {}
    for number, entry in enumerate(entries):
        unit = _unit(entry, path, folder)
        if unit is None:
            return Problem(f"{path}, entry {number}: needs directory, file and command or arguments")
        if not unit.source.startswith(".."):
            units.setdefault(unit.source, unit)
    if not units:
        return Problem(f"{path} names no source below {folder}")
    return tuple(units.values())


def _unit(entry: object, path: Path, folder: Path) -> Unit | None:
    if not isinstance(entry, dict):
        return None
    directory, file = entry.get("directory"), entry.get("file")
    if not isinstance(directory, str) or not isinstance(file, str):
        return None
    words = entry.get("arguments")
    if isinstance(entry.get("command"), str):
        try:
            words = shlex.split(entry["command"])
        except ValueError:
            return None
    if not isinstance(words, list) or len(words) < 2 or not all(isinstance(w, str) for w in words):
        return None
    where = Path(os.path.normpath(path.parent / directory))
    source = Path(os.path.normpath(where / file))
    kept, drop_next = [], False
    for word in words:
        if drop_next:
            drop_next = False
        elif word in _TAKES_VALUE:
            drop_next = True
        elif word not in _DROPPED and Path(os.path.normpath(where / word)) != source:
            kept.append(word)
    kept[1:1] = ["-dc"] if "-dc" in words else ["-c"]
    return Unit(os.path.relpath(source, folder), (*kept, str(source)), os.path.relpath(where, folder))
