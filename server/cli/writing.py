"""Writing a user's files: each in one step, and all of them or none."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from stitchcuda.server.cli.errors import CannotRun


def replace_file(path: str, content: bytes) -> None:
    """Writes a file in one step: a reader or a crash sees the old or the new text, never a part. Links are followed and
    the mode is kept. Raises CannotRun."""
    must_be_replaceable(path)
    target = os.path.realpath(path)
    try:
        old = os.stat(target) if os.path.exists(target) else None
        mode = stat.S_IMODE(old.st_mode) if old is not None else 0o666 & ~_umask()
        handle, name = tempfile.mkstemp(dir=os.path.dirname(target) or ".", prefix=".stitchcuda-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if old is not None and hasattr(os, "chown"):
                with contextlib.suppress(OSError):  # only a superuser can; who else writes owns the file already
                    os.chown(name, old.st_uid, old.st_gid)
            os.chmod(name, mode)
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CannotRun(f"{path}: cannot be written ({error.strerror})") from None


def replace_files(
    changes: Mapping[str, bytes | None], expected: Mapping[str, Collection[bytes | None]]
) -> tuple[str, ...]:
    """Writes several files, None for one that is to be gone: all or none; gives those that were changed. Before anything is
    written every file must be replaceable and hold one of its `expected` contents (None: not be there); when one cannot be
    written after all, those before it get their old content back. Raises CannotRun."""
    before: dict[str, bytes | None] = {}
    for path in changes:
        must_be_replaceable(path)
        before[path] = _content(path)
        if before[path] not in expected[path]:
            gone = "is gone" if before[path] is None else "has been changed"
            raise CannotRun(f"{path}: {gone} since it was read; nothing was written")
    written: list[str] = []
    try:
        for path, content in changes.items():
            if before[path] != content:
                written.append(path)
                _put(path, content)
    except BaseException:
        for path in written:
            with contextlib.suppress(CannotRun):
                _put(path, before[path])
        raise
    return tuple(written)


def _put(path: str, content: bytes | None) -> None:
    if content is None:
        try:
            Path(path).unlink(missing_ok=True)
        except OSError as error:
            raise CannotRun(f"{path}: cannot be removed ({error.strerror})") from None
        return
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotRun(f"{path}: its folder cannot be made ({error.strerror})") from None
    replace_file(path, content)


def _content(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CannotRun(f"{path}: cannot be read ({error.strerror})") from None


def must_be_replaceable(path: str) -> None:
    """Raises CannotRun for what `replace_file` must leave alone: replacing needs only the folder's permission, so without
    this a write-protected file, a pipe or a device would give way to a plain file."""
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode
    except OSError:
        return  # a new file, or writing says what is wrong
    if stat.S_ISDIR(mode):
        raise CannotRun(f"{path}: cannot be written (it is a directory)")
    if not stat.S_ISREG(mode):
        raise CannotRun(f"{path}: cannot be written (not a regular file)")
    if not os.access(target, os.W_OK):
        raise CannotRun(f"{path}: cannot be written (write-protected)")
    if not os.access(os.path.dirname(target) or ".", os.W_OK):
        raise CannotRun(f"{path}: cannot be written (its folder is write-protected)")


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
