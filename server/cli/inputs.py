"""The files that `check` was asked for: found, read, and what is wrong with the others."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stitchcuda.analysis.program.ir import Problem
from stitchcuda.gpu_validate.made_folders import holds_no_sources

CUDA = (".cu", ".cuh")
SOURCES = (".cu", ".c", ".cc", ".cpp", ".cxx", ".py")
HEADERS = (".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl")
MAX_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Inputs:
    """`files` in the order to check them, as the user would write them. `unusable`: a path that was asked for by name
    could not be used."""

    files: tuple[str, ...]
    problems: tuple[Problem, ...] = ()
    unusable: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text, or why there is none. A text can come with a problem."""

    text: bytes | None
    problem: Problem | None = None


def find(paths: Sequence[str]) -> Inputs:
    """Files as named; directories walked in a fixed order, without hidden, build and dependency folders."""
    files: dict[str, str] = {}  # as first written, by path in one form: `a.cu ./` names it twice
    problems: list[Problem] = []
    unusable = False
    for path in paths:
        if os.path.isdir(path):
            below = list(_walk(path, problems))
            for file in below:
                files.setdefault(os.path.normpath(file), file)
            if any(problem.path == path for problem in problems):
                unusable = True
            elif not below:
                problems.append(
                    Problem(path, 0, "no CUDA, C++ or Python sources in this directory", "nothing to check")
                )
                unusable = True
            continue
        if not os.path.exists(path):
            problems.append(Problem(path, 0, "no such file or directory", "not checked"))
            unusable = True
        elif not path.lower().endswith(SOURCES + HEADERS):
            known = " ".join(SOURCES + HEADERS)
            problems.append(Problem(path, 0, f"not a CUDA, C++ or Python source (known: {known})", "not checked"))
            unusable = True
        else:
            files.setdefault(os.path.normpath(path), path)
    return Inputs(tuple(files.values()), tuple(problems), unusable)


def read(path: str) -> Text:
    """A file's bytes, without a byte-order mark."""
    try:
        status = os.stat(path)
        size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            return _unusable(path, "not a regular file")  # a pipe would be waited for, a device has no end
        if size > MAX_BYTES:
            return _unusable(path, f"{size / 2**20:.0f} MiB, more than the {MAX_BYTES >> 20} MiB that are read")
        text = Path(path).read_bytes()
    except OSError as error:
        return _unusable(path, f"cannot be read ({error.strerror or type(error).__name__})")
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _unusable(path, "UTF-16 text; save it as UTF-8")
    text = text.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in text:
        return _unusable(path, "a binary file")
    if not text.strip():
        return Text(text, Problem(path, 0, "the file is empty", "nothing to check"))
    try:
        text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        return Text(
            text, Problem(path, line, "not UTF-8 text", "checked all the same; columns on such lines may be off")
        )
    return Text(text)


def _unusable(path: str, what: str) -> Text:
    return Text(None, Problem(path, 0, what, "not checked"))


def _walk(top: str, problems: list[Problem]) -> Iterator[str]:
    def refused(error: OSError) -> None:
        problems.append(Problem(str(error.filename), 0, f"cannot be read ({error.strerror})", "not checked"))

    for folder, names, files in os.walk(top, onerror=refused):
        names[:] = sorted(n for n in names if not holds_no_sources(n))
        for name in sorted(files):
            if name.lower().endswith(SOURCES + HEADERS) and not name.startswith("."):
                yield os.path.join(folder, name)
