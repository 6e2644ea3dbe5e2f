"""Files that a run writes: found and digested."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

KEPT_BYTES = 4 << 20  # of a text file, for a comparison by token; a larger one is compared by digest alone
_MOST_FILES = 20_000


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """`text` is None when the file is not UTF-8 text or too large."""

    digest: str
    bytes: int
    text: str | None = None


class Folder:
    """A folder that a run works in, with what it held before. Raises OSError when it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = _stamps(path)

    def written(self, globs: Sequence[str]) -> dict[str, WrittenFile]:
        """The files that came or changed, by path below the folder; with `globs`, those that match one."""
        changed = [name for name, stamp in _stamps(self._path).items() if self._before.get(name) != stamp]
        if globs:
            matching = {p.relative_to(self._path).as_posix() for glob in globs for p in self._path.glob(glob)}
            changed = [name for name in changed if name in matching]
        return {name: _read(self._path / name) for name in sorted(changed)}


def _stamps(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Size, time of change (which no program can set) and inode of every regular file below `folder`. A folder that cannot be
    read is an error: what is in it would go unseen. Raises OSError."""
    out: dict[str, tuple[int, int, int]] = {}
    ahead = [str(folder)]
    while ahead:
        with os.scandir(ahead.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    ahead.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    stat = entry.stat(follow_symlinks=False)
                    relative = os.path.relpath(entry.path, folder).replace(os.sep, "/")
                    out[relative] = (stat.st_size, stat.st_ctime_ns, stat.st_ino)
        if len(out) + len(ahead) > _MOST_FILES:
            raise OSError(f"{folder} holds more than {_MOST_FILES} files: name a smaller [run] directory")
    return out


def _read(path: Path) -> WrittenFile:
    h, size, kept = hashlib.blake2b(digest_size=16), 0, bytearray()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            h.update(chunk)
            size += len(chunk)
            if size <= KEPT_BYTES:
                kept += chunk
    text = None
    if size <= KEPT_BYTES and b"\0" not in kept:
        try:
            text = kept.decode("utf-8")
        except UnicodeDecodeError:
            text = None
    return WrittenFile(h.hexdigest(), size, text)
