"""Which files the server has something to say about, and what an open file includes, read from the disk.

The other sources of its program are in `program.py`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from stitchcuda.analysis.syntax.directives import directives
from stitchcuda.server import cmake_lists
from stitchcuda.server.upwards import upwards

MAX_FILES = 200
MAX_BYTES = 8 * 1024 * 1024
SOURCES = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx")
HEADERS = (".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl")

QUOTED_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"\r\n]+)"', re.MULTILINE)
_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+\.?([\w.]+)[ \t]+import|import[ \t]+([\w.]+))", re.MULTILINE)
# What only code around CUDA has. `<<<` alone would match git conflict markers and shell text.
_CUDA_HEADER = (
    rb"[<\"](?:cu(?:da|b/|blas|fft|dnn|rand|sparse|solver|tensor)|thrust/|nccl|nvrtc|cooperative_groups|device_launch_parameters"
    rb"|[^\">\r\n]*\.cuh[\">])"
)
_CUDA = re.compile(
    rb"<<<[^<>\n]*|#[ \t]*include[ \t]*"
    + _CUDA_HEADER
    + rb"|\b__global__\b|\bcuda(?:Malloc|Memcpy|Stream|Event|Launch)"
    rb"|\bcuda[A-Z]\w*[ \t]*\(|\bcu(?:Mem|Stream|Event|Launch)[A-Z]\w*[ \t]*\("
)
# Each match of `_CUDA` holds one of these. Plain C++ is told from CUDA by them alone, at memory speed, since each begins with a word:
# this runs with each keystroke.
_CUDA_WORDS = (b"<<<", b"__global__")
_CUDA_FORMS = (re.compile(rb"cu(?:da|Mem|Stream|Event|Launch)"), re.compile(rb"include[ \t]*" + _CUDA_HEADER))
_CUPY = re.compile(rb"^[ \t]*(?:import|from)[ \t]+(?:cupy|cupyx)\b", re.MULTILINE)
_TORCH = re.compile(rb"^[ \t]*(?:import|from)[ \t]+torch\b", re.MULTILINE)
_SAID = re.compile(rb"^[ \t]*CompilationDatabase:[ \t]*(\S[^\r\n#]*)", re.MULTILINE)
_BUILDS = ("build", "_build", "cmake-build", "out")
_MOST_BUILDS = 8
_LAUNCH = re.compile(rb"<<<[^;]{1,400}?>>>", re.DOTALL)


def is_relevant(path: str, language: str, text: bytes) -> bool:
    """Whether the server has something to say about a file: CUDA sources always, C and C++ when they use CUDA, Python
    when it imports CuPy, or PyTorch and says "cuda"."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix in (".cu", ".cuh") or language in ("cuda", "cuda-cpp"):
        return True
    if suffix == ".py" or language == "python":
        return _CUPY.search(text) is not None or b"cuda" in text and _TORCH.search(text) is not None
    if suffix in SOURCES or suffix in HEADERS or language in ("c", "cpp"):
        if not (any(word in text for word in _CUDA_WORDS) or any(form.search(text) for form in _CUDA_FORMS)):
            return False
        return any(not m.group().startswith(b"<<<") or _LAUNCH.match(text, m.start()) for m in _CUDA.finditer(text))
    return False


Read = Callable[[str], bytes | None]


def read_file(path: str) -> bytes | None:
    """A file's bytes without a byte-order mark, which editors do not count either; None when they are no text that is read: UTF-16,
    binary, too large."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            return None  # a pipe would be waited for, a device has no end
        text = Path(path).read_bytes()
    except (OSError, ValueError):
        return None
    if text.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in text:
        return None
    return text.removeprefix(b"\xef\xbb\xbf")


def stamp(path: str) -> tuple[int, int]:
    """What tells that a file or folder changed: its time in nanoseconds and its size in bytes; zeros where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def includes(path: str, text: bytes, read: Read, folders: tuple[str, ...] = ()) -> dict[str, bytes]:
    """The text of the transitive quoted includes (for Python: imported modules of the same folder) by path, in the order
    in which they were found, without the file itself. Ends at `MAX_FILES` and `MAX_BYTES`."""
    if not os.path.isabs(path):
        return {}  # an unsaved document has no place to include from
    found: dict[str, bytes] = {}
    size, waiting = 0, [(path, text)]
    while waiting:
        holder, content = waiting.pop(0)
        for candidates in _named(holder, content, folders):
            for candidate in candidates:
                if candidate == path or candidate in found:
                    break
                new = read(candidate)
                if new is None:
                    continue
                if len(found) >= MAX_FILES or size + len(new) > MAX_BYTES:
                    return found
                found[candidate] = new
                size += len(new)
                waiting.append((candidate, new))
                break
    return found


def named(path: str, text: bytes) -> tuple[bytes, ...]:
    """The quoted includes (for Python: the imports) as written: while they stay the same, so do the files they mean."""
    found = _IMPORT.finditer(text) if path.endswith(".py") else directives(QUOTED_INCLUDE, b"include", text)
    return tuple(match.group() for match in found)


def _named(holder: str, content: bytes, folders: tuple[str, ...]) -> Iterator[list[str]]:
    here = os.path.dirname(holder)
    if holder.endswith(".py"):
        for match in _IMPORT.finditer(content):
            name = (match.group(1) or match.group(2)).decode(errors="replace").split(".")[0]
            yield [os.path.join(here, name + ".py")]
        return
    for match in directives(QUOTED_INCLUDE, b"include", content):
        name = os.fsdecode(match.group(1))
        yield [os.path.normpath(os.path.join(folder, name)) for folder in (here, *folders)]


def include_folders(path: str, tops: Sequence[str]) -> tuple[str, ...]:
    """Where quoted includes are looked up besides the including file's folder: the `-I` of the compile database's entry
    for the file, and the folders that projects without one use. `tops` are the folders of the workspace."""
    if not os.path.isabs(path):
        return ()
    folders: list[str] = []
    here = os.path.dirname(path)
    for folder in upwards(here, tops):
        for place in _build_folders(folder):
            folders.extend(_database_folders(os.path.join(place, "compile_commands.json"), path))
        folders.extend(cmake_lists.beside(folder).include_folders)
        folders.extend(os.path.join(folder, name) for name in ("", "include", "inc", "src", "common"))
    return tuple(dict.fromkeys(f for f in folders if f != here and os.path.isdir(f)))


def _build_folders(folder: str) -> tuple[str, ...]:
    """Where a folder's compile database may be: in it, where .clangd says, or in a build folder of it or beside it."""
    above = os.path.dirname(folder)
    return _build_folders_at(folder, tuple(stamp(p) for p in (folder, above, os.path.join(folder, ".clangd"))))


@lru_cache(maxsize=256)
def _build_folders_at(folder: str, _stamps: tuple[tuple[int, int], ...]) -> tuple[str, ...]:
    said = _SAID.search(read_file(os.path.join(folder, ".clangd")) or b"")
    places = [os.path.join(folder, os.fsdecode(said[1].strip(b"\"' ")))] if said is not None else []
    for above in (folder, os.path.dirname(folder)):
        try:
            with os.scandir(above) as entries:
                names = sorted(e.name for e in entries if e.name.startswith(_BUILDS) and e.is_dir())
        except OSError:
            continue
        places += [os.path.join(above, name) for name in names[:_MOST_BUILDS]]
    return tuple(dict.fromkeys(os.path.normpath(p) for p in (folder, *places)))


def _database_folders(database: str, path: str) -> tuple[str, ...]:
    try:
        state = os.stat(database)
    except (OSError, ValueError):
        return ()
    if not stat.S_ISREG(state.st_mode):
        return ()  # a pipe would be waited for
    return _folders_by_file(database, (state.st_mtime_ns, state.st_size)).get(path, ())


@lru_cache(maxsize=32)  # a repository can have one for each of its projects
def _folders_by_file(database: str, _changed: tuple[int, int]) -> dict[str, tuple[str, ...]]:
    """The include folders of every file of a compile database. It can have megabytes, and is asked about each file of a program."""
    found: dict[str, tuple[str, ...]] = {}
    try:
        for entry in json.loads(Path(database).read_bytes()):
            directory = entry["directory"]
            arguments = entry.get("arguments") or shlex.split(entry["command"])
            folders = (os.path.normpath(os.path.join(directory, f)) for f in _include_arguments(arguments))
            found.setdefault(os.path.normpath(os.path.join(directory, entry["file"])), tuple(folders))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass  # a broken database is the build's business; `doctor` names it
    return found


def _include_arguments(arguments: list[str]) -> Iterator[str]:
    for i, argument in enumerate(arguments):
        for flag in ("-I", "-iquote", "-isystem"):
            if argument == flag and i + 1 < len(arguments):
                yield arguments[i + 1]
            elif argument.startswith(flag) and len(argument) > len(flag):
                yield argument[len(flag) :]
