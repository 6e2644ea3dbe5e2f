"""Copies of source trees, made so that nothing done to a copy reaches the original: never a link to the user's file."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from stitchcuda.gpu_validate.usage import folder_bytes

LEFT_OUT = frozenset({
    ".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache", ".cache", ".idea",
    ".vscode", ".vs",
})  # fmt: skip
PRODUCTS = frozenset({".o", ".obj", ".pyc", ".gch", ".pch", ".ncu-rep", ".nsys-rep", ".qdrep", ".sqlite"})
BINARY = frozenset({".a", ".so", ".lib", ".dll", ".dylib", ".exe"})
CODE = frozenset({
    ".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".c++", ".h", ".hh", ".hpp", ".hxx", ".h++", ".inl", ".inc", ".ipp", ".tpp",
    ".def", ".cmake", ".mk", ".in", ".txt", ".ptx",
})  # fmt: skip
MOST_BESIDE = 4000  # files copied from folders beside the program's
COPIES = 4  # of the tree: the original's, the version's, and the one that runs, with what builds add
FICLONE = 0x40049409
_REFERENCE = re.compile(r"(?:\.\./)+(?:[\w.+\-]+/)*[\w.+\-]*|(?<![\w./])\.\.(?![\w./])")
_QUOTED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


class TooLarge(Exception):
    """What the program refers to outside of its folder cannot be copied with reason; the text says what."""


def copy_file(source: Path, target: Path) -> None:
    """The contents (shared by the file system until one of them is written, where it can), mode and times."""
    try:
        import fcntl

        with open(source, "rb") as read, open(target, "wb") as write:
            fcntl.ioctl(write.fileno(), FICLONE, read.fileno())
    except (ImportError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR):
            raise
        shutil.copyfile(source, target)
    shutil.copystat(source, target)
    os.chmod(target, os.stat(target).st_mode | 0o200)


def copy_tree(source: Path, target: Path) -> None:
    """A tree of our own, whole, with times: a build tool sees what is up to date."""
    shutil.copytree(source, target, symlinks=True, copy_function=lambda a, b: copy_file(Path(a), Path(b)))


def state_of(tree: Path) -> str:
    """Names a tree as it is: every entry with its time of change, which no program can set. Raises OSError."""
    h = hashlib.blake2b(digest_size=16)
    ahead = [os.fsencode(tree)]
    while ahead:
        folder = ahead.pop()
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                stat = entry.stat(follow_symlinks=False)
                numbers = (stat.st_mode, stat.st_size, stat.st_ctime_ns, stat.st_ino)
                h.update(b"%s\0%d %d %d %d\0" % (entry.path, *numbers))
                if entry.is_dir(follow_symlinks=False):
                    ahead.append(entry.path)
    return h.hexdigest()


def copy_sources(folder: Path, target: Path, *, skip: Iterable[str] = ()) -> None:
    """The user's folder without what belongs to version control, editors and earlier builds.

    All files get one and the same time, and libraries an older one, so that whatever a build makes of them counts as out of
    date. `skip` are folders (relative) that a build made. `target` exists. Raises TooLarge, OSError.
    """
    skipped = {os.path.normpath(s) for s in skip}
    _check_room(folder, target)
    now = time.time_ns()
    for base, folders, files in os.walk(folder):
        relative = os.path.relpath(base, folder)
        kept = []
        for name in folders:
            path = Path(base, name)
            below = os.path.normpath(os.path.join(relative, name))
            if name in LEFT_OUT or below in skipped or (path / "CMakeCache.txt").exists():
                continue
            if path.is_symlink():
                _copy_link(path, target / below, folder)
                continue
            kept.append(name)
        folders[:] = kept
        here = target / relative
        here.mkdir(parents=True, exist_ok=True)
        for name in files:
            _copy_source(Path(base, name), here / name, folder, now)


def _check_room(folder: Path, target: Path) -> None:
    """Every version has a copy. Raises TooLarge."""
    size, free = folder_bytes(folder), shutil.disk_usage(target).free
    if size * COPIES > free:
        raise TooLarge(
            f"{folder} holds {size / 1e9:.1f} GB, and its copies would not fit into the {free / 1e9:.1f} GB that are free"
        )


def _copy_source(source: Path, target: Path, folder: Path, now: int) -> None:
    suffix = source.suffix.lower()
    if suffix in PRODUCTS:
        return
    if source.is_symlink() and _copy_link(source, target, folder):
        return
    if not source.is_file():
        return  # sockets, pipes, broken links
    made = suffix in BINARY or re.search(r"\.so[.\d]*$", source.name) or _is_program(source)
    copy_file(source, target)
    moment = now - 10**9 if made else now
    os.utime(target, ns=(moment, moment))


def _copy_link(source: Path, target: Path, folder: Path) -> bool:
    """A link that stays inside of the folder stays a link; one to a folder outside keeps pointing there. False: a link to a
    file outside, which is to be copied."""
    goal = Path(os.path.realpath(source))
    inside = goal.is_relative_to(os.path.realpath(folder))
    if not inside and not goal.is_dir():
        return False
    aim = os.path.relpath(goal, os.path.realpath(source.parent)) if inside else str(goal)
    with contextlib.suppress(FileExistsError):
        os.symlink(aim, target)
    return True


def _is_program(path: Path) -> bool:
    try:
        if not os.access(path, os.X_OK):
            return False
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def write_texts(folder: Path, texts: Mapping[str, bytes]) -> list[str]:
    """Writes a version's texts over a copy, and says which of them changed anything. A link is replaced, never followed."""
    changed = []
    for path, text in sorted(texts.items()):
        target = folder / path
        if not Path(os.path.normpath(target)).is_relative_to(folder):
            raise ValueError(f"{path} lies outside of the program's folder")
        if target.is_file() and not target.is_symlink() and target.read_bytes() == text:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode if target.exists() else 0o644
        with contextlib.suppress(FileNotFoundError):
            target.unlink()
        target.write_bytes(text)
        target.chmod(mode)
        changed.append(path)
    return changed


def references_outside(folder: Path, texts: Mapping[Path, str]) -> set[Path]:
    """Files and folders outside of `folder` that `texts` (by absolute path) name with `..`. Build files count relative to
    their own folder and to `folder`."""
    found = set()
    for path, text in texts.items():
        bases = {path.parent, folder} if path.is_relative_to(folder) else {path.parent}
        for match in _REFERENCE.finditer(text):
            for base in bases:
                goal = Path(os.path.normpath(base / match[0]))
                if not goal.is_relative_to(folder) and goal.exists():
                    found.add(goal)
    return found


def quoted_includes(path: Path, text: str) -> set[Path]:
    """Existing files that a source includes by a quoted name relative to itself."""
    found = {Path(os.path.normpath(path.parent / name)) for name in _QUOTED.findall(text)}
    return {f for f in found if f.is_file()}


def including(names: Iterable[str], texts: Iterable[str]) -> bool:
    """Whether any of `texts` includes a file with one of these base names."""
    wanted = set(names)
    pattern = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
    return any(Path(included).name in wanted for text in texts for included in pattern.findall(text))


def closure(starts: Iterable[Path]) -> set[Path]:
    """The files, and all that they include by quoted names."""
    found: set[Path] = set()
    ahead = list(starts)
    while ahead:
        path = ahead.pop()
        if path in found:
            continue
        found.add(path)
        ahead += quoted_includes(path, read_text(path))
    return found


def read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def code_files(folder: Path) -> list[Path]:
    """Sources, headers and build files below a folder. Raises TooLarge."""
    found: list[Path] = []
    for base, folders, files in os.walk(folder):
        folders[:] = [n for n in folders if n not in LEFT_OUT and not Path(base, n, "CMakeCache.txt").exists()]
        found += [
            Path(base, name) for name in files if Path(name).suffix.lower() in CODE or name.startswith("Makefile")
        ]
        if len(found) > MOST_BESIDE:
            raise TooLarge(f"{folder} holds more than {MOST_BESIDE} sources; name the folder of one program")
    return found
