"""Splits the files of a check into programs, so that a whole tree is checked in the memory of its largest program.

Without a build description: the sources of one directory belong together, with the headers they include and the sources
of directories whose headers they include when no `main` stands there (a library of the tree). A directory too large to
be one program is checked source by source. A CMakeLists.txt beside the sources adds its include folders, and the sources
that it takes from other directories.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stitchcuda.analysis.program.ir import Problem
from stitchcuda.server import cmake_lists
from stitchcuda.server.cli import inputs
from stitchcuda.server.sources import is_relevant

_INCLUDE = re.compile(rb'include[ \t]*([<"])([^">\r\n]+)[">]')  # begins with a word that is found at memory speed
_DIRECTIVE = re.compile(rb"[ \t]*#[ \t]*")
_MAIN = re.compile(rb"\bint\s+main\s*\(|\bauto\s+main\s*\(")
_MAX_BYTES = 2 * 1024 * 1024  # of the sources of one program
_MAX_LIBRARY = 512 * 1024  # of the sources taken in from other directories


@dataclass(frozen=True)
class Group:
    """Files that are linked together: `sources` were asked for, `context` explains them."""

    sources: tuple[str, ...]
    context: tuple[str, ...] = ()
    size: int = 0  # of the sources, in bytes

    def __str__(self) -> str:
        return self.sources[0]

    def texts(self) -> dict[str, bytes]:
        """The contents of its files, as far as they can be read."""
        read = {path: inputs.read(path).text for path in (*self.sources, *self.context)}
        return {path: text for path, text in read.items() if text is not None}


@dataclass(frozen=True)
class Plan:
    """What is to be analysed, and what is wrong with what was asked for."""

    groups: tuple[Group, ...]
    problems: tuple[Problem, ...] = ()
    unusable: bool = False  # a file that was asked for by name could not be used


@dataclass(slots=True)
class _File:
    path: str
    size: int
    includes: tuple[tuple[str, bool], ...]  # name, written in quotes
    main: bool
    cuda: bool
    header: bool


def plan(files: Sequence[str], named: Sequence[str]) -> Plan:
    """The programs among the files. `named` are the paths that the user wrote: what is wrong with them is told, what
    the walk of a directory found and cannot use is told only when it looks like CUDA."""
    known: dict[str, _File] = {}
    problems: list[Problem] = []
    unusable = False
    asked = set(named)
    for path in files:
        got = inputs.read(path)
        told = path in asked or path.lower().endswith(inputs.CUDA)
        if got.problem is not None and told:
            problems.append(got.problem)
        if got.text is None:
            unusable = unusable or path in asked
            continue
        made = _scan(path, got.text)
        if path.endswith(".py") and not made.cuda:
            if path in asked:
                problems.append(Problem(path, 0, "uses no CuPy", "nothing to check"))
            continue
        if not made.cuda and path in asked and got.problem is None:
            problems.append(Problem(path, 0, "uses no CUDA", "nothing to check"))
        known[path] = made
    finder = _Finder(known)
    return Plan(tuple(_groups(known, finder)), tuple(problems), unusable)


def _groups(known: dict[str, _File], finder: _Finder) -> Iterator[Group]:
    folders: dict[str, list[_File]] = defaultdict(list)
    for file in known.values():
        folders[os.path.dirname(file.path)].append(file)
    covered: set[str] = set()
    for files in folders.values():
        sources = [f for f in files if not f.header]
        if not any(f.cuda for f in files) or not sources:
            continue
        split = [sources] if sum(f.size for f in sources) <= _MAX_BYTES else [[f] for f in sources]
        for part in split:
            context = _context(part, known, finder, folders)
            if not any(f.cuda for f in part) and not any(known[c].cuda for c in context if c in known):
                continue
            covered.update(f.path for f in part)
            covered.update(context)
            yield Group(tuple(f.path for f in part), context, sum(f.size for f in part))
    for file in list(known.values()):
        if file.cuda and file.path not in covered:  # a header that no source here includes
            context = _context([file], known, finder, folders)
            covered.add(file.path)
            covered.update(context)
            yield Group((file.path,), context, file.size)


def _context(
    part: list[_File], known: dict[str, _File], finder: _Finder, folders: dict[str, list[_File]]
) -> tuple[str, ...]:
    taken = {f.path for f in part}
    context: dict[str, None] = {}
    waiting = [f.path for f in part]
    if any(f.main for f in part):  # the program: its other sources explain it
        for path in cmake_lists.beside(os.path.dirname(part[0].path)).sources:
            named = finder.read(path)
            if named is not None and named not in taken and named not in context and not known[named].main:
                context[named] = None
                waiting.append(named)
    library = 0
    while waiting:
        path = waiting.pop(0)
        for name, quoted in known[path].includes if path in known else ():
            target = finder.resolve(path, name, quoted)
            if target is None or target in taken or target in context:
                continue
            context[target] = None
            waiting.append(target)
            here = os.path.dirname(target)
            beside = [f for f in folders.get(here, ()) if not f.header]
            size = sum(f.size for f in beside)
            if beside and not any(f.main for f in beside) and library + size <= _MAX_LIBRARY:
                fresh = [f.path for f in beside if f.path not in taken and f.path not in context]
                if fresh:
                    library += size
                    context.update(dict.fromkeys(fresh))
                    waiting += fresh
    return tuple(context)


class _Finder:
    """Resolves includes: beside the including file (also when it lies outside of what was asked for), else the only
    file among those asked for whose path ends so."""

    def __init__(self, known: dict[str, _File]) -> None:
        self._known = known
        self._by_name: dict[str, list[str]] = defaultdict(list)
        self._normal = {os.path.normpath(path): path for path in known}
        for path in known:
            self._by_name[os.path.basename(path)].append(path)

    def resolve(self, path: str, name: str, quoted: bool) -> str | None:
        if quoted:
            beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
            if beside in self._normal:
                return self._normal[beside]
            if os.path.isfile(beside):
                return self._outside(beside)
        for folder in cmake_lists.beside(os.path.dirname(path)).include_folders:
            target = self.read(os.path.join(folder, name))
            if target is not None:
                return target
        suffix = os.sep + os.path.normpath(name).lstrip("./\\")
        matches = [p for p in self._by_name.get(os.path.basename(name), ()) if (os.sep + p).endswith(suffix)]
        return matches[0] if len(matches) == 1 else None

    def read(self, path: str) -> str | None:
        """The file of that path, taken in when it was not asked for; None when there is none."""
        path = os.path.normpath(path)
        if path in self._normal:
            return self._normal[path]
        return self._outside(path) if os.path.isfile(path) else None

    def _outside(self, path: str) -> str | None:
        got = inputs.read(path)
        if got.text is None:
            return None
        self._known[path] = _scan(path, got.text)
        self._normal[path] = path
        self._known[path].header = True  # read for its includer's sake only
        return path


def _scan(path: str, text: bytes) -> _File:
    names = tuple((os.fsdecode(m[2]), m[1] == b'"') for m in _INCLUDE.finditer(text) if _is_directive(text, m.start()))
    header = path.lower().endswith(inputs.HEADERS)
    main = b"main" in text and _MAIN.search(text) is not None
    return _File(path, len(text), names, main, is_relevant(path, "", text), header)


def _is_directive(text: bytes, word: int) -> bool:
    return _DIRECTIVE.fullmatch(text, text.rfind(b"\n", 0, word) + 1, word) is not None
