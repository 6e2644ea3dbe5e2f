"""Files that a run writes: found, digested, and taken away again so that the next run starts from the same folder."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
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
    """A folder that runs work in, with what it held before. Raises OSError when it cannot be read."""

    def __init__(self, path: Path, pristine: Path) -> None:
        """`pristine` is the folder it was copied from: the source of files that a run changes."""
        self.path, self._pristine = path, pristine
        self._before = _stamps(path)

    def written(self, globs: Sequence[str]) -> dict[str, WrittenFile]:
        """The files that came or changed since the folder was new, by path below it; with `globs`, those that match one."""
        changed = [name for name, stamp in _stamps(self.path).items() if self._before.get(name) != stamp]
        if globs:
            matching = {p.relative_to(self.path).as_posix() for glob in globs for p in self.path.glob(glob)}
            changed = [name for name in changed if name in matching]
        return {name: _read(self.path / name) for name in sorted(changed)}

    def restore(self) -> None:
        """Makes the folder what it was before the run."""
        now = _stamps(self.path)
        for name in now.keys() - self._before.keys():
            (self.path / name).unlink()
        for name, stamp in self._before.items():
            if now.get(name) != stamp:
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                (self.path / name).unlink(missing_ok=True)
                shutil.copy2(self._pristine / name, self.path / name)
        self._before = {name: stamp for name, stamp in _stamps(self.path).items() if name in self._before}


def copy_folder(source: Path, target: Path) -> Folder:
    """A copy of `source` to run in. Links are copied as links. Raises OSError."""
    shutil.copytree(source, target, symlinks=True)
    return Folder(target, source)


def digest_of(files: Mapping[str, WrittenFile]) -> str:
    """Names the contents of all of them."""
    h = hashlib.blake2b(digest_size=16)
    for name, file in sorted(files.items()):
        h.update(f"{name}\0{file.digest}\0".encode())
    return h.hexdigest()


def _stamps(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Size, time of change (which no program can set) and inode of every regular file below `folder`."""
    out: dict[str, tuple[int, int, int]] = {}
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            try:
                stat = os.lstat(path)
            except FileNotFoundError:
                continue
            if os.path.isfile(path) and not os.path.islink(path):
                relative = os.path.relpath(path, folder).replace(os.sep, "/")
                out[relative] = (stat.st_size, stat.st_ctime_ns, stat.st_ino)
        if len(out) > _MOST_FILES:
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
