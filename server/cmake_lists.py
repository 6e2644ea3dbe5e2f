"""What a CMakeLists.txt says about its targets, as far as reading it as text tells: sources and include folders.

Only literal lists and variables set to them in the same file are understood; generator expressions and functions are
passed over. It is used where no compile database is there, to find what belongs together, never to build.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from functools import lru_cache

_COMMAND = re.compile(r"^[ \t]*([A-Za-z_]\w*)[ \t]*\(([^()]*(?:\([^()]*\)[^()]*)*)\)", re.MULTILINE)
_COMMENT = re.compile(r"#.*")
_WORD = re.compile(r'"([^"]*)"|([^\s"]+)')
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_HERE = ("CMAKE_CURRENT_SOURCE_DIR", "CMAKE_CURRENT_LIST_DIR", "PROJECT_SOURCE_DIR", "CMAKE_SOURCE_DIR")
_KEYWORDS = frozenset(
    [
        "PRIVATE",
        "PUBLIC",
        "INTERFACE",
        "STATIC",
        "SHARED",
        "MODULE",
        "OBJECT",
        "WIN32",
        "EXCLUDE_FROM_ALL",
        "BEFORE",
        "AFTER",
        "SYSTEM",
    ]
)
_SOURCES = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx")
MAX_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class CMakeFile:
    """`sources` and `include_folders` are absolute (or relative to the working directory, as the file's own path is). `project`: it
    begins a project, and so can be configured by itself."""

    sources: tuple[str, ...] = ()
    include_folders: tuple[str, ...] = ()
    project: bool = False


def beside(folder: str) -> CMakeFile:
    """The CMakeLists.txt of a folder; empty when there is none or it cannot be read."""
    path = os.path.join(folder, "CMakeLists.txt")
    try:
        state = os.stat(path)
    except OSError:
        return CMakeFile()
    if not stat.S_ISREG(state.st_mode) or state.st_size > MAX_BYTES:
        return CMakeFile()
    return _read(path, state.st_mtime_ns)


@lru_cache(maxsize=2048)  # a tree of samples has one for each
def _read(path: str, _changed: int) -> CMakeFile:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return parse(file.read(), os.path.dirname(path))
    except OSError:
        return CMakeFile()


def parse(text: str, folder: str) -> CMakeFile:
    """Reads the text of a CMakeLists.txt that stands in `folder`."""
    values: dict[str, list[str]] = {name: [os.path.abspath(folder)] for name in _HERE}
    sources: dict[str, None] = {}
    folders: dict[str, None] = {}
    project = False
    for match in _COMMAND.finditer(_COMMENT.sub("", text)):
        command = match[1].lower()
        words = _words(match[2], values)
        if command == "project":
            project = True
        elif command in ("set", "list") and words:
            if command == "set":
                values[words[0]] = [w for w in words[1:] if w not in ("CACHE", "PARENT_SCOPE")]
            elif words[0].upper() == "APPEND" and len(words) > 1:
                values.setdefault(words[1], []).extend(words[2:])
        elif command in ("add_executable", "add_library", "cuda_add_executable", "cuda_add_library", "target_sources"):
            for word in words[1:]:
                if word.lower().endswith(_SOURCES):
                    sources[_place(word, folder)] = None
        elif command in ("include_directories", "target_include_directories", "cuda_include_directories"):
            for word in words[command.startswith("target_") :]:
                if word not in _KEYWORDS:
                    folders[_place(word, folder)] = None
    return CMakeFile(tuple(sources), tuple(folders), project)


def _words(text: str, values: dict[str, list[str]]) -> list[str]:
    out: list[str] = []
    for quoted, bare in _WORD.findall(text):
        word = quoted or bare
        if "$<" in word or not word:
            continue
        whole = _VARIABLE.fullmatch(word)
        if whole and not quoted:
            out += values.get(whole[1], [])
            continue
        expanded = _VARIABLE.sub(lambda m: ";".join(values.get(m[1], ["?"])), word)
        if "?" not in expanded:
            out.append(expanded)
    return out


def _place(word: str, folder: str) -> str:
    """Spelled like the folder: relative paths stay relative."""
    if os.path.isabs(word) and not os.path.isabs(folder):
        return os.path.relpath(word)
    return os.path.normpath(os.path.join(folder, word))
