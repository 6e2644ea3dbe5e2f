"""What the program of a file is: one rule for editors and the command line.

The folder of a program is the nearest one, from the file's own up to the workspace's, that says how something is built (`BUILD_FILES`).
All sources below it belong together, but for dependencies and for folders that say it for themselves. Where nothing says it, the
sources in the file's own folder do. Each source with a `main` is a program of its own, together with those that have none: one without
a `main` is looked at for all of them. What is too large for that is narrowed: to the part of the nearest CMakeLists.txt, to the file's own folder, to the file alone.
"""

from __future__ import annotations

import os
import re
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from stitchcuda.gpu_validate.made_folders import holds_no_sources
from stitchcuda.server import cmake_lists
from stitchcuda.server.sources import read_file, stamp
from stitchcuda.server.upwards import innermost, is_repository, upwards

BUILD_FILES = ("stitchcuda.toml", "CMakeLists.txt", "Makefile", "makefile", "GNUmakefile", "compile_commands.json")
SOURCES = (".cu", ".c", ".cc", ".cpp", ".cxx")
MAX_FILES = 500
MAX_BYTES = 2 * 1024 * 1024  # of the sources of one program
MAX_LIBRARY = 512 * 1024  # of the sources taken in because their headers are included
_MOST_MAINS = 8  # of programs that a file without a `main` is looked at for
_MOST_ENTRIES = 20_000  # of folders that are looked through for sources
_LOOK_SECONDS = 10.0
_DEPENDENCIES = frozenset({"third_party", "external"})
_ASIDE = frozenset({"check", "llm"})  # sections of stitchcuda.toml that say nothing about a program
# One or a few words before it, in any order: `extern "C" int`, `[[nodiscard]] int`, `__host__ int`, `int __cdecl`.
_MAIN = re.compile(
    rb"^[ \t]*((?:(?:\"C\"|\[\[[^\[\]\n]*\]\]|[A-Za-z_]\w*(?:[ \t]*\(\([^()\n]*\)\))?)\s+){1,6})main\s*\(", re.MULTILINE
)
_NAMED_MAIN = re.compile(rb"main\s*\(")  # begins with a word that is found at memory speed
_ENDS = (b";\n", b"{\n", b"}\n")  # of what stands in the lines before a declaration
_NO_TYPES = frozenset(
    b"return co_return co_await co_yield else do case throw goto new delete static virtual friend".split()
)
_NO_CODE = re.compile(rb'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_BRANCH = re.compile(rb"^[ \t]*#[ \t]*(if|elif|else|endif)(?:n?def)?\b[ \t]*(0[ \t]*\r?$)?", re.MULTILINE)
_DEFINED = re.compile(rb"^(?:[A-Za-z_][^;{}()=#\n]*?\b)?([A-Za-z_]\w*)[ \t]*\(", re.MULTILINE)
_KEYWORDS = frozenset({b"if", b"for", b"while", b"switch", b"return", b"main", b"__launch_bounds__"})

OpenText = Callable[[str], bytes | None]


@dataclass(frozen=True)
class Program:
    """`name` is equal for the files that are analysed together: their folder, or the one file. `sources` are those to read with it; no
    headers, and of a file alone nothing."""

    name: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """A folder whose sources may be a program. `deep`: those below it as well; `part`: only up to the next CMakeLists.txt."""

    folder: str
    deep: bool = True
    part: bool = False


Looked = dict[Place, tuple[list[str] | None, list[str]]]  # sources, and those of them that have a `main`


def root(path: str, tops: Sequence[str]) -> str:
    """What a job about a file builds and runs: the program's folder; the file alone where nothing says how the folder is built and it is
    not the folder of one small program. `tops` are the folders of the workspace."""
    if not os.path.isabs(path):
        return path
    found = home(path, tops)
    if found is not None or path.endswith(".py"):
        return found or path
    folder = os.path.dirname(path)
    return folder if innermost(path, tops) and _is_one_program(folder) else path


def of(
    path: str, tops: Sequence[str], open_text: OpenText = lambda path: None, looked: Looked | None = None
) -> Program:
    """The sources that are analysed with a file. `open_text` gives the text of files that an editor holds. `looked` is for many files that
    are asked about at one time: a folder that they share is looked through once."""
    if not os.path.isabs(path) or path.endswith(".py"):
        return Program(path)
    looked = {} if looked is None else looked
    for place in places(path, tops):
        if place not in looked:
            looked[place] = below(place), []
            looked[place][1].extend(p for p in looked[place][0] or () if has_main(p, open_text(p)))
        found, mains = looked[place]
        if found and (path in found or not path.lower().endswith(SOURCES) or not os.path.exists(path)):
            if len(mains) > 1 and path in mains:
                return Program(path, tuple(p for p in found if p not in mains))
            if len(mains) > _MOST_MAINS:  # a folder of samples, say
                users = set(_users(path, mains, open_text))
                return Program(path, tuple(p for p in found if p not in mains or p in users))
            return Program(place.folder, tuple(found))
    return Program(path)


def _users(path: str, mains: Sequence[str], open_text: OpenText) -> list[str]:
    """The first programs that name a file, or a function that it defines."""
    text = open_text(path) or read_file(path) or b""
    names = {m[1] for m in _DEFINED.finditer(text)} - _KEYWORDS | {os.fsencode(os.path.basename(path))}
    word = re.compile(rb"\b(?:" + b"|".join(map(re.escape, sorted(names))) + rb")\b")
    users = (main for main in mains if word.search(open_text(main) or read_file(main) or b""))
    return list(islice(users, _MOST_MAINS))


def places(path: str, tops: Sequence[str]) -> Iterator[Place]:
    """Whose sources the program of a file may be, from the widest to the narrowest."""
    own = os.path.dirname(path)
    widest = home(path, tops)
    if widest is not None:
        yield Place(widest)
    for folder in upwards(own, tops):
        if folder == widest:
            break
        if os.path.isfile(os.path.join(folder, "CMakeLists.txt")):
            yield Place(folder, part=True)
            break
        if is_repository(folder):  # another one
            break
    yield Place(own, deep=False)


def home(path: str, tops: Sequence[str]) -> str | None:
    """The nearest folder above a file that says how something is built; None when none does."""
    for folder in upwards(os.path.dirname(path), tops):
        if says_how_to_build(folder):
            return folder
        if os.path.basename(folder) in _DEPENDENCIES or is_repository(folder):
            return None  # what stands above it builds something else
    return None


def says_how_to_build(folder: str) -> bool:
    for name in BUILD_FILES:
        file = os.path.join(folder, name)
        if os.path.isfile(file) and _counts(name, file, folder):
            return True
    return False


def _counts(name: str, file: str, folder: str) -> bool:
    """A CMakeLists.txt without project() is a part of something, and a stitchcuda.toml can be about findings alone."""
    if name == "CMakeLists.txt":
        return cmake_lists.beside(folder).project
    return name != "stitchcuda.toml" or _is_about_a_program(file, stamp(file))


@lru_cache(maxsize=512)
def _is_about_a_program(file: str, _stamp: tuple[int, int]) -> bool:
    try:
        sections = tomllib.loads((read_file(file) or b"").decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return True  # a mistake in it is told by whoever reads it
    return not sections or not sections.keys() <= _ASIDE


# -------------------------------------------------------------------------------------------------------------- on the disk


def below(place: Place) -> list[str] | None:
    """The C, C++ and CUDA sources of a place, with those that its CMakeLists.txt takes from elsewhere; None when they are too many or
    too much for one program."""
    found: list[str] = []
    size = entries = 0
    for folder, names, files in os.walk(place.folder):
        entries += len(names) + len(files)
        if entries > _MOST_ENTRIES:
            return None
        names[:] = [n for n in sorted(names) if place.deep and _belongs(os.path.join(folder, n), n, place.part)]
        for name in sorted(files):
            if not name.lower().endswith(SOURCES) or name.startswith("."):
                continue
            path = os.path.join(folder, name)
            size += stamp(path)[1]
            found.append(path)
            if len(found) > MAX_FILES or size > MAX_BYTES:
                return None
    here = os.path.join(os.path.normpath(place.folder), "")
    for path in cmake_lists.beside(place.folder).sources:
        if path.lower().endswith(SOURCES) and not path.startswith(here) and os.path.isfile(path):
            size += stamp(path)[1]
            found.append(path)
    return found if len(found) <= MAX_FILES and size <= MAX_BYTES else None


def _belongs(folder: str, name: str, part: bool) -> bool:
    """Whether a folder below a program's is part of it."""
    if holds_no_sources(name) or name in _DEPENDENCIES or os.path.exists(os.path.join(folder, "CMakeCache.txt")):
        return False
    if part and os.path.isfile(os.path.join(folder, "CMakeLists.txt")):
        return False
    return not says_how_to_build(folder) and not is_repository(folder)


def library(folder: str, open_text: OpenText = lambda path: None) -> list[str]:
    """The sources beside a header, when none of them has a `main` and they are few: they define what it declares."""
    found = below(Place(folder, deep=False)) or []
    found = [p for p in found if os.path.dirname(p) == folder]
    if sum(stamp(p)[1] for p in found) > MAX_LIBRARY or any(has_main(p, open_text(p)) for p in found):
        return []
    return found


def has_main(path: str, text: bytes | None = None) -> bool:
    """Whether a source has a `main`; `text` is what an editor holds, None to read the disk."""
    if text is None:
        return _has_main_on_disk(path, stamp(path))
    if not any(_mains(text)):
        return False
    code = _code(text)
    done = 0
    for name in _mains(code):
        begin = max(done, *(code.rfind(end, done, name.start()) + 1 for end in _ENDS))
        match = _MAIN.search(code, begin, name.end())
        if match is not None and _NO_TYPES.isdisjoint(match[1].split()):
            return True
        done = name.end()
    return False


def _mains(text: bytes) -> Iterator[re.Match[bytes]]:
    """Where something named `main` is called or declared."""
    return (name for name in _NAMED_MAIN.finditer(text) if not _is_word(text[max(name.start() - 1, 0) : name.start()]))


def _is_word(byte: bytes) -> bool:
    return byte.isalnum() or byte == b"_"


def _code(text: bytes) -> bytes:
    """A text without comments and without what `#if 0` takes out."""
    text = _NO_CODE.sub(lambda m: b" " if m[0][:1] == b"/" else m[0], text)
    kept: list[bytes] = []
    at = depth = 0
    out = 0  # the depth of the `#if 0` that is being left out
    for match in _BRANCH.finditer(text):
        word = match[1]
        depth += word == b"if"
        if out == depth and word != b"if":
            at, out = match.start(), 0
        elif word == b"if" and match[2] and not out:
            kept.append(text[at : match.start()])
            out = depth
        depth -= word == b"endif"
    return b"".join(kept) + (text[at:] if not out else b"")


@lru_cache(maxsize=8192)
def _has_main_on_disk(path: str, _stamp: tuple[int, int]) -> bool:
    return has_main(path, read_file(path) or b"")


def _is_one_program(folder: str) -> bool:
    """Whether a folder that does not say how it is built can be taken for one program of several files: at most one `main`, and no
    sources below, which would be of others. A cursor that moves asks again and again: what is below is looked at every few seconds."""
    flat = below(Place(folder, deep=False))
    if flat is None or len(flat) < 2 or sum(map(has_main, flat)) > 1:
        return False
    return not _holds_others(folder, tuple(flat), int(time.monotonic() / _LOOK_SECONDS))


@lru_cache(maxsize=32)
def _holds_others(folder: str, flat: tuple[str, ...], _time: int) -> bool:
    return below(Place(folder)) != list(flat) or any(
        says_how_to_build(os.path.join(folder, name)) for name in _folders_in(folder)
    )


def _folders_in(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except OSError:
        return []
