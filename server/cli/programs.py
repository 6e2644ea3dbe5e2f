"""Splits the files of a check into programs (`server/program.py`), so that a whole tree is checked in the memory of its largest one.

With the sources of a program go the headers that they include, and the sources of other folders whose headers they include when no
`main` stands there (a library). A CMakeLists.txt adds its include folders, and the sources that it takes from other folders.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stitchcuda.analysis.program.ir import Problem
from stitchcuda.server import cmake_lists, program
from stitchcuda.server.cli import inputs
from stitchcuda.server.sources import is_relevant
from stitchcuda.server.upwards import repository

_INCLUDE = re.compile(rb'include[ \t]*([<"])([^">\r\n]+)[">]')  # begins with a word that is found at memory speed
_DIRECTIVE = re.compile(rb"[ \t]*#[ \t]*")


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
    plain: list[str] = []  # asked for, and without CUDA: nothing is said of those that a program with CUDA takes in
    unusable = False
    read = 0
    asked = set(named)
    for path in files:
        got = inputs.read(path)
        told = path in asked or path.lower().endswith(inputs.CUDA)
        if got.problem is not None and told:
            problems.append(got.problem)
        if got.text is None:
            unusable = unusable or path in asked
            continue
        read += 1
        made = _scan(path, got.text)
        if path.endswith(".py") and not made.cuda:
            if path in asked:
                problems.append(Problem(path, 0, "uses no CuPy", "nothing to check"))
            continue
        known[path] = made
        if not made.cuda and path in asked and got.problem is None:
            plain.append(path)
    groups = tuple(_groups(known, _Finder(known), tops_of(named), frozenset(plain)))
    in_program = {path for group in groups for path in (*group.sources, *group.context)}
    problems += [Problem(path, 0, "uses no CUDA", "nothing to check") for path in plain if path not in in_program]
    if files and not read:
        unusable = True
    elif read and not groups and not problems:
        problems.append(Problem(named[0], 0, "uses no CUDA", "nothing to check"))
    return Plan(groups, tuple(problems), unusable)


def with_their_programs(named: Sequence[str]) -> list[str]:
    """What was named, and for each file what else its program has."""
    tops = tops_of(named)
    found: dict[str, None] = {}
    for path in named:
        found[path] = None
        if os.path.isfile(path):
            others = program.of(os.path.abspath(path), tops).sources
            found.update((_as_written(other, path), None) for other in others if not _same(other, path))
    return list(found)


def _same(other: str, path: str) -> bool:
    try:
        return os.path.samefile(other, path)
    except OSError:  # a link that leads nowhere, or a file that is gone meanwhile: told when it is read
        return False


def tops_of(named: Sequence[str]) -> tuple[str, ...]:
    """Up to where it is looked for what says how a program is built: the repository, else the folder that was named."""
    folders = (os.path.abspath(path if os.path.isdir(path) else os.path.dirname(path)) for path in named)
    return tuple(dict.fromkeys(repository(folder) or folder for folder in folders))


def _groups(known: dict[str, _File], finder: _Finder, tops: Sequence[str], plain: frozenset[str]) -> Iterator[Group]:
    """Of folders without CUDA only the `plain` files are followed to what they include: the headers of a whole tree would take long."""
    covered: set[str] = set()
    places: dict[str, list[program.Place]] = {}
    for file in known.values():
        folder = os.path.dirname(file.path)
        if folder not in places:
            places[folder] = list(program.places(os.path.abspath(file.path), tops))
    with_cuda = {os.path.dirname(f.path) for f in known.values() if f.cuda}
    for place, files in _programs([f for f in known.values() if not f.header], places):
        if with_cuda.isdisjoint(os.path.dirname(f.path) for f in files) and plain.isdisjoint(f.path for f in files):
            continue
        for part in _by_main(files):
            context = _context(part, known, finder, place)
            if not any(f.cuda for f in part) and not any(known[c].cuda for c in context if c in known):
                continue
            covered.update(f.path for f in part)
            covered.update(context)
            yield Group(tuple(f.path for f in part), context, sum(f.size for f in part))
    for file in list(known.values()):
        if file.cuda and file.path not in covered:  # a header that no source here includes
            context = _context([file], known, finder, None)
            covered.add(file.path)
            covered.update(context)
            yield Group((file.path,), context, file.size)


def _programs(
    files: Sequence[_File], places: dict[str, list[program.Place]], level: int = 0
) -> Iterator[tuple[program.Place, list[_File]]]:
    """The files by the widest place whose files are few enough for one program."""
    by_place: dict[program.Place, list[_File]] = defaultdict(list)
    for file in files:
        wider = places[os.path.dirname(file.path)]
        by_place[wider[min(level, len(wider) - 1)]].append(file)
    for place, here in by_place.items():
        if len(here) <= program.MAX_FILES and sum(f.size for f in here) <= program.MAX_BYTES:
            yield place, here
        elif level < max(len(places[os.path.dirname(f.path)]) for f in here) - 1:
            yield from _programs(here, places, level + 1)
        else:
            yield from ((place, [f]) for f in here)


def _by_main(files: list[_File]) -> Iterator[list[_File]]:
    """Sources that all have a `main` share nothing. Others may be part of several programs: they are looked at for all of them."""
    if all(f.main for f in files):
        yield from ([f] for f in files)
    else:
        yield files


def _context(
    part: list[_File], known: dict[str, _File], finder: _Finder, place: program.Place | None
) -> tuple[str, ...]:
    taken = {f.path for f in part}
    context: dict[str, None] = {}
    waiting = [f.path for f in part]
    if place is not None and any(f.main for f in part):  # the program: its other sources explain it
        for path in cmake_lists.beside(_as_written(place.folder, part[0].path)).sources:
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
            fresh = [p for p in finder.library(os.path.dirname(target)) if p not in taken and p not in context]
            size = sum(known[p].size for p in fresh)
            if library + size <= program.MAX_LIBRARY:
                library += size
                context.update(dict.fromkeys(fresh))
                waiting += fresh
    return tuple(context)


def _as_written(place: str, path: str) -> str:
    """A place spelled like the path of a file: absolute, or from the working directory."""
    return place if os.path.isabs(path) else os.path.relpath(place)


class _Finder:
    """Resolves includes: beside the including file (also when it lies outside of what was asked for), else the only
    file among those asked for whose path ends so."""

    def __init__(self, known: dict[str, _File]) -> None:
        self._known = known
        self._by_name: dict[str, list[str]] = defaultdict(list)
        self._here = {os.path.abspath(path): path for path in known}
        self._libraries: dict[str, list[str]] = {}
        self._resolved: dict[tuple[str, str, bool], str | None] = {}
        for path in known:
            self._by_name[os.path.basename(path)].append(path)

    def resolve(self, path: str, name: str, quoted: bool) -> str | None:
        include = (os.path.dirname(path), name, quoted)
        if include not in self._resolved:
            self._resolved[include] = self._resolve(*include)
        return self._resolved[include]

    def _resolve(self, here: str, name: str, quoted: bool) -> str | None:
        if quoted:
            target = self.read(os.path.join(here, name))
            if target is not None:
                return target
        for folder in cmake_lists.beside(here).include_folders:
            target = self.read(os.path.join(folder, name))
            if target is not None:
                return target
        suffix = os.sep + os.path.normpath(name).lstrip("./\\")
        matches = [p for p in self._by_name.get(os.path.basename(name), ()) if (os.sep + p).endswith(suffix)]
        return matches[0] if len(matches) == 1 else None

    def library(self, folder: str) -> list[str]:
        """The sources beside a header that define what it declares, under their paths here."""
        if folder not in self._libraries:
            read = (self.read(path) for path in program.library(folder or os.curdir))
            self._libraries[folder] = [path for path in read if path is not None]
        return self._libraries[folder]

    def read(self, path: str) -> str | None:
        """The file of that path, taken in when it was not asked for; None when there is none."""
        place = os.path.abspath(path)
        if place in self._here:
            return self._here[place]
        return self._outside(os.path.normpath(path), place) if os.path.isfile(place) else None

    def _outside(self, path: str, place: str) -> str | None:
        got = inputs.read(path)
        if got.text is None:
            return None
        self._known[path] = _scan(path, got.text)
        self._here[place] = path
        self._known[path].header = True  # read for its includer's sake only
        return path


def _scan(path: str, text: bytes) -> _File:
    names = tuple((os.fsdecode(m[2]), m[1] == b'"') for m in _INCLUDE.finditer(text) if _is_directive(text, m.start()))
    header = path.lower().endswith(inputs.HEADERS)
    return _File(path, len(text), names, program.has_main(path, text), is_relevant(path, "", text), header)


def _is_directive(text: bytes, word: int) -> bool:
    return _DIRECTIVE.fullmatch(text, text.rfind(b"\n", 0, word) + 1, word) is not None
