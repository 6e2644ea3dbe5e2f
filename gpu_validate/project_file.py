"""Finds the file that says how a program is built and run, and reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stitchcuda.analysis.contract.project import Project
from stitchcuda.analysis.contract.project_text import ProjectProblem, parse_project

NAME = "stitchcuda.toml"


class ProjectError(Exception):
    """The file cannot be used: it cannot be read, or something in it is wrong. The text names the file and each mistake."""


def find_project(path: Path) -> Project:
    """What is said about the program at `path` (a folder or a source file): the defaults when nothing is. Raises
    ProjectError."""
    file = find_file(path)
    if file is None:
        return Project()
    project, problems = _read(file)
    if problems:
        raise ProjectError("\n".join(f"{file}: {problem}" for problem in problems))
    return project


def read_project(file: Path) -> tuple[Project, tuple[str, ...]]:
    """What a file says, and a sentence for each mistake in it; what is not a mistake counts all the same. Never raises."""
    try:
        project, problems = _read(file)
    except ProjectError as error:
        return Project(), (str(error),)
    return project, tuple(f"{file}: {problem}" for problem in problems)


def find_file(path: Path, top: Path | None = None) -> Path | None:
    """The nearest `stitchcuda.toml`, or pyproject.toml with `[tool.stitchcuda]`, from the program's folder up to the root of its
    repository. Outside of a repository only the program's own folder is looked at, and those above up to `top`."""
    for folder in _folders(path, top):
        for name in (NAME, "pyproject.toml"):
            file = folder / name
            if file.is_file() and (name == NAME or _speaks(file)):
                return file
    return None


def _folders(path: Path, top: Path | None) -> Iterator[Path]:
    start = path.absolute() if path.is_dir() else path.absolute().parent
    repository = next((f for f in (start, *start.parents) if (f / ".git").exists()), None)
    if repository is None and top is not None and start.is_relative_to(top):
        repository = top
    yield start
    if repository is not None and start != repository:
        for folder in start.parents:
            yield folder
            if folder == repository:
                return


def _speaks(file: Path) -> bool:
    try:
        return b"tool.stitchcuda" in file.read_bytes()
    except OSError:
        return False


def _read(file: Path) -> tuple[Project, tuple[ProjectProblem, ...]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror or "cannot be read" if isinstance(error, OSError) else "is not UTF-8"
        raise ProjectError(f"{file}: {why}") from None
    return parse_project(text, pyproject=file.name != NAME)
