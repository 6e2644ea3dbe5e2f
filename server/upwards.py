"""The folders above a file, and where looking upwards ends: one rule for programs, include folders and compile databases.

It ends at the innermost folder of the workspace that holds the file, elsewhere at the root of its repository; of a file that is in
neither, only its own folder is looked at: what stands above it belongs to others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence


def upwards(folder: str, tops: Sequence[str]) -> Iterator[str]:
    """A folder and those above it, up to the workspace's or the repository's. `tops` are the folders of the workspace."""
    top = innermost(folder, tops) or innermost(folder, map(os.path.realpath, tops))  # the workspace may be a link
    if top is None:
        top = repository(folder) or folder
    for each in _above(folder):
        yield each
        if each == top:
            return


def innermost(path: str, folders: Iterable[str]) -> str | None:
    """The innermost of the folders that hold a file."""
    return max((folder for folder in folders if _within(path, folder)), key=len, default=None)


def repository(folder: str) -> str | None:
    """The root of the git repository that a folder lies in."""
    return next((f for f in _above(folder) if is_repository(f)), None)


def is_repository(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, ".git"))


def _above(folder: str) -> Iterator[str]:
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _within(folder: str, root: str) -> bool:
    return folder == root or folder.startswith(root.rstrip(os.sep) + os.sep)
