"""The analysis of a version: its sources read from the tree and from the texts that replace files in it.

Paths in the analysis are relative to the version's folder, with forward slashes, so that two versions of one tree name
their files alike. Python programs that use CuPy are read as well.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from stitchcuda.analysis.index.index import Analysis, Index
from stitchcuda.analysis.program.ir import Problem
from stitchcuda.gpu_validate.made_folders import holds_no_sources
from stitchcuda.gpu_validate.version import Version

SOURCES = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inl")
MAX_FILES = 2_000
MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_BYTES = 64 * 1024 * 1024
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\r\n]+)"', re.MULTILINE)
_CUPY = re.compile(rb"^[ \t]*(?:import|from)[ \t]+cupyx?\b", re.MULTILINE)
_BOM = b"\xef\xbb\xbf"
_KEPT_ANALYSES = 6
_KEPT_INDEXES = 3

_lock = threading.Lock()
_analyses: OrderedDict[tuple[str, bytes], Analysis] = OrderedDict()
_indexes: OrderedDict[str, tuple[Index, set[str]]] = OrderedDict()


def analyse(version: Version) -> Analysis:
    """All sources of a version, analysed. Versions of one tree share what is equal; the last few are kept.

    Files that cannot be read, are too large (4 MiB) or too many (2,000) are left out and told in `problems`. Raises
    OSError when the version's root cannot be read at all."""
    texts, problems = _sources(version)
    hasher = hashlib.blake2b(digest_size=16)
    for path, text in sorted(texts.items()):
        hasher.update(path.encode(errors="surrogateescape") + b"\0" + len(text).to_bytes(8, "little") + text)
    key = (str(version.root), hasher.digest())
    with _lock:
        known = _analyses.get(key)
        if known is None:
            known = _analyses[key] = _analysed(str(version.root), texts, problems)
            while len(_analyses) > _KEPT_ANALYSES:
                _analyses.popitem(last=False)
        _analyses.move_to_end(key)
        return known


def _analysed(root: str, texts: dict[str, bytes], problems: list[Problem]) -> Analysis:
    index, held = _indexes.setdefault(root, (Index(), set()))
    _indexes.move_to_end(root)
    while len(_indexes) > _KEPT_INDEXES:
        _indexes.popitem(last=False)
    for path in held - texts.keys():
        index.drop(path)
    for path, text in texts.items():
        index.put(path, text)
    held.clear()
    held.update(texts)
    found = index.analyse()
    return Analysis(
        found.program, found.timelines, found.findings, (*problems, *found.problems), found.sources, found.complete
    )


def _sources(version: Version) -> tuple[dict[str, bytes], list[Problem]]:
    texts: dict[str, bytes] = {}
    problems: list[Problem] = []
    size = 0
    if version.root.is_dir():
        named = dict.fromkeys([*_walk(version.root), *(p for p in version.texts if _wanted(p))])
        waiting = sorted(named)
    else:
        waiting = [version.root.name, *(p for p in version.texts if p != version.root.name)]
        version.read(version.root.name)  # the one file must be there
    seen = set(waiting)
    while waiting:
        path = waiting.pop(0)
        try:
            text = _read(version, path)
        except OSError as error:
            problems.append(Problem(path, 0, f"cannot be read ({error.strerror or error})", "left out"))
            continue
        if path.endswith(".py") and not _CUPY.search(text):
            continue
        if len(text) > MAX_FILE_BYTES or len(texts) >= MAX_FILES or size + len(text) > MAX_BYTES:
            problems.append(Problem(path, 0, "too large or too many files", "left out"))
            continue
        texts[path] = text
        size += len(text)
        if not version.root.is_dir():
            for name in _included(version, path, text):
                if name not in seen:
                    seen.add(name)
                    waiting.append(name)
    return texts, problems


def _read(version: Version, path: str) -> bytes:
    if path not in version.texts:
        status = os.stat(version.folder / path)
        if status.st_size > MAX_FILE_BYTES:
            raise OSError(None, "larger than 4 MiB")
    return version.read(path).removeprefix(_BOM)


def _wanted(path: str) -> bool:
    return path.lower().endswith((*SOURCES, ".py"))


def _walk(root: Path) -> Iterator[str]:
    """The sources below a folder, without hidden folders and those that builds make."""
    for base, folders, files in os.walk(root):
        folders[:] = [
            n
            for n in folders
            if not holds_no_sources(n) and not os.path.exists(os.path.join(base, n, "CMakeCache.txt"))
        ]
        for name in files:
            if _wanted(name) and not name.startswith("."):
                path = Path(base, name)
                if path.is_file():  # no pipes or devices
                    yield path.relative_to(root).as_posix()


def _included(version: Version, path: str, text: bytes) -> Iterator[str]:
    """The quoted includes of a file that exist beside it."""
    for match in _INCLUDE.finditer(text):
        name = os.path.normpath(os.path.join(os.path.dirname(path), os.fsdecode(match.group(1)))).replace(os.sep, "/")
        if name in version.texts or (version.folder / name).is_file():
            yield name
